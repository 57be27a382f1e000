"""The start of programs: which modules are imported. Importing takes most of its time."""

from __future__ import annotations

import ast
import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import rsmq
import rsmq.doctor
import rsmq.jobs.flows

HEAVY = {
    "asyncio",
    "click",
    "fakeredis",
    "hiredis",
    "importlib.metadata",
    "msgpack",
    "redis",
    "rich",
}
PRINT_MODULES = "import sys; print(' '.join(sys.modules), file=sys.stderr)"


def imported(program, **environment):
    """Run a program in a new process, and return the modules that it has imported."""
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import atexit\natexit.register(exec, {PRINT_MODULES!r})\n{program}",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={
            **{name: value for name, value in os.environ.items() if "COVERAGE" not in name},
            **environment,
        },
    )
    assert run.returncode == 0, run.stderr
    return set(run.stderr.split())


def test_import_rsmq_imports_nothing_heavy():
    assert not HEAVY & imported("import rsmq")


def test_the_errors_and_the_version_are_there_without_redis():
    assert "redis" not in imported("import rsmq; rsmq.RSMQError; rsmq.__version__")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["send", "--help"], ["stats", "-h"], ["nosuch"]]
)
def test_help_and_version_import_neither_redis_nor_rich(arguments):
    program = f"from rsmq.cli import main; main({arguments!r})"

    assert not {"redis", "importlib.metadata", "asyncio", "rich"} & imported(program)


@pytest.mark.parametrize(
    "words",
    [
        "rsmq ",
        "rsmq se",
        "rsmq --pro",
        "rsmq send --de",
        "rsmq stats --",
        "rsmq tail --",
        "rsmq top --",
        "rsmq rfq ",
        "rsmq doctor --al",
        "rsmq migrate --fr",
        "rsmq bridge --",
        "rsmq export --",
        "rsmq import --",
        "rsmq worker --",
        "rsmq workers --",
        "rsmq pipeline --",
    ],
)
def test_completion_of_commands_and_options_does_not_import_redis(words):
    loaded = imported(
        "from rsmq.cli import main; main([])",
        _RSMQ_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(words.count(" ")),
    )

    assert not {"redis", "importlib.metadata", "asyncio", "rich"} & loaded


def test_every_public_name_is_there():
    assert set(rsmq.__all__) <= set(dir(rsmq))
    for name in rsmq.__all__:
        value = getattr(rsmq, name)
        assert getattr(value, "__module__", "rsmq.").startswith("rsmq.")
    names = {}
    exec("from rsmq import *", names)
    assert set(rsmq.__all__) <= set(names)


@pytest.mark.parametrize("package", [rsmq, rsmq.doctor, rsmq.jobs, rsmq.jobs.flows])
def test_type_checkers_see_the_names_that_are_imported_lazily(package):
    tree = ast.parse(Path(package.__file__).read_text())
    (block,) = (
        node for node in tree.body if isinstance(node, ast.If) and "TYPE" in ast.unparse(node.test)
    )
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert set(seen) == set(getattr(package, "_MODULES", package.__all__))
    for name, module in seen.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)


def test_modules_are_attributes_and_unknown_names_are_errors():
    program = "import rsmq; rsmq.errors.QueueNotFound; rsmq.codecs.JSON; rsmq.aio.AsyncRSMQ"
    imported(program)
    with pytest.raises(AttributeError, match="module 'rsmq' has no attribute 'Nothing'"):
        _ = rsmq.Nothing
    for name in dir(rsmq):
        getattr(rsmq, name)


def test_names_can_be_pickled():
    for value in (rsmq.JSON, rsmq.RSMQ, rsmq.Message):
        assert pickle.loads(pickle.dumps(value)) is value
