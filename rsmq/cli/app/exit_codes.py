"""
Exit codes, and the function from an error to its code and its line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import IntEnum

import click
from redis import exceptions as redis_errors

from rsmq.errors import QueueExists, QueueNotFound, RSMQError, SourceNotFound
from rsmq.transport.retry import code_of, is_of_these_keys


class Exit(IntEnum):
    """How a call of the program ended."""

    DONE = 0
    NOT_ALL = 1
    USAGE = 2
    QUEUE = 3
    UNREACHABLE = 4
    REFUSED = 5
    INTERRUPTED = 130


#: What each code means, as the help shows it.
MEANINGS: dict[Exit, str] = {
    Exit.DONE: "done",
    Exit.NOT_ALL: "done, but not all; or there was nothing: an empty queue, an id that is not "
    "there, a fault that was found",
    Exit.USAGE: "wrong usage, or a value out of its range",
    Exit.QUEUE: "there is no such queue, or there is one already",
    Exit.UNREACHABLE: "Redis can't be reached",
    Exit.REFUSED: "Redis refuses: password, rights, read-only, out of memory, wrong type of a key",
    Exit.INTERRUPTED: "ended by Ctrl-C",
}


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

    def line(self, *, as_json: bool) -> str:
        """The line for the standard error."""
        text, hint = _without_secrets(self.text), _without_secrets(self.hint or "")
        if as_json:
            return json.dumps({"error": self.code, "message": text, "hint": hint or None})
        hint = f" {hint}" if hint else ""
        dot = "" if text.endswith((".", "?", "!")) or not hint else "."
        line = " ".join(f"rsmq: {text}{dot}{hint}".split())
        # What was given may hold what a terminal would obey.
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in line)


#: A url that was given where none is meant; a long one may be shown in part.
_SECRETS = re.compile(
    r"(\w:/{1,2}|//)(?:.*(?=@)|\S*…)|(password=)[^\s&'\"]*", re.DOTALL | re.IGNORECASE
)


def _without_secrets(text: str) -> str:
    """A text without what may be the password of a url; rather too little than too much."""
    return _SECRETS.sub(lambda found: f"{found[1] or found[2]}***", text)


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


def ending_of(error: BaseException) -> Ending | None:  # noqa: PLR0911 - one a kind
    """What is told of an error; None of one that nobody foresaw."""
    if isinstance(error, Failed):
        return Ending(error.exit, error.code, str(error), error.hint)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return Ending(Exit.INTERRUPTED, "interrupted", "interrupted", None)
    if isinstance(error, click.ClickException):
        return Ending(Exit.USAGE, "usage", error.format_message(), _usage_of(error))
    if isinstance(error, RSMQError):
        return _of_library(error)
    if isinstance(error, redis_errors.RedisError):
        return _of_redis(error)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return Ending(Exit.USAGE, "file", f"{name}{error.strerror or error}", None)
    return None


def _usage_of(error: click.ClickException) -> str | None:
    ctx = getattr(error, "ctx", None)
    return None if ctx is None else f"See {ctx.command_path} --help."


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
    if isinstance(error, RSMQError) or is_of_these_keys(error):
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
