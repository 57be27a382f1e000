"""The wheel and the source distribution: metadata, files, and the README on each Python."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import rsmq
from scripts.releasing.environments import make_environment, must, pip
from scripts.releasing.source import check_changelog, list_contents
from tests.documents.pages import read_blocks
from tests.documents.player import Player
from tests.packaging.conftest import IS_RELEASE, PYTHONS
from tests.packaging.readme import CLONE_COMMAND
from tests.servers import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.foreign]


def test_the_metadata_is_accepted_by_the_index(distributions):
    must(sys.executable, "-m", "twine", "check", "--strict", *distributions)


def test_the_files_of_the_wheel_are_those_of_the_package(wheel):
    # W009: several packages. pyspark_rsmq is the name by which Spark finds the data source.
    must(Path(sys.executable).with_name("check-wheel-contents"), "--ignore", "W009", wheel)
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    tracked = {name for name in list_contents(ROOT) if name.startswith("rsmq/")}
    assert names == tracked - {"rsmq/spark/pyspark_rsmq.py"} | {"pyspark_rsmq.py"}
    assert {"rsmq/py.typed", "rsmq/lua/send_message.lua"} <= names


def test_the_files_of_the_source_distribution_are_the_tracked_ones(distributions):
    with tarfile.open(distributions[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert names == {*list_contents(ROOT), "PKG-INFO"}


def test_the_version_is_the_same_everywhere(distributions):
    wheel, source = distributions

    assert wheel.name == f"rsmq-{rsmq.__version__}-py3-none-any.whl"
    assert source.name == f"rsmq-{rsmq.__version__}.tar.gz"
    assert check_changelog(ROOT) == []


@pytest.mark.parametrize("version", PYTHONS)
def test_the_readme_runs_with_each_python(installed, version, server, tmp_path):
    """
    In a clean environment, with the versions of packages that pip finds.

    scripts/release runs all of it, with the worker; scripts/test the first example.
    """
    python = installed(version)
    play_readme(python, server, tmp_path)

    program = python.with_name("rsmq")
    assert must(program, "--version", cwd=tmp_path) == f"rsmq {rsmq.__version__}\n"


def play_readme(python, server, folder):
    with server.raw() as raw:
        raw.flushall()
    blocks = [each for each in read_blocks("README.md") if each.how != "shown"]
    Player(server, folder, python=python).play(blocks if IS_RELEASE else blocks[:1])


@pytest.mark.skipif(not IS_RELEASE, reason="scripts/setup installs the clone in the same way")
def test_the_readme_runs_with_the_source_distribution(distributions, server, tmp_path):
    with tarfile.open(distributions[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    python = make_environment(tmp_path / "clean")
    pip(python, *CLONE_COMMAND, cwd=tmp_path / f"rsmq-{rsmq.__version__}")

    (tmp_path / "page").mkdir()
    play_readme(python, server, tmp_path / "page")
