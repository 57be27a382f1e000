"""The server programs that tests can start are found, or reported as missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.engines import ENGINES, engine_path, engine_version, missing_engines

REQUIREMENTS = Path(__file__).parents[2] / "scripts" / "engines.txt"


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_the_version_of_its_name(name):
    if name in missing_engines():
        pytest.skip(f"{name} is not installed: run scripts/setup")
    series = name.rpartition("-")[2]
    assert engine_version(name).startswith(f"{series}.")


def test_a_wheel_that_is_not_installed_has_no_path(tmp_path):
    assert engine_path("valkey-9.1", tmp_path) is None


def test_every_wheel_is_pinned_with_its_hashes():
    pin = re.compile(r"^([a-z-]+)==\S+ \\\n +--hash=sha256:", re.MULTILINE)
    pinned = pin.findall(REQUIREMENTS.read_text())
    assert sorted(pinned) == sorted(package for package, _ in ENGINES.values() if package)
