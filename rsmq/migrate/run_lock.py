"""
The lock of a move between two servers: two runs at a time would move messages twice.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache

from redis.exceptions import RedisError, WatchError

from rsmq.errors import NotPossible
from rsmq.migrate.server import Server
from rsmq.transport.process_identity import describe_process, has_died
from rsmq.wire.keys import lock_of_aside

#: Seconds after its last step for which a run holds the lock, unless its process is seen to have
#: died.
_LOCK_SECONDS = 10.0


@cache
def _own_identity() -> bytes:
    return json.dumps(describe_process()).encode()


class RunLock:
    """A lock on the messages of a queue that are set aside. The holder is a process."""

    def __init__(self, server: Server, aside_key: bytes, source: str) -> None:
        """
        Prepare the lock without acquiring it.

        Args:
            server: the server where the messages are set aside.
            aside_key: the key of the hash of messages set aside.
            source: the queue of the source, for the error.
        """
        self._raw = server.raw
        self._key = lock_of_aside(aside_key)
        self._source = source

    def acquire(self) -> None:
        """
        Acquire the lock, or renew it.

        The lock of a process that has died on this machine is acquired at once; any other ends by
        itself when its holder stops renewing it.

        Raises:
            NotPossible: another run holds the lock, and is not known to be dead.
        """
        while True:
            with self._raw.pipeline() as pipeline, suppress(WatchError):
                pipeline.watch(self._key)
                holder = pipeline.get(self._key)
                if holder not in {None, _own_identity()} and not has_died(holder.decode()):
                    raise NotPossible(
                        f"Another run is moving {self._source}, of process {_describe(holder)}",
                        hint="Two at a time would copy messages twice. Stop it first; if it was "
                        f"killed, wait {_LOCK_SECONDS:g} seconds.",
                    )
                pipeline.multi()
                pipeline.set(self._key, _own_identity(), px=round(_LOCK_SECONDS * 1000))
                pipeline.execute()
                return

    def release(self) -> None:
        """Release the lock if this process holds it. Errors of Redis are ignored."""
        with suppress(RedisError):
            if self._raw.get(self._key) == _own_identity():
                self._raw.delete(self._key)


def _describe(holder: bytes) -> str:
    try:
        identity = json.loads(holder)
        return f"{identity['pid']} on {identity['host']}"
    except (KeyError, TypeError, ValueError):
        return "unknown"
