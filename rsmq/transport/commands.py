"""
The commands that an operation sends, and the reply of its script.
"""

from __future__ import annotations

from typing import Any

from redis.exceptions import AskError, MovedError

from rsmq.operations.operation import Operation


def routing_key(operation: Operation[Any]) -> bytes:
    """Return the key that decides which server runs an operation; without keys any one does."""
    return operation.keys[0] if operation.keys else b""


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


def needs_asking(redirect: AskError | None) -> bool:
    """Return whether the next attempt needs ASKING: not after MOVED, which redis-py derives."""
    return redirect is not None and not isinstance(redirect, MovedError)


def asking_commands(operation: Operation[Any]) -> list[tuple[bytes, ...]]:
    """
    Return the commands of an operation for a node of Redis Cluster that a slot is moving to.

    The permission by ASKING lasts for one command, or for one transaction. So the script is sent as
    text.
    """
    commands = [eval_command(operation)]
    if operation.prelude is not None:
        commands = transaction_commands(operation)
    return [(b"ASKING",), *commands]


def call_commands(
    operation: Operation[Any], *, is_asking: bool, with_script: bool
) -> list[tuple[bytes, ...]]:
    """
    Return the commands of one attempt.

    Args:
        is_asking: whether the server is a node that a slot is moving to.
        with_script: whether the script is sent as text, because the server does not have it.
    """
    if is_asking:
        return asking_commands(operation)
    if operation.prelude is not None:
        return transaction_commands(operation)
    return [eval_command(operation) if with_script else evalsha_command(operation)]


def script_reply(replies: list[Any]) -> Any:
    """
    Return the reply of the script: the last one, or the last one of a transaction, which has at
    least three: to MULTI, to the script, and to EXEC.

    Args:
        replies: the replies to the commands of one operation, errors included.

    Raises:
        ResponseError: the first error among the replies.
    """
    if len(replies) > 2 and isinstance(replies[-1], list):  # noqa: PLR2004 - see above
        replies = replies[-1]
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies[-1]
