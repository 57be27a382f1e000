"""
Causes of dead letters: failures that differ only in values have the same key.

A key is computed from the type of the exception, its text without values, and the functions of the
innermost frames of its traceback. Names in quotes and codes of errors are not values: they decide,
as in ``KeyError: 'price'`` and ``exit code 137``. Without an exception, a key is computed from the
text of the reason, or from the HTTP status of a webhook. It depends on nothing else, so it is the
same in every process.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

from rsmq.model import DeadLetterReason

#: The key of dead letters without a reason: a receive has moved them, or another client.
UNKNOWN_CAUSE = "none"
_KEY_CHARACTERS = 12
_KEY = re.compile(rf"[0-9a-f]{{{_KEY_CHARACTERS}}}|{UNKNOWN_CAUSE}")
#: Frames of a traceback that count: the outer ones may be cut off, and depend on who calls.
_FRAMES = 5
_MAX_READ_CHARACTERS = 500
_MAX_TRACEBACK_CHARACTERS = 4000
_MAX_TEXT_CHARACTERS = 200

_FRAME = re.compile(r'File "([^"\n]{1,300})", line \d+, in (\S{1,200})')
#: A text in quotes; it may be cut off.
_QUOTED = re.compile(r"""(?<!\w)("[^"\n]*(?:"|$)|'[^'\n]*(?:'(?!\w)|$)|`[^`\n]*(?:`|$))""")
#: One that is the name of something in a program, such as a field, a module or a table.
_QUOTED_NAME = re.compile(r"""(["'`])[A-Za-z_][A-Za-z0-9_.-]{0,39}\1""")
#: A text that is a key alone, as that of KeyError.
_QUOTED_KEY = re.compile(r"""(["'`])[^"'`\n@/]{1,40}\1""")
#: Texts that are values, in the order in which they are replaced.
_VALUES = (
    re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),  # addresses of mail
    re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),  # UUIDs
    re.compile(r"\b0x[0-9a-fA-F]+\b"),
    re.compile(r"\b(?=\w*\d)[0-9A-Za-z_]{16,}\b"),  # ids, hashes, tokens
    re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"),
)
#: A number is a value, unless it is the code of an error.
_NUMBER = re.compile(
    r"(\b(?:status|code|errno|signal|error)\b[ :=]{1,3}\d{1,5}\b(?![.,:]\d))|\d+(?:[.,:]\d+)*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FailureCause:
    """
    The cause of a dead letter.

    Attributes:
        key: the same for all dead letters of this cause; ``none`` without a reason.
        exception: the type of the exception; None if there was none.
        text: the text of the failure, with … or 0 in place of values.
        frames: the innermost frames of the traceback, as ``file.py:function``; the last one raised.
    """

    key: str
    exception: str | None = None
    text: str = ""
    frames: tuple[str, ...] = ()


def is_cause_key(text: str) -> bool:
    """Return whether a text may be the key of a cause."""
    return _KEY.fullmatch(text) is not None


def cause_of(reason: DeadLetterReason | None) -> FailureCause:
    """Return the cause of a dead letter; without a reason the one that is not known."""
    if reason is None:
        return FailureCause(UNKNOWN_CAUSE)
    exception, text = _split_exception(reason.exception)
    shown = without_values(text or reason.text)
    if reason.status is not None:  # of a webhook
        shown = f"status {reason.status}"
    frames = () if reason.traceback is None else _frames_of(reason.traceback)
    parts = "\0".join([exception or "", shown, *frames])
    digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()
    return FailureCause(digest[:_KEY_CHARACTERS], exception, shown, frames)


def _split_exception(text: str | None) -> tuple[str | None, str]:
    """Return the type and the text of an exception, from its line."""
    if not text:
        return None, ""
    kind, colon, rest = text.partition(":")
    if all(each.isidentifier() for each in kind.split(".")):
        return kind, rest.strip() if colon else ""
    return None, text


def without_values(text: str) -> str:
    """Return the first line of a text without numbers, ids, addresses and quoted values."""
    line = text.strip().split("\n", 1)[0][:_MAX_READ_CHARACTERS]
    if not _QUOTED_KEY.fullmatch(line):
        line = _QUOTED.sub(_without_quoted_value, line)
    for pattern in _VALUES:
        line = pattern.sub("…", line)
    line = _NUMBER.sub(lambda found: found[1] or "0", line)
    return line[:_MAX_TEXT_CHARACTERS]


def _without_quoted_value(found: re.Match[str]) -> str:
    return found[0] if _QUOTED_NAME.fullmatch(found[0]) else "…"


def _frames_of(traceback: str) -> tuple[str, ...]:
    places: list[tuple[str, str]] = []
    for place in reversed(_FRAME.findall(traceback[-_MAX_TRACEBACK_CHARACTERS:])):
        if places[-1:] != [place]:  # a recursion counts once
            places.append(place)
        if len(places) == _FRAMES:
            break
    return tuple(_describe_frame(path, function) for path, function in reversed(places))


@lru_cache(maxsize=1024)
def _describe_frame(path: str, function: str) -> str:
    name = re.split(r"[/\\]", path)[-1]
    return f"{without_values(name)}:{without_values(function)}"
