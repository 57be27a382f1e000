"""
Calls of one event loop that wait until replicas have confirmed their changes.

Confirmed calls share a connection of their own, because the command that waits blocks it for all
calls behind it. Scripts that become ready meanwhile are sent together, followed by one command that
waits for the largest number of replicas. It confirms all changes that were made on the connection
before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError

from rsmq.operations.confirmation import (
    DISK_COMMANDS,
    Confirm,
    can_be_confirmed,
    check_disk,
    missing_copies,
    wait_command,
)
from rsmq.operations.operation import Command, Operation, RetryClass
from rsmq.transport.asyncio_.multiplexed import MultiplexedConnection, ReconnectingConnection
from rsmq.transport.asyncio_.requests import NotSent
from rsmq.transport.commands import call_commands, script_reply
from rsmq.transport.confirmation import CONNECTION_BROKE, demotion_error, longest_wait
from rsmq.transport.redis_py import timeout_of_connections
from rsmq.transport.topology.group import ServerPool

#: How long a command waits at most: calls that come meanwhile are sent only after it.
_LONGEST_WAIT_SECONDS = 0.25


@dataclass(slots=True, eq=False)
class _Call:
    """
    A call that is not finished.

    Attributes:
        is_asking: whether the server is a node that a slot is moving to.
        outcome: gets the reply of the script, and what is missing, None if all is confirmed.
        with_script: whether the script is sent as text.
        is_sent: whether any part of it may have been sent.
        replies: the replies to its commands; None before they have arrived.
        until: when it is given up, by the clock of the event loop.
    """

    operation: Operation[Any]
    confirmation: Confirm
    is_asking: bool
    outcome: asyncio.Future[tuple[Any, str | None]]
    with_script: bool = False
    is_sent: bool = False
    replies: list[Any] | None = None
    until: float = 0.0

    def commands(self) -> list[Command]:
        return call_commands(self.operation, is_asking=self.is_asking, with_script=self.with_script)

    def note_replies(self, replies: list[Any]) -> None:
        """Store the replies; if the server does not have the script, it is sent again as text."""
        if isinstance(replies[0], NoScriptError):
            self.with_script = True
            self.is_sent = False
            return
        self.replies = replies

    def finish(self, confirmed: Any, now: float) -> bool:
        """
        Finish the call if nothing is missing, it is over time, or it failed.

        Args:
            confirmed: the reply to the command that waits; an error of the connection if it broke.

        Returns:
            Whether it is finished.
        """
        if self.outcome.done():  # it was cancelled
            return True
        if self.replies is None:
            return False
        try:
            reply = script_reply(self.replies)
        except (RedisError, OSError) as error:
            self.outcome.set_exception(error)
            return True
        broken = confirmed if _is_broken(confirmed) else demotion_error(self.operation, confirmed)
        if broken is not None:
            if self.operation.retry is RetryClass.NEVER:  # it has run, and must not run again
                self.outcome.set_result((reply, CONNECTION_BROKE))
            else:
                self.outcome.set_exception(broken)
            return True
        if can_be_confirmed(self.confirmation, confirmed) and now < self.until:
            return False
        self.outcome.set_result((reply, missing_copies(self.confirmation, confirmed)))
        return True


class GroupCommit:
    """The confirmed calls of one event loop on one server."""

    def __init__(self, pool: ServerPool) -> None:
        """
        Prepare it; it connects with its first call.

        Args:
            pool: the class and the options of connections.
        """
        self._connection = ReconnectingConnection(pool)
        timeout = timeout_of_connections(pool.connection_class, pool.connection_kwargs)
        self._longest_wait = min(longest_wait(timeout), _LONGEST_WAIT_SECONDS)
        self._calls: list[_Call] = []
        self._runner: asyncio.Task[None] | None = None
        self._has_disk_checked = False

    async def call(
        self, operation: Operation[Any], confirmation: Confirm, *, is_asking: bool
    ) -> tuple[Any, str | None]:
        """
        Run an operation, and wait for its confirmation.

        Args:
            is_asking: whether the server is a node that a slot is moving to.

        Returns:
            The reply of the script, and what is missing, None if all is confirmed.

        Raises:
            NotPossible: the server can't say what is on disk.
            NotSent: the connection can't be opened, or broke before the call was sent.
            RedisError, OSError: the call failed.
        """
        if confirmation.fsync and not self._has_disk_checked:
            await self._check_disk()
        outcome = asyncio.get_running_loop().create_future()
        self._calls.append(_Call(operation, confirmation, is_asking, outcome))
        try:
            if self._runner is None or self._runner.done():
                self._runner = asyncio.ensure_future(self._run())
                self._runner.add_done_callback(self._note_end)
            result: tuple[Any, str | None] = await outcome
        finally:
            outcome.cancel()  # if an exception has ended the call, it is not sent later
        return result

    def retire(self) -> None:
        """As that of ReconnectingConnection."""
        self._connection.retire()

    def start_closing(self) -> None:
        """As that of ReconnectingConnection."""
        self._connection.start_closing()

    async def close(self) -> None:
        """As that of ReconnectingConnection."""
        await self._connection.close()

    async def _check_disk(self) -> None:
        try:
            connection = await self._connection.get(check=True)
            check_disk(await connection.send(DISK_COMMANDS).wait())
        except (RedisError, OSError) as error:
            raise NotSent(str(error)) from error
        self._has_disk_checked = True

    async def _run(self) -> None:
        while self._calls:
            try:
                connection = await self._connection.get(check=True)
                connection.calls += 1
                try:
                    while self._calls:
                        await self._send_group(connection)
                finally:
                    connection.calls -= 1
                    connection.close_if_unused()
            except Exception as error:  # noqa: BLE001 - each waiting call raises it
                self._fail_all(error)

    def _note_end(self, runner: asyncio.Task[None]) -> None:
        """Fail the calls that are left, if all tasks were cancelled or a signal handler raised."""
        if runner.cancelled() or runner.exception() is not None:
            self._fail_all(RedisConnectionError("Waiting for replicas was interrupted."))

    async def _send_group(self, connection: MultiplexedConnection) -> None:
        """Send the calls that were not sent yet, and wait for all; finish those that can be."""
        loop = asyncio.get_running_loop()
        unsent = [each for each in self._calls if not each.is_sent and not each.outcome.done()]
        commands = [each.commands() for each in unsent]
        waits = self._waits(loop.time())
        for each in unsent:
            each.is_sent = True
            each.until = loop.time() + each.confirmation.timeout
        try:
            request = connection.send(
                [*(part for each in commands for part in each), *waits.values()]
            )
        except NotSent:
            for each in unsent:
                each.is_sent = False
            raise
        replies = await request.wait()
        now = loop.time()
        at = 0
        for each, sent in zip(unsent, commands, strict=True):
            each.note_replies(replies[at : at + len(sent)])
            at += len(sent)
        confirmed = dict(zip(waits, replies[at:], strict=True))
        self._calls = [
            each
            for each in self._calls
            if not each.finish(confirmed.get(each.confirmation.fsync), now)
        ]

    def _waits(self, now: float) -> Mapping[bool, tuple[bytes, ...]]:
        """Return the commands that wait for all calls: one for replicas, and one for disks."""
        waits = {}
        for fsync in (False, True):
            calls = [each for each in self._calls if each.confirmation.fsync is fsync]
            if calls:
                seconds = max(
                    each.confirmation.timeout if each.replies is None else each.until - now
                    for each in calls
                )
                # It waits for all changes of the connection, so that of the most replicas serves
                # all calls: each compares the number in the reply with its own.
                most = max((each.confirmation for each in calls), key=lambda each: each.replicas)
                waits[fsync] = wait_command(most, min(seconds, self._longest_wait))
        return waits

    def _fail_all(self, error: Exception) -> None:
        calls, self._calls = self._calls, []
        is_lost = isinstance(error, RedisError | OSError)
        for call in calls:
            if call.outcome.done():
                continue
            if call.replies is not None:
                call.finish(error if is_lost else RedisConnectionError(str(error)), 0.0)
            elif is_lost and not call.is_sent:
                call.outcome.set_exception(NotSent(str(error)))
            else:
                call.outcome.set_exception(error)


def _is_broken(confirmed: Any) -> bool:
    return isinstance(confirmed, Exception) and not isinstance(confirmed, ResponseError)
