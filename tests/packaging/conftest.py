"""The distributions, and an environment of each Python with the wheel."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scripts.releasing.distributions import build
from scripts.releasing.environments import find_pythons, make_environment, pip
from tests.packaging.readme import WHEEL_COMMAND
from tests.servers import ROOT

PYTHONS = find_pythons()
#: scripts/release tests the distributions that it has built, which takes longer.
IS_RELEASE = "RSMQ_TEST_DISTRIBUTIONS" in os.environ


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """The wheel and the source distribution: those of scripts/release, or built here."""
    if IS_RELEASE:
        folder = Path(os.environ["RSMQ_TEST_DISTRIBUTIONS"])
        (wheel,), (source,) = (list(folder.glob(each)) for each in ("*.whl", "*.tar.gz"))
        return wheel, source
    return build(ROOT, tmp_path_factory.mktemp("distributions"))


@pytest.fixture(scope="session")
def wheel(distributions):
    return distributions[0]


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """Return the interpreter of an environment of a Python with the wheel, as README.md says."""
    made = {}

    def install(version):
        if version not in made:
            made[version] = make_environment(tmp_path_factory.mktemp("clean"), PYTHONS[version])
            pip(made[version], *WHEEL_COMMAND, cwd=wheel.parent)
        return made[version]

    return install


@pytest.fixture
def copy_environment(tmp_path):
    """Copy an environment, which is faster than making one."""

    def copy(python):
        shutil.copytree(python.parents[1], tmp_path / "copy", symlinks=True)
        return tmp_path / "copy" / "bin" / "python"

    return copy
