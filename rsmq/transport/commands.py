"""
The commands that an operation sends, and the reply that counts.
"""

from __future__ import annotations

from typing import Any

from rsmq.operations.operation import Operation


def call_by_name(operation: Operation[Any]) -> tuple[bytes, ...]:
    """Return the command that runs a script by its SHA-1, if the server knows it."""
    count = b"%d" % len(operation.keys)
    return (b"EVALSHA", operation.script.sha1, count, *operation.keys, *operation.args)


def call_by_text(operation: Operation[Any]) -> tuple[bytes, ...]:
    """Return the command that runs a script by its text, which the server then knows."""
    count = b"%d" % len(operation.keys)
    return (b"EVAL", operation.script.source, count, *operation.keys, *operation.args)


def transaction(operation: Operation[Any]) -> list[tuple[bytes, ...]]:
    """
    Return the commands of an operation that is sent in one MULTI.

    The script is sent with its text: EVALSHA of an unknown script would fail alone.
    """
    return [(b"MULTI",), *(operation.prelude or ()), call_by_text(operation), (b"EXEC",)]


def last_of(replies: list[Any]) -> Any:
    """
    Return the reply of the script, of the replies to its commands.

    Raises:
        ResponseError: the first error of all.
    """
    if len(replies) > 1 and isinstance(replies[-1], list):
        replies = replies[-1]
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies[-1]
