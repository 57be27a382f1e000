"""
Errors of the programs: the exit code of an error, and its line on the standard error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from redis import exceptions as redis_errors

from rsmq.cli.app.exit_codes import Exit
from rsmq.errors import QueueExists, QueueNotFound, RSMQError, SourceNotFound
from rsmq.printable import escape_unprintable
from rsmq.transport.retry import code_of, is_limited_to_keys
from rsmq.transport.url import redact


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
        exit: the exit code.
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


#: The text that Redis adds to the error of a command if a script has called the command.
_SCRIPT_LOCATION = re.compile(
    r"\.? script: [0-9a-f]{40}, on @user_script:\s?\d+\.?"
    r"|(ERR )?Error running script \(call to f_\w+\): |@user_script:\s?\d+:\s?-?"
)


#: Parameters of the methods of RSMQ, and the options of the command line for them.
_OPTION_OF_PARAMETER = {"max_messages": "-n", "count": "-n", "destination": "--to"}
_PARAMETERS = re.compile(
    rf"\b({'|'.join(_OPTION_OF_PARAMETER)})(?= must be| is a whole| supplied| format)"
)


#: Terms in the hints of the library, and those of the command line that replace them.
_COMMAND_LINE_TERMS = {
    "strict_names=False": "--any-names",
    "create_queue makes it": "rsmq create makes it",
    "list_queues shows what there is": "rsmq list shows what there is",
    "front=True": "--front",
    "set_queue_attributes(qname, vt=...) repairs": "rsmq attributes QUEUE --vt N repairs",
    "set_queue_attributes(qname, delay=...) repairs": "rsmq attributes QUEUE --delay N repairs",
    "with set_queue_attributes (-1 is unlimited)": "with rsmq attributes --maxsize (-1 is "
    "unlimited)",
    "as in destination='orders'": "as in --to orders",
    "give a namespace with a hash tag, as in ns=": "give a namespace with a hash tag, as in --ns ",
}


def describe_error(error: BaseException) -> ErrorReport | None:
    """Return the report of an error; None if the error is unexpected, which is a bug."""
    if isinstance(error, Failed):
        return ErrorReport(error.exit, error.code, str(error), error.hint)
    if isinstance(error, KeyboardInterrupt):
        return ErrorReport(Exit.INTERRUPTED, "interrupted", "interrupted", None)
    if isinstance(error, RSMQError):
        return _describe_library_error(error)
    if isinstance(error, redis_errors.RedisError):
        return _describe_redis_error(error)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return ErrorReport(Exit.USAGE, "file", f"{name}{error.strerror or error}", None)
    return None


def _describe_library_error(error: RSMQError) -> ErrorReport:
    if isinstance(error, QueueNotFound):
        hint = f"There is no queue {error.value!r}: rsmq create makes it, rsmq list shows what is."
        return ErrorReport(Exit.QUEUE, error.code, str(error), hint)
    if isinstance(error, SourceNotFound):
        return ErrorReport(Exit.QUEUE, error.code, str(error), error.hint)
    if isinstance(error, QueueExists):
        hint = f"Queue {error.value!r} keeps its attributes: --exist-ok is content with that, "
        hint += "rsmq attributes changes them."
        return ErrorReport(Exit.QUEUE, error.code, str(error), hint)
    text, hint = (
        _PARAMETERS.sub(_replace_parameter, each) for each in (str(error), error.hint or "")
    )
    return ErrorReport(Exit.USAGE, error.code, text, translate_hint(hint) or None)


def _replace_parameter(found: re.Match[str]) -> str:
    return _OPTION_OF_PARAMETER[found[0]]


def translate_hint(hint: str) -> str:
    """Return a hint of the library in the terms of the command line."""
    for term, replacement in _COMMAND_LINE_TERMS.items():
        hint = hint.replace(term, replacement)
    return _SCRIPT_LOCATION.sub("", hint)


def explain_unreadable(error: Exception) -> str | None:
    """Return why one queue can't be read; None if the error does not concern only that queue."""
    if isinstance(error, QueueNotFound):
        return "It is listed, and there is no such queue; rsmq doctor tells more"
    if isinstance(error, RSMQError) or is_limited_to_keys(error):
        report = describe_error(error)
        return None if report is None else f"{report.text}; rsmq doctor tells more"
    return None


def _describe_redis_error(error: redis_errors.RedisError) -> ErrorReport:
    hint = " ".join(getattr(error, "__notes__", ())) or None
    text = f"Redis: {_SCRIPT_LOCATION.sub('', str(error))}"
    # redis-py derives some errors that Redis has answered from its ConnectionError.
    if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError):
        if "HELLO must be called" in text or "Authentication required" in text:  # RESP3 or RESP2
            text = "Redis: a password is needed"
        return ErrorReport(
            Exit.REFUSED, "AUTH", text, "User and password stand in the url, of --url, RSMQ_URL "
            "or a profile."
        )  # fmt: skip
    if isinstance(error, redis_errors.BusyLoadingError | redis_errors.ResponseError):
        code = code_of(error)
        return ErrorReport(Exit.REFUSED, code if code.isupper() else "ERR", text, hint)
    if isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError):
        return ErrorReport(
            Exit.UNREACHABLE, "unreachable", text, "The url is that of --url, RSMQ_URL or a "
            "profile, else redis://127.0.0.1:6379/0."
        )  # fmt: skip
    return ErrorReport(Exit.REFUSED, "redis", text, hint)
