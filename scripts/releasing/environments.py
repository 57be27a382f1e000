"""Environments of the Pythons of this machine, and what pip installs into them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_LOWEST = (3, 11)


def run(
    *command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program, and return its outputs."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )


def must(
    *command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    """
    Run a program, and return its output.

    Raises:
        RuntimeError: its exit code is not 0.
    """
    done = run(*command, cwd=cwd, environment=environment)
    if done.returncode:
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def find_pythons() -> dict[str, Path]:
    """Return the Pythons of this machine that are supported, one for each minor version."""
    candidates = [shutil.which(f"python3.{minor}") for minor in range(_LOWEST[1], 20)]
    candidates += map(str, sorted(Path.home().glob(".pyenv/versions/3.*/bin/python")))
    candidates += [sys.executable]
    found: dict[str, Path] = {}
    for path in filter(None, candidates):
        done = run(path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
        version = done.stdout.strip()
        if done.returncode == 0 and tuple(map(int, version.split("."))) >= _LOWEST:
            found.setdefault(version, Path(path))
    return found


def make_environment(folder: Path, python: str | Path = sys.executable) -> Path:
    """Make a clean environment of a Python without pip; return its interpreter."""
    must(python, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


def pip(python: Path, *arguments: str | Path, cwd: Path | None = None) -> None:
    """Run this interpreter's pip for an environment."""
    # Modules that are not imported need no bytecode.
    options = ["--no-compile"] if arguments[0] == "install" else []
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    must(*command, "--python", python, *arguments, *options, cwd=cwd)
