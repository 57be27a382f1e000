"""
The commands of an operation that is sent in one MULTI, and the meaning of their replies.
"""

from __future__ import annotations

from typing import Any

from rsmq.operations.operation import Operation


def transaction(operation: Operation[Any]) -> list[tuple[bytes, ...]]:
    """
    The commands of an operation that goes in one MULTI.

    The script goes with its text: EVALSHA of one that the server has forgotten would fail alone.
    """
    count = b"%d" % len(operation.keys)
    call = (b"EVAL", operation.script.source, count, *operation.keys, *operation.args)
    return [(b"MULTI",), *(operation.before or ()), call, (b"EXEC",)]


def last_of(replies: list[Any]) -> Any:
    """
    What the script of a transaction answered.

    Raises:
        ResponseError: the first error of all.
    """
    if len(replies) > 1 and isinstance(replies[-1], list):
        replies = replies[-1]
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies[-1]
