"""
Errors of the programs: the exit code of an error, and its line on the standard error.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass

from rsmq.cli.app.exit_codes import Exit
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
)
from rsmq.printable import escape_unprintable
from rsmq.transport.url import redact
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


#: Parameters of the methods of RSMQ, and the options of the command line for them.
_OPTION_OF_PARAMETER = {
    "max_messages": "-n", "count": "-n", "destination": "--to",
    "allow": "--allow", "content_type": "--content-type", "secret": "--secret-file",
    **{each.name: option_of(each.name) for each in SEND_OPTIONS},
    **{name: option_of(name) for name in SET.options if name not in {"vt", "delay", "maxsize"}},
}  # fmt: skip
_PARAMETERS = re.compile(
    rf"\b({'|'.join(_OPTION_OF_PARAMETER)})(?= must be| is a whole| supplied| format)"
)


#: Terms in the hints of the library, and those of the command line that replace them.
_COMMAND_LINE_TERMS = {
    "strict_names=False": "--any-names",
    "set_queue_attributes(qname, vt=...) repairs": "rsmq attributes QUEUE --vt N repairs",
    "set_queue_attributes(qname, delay=...) repairs": "rsmq attributes QUEUE --delay N repairs",
    "with set_queue_attributes (-1 is unlimited)": "with rsmq attributes --maxsize (-1 is "
    "unlimited)",
    "as in destination='orders'": "as in --to orders",
    "as in max_receives=3": "as in --max-receives 3",
    "give this worker another name": "pass another --name",
    "or allow_http=True": "or --allow-http",
    "Pass replace=True": "Pass --replace",
    "allow its range, as in ": "allow its range, as in --allow ",
    "namespace with a hash tag, as in ns=": "namespace with a hash tag, as in --ns ",
}

#: The exit codes of errors other than wrong usage.
_EXITS: dict[type[Exception], Exit] = {
    SourceNotFound: Exit.QUEUE,
    SubscriberExists: Exit.QUEUE,
    WorkerExists: Exit.NAME_TAKEN,
    TooManyHungCalls: Exit.UNHEALTHY,
    ExecutorEnded: Exit.EXECUTOR_ENDED,
    ExecutorStalled: Exit.EXECUTOR_STALLED,
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


def _describe_library_error(error: RSMQError) -> ErrorReport:
    if isinstance(error, QueueNotFound):
        hint = "rsmq create creates it; rsmq list shows all queues."
        return ErrorReport(Exit.QUEUE, error.code, error.summary, hint)
    if isinstance(error, QueueExists):
        hint = "Use --exist-ok to keep it as it is, or change it with rsmq attributes."
        return ErrorReport(Exit.QUEUE, error.code, error.summary, hint)
    if type(error) in _EXITS:
        own_hint = translate_hint(error.hint or "") or None
        return ErrorReport(_EXITS[type(error)], error.code, error.summary, own_hint)
    if isinstance(error, InvalidCombination):
        rule = error.rule(option_of(error.argument), option_of)
        return ErrorReport(Exit.USAGE, error.code, rule, error.reason)
    text, hint = (
        _PARAMETERS.sub(_replace_parameter, each) for each in (error.summary, error.hint or "")
    )
    return ErrorReport(Exit.USAGE, error.code, text, translate_hint(hint) or None)


def _replace_parameter(found: re.Match[str]) -> str:
    return _OPTION_OF_PARAMETER[found[0]]


def translate_hint(hint: str) -> str:
    """Return a hint of the library in the terms of the command line."""
    for term, replacement in _COMMAND_LINE_TERMS.items():
        hint = hint.replace(term, replacement)
    return hint


def explain_unreadable(error: Exception) -> str | None:
    """Return why one queue can't be read; None if the error does not concern only that queue."""
    if isinstance(error, QueueNotFound):
        return "It is listed, but there is no such queue; rsmq doctor reports more"
    from rsmq.transport.retry import is_limited_to_keys  # noqa: PLC0415 - takes time

    if isinstance(error, RSMQError) or is_limited_to_keys(error):
        report = describe_error(error)
        return None if report is None else f"{report.text}; rsmq doctor reports more"
    return None
