"""mypy and pyright accept the files of this folder, and pyright knows the type of every export."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rsmq
import rsmq.codecs
import rsmq.sqlalchemy
import rsmq.tasks
import rsmq.worker
from tests.documents.pages import read_blocks

_FOLDER = Path(__file__).parent
_ROOT = _FOLDER.parents[1]
_PROGRAMS = Path(sys.executable).parent

# pyright downloads itself at its first use.
pytestmark = pytest.mark.foreign


def run(program: str, *arguments: str, folder: Path = _ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(_PROGRAMS / program), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def run_pyright(*arguments: str, folder: Path = _ROOT) -> subprocess.CompletedProcess[str]:
    return run("pyright", "--pythonpath", sys.executable, *arguments, folder=folder)


@pytest.mark.parametrize("version", ["3.11", "3.13"])
def test_mypy_accepts_every_file(version: str) -> None:
    ended = run("mypy", "--strict", "--python-version", version, str(_FOLDER))

    assert ended.stdout.startswith("Success: no issues found in "), ended.stdout + ended.stderr


@pytest.mark.parametrize("version", ["3.11", "3.13"])
def test_pyright_accepts_every_file(version: str) -> None:
    ended = run_pyright("--pythonversion", version)

    assert ended.stdout.startswith("0 errors, 0 warnings"), ended.stdout + ended.stderr


def test_a_wrong_handler_is_an_error_of_both(tmp_path: Path) -> None:
    """The other tests would also pass if a checker did not see the types of rsmq."""
    program = tmp_path / "program.py"
    program.write_text(
        "from rsmq import RSMQ\n"
        "from rsmq.codecs import dataclass_codec\n"
        "from rsmq.worker import Worker\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Order:\n"
        "    number: int\n"
        "worker = Worker(RSMQ.from_url('memory://'))\n"
        "@worker.listener('orders', codec=dataclass_codec(Order))\n"
        "def handle(order: str) -> None: ...\n"
    )

    # With the settings and the cache of scripts/check, which has the types of rsmq.
    settings = ("--config-file", str(_ROOT / "pyproject.toml"))
    cache = ("--cache-dir", str(_ROOT / ".mypy_cache"))
    by_mypy = run("mypy", "--strict", *settings, *cache, str(program), folder=tmp_path)
    by_pyright = run_pyright("--outputjson", str(program), folder=tmp_path)

    assert 'expected "Callable[[Order], None]"' in by_mypy.stdout
    assert "Found 1 error in 1 file" in by_mypy.stdout
    found = json.loads(by_pyright.stdout)["generalDiagnostics"]
    assert [each["rule"] for each in found] == ["reportArgumentType"]
    assert '"Order" is not assignable to "str"' in found[0]["message"]


def test_pyright_knows_the_type_of_every_export(tmp_path: Path) -> None:
    # Outside of the repository, where rsmq would count as source code instead of a typed package.
    ended = run_pyright(
        "--verifytypes", "rsmq", "--ignoreexternal", "--outputjson", folder=tmp_path
    )
    report = json.loads(ended.stdout)["typeCompleteness"]
    symbols = {each["name"]: each for each in report["symbols"]}
    exports = [
        f"{module.__name__}.{name}"
        for module in (rsmq, rsmq.codecs, rsmq.sqlalchemy, rsmq.tasks, rsmq.worker)
        for name in module.__all__
    ]

    assert Path(report["pyTypedPath"]) == _ROOT / "rsmq" / "py.typed"
    for name in exports:
        assert symbols[name]["isTypeKnown"], name
        assert not symbols[name]["isTypeAmbiguous"], name


def test_mypy_accepts_the_files_of_the_page_about_fastapi(tmp_path: Path) -> None:
    files = [each for each in read_blocks("fastapi.md") if each.file and "test" not in each.file]
    for each in files:
        (tmp_path / str(each.file)).write_text(each.code)
    ended = run("mypy", "--strict", *(str(each.file) for each in files), folder=tmp_path)

    assert ended.stdout == "Success: no issues found in 2 source files\n", ended.stdout
