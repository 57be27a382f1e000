"""Builds the wheel and the source distribution."""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from .environments import must
from .source import git, list_contents


def build(root: Path, folder: Path) -> tuple[Path, Path]:
    """
    Build the source distribution from the tracked files, and the wheel from it.

    So the wheel proves that the source distribution is complete. The times in both are that of the
    commit.

    Args:
        root: the clone.
        folder: an existing folder for the two files.

    Returns:
        The wheel and the source distribution.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        requirements = tomllib.loads((root / "pyproject.toml").read_text())["build-system"]
        install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        must(*install, "--target", place / "tools", *requirements["requires"])
        environment = {
            "PYTHONPATH": str(place / "tools"),
            "SOURCE_DATE_EPOCH": git(root, "log", "-1", "--format=%ct"),
        }
        _copy(root, place / "source")
        source = _build("sdist", place / "source", place / "built", environment)
        with tarfile.open(source) as archive:
            archive.extractall(place / "unpacked", filter="data")
        (unpacked,) = (place / "unpacked").iterdir()
        wheel = _build("wheel", unpacked, place / "built", environment)
        return Path(shutil.copy(wheel, folder)), Path(shutil.copy(source, folder))


def _copy(root: Path, to: Path) -> None:
    for name in list_contents(root):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, to / name)


def _build(kind: str, source: Path, folder: Path, environment: dict[str, str]) -> Path:
    before = set(folder.glob("*"))
    command = (sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", folder)
    must(*command, cwd=source, environment=environment)
    (built,) = set(folder.glob("*")) - before
    return built
