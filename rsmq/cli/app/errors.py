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
    Ends the program with one line on the standard error.

    Attributes:
        exit: the exit code.
        code: a name for programs, as of an RSMQError.
        hint: the rule and the way out; None without one.
    """

    def __init__(
        self, text: str, *, exit: Exit = Exit.USAGE, code: str = "usage", hint: str | None = None
    ) -> None:
        super().__init__(text)
        self.exit = exit
        self.code = code
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Ending:
    """
    What is told of an error.

    Attributes:
        exit: the exit code.
        code: a name for programs.
        text: what is wrong.
        hint: the rule and the way out; None without one.
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


#: What Redis adds to the error of a command that a script called.
_OF_SCRIPTS = re.compile(
    r"\.? script: [0-9a-f]{40}, on @user_script:\s?\d+\.?"
    r"|(ERR )?Error running script \(call to f_\w+\): |@user_script:\s?\d+:\s?-?"
)


#: Parameters of the library's methods, and what they are called here.
_OPTIONS = {"max_messages": "-n", "count": "-n", "destination": "--to"}
_PARAMETERS = re.compile(rf"\b({'|'.join(_OPTIONS)})(?= must be| is a whole| supplied| format)")


#: Words of the library's hints, and what a person at the command line says instead.
_WORDS = {
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


def ending_of(error: BaseException) -> Ending | None:
    """What is told of an error; None of one that nobody foresaw."""
    if isinstance(error, Failed):
        return Ending(error.exit, error.code, str(error), error.hint)
    if isinstance(error, KeyboardInterrupt):
        return Ending(Exit.INTERRUPTED, "interrupted", "interrupted", None)
    if isinstance(error, RSMQError):
        return _of_library(error)
    if isinstance(error, redis_errors.RedisError):
        return _of_redis(error)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return Ending(Exit.USAGE, "file", f"{name}{error.strerror or error}", None)
    return None


def _of_library(error: RSMQError) -> Ending:
    if isinstance(error, QueueNotFound):
        hint = f"There is no queue {error.value!r}: rsmq create makes it, rsmq list shows what is."
        return Ending(Exit.QUEUE, error.code, str(error), hint)
    if isinstance(error, SourceNotFound):
        return Ending(Exit.QUEUE, error.code, str(error), error.hint)
    if isinstance(error, QueueExists):
        hint = f"Queue {error.value!r} keeps its attributes: --exist-ok is content with that, "
        hint += "rsmq attributes changes them."
        return Ending(Exit.QUEUE, error.code, str(error), hint)
    text, hint = (_PARAMETERS.sub(_option, each) for each in (str(error), error.hint or ""))
    return Ending(Exit.USAGE, error.code, text, worded(hint) or None)


def _option(found: re.Match[str]) -> str:
    return _OPTIONS[found[0]]


def worded(hint: str) -> str:
    """A hint of the library in words of the command line."""
    for word, ours in _WORDS.items():
        hint = hint.replace(word, ours)
    return _OF_SCRIPTS.sub("", hint)


def why_odd(error: Exception) -> str | None:
    """Why a queue among others can't be read; None if more is wrong than that queue."""
    if isinstance(error, QueueNotFound):
        return "It is listed, and there is no such queue; rsmq doctor tells more"
    if isinstance(error, RSMQError) or is_limited_to_keys(error):
        ending = ending_of(error)
        return None if ending is None else f"{ending.text}; rsmq doctor tells more"
    return None


def _of_redis(error: redis_errors.RedisError) -> Ending:
    hint = " ".join(getattr(error, "__notes__", ())) or None
    text = f"Redis: {_OF_SCRIPTS.sub('', str(error))}"
    # Some that were answered are of the kinds of those that were not.
    if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError):
        if "HELLO must be called" in text or "Authentication required" in text:  # by the protocol
            text = "Redis: a password is needed"
        return Ending(
            Exit.REFUSED, "AUTH", text, "User and password stand in the url, of --url, RSMQ_URL "
            "or a profile."
        )  # fmt: skip
    if isinstance(error, redis_errors.BusyLoadingError | redis_errors.ResponseError):
        code = code_of(error)
        return Ending(Exit.REFUSED, code if code.isupper() else "ERR", text, hint)
    if isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError):
        return Ending(
            Exit.UNREACHABLE, "unreachable", text, "The url is that of --url, RSMQ_URL or a "
            "profile, else redis://127.0.0.1:6379/0."
        )  # fmt: skip
    return Ending(Exit.REFUSED, "redis", text, hint)
