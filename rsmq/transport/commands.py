"""
The commands that an operation sends, and its reply.
"""

from __future__ import annotations

from typing import Any

from redis.exceptions import AskError, MovedError, ResponseError

from rsmq.operations.operation import Command, Operation
from rsmq.operations.scripts import NO_SCRIPT
from rsmq.transport.failure_texts import name_command

_MULTI, _EXEC, _ASKING = (b"MULTI",), (b"EXEC",), (b"ASKING",)


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


def many_commands(operation: Operation[Any]) -> list[Command]:
    """
    Return the commands of an operation that sends several: plain ones, or a script in one MULTI.

    The script is sent as text: if EVALSHA failed on an unknown script, the other commands would
    run without it.
    """
    commands = operation.commands or ()
    if operation.script is NO_SCRIPT:
        return [*commands]
    return [_MULTI, *commands, eval_command(operation), _EXEC]


def needs_asking(redirect: AskError | None) -> bool:
    """Return whether the next attempt needs ASKING: not after MOVED, which redis-py derives."""
    return redirect is not None and not isinstance(redirect, MovedError)


def asking_commands(operation: Operation[Any]) -> list[Command]:
    """
    Return the commands of an operation for a node of Redis Cluster that a slot is moving to.

    The permission by ASKING lasts for one command, or for one transaction. So the script is sent as
    text, and several plain commands in one transaction: this node then refuses them while another
    node has some of their keys.
    """
    if operation.commands is None:
        return [_ASKING, eval_command(operation)]
    commands = many_commands(operation)
    if len(commands) > 1 and commands[0] != _MULTI:
        commands = [_MULTI, *commands, _EXEC]
    return [_ASKING, *commands]


def call_commands(
    operation: Operation[Any], *, is_asking: bool, with_script: bool
) -> list[Command]:
    """
    Return the commands of one attempt.

    Args:
        is_asking: whether the server is a node that a slot is moving to.
        with_script: whether the script is sent as text, because the server does not have it.
    """
    if is_asking:
        return asking_commands(operation)
    if operation.commands is not None:
        return many_commands(operation)
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
    return _without_errors(replies)[-1]


def reply_of(operation: Operation[Any], replies: list[Any]) -> Any:
    """
    Return the reply of an operation: that of its script, or a list of those of its plain commands.

    Args:
        operation: the operation.
        replies: the replies to ``many_commands`` or ``asking_commands``, errors included.

    Raises:
        ResponseError: the first error among the replies.
    """
    if operation.script is not NO_SCRIPT:
        return script_reply(replies)
    commands = operation.commands or ()
    is_transaction = commands[0] == _MULTI or len(replies) > len(commands) + 1
    if is_transaction and isinstance(replies[-1], list):
        replies = replies[-1]
        commands = tuple(each for each in commands if each not in (_MULTI, _EXEC))
    replies = replies[-len(commands) :]  # without that to ASKING
    for command, reply in zip(commands, replies, strict=False):
        if isinstance(reply, ResponseError) and isinstance(command, tuple):
            name_command(reply, command)
    return _without_errors(replies)


def _without_errors(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
