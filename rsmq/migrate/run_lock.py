"""
The lock of a move between two servers: two runs would double messages.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache

from redis.exceptions import RedisError, WatchError

from rsmq.errors import NotPossible
from rsmq.migrate.server import Server
from rsmq.transport.process_identity import died, facts
from rsmq.wire.keys import lock_of_aside

#: Seconds for which a run counts as alive after its last step, where that can't be seen.
_ALIVE = 10.0


@cache
def _this_process() -> bytes:
    return json.dumps(facts()).encode()


class Alone:
    """What a run holds while messages of a queue may stand aside for it."""

    def __init__(self, server: Server, aside: bytes, source: str) -> None:
        """
        Make it; nothing is held yet.

        Args:
            server: where the messages stand aside.
            aside: the key under which they do.
            source: the queue, for the error.
        """
        self._raw = server.raw
        self._key = lock_of_aside(aside)
        self._source = source

    def hold(self) -> None:
        """
        Hold it, or go on to.

        Raises:
            NotPossible: another run holds it, and is not known to be dead.
        """
        while True:
            with self._raw.pipeline() as pipeline, suppress(WatchError):
                pipeline.watch(self._key)
                says = pipeline.get(self._key)
                if says not in {None, _this_process()} and not died(says.decode()):
                    raise NotPossible(
                        f"Another run is moving {self._source}, of process {_shown(says)}",
                        hint="Two at a time would bring messages twice. End it first; if it was "
                        f"killed, wait {_ALIVE:g} seconds.",
                    )
                pipeline.multi()
                pipeline.set(self._key, _this_process(), px=round(_ALIVE * 1000))
                pipeline.execute()
                return

    def release(self) -> None:
        """Let another run hold it."""
        with suppress(RedisError):
            if self._raw.get(self._key) == _this_process():
                self._raw.delete(self._key)


def _shown(says: bytes) -> str:
    try:
        known = json.loads(says)
        return f"{known['pid']} on {known['host']}"
    except (KeyError, TypeError, ValueError):
        return "unknown"
