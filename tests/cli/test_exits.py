"""Every error has its exit code and its line."""

from __future__ import annotations

import pytest
from redis import exceptions as redis_errors

from rsmq import errors
from rsmq.cli.app.errors import Exit, Failed, describe_error


def subclasses(error_class):
    for subclass in error_class.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


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
        (FileNotFoundError(2, "No such file", "x"), Exit.NOT_ALL, "file"),
        (Failed("x", exit=Exit.NOT_ALL, code="y"), Exit.NOT_ALL, "y"),
    ],
)
def test_an_error_has_its_exit_code(error, exit, code):
    report = describe_error(error)

    assert (report.exit, report.code) == (exit, code)


def test_every_error_of_redis_py_has_a_report():
    for error_class in subclasses(redis_errors.RedisError):
        error = error_class.__new__(error_class)
        assert describe_error(error).exit in (Exit.UNREACHABLE, Exit.REFUSED), error_class


def test_every_error_of_the_library_has_a_report():
    for error_class in subclasses(errors.RSMQError):
        assert (
            describe_error(error_class.__new__(error_class))
            if hasattr(error_class, "value")
            else True
        )
        assert error_class.code != errors.RSMQError.code or error_class.__module__ != "rsmq.errors"


def test_unexpected_errors_have_no_report():
    assert describe_error(ValueError("a bug")) is None
    assert describe_error(SystemExit(2)) is None


@pytest.mark.parametrize(
    "message",
    [
        f"WRONGTYPE Operation script: {'0a' * 20}, on @user_script:12.",
        f"WRONGTYPE Operation. script: {'0a' * 20}, on @user_script:12.",
        "Error running script (call to f_0a): @user_script:9: @user_script: 9: WRONGTYPE Operation",
        "Error running script (call to f_0a): @user_script:1: -WRONGTYPE Operation",
    ],
)
def test_location_in_a_script_is_not_shown(message):
    line = describe_error(redis_errors.ResponseError(message)).line(as_json=False)

    assert line == "rsmq: Redis: WRONGTYPE Operation"


def test_report_line_has_no_line_breaks_or_control_characters():
    line = describe_error(Failed("a\nb \x1b[31m\x07", hint="c\td")).line(as_json=False)

    assert line == "rsmq: a b \\x1b[31m\\x07. c d"
