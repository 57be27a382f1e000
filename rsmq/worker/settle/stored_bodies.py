"""
The bodies in stores, of a worker whose codecs have some: deleted with their messages, and swept.

All of it is in threads of its own, which the end of the program does not wait for: the loop must
renew leases. The sweep deletes those that are left at the end of the worker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from queue import SimpleQueue
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.body_stores.sweep import claim_sweep, sweep_bodies
from rsmq.codecs import BodyStore, Codec, QueueCodec
from rsmq.errors.guarded_log import get_logger

_log = get_logger("rsmq.worker")

_THREADS = 4
#: How many deletions may wait; more are left to the sweep.
_MAX_WAITING = 10_000
#: How long the end of a worker waits for deletions.
_CLOSE_SECONDS = 5.0
#: The time from the start to the first sweep, and from one attempt to the next. Redis permits one
#: sweep an hour.
FIRST_SWEEP_SECONDS = 60.0
SWEEP_SECONDS = 300.0


class StoredBodies:
    """The bodies in stores of the queues of a worker. The worker's loop calls it."""

    def __init__(self, client: RSMQ[Any], codecs: Iterable[Codec]) -> None:
        """
        Make it, without a thread.

        Args:
            client: the client of the namespace.
            codecs: those of the worker's queues.
        """
        self._graces: dict[int, tuple[BodyStore, float]] = {}
        for codec in codecs:
            store = codec.store if isinstance(codec, QueueCodec) else None
            if store is not None and isinstance(codec, QueueCodec):
                _, grace = self._graces.get(id(store), (store, 0.0))
                self._graces[id(store)] = store, max(grace, codec.grace_seconds)
        self._client = client
        self._calls: SimpleQueue[tuple[QueueCodec[Any, Any], bytes, str] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._next_sweep_at = time.monotonic() + FIRST_SWEEP_SECONDS
        self._sweep: threading.Thread | None = None
        self._is_closed = False

    def discard(self, codec: QueueCodec[Any, Any], raw: bytes, id: str) -> None:
        """Delete what is stored for a message that was deleted, some time soon."""
        if self._calls.qsize() >= _MAX_WAITING:
            return
        if len(self._threads) < _THREADS:
            thread = threading.Thread(target=self._discard_all, name="rsmq-bodies", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._calls.put((codec, raw, id))

    def sweep(self, now: float) -> None:
        """Begin a sweep if one is due, at a time in monotonic seconds."""
        if not self._graces or now < self._next_sweep_at:
            return
        self._next_sweep_at = now + SWEEP_SECONDS
        if self._sweep is None or not self._sweep.is_alive():
            self._sweep = threading.Thread(target=self._sweep_all, name="rsmq-sweep", daemon=True)
            self._sweep.start()

    def close(self) -> None:
        """Wait for deletions for a short time, and end a sweep."""
        self._is_closed = True
        for _ in self._threads:
            self._calls.put(None)
        ends = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(ends - time.monotonic(), 0))

    def _discard_all(self) -> None:
        while (call := self._calls.get()) is not None:
            codec, raw, id = call
            codec.discard(raw, id)

    def _sweep_all(self) -> None:
        try:
            if not claim_sweep(self._client):
                return
            for store, grace in self._graces.values():
                swept = sweep_bodies(self._client, store, grace=grace, tell=self._check_open)
                _log.info("stored bodies: %d, in no message %d, deleted %d", *swept.numbers)
        except _WorkerEndsError:
            return
        except Exception as error:  # noqa: BLE001 - the next sweep is in an hour
            if not self._is_closed:
                _log.warning("the stored bodies were not swept: %s", error)

    def _check_open(self, _: int) -> None:
        if self._is_closed:
            raise _WorkerEndsError


class _WorkerEndsError(Exception):
    """Ends a sweep."""
