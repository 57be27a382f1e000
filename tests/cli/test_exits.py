"""Every error has its exit code and its line."""

from __future__ import annotations

import pytest
from redis import exceptions as redis_errors

from rsmq import errors
from rsmq.cli.app.errors import Failed, ending_of
from rsmq.cli.app.exit_codes import Exit


def every(kind):
    for each in kind.__subclasses__():
        yield each
        yield from every(each)


@pytest.mark.parametrize(
    ("error", "exit", "code"),
    [
        (redis_errors.ConnectionError("Error 111 connecting"), Exit.UNREACHABLE, "unreachable"),
        (redis_errors.TimeoutError("Timeout reading"), Exit.UNREACHABLE, "unreachable"),
        (redis_errors.AuthenticationError("invalid"), Exit.REFUSED, "AUTH"),
        (redis_errors.BusyLoadingError("Redis is loading"), Exit.REFUSED, "LOADING"),
        (redis_errors.ReadOnlyError("You can't write"), Exit.REFUSED, "READONLY"),
        (redis_errors.NoPermissionError("no permissions"), Exit.REFUSED, "NOPERM"),
        (redis_errors.OutOfMemoryError("command not allowed"), Exit.REFUSED, "OOM"),
        (redis_errors.ResponseError("WRONGTYPE Operation"), Exit.REFUSED, "WRONGTYPE"),
        (redis_errors.ResponseError("MISCONF Redis is"), Exit.REFUSED, "MISCONF"),
        (redis_errors.ResponseError("unknown command"), Exit.REFUSED, "ERR"),
        (redis_errors.ClusterDownError("CLUSTERDOWN The"), Exit.REFUSED, "CLUSTERDOWN"),
        (errors.QueueNotFound("q"), Exit.QUEUE, "queueNotFound"),
        (errors.QueueExists("q"), Exit.QUEUE, "queueExists"),
        (errors.NoAttributeSupplied(), Exit.USAGE, "noAttributeSupplied"),
        (KeyboardInterrupt(), Exit.INTERRUPTED, "interrupted"),
        (FileNotFoundError(2, "No such file", "x"), Exit.USAGE, "file"),
        (Failed("x", exit=Exit.NOT_ALL, code="y"), Exit.NOT_ALL, "y"),
    ],
)
def test_an_error_has_its_exit_code(error, exit, code):
    ending = ending_of(error)

    assert (ending.exit, ending.code) == (exit, code)


def test_every_error_of_redis_py_is_foreseen():
    for kind in every(redis_errors.RedisError):
        error = kind.__new__(kind)
        assert ending_of(error).exit in (Exit.UNREACHABLE, Exit.REFUSED), kind


def test_every_error_of_the_library_is_foreseen():
    for kind in every(errors.RSMQError):
        assert ending_of(kind.__new__(kind)) if hasattr(kind, "value") else True
        assert kind.code != errors.RSMQError.code or kind.__module__ != "rsmq.errors"


def test_what_nobody_foresaw_is_not_hidden():
    assert ending_of(ValueError("a bug")) is None
    assert ending_of(SystemExit(2)) is None


@pytest.mark.parametrize(
    "said",
    [
        f"WRONGTYPE Operation script: {'0a' * 20}, on @user_script:12.",
        f"WRONGTYPE Operation. script: {'0a' * 20}, on @user_script:12.",
        "Error running script (call to f_0a): @user_script:9: @user_script: 9: WRONGTYPE Operation",
        "Error running script (call to f_0a): @user_script:1: -WRONGTYPE Operation",
    ],
)
def test_where_in_a_script_an_error_arose_is_not_shown(said):
    line = ending_of(redis_errors.ResponseError(said)).line(as_json=False)

    assert line == "rsmq: Redis: WRONGTYPE Operation"


def test_a_line_is_one_line_that_a_terminal_can_show():
    line = ending_of(Failed("a\nb \x1b[31m\x07", hint="c\td")).line(as_json=False)

    assert line == "rsmq: a b \\x1b[31m\\x07. c d"
