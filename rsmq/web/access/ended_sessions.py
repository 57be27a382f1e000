"""
Sessions that have ended before their time, because of a log out.

A session is a signed cookie, so a copy of it would be valid until its time is over. A sorted set in
Redis has what has ended, with the time as the score: a session, or all sessions of an owner until
then. Each process reads it at most once a second, however many sessions there are.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.operations.operation import Operation
from rsmq.operations.plain import Word, encode_command, parse_scores, plain_command, plain_commands
from rsmq.web.access.sessions import SESSION_SECONDS, Session
from rsmq.web.client import Client
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name

_READ_SECONDS = 1.0
#: Ended sessions of an owner that are stored. A further one ends them all, so the set stays small.
_MAX_OF_OWNER = 20
_LIFE_MS = SESSION_SECONDS * 1000

_log = get_logger("rsmq.web")


class EndedSessions:
    """The ended sessions of a namespace. While Redis is away, those that this process knows of."""

    def __init__(self, queues: Client, *, read_only: bool) -> None:
        """
        Make it.

        Args:
            read_only: whether Redis must not be written: then sessions end in this process only.
        """
        self._queues = queues
        self._read_only = read_only
        self._ended: dict[str, float] = {}
        #: The sessions that this process has ended, and Redis does not have.
        self._unwritten: dict[str, float] = {}
        self._lock = asyncio.Lock()
        self._next_read = 0.0

    async def has(self, session: Session) -> bool:
        """Return whether a session has ended."""
        if time.monotonic() >= self._next_read:
            async with self._lock:
                if time.monotonic() >= self._next_read:
                    await self._synchronize()
        return (
            session.key in self._ended
            or self._ended.get(session.owner, session.begun_ms - 1) >= session.begun_ms
        )

    async def end(self, session: Session, *, everywhere: bool) -> None:
        """
        End a session in all processes.

        If Redis is away, it ends in this process now, and in the others when Redis is back.

        Args:
            everywhere: whether all sessions of its owner that have begun before end too.
        """
        async with self._lock:
            of_owner = [each for each in self._ended if each.startswith(f"{session.owner}.")]
            ends_all = everywhere or len(of_owner) >= _MAX_OF_OWNER
            key = session.owner if ends_all else session.key
            # The clock of the server where it began may be ahead.
            self._unwritten[key] = max(time.time() * 1000, session.begun_ms)
            await self._synchronize()

    async def _synchronize(self) -> None:
        self._next_read = time.monotonic() + _READ_SECONDS
        self._ended |= self._unwritten
        try:
            key = self._queues.namespace.ended_sessions
            if self._unwritten and not self._read_only:
                changes = map(encode_command, self._changes(key))
                await self._queues.run(plain_commands(key, changes))
                self._unwritten = {}
            read = plain_command("ZRANGE", key, 0, -1, "WITHSCORES", parse=parse_scores)
            found = await self._queues.run(read)
            stored = {decode_name(member): ended for member, ended in found}
        except (RedisError, RSMQError, OSError) as error:
            if self._unwritten and not self._read_only:
                _log.warning("sessions have ended in this process only: %s", type(error).__name__)
            return
        self._ended = stored | self._unwritten

    def _changes(self, key: bytes) -> list[tuple[Word, ...]]:
        pairs = [each for name, ended in self._unwritten.items() for each in (ended, name)]
        covered = [
            each
            for each in self._ended
            if each.partition(".")[0] in self._unwritten and "." in each
        ]
        changes: list[tuple[Word, ...]] = [("ZADD", key, *pairs)]
        if covered:
            changes.append(("ZREM", key, *covered))
        return changes + _expiry(key)


def end_sessions(namespace: Namespace, owners: list[str]) -> Operation[list[Any]]:
    """Return the operation that ends all sessions of owners that have begun, in all processes."""
    key = namespace.ended_sessions
    pairs = [each for owner in owners for each in (time.time() * 1000, owner)]
    return plain_commands(key, map(encode_command, [("ZADD", key, *pairs), *_expiry(key)]))


def _expiry(key: bytes) -> list[tuple[Word, ...]]:
    """Return the commands that remove what would have ended by itself."""
    return [
        ("ZREMRANGEBYSCORE", key, "-inf", time.time() * 1000 - _LIFE_MS),
        ("PEXPIRE", key, _LIFE_MS),
    ]
