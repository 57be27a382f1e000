"""
Errors of the programs: the exit code of an error, and its line on the standard error.
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass

from rsmq.cli.app.exit_codes import Exit as Exit  # noqa: PLC0414 - for commands
from rsmq.errors import (
    ExecutorEnded,
    ExecutorStalled,
    InvalidCombination,
    QueueExists,
    QueueNotFound,
    RSMQError,
    SourceNotFound,
    SubscriberExists,
    TooManyHungCalls,
    WorkerExists,
    WorkerNotFound,
)
from rsmq.errors.hints import Words
from rsmq.errors.printable import escape_unprintable
from rsmq.transport.url import redact
from rsmq.vocabulary.calls import BY_NAME, names_in_errors
from rsmq.vocabulary.queues import SET
from rsmq.vocabulary.sends import SEND_OPTIONS


class Failed(Exception):
    """
    An error that ends the program with one line on the standard error.

    Attributes:
        exit: the exit code.
        code: the error code for programs, like that of an RSMQError.
        hint: the rule, or what to do; None without one.
    """

    def __init__(
        self, text: str, *, exit: Exit = Exit.USAGE, code: str = "usage", hint: str | None = None
    ) -> None:
        super().__init__(text)
        self.exit = exit
        self.code = code
        self.hint = hint


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """
    The report of an error: its exit code, and the parts of its line.

    Attributes:
        code: the error code for programs.
        text: what is wrong.
        hint: the rule, or what to do; None without one.
    """

    exit: Exit
    code: str
    text: str
    hint: str | None

    def line(self, *, as_json: bool, program: str = "rsmq") -> str:
        """Return the line for the standard error, without passwords and control characters."""
        text, hint = redact(self.text), redact(self.hint or "")
        if as_json:
            return json.dumps({"error": self.code, "message": text, "hint": hint or None})
        hint = f" {hint}" if hint else ""
        dot = "" if text.endswith((".", "?", "!")) or not hint else "."
        line = " ".join(f"{program}: {text}{dot}{hint}".split())
        return escape_unprintable(line)


def option_of(argument: str) -> str:
    """Return the option of the program for an argument of a send."""
    return f"--{argument.replace('_', '-')}"


#: The options for arguments.
_OPTIONS = {
    **{
        name: option_of(name)
        for name in (
            *(each.name for each in SEND_OPTIONS), *SET.options, "max_receives", "allow",
            "allow_http", "content_type",
        )
    },
    **names_in_errors(lambda argument: argument.option_name),
    "secret": "--secret-file", "strict_names": "--any-names",
}  # fmt: skip


class CommandLine(Words):
    """The words of the program."""

    def argument(self, name: str) -> str:
        """Return the option of an argument; the argument if there is none."""
        return _OPTIONS.get(name, name)

    def passed(self, name: str, value: object) -> str:
        """Return an option with its value."""
        option = _OPTIONS.get(name) or option_of(name)
        return option if isinstance(value, bool) else f"{option} {shlex.quote(str(value))}"

    def method(self, name: str, argument: str | None, queue: str | None) -> str:  # noqa: ARG002 - as others have it
        """Return the command of a method."""
        command = f"rsmq {BY_NAME[name].command}"
        return command if argument is None else f"{command} QUEUE {self.argument(argument)} N"


WORDS = CommandLine()

#: The exit codes of errors other than wrong usage.
_EXITS: dict[type[Exception], Exit] = {
    QueueNotFound: Exit.QUEUE,
    QueueExists: Exit.QUEUE,
    SourceNotFound: Exit.QUEUE,
    SubscriberExists: Exit.QUEUE,
    WorkerExists: Exit.NAME_TAKEN,
    WorkerNotFound: Exit.NOT_ALL,
    TooManyHungCalls: Exit.UNHEALTHY,
    ExecutorEnded: Exit.EXECUTOR_ENDED,
    ExecutorStalled: Exit.EXECUTOR_STALLED,
}
#: The program's texts in place of the hints, with attributes of the error in braces.
_HINTS: dict[type[Exception], str] = {
    QueueNotFound: "rsmq create creates it; rsmq list shows all queues.",
    WorkerExists: "It runs on {location}. Stop it, or pass another --name.",
    QueueExists: "Use --exist-ok to keep it as it is, or change it with rsmq attributes.",
}


def describe_error(error: BaseException) -> ErrorReport | None:
    """Return the report of an error; None if the error is unexpected, which is a bug."""
    if isinstance(error, Failed):
        return ErrorReport(error.exit, error.code, str(error), error.hint)
    if isinstance(error, KeyboardInterrupt):
        return ErrorReport(Exit.INTERRUPTED, "interrupted", "interrupted", None)
    if isinstance(error, RSMQError):
        return _describe_library_error(error)
    if "redis" in sys.modules:  # else it can't be an error of redis-py, whose import takes time
        from rsmq.cli.app.redis_errors import describe_redis_error  # noqa: PLC0415

        described = describe_redis_error(error)
        if described is not None:
            return ErrorReport(*described)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return ErrorReport(Exit.NOT_ALL, "file", f"{name}{error.strerror or error}", None)
    return None


def describe_in_line(error: Exception) -> str:
    """Return an expected error as a part of a line."""
    report = describe_error(error)
    assert report is not None  # noqa: S101 - errors of the library and of redis-py are foreseen
    return report.line(as_json=False).removeprefix("rsmq: ")


def _describe_library_error(error: RSMQError) -> ErrorReport:
    code = next((code for kind, code in _EXITS.items() if isinstance(error, kind)), Exit.USAGE)
    if isinstance(error, InvalidCombination):
        rule = error.rule(WORDS.argument(error.argument), WORDS.argument)
        return ErrorReport(code, error.code, rule, error.reason)
    own = _HINTS.get(type(error))
    hint = error.hint_in(WORDS) if own is None else own.format_map(vars(error))
    return ErrorReport(code, error.code, error.summary_in(WORDS), hint)


def explain_unreadable(error: Exception) -> str | None:
    """Return why one queue can't be read; None if the error does not concern only that queue."""
    if isinstance(error, QueueNotFound):
        return "It is listed, but there is no such queue; rsmq doctor reports more"
    from rsmq.transport.retry import is_limited_to_keys  # noqa: PLC0415 - takes time

    if isinstance(error, RSMQError) or is_limited_to_keys(error):
        report = describe_error(error)
        return None if report is None else f"{report.text}; rsmq doctor reports more"
    return None
