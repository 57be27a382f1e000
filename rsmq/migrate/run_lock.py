"""
The lock of a move between two servers: two runs at a time would move messages twice.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress

from redis.exceptions import RedisError

from rsmq.errors import NotPossible
from rsmq.migrate.operations import replace_lock
from rsmq.migrate.server import Server
from rsmq.transport.process_identity import describe_process, has_died
from rsmq.wire.keys import lock_of_aside

#: Seconds after its last step for which a run holds the lock, unless its process is seen to have
#: died.
_LOCK_SECONDS = 10.0

_PROCESS_FIELDS = ("host", "pid", "place", "born")

#: The runs of this process that have acquired a lock and not released it.
_own_runs: set[bytes] = set()


class RunLock:
    """
    A lock on the messages of a queue at its source. The holder is a run.

    A run that is suspended for longer than the lock lives does not notice it. So scripts that add
    messages at the target also check ``run``, which the holder stores there.

    Attributes:
        run: identifies this run, and its process.
    """

    def __init__(self, server: Server, source: str) -> None:
        """
        Prepare the lock without acquiring it.

        Args:
            server: the server of the source.
            source: the queue of the source, as in ``rfq:ndvi``.
        """
        self._server = server
        self._source = source
        self.key = lock_of_aside(server.rsmq.namespace.aside(source))
        identity = {**describe_process(), "run": secrets.token_hex(8)}
        self.run = json.dumps(identity).encode()

    def acquire(self) -> bool:
        """
        Acquire the lock, or renew it.

        The lock of a process that has died on this machine is acquired at once; any other ends by
        itself when its holder stops renewing it.

        Returns:
            Whether this run held it already.

        Raises:
            NotPossible: another run holds the lock, and is not known to be dead.
        """
        while True:
            holder = self._server.call("GET", self.key)
            if holder not in {None, self.run} and not _has_ended(holder):
                raise NotPossible(
                    f"Another run is moving {self._source}, of process {_describe(holder)}",
                    hint="Two at a time would copy messages twice. Stop it first; if it was "
                    f"killed, wait {_LOCK_SECONDS:g} seconds.",
                )
            if self._server.rsmq.run(replace_lock(self.key, holder, self.run, _LOCK_SECONDS)):
                _own_runs.add(self.run)
                return bool(holder == self.run)

    def release(self) -> None:
        """Release the lock if this run holds it. Errors of Redis are ignored."""
        _own_runs.discard(self.run)
        with suppress(RedisError):
            if self._server.call("GET", self.key) == self.run:
                self._server.call("DEL", self.key)


def _has_ended(holder: bytes) -> bool:
    """Return whether a run has certainly ended: its process has died, or it was one of this one."""
    if has_died(holder.decode()):
        return True
    try:
        info = json.loads(holder)
        own = describe_process()
        is_own = "run" in info and all(info[name] == own[name] for name in _PROCESS_FIELDS)
    except (KeyError, TypeError, ValueError):
        return False
    return is_own and holder not in _own_runs


def _describe(holder: bytes) -> str:
    try:
        identity = json.loads(holder)
        return f"{identity['pid']} on {identity['host']}"
    except (KeyError, TypeError, ValueError):
        return "unknown"
