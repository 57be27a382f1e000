"""
The errors of the client in the words of HTTP: its parameters and methods by the names that requests
have for them.
"""

from __future__ import annotations

import ast
import re
from datetime import datetime
from typing import Any

from rsmq.errors import MessageNotString, MissingExtra, RSMQError, Shown

#: The fields of requests, by the parameters of the client that have other names.
_FIELDS = {
    "qname": "queue",
    "max_messages": "max",
    "max_jobs": "limit",
    "count": "limit",
    "the number of bodies": "the number of messages",
    "the bytes of bodies": "the bytes of messages",
}
_ITEM = re.compile(r"^(?P<before>No |Invalid |)(?P<item>.+?)(?P<after> supplied| format| must be )")

#: Words about Python, and those for a caller in any language.
_WORDS: tuple[tuple[str, str], ...] = (
    (r"^Invalid (\w+) format: None$", r"There is no \1"),
    (r": True$", ": true"),
    (r": False$", ": false"),
    (r"create_queue\(.*\)", "PUT of its address"),
    (r"set_queue_attributes\(qname, (\w+)=\.\.\.\)", r"PATCH of the queue's \1"),
    (r"set_queue_attributes", "PATCH of the queue"),
    (r"set_dead_letter_policy", "PUT of its dead-letter-policy"),
    (
        r"Pass strict_names=False for queues that other clients created under other names",
        "A server with --any-names accepts those that other clients created under other names",
    ),
    (r"^Pass the name of one queue\. .*", "It is the name of one queue."),
    (r"pass a dict with codec=JSON", "pass it as json"),
    (r"(front|replace|track)=True of the task, the listener or the send", r"\1"),
    (r"\b(front|replace|track)=True", r"\1"),
    (r"Declare it with track: .*", "Send it with track."),
    (r"\bdestination='([^']*)'", r"destination: '\1'"),
    (r"^It is None or one of", "It is one of"),
    (r"^It is a datetime with a time zone, or None", "It is a time with its offset"),
    (r"^A ([\w-]+) is a str of (.*)", r"A value of \1 has \2"),
    (r"queues\.schedules\.list\(\) has all; add\(\) adds one", "GET /schedules has all"),
    (r"Create a new client after close\(\)", "The server is being stopped"),
    (r"the bodies of HTTP can't encode .*", "The body has a character that UTF-8 can't encode"),
    (r"To find the message, call peek_messages from", "To find it, read the messages with"),
)
_COMPILED = tuple((re.compile(pattern), words) for pattern, words in _WORDS)
_DATETIME = re.compile(r"datetime\.datetime\(.*$")
#: A value may be a body by mistake, so it is not repeated if it is long.
_MAX_SHOWN = 80
#: Larger ones are out of every range, and long.
_MAX_NUMBER = 2**64


def detail_of(error: RSMQError) -> str:
    """Return what is wrong, with the name of the field."""
    text = _ITEM.sub(_rename, error.summary, count=1)
    if isinstance(error.value, datetime):
        text = _DATETIME.sub(error.value.isoformat(), text)
    return _reword(text)


def hint_of(error: RSMQError) -> str | None:
    """Return the rule or the remedy."""
    if isinstance(error, MissingExtra):
        return f"Who runs the server can install its extra {error.value}."
    return error.hint and _reword(error.hint)


def value_of(error: RSMQError) -> str | float | bool | None:
    """Return the refused value as one of JSON, shortened; None without one."""
    if isinstance(error, MessageNotString):
        return None  # it is a part of a body
    value = error.value
    if isinstance(value, Shown):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            value = str(value)
    if isinstance(value, datetime):
        value = value.isoformat()
    return short(value)


def short(value: Any) -> str | float | bool | None:
    """Return a value of JSON that is neither a list nor an object, shortened; else None."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
    is_number = isinstance(value, int | float) and abs(value) <= _MAX_NUMBER  # not NaN
    return value if is_number else None


def _rename(match: re.Match[str]) -> str:
    item = match["item"]
    return f"{match['before']}{_FIELDS.get(item, item)}{match['after']}"


def _reword(text: str) -> str:
    for pattern, words in _COMPILED:
        text = pattern.sub(words, text)
    return text
