"""
The commands that an operation sends, and the reply of its script.
"""

from __future__ import annotations

from typing import Any

from rsmq.operations.operation import Operation


def evalsha_command(operation: Operation[Any]) -> tuple[bytes, ...]:
    """Return the command that runs a script by its SHA-1, if the server has cached it."""
    key_count = b"%d" % len(operation.keys)
    return (b"EVALSHA", operation.script.sha1, key_count, *operation.keys, *operation.args)


def eval_command(operation: Operation[Any]) -> tuple[bytes, ...]:
    """Return the command that runs a script by its text; the server then caches the script."""
    key_count = b"%d" % len(operation.keys)
    return (b"EVAL", operation.script.source, key_count, *operation.keys, *operation.args)


def transaction_commands(operation: Operation[Any]) -> list[tuple[bytes, ...]]:
    """
    Return the commands of an operation that is sent in one MULTI.

    The script is sent as text: if EVALSHA failed on an unknown script, the other commands would
    run without it.
    """
    return [(b"MULTI",), *(operation.prelude or ()), eval_command(operation), (b"EXEC",)]


def script_reply(replies: list[Any]) -> Any:
    """
    Return the reply of the script: the last one, or the last one of a transaction.

    Args:
        replies: the replies to the commands of one operation, errors included.

    Raises:
        ResponseError: the first error among the replies.
    """
    if len(replies) > 1 and isinstance(replies[-1], list):
        replies = replies[-1]
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies[-1]
