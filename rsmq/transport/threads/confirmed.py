"""
Calls of the synchronous client that wait until replicas have confirmed their changes.

The command that waits is sent together with the script, on the same connection: it waits for the
changes of its connection. Threads share no connection, so no other call waits behind it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.operations.confirmation import (
    DISK_COMMANDS,
    Confirm,
    can_be_confirmed,
    check_disk,
    missing_copies,
    wait_command,
)
from rsmq.operations.operation import Command, Operation, RetryClass
from rsmq.transport.commands import call_commands, script_reply
from rsmq.transport.confirmation import CONNECTION_BROKE, demotion_error
from rsmq.transport.packing import pack_all
from rsmq.transport.threads.pools import ConnectionProvider


def transact(connection: Any, commands: Sequence[Command]) -> list[Any]:
    """Send commands together, and return their replies, errors included."""
    connection.send_packed_command(pack_all(commands))
    return read_replies(connection, len(commands))


def read_replies(connection: Any, number: int) -> list[Any]:
    """Return the next replies, errors included."""
    replies = []
    for _ in range(number):
        try:
            replies.append(connection.read_response(disable_decoding=True))
        except ResponseError as error:
            replies.append(error)
    return replies


def prepare(connections: ConnectionProvider, connection: Any, confirmation: Confirm) -> None:
    """
    Check, once for each server, that it can confirm what a call waits for.

    Raises:
        NotPossible: the server can't say what is on disk.
    """
    # Before the script is sent: the command that waits would fail after the message was stored.
    if confirmation.fsync and not connections.has_disk_checked:
        check_disk(transact(connection, list(DISK_COMMANDS)))
        connections.has_disk_checked = True


def call_confirmed(
    connection: Any, operation: Operation[Any], longest_wait: float, *, is_asking: bool
) -> tuple[Any, str | None]:
    """
    Run an operation, and wait for its confirmation.

    Args:
        operation: an operation with ``confirmation``.
        longest_wait: seconds after which the server must have answered a command.
        is_asking: whether the server is a node that a slot is moving to.

    Returns:
        The reply of the script, and what is missing, None if all is confirmed.

    Raises:
        RedisConnectionError: the connection broke, or the server has become a replica, and the
            operation may run again.
        RedisError: the call failed.
    """
    confirmation = operation.confirmation
    assert confirmation is not None  # noqa: S101 - for type checkers
    wait = wait_command(confirmation, min(confirmation.timeout, longest_wait))
    for has_script in (False, True):
        commands = call_commands(operation, is_asking=is_asking, with_script=has_script)
        connection.send_packed_command(pack_all([*commands, wait]))
        replies = read_replies(connection, len(commands))
        # The timeout begins now: a script that took long leaves the replicas no less time.
        until = time.monotonic() + confirmation.timeout
        if not isinstance(replies[0], NoScriptError):
            break
        read_replies(connection, 1)  # that of the command that waits, which was sent with it
    try:
        confirmed = read_replies(connection, 1)[0]
        reply = script_reply(replies)
        while can_be_confirmed(confirmation, confirmed) and (left := until - time.monotonic()) > 0:
            wait = wait_command(confirmation, min(left, longest_wait))
            confirmed = transact(connection, [wait])[0]
    except (RedisConnectionError, RedisTimeoutError):
        if operation.retry is not RetryClass.NEVER:
            raise
        # The script has run, and a second run would store its messages twice. The missing reply may
        # still arrive, so no other call may use the connection.
        connection.disconnect()
        return script_reply(replies), CONNECTION_BROKE
    if error := demotion_error(operation, confirmed):
        raise error
    return reply, missing_copies(confirmation, confirmed)
