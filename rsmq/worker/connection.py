"""
The connection of a worker: its calls to Redis, the pauses after failures, and its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from redis.exceptions import RedisError

from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.codecs.type_variables import B_co
from rsmq.errors import ClientClosed, RSMQError, WorkerReplaced
from rsmq.errors.guarded_log import get_logger
from rsmq.operations.operation import Operation
from rsmq.operations.time_limit import start_time_limit
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.transport.servers import as_asyncio
from rsmq.wire.orders import Orders
from rsmq.wire.workers import TTL
from rsmq.worker.operations import Identity, send_heartbeat, unregister_worker
from rsmq.worker.registry import register

T = TypeVar("T")

_log = get_logger("rsmq.worker")

#: The pause after a failed call to Redis: doubled from the first to the longest.
_FIRST_RETRY_PAUSE_SECONDS = 0.1
_MAX_RETRY_PAUSE_SECONDS = 2.0
#: How long a stopping worker tries each call while calls fail.
_STOPPING_SECONDS = 1.0


class WorkerConnection:
    """
    The calls of a worker. After a failed one, no call is made for a while.

    The loop's thread makes them, and writes the attributes, except where the text names another.

    Attributes:
        client: the client. Never changes.
        identity: the worker's name, with its token. Never changes.
        is_registered: whether the worker may have stored its name.
        retry_at: monotonic seconds before which no call is made, because the last one failed.
        is_stopping: whether the worker stops. Then calls take no longer than a second after one
            has failed, not ``retry_deadline``. Written by ``WorkerLoop.stop``, in any thread.
        server_ahead: how far the server's clock is ahead of the monotonic one, seconds, as the last
            receive has found. Written by ``Prefetcher``.
    """

    def __init__(self, client: RSMQ[Any], name: str, token: str) -> None:
        """
        Make it, without a call.

        Args:
            client: the client of the namespace.
            name: the worker's name.
            token: its unique token.
        """
        self.client = client
        self.identity = Identity(client.namespace, name, token)
        self.is_registered = self.is_stopping = False
        self.retry_at = 0.0
        self.server_ahead = 0.0
        self._error: BaseException | None = None
        #: The number of failures in a row.
        self._failures = 0
        #: Whether a call has succeeded since the last failure.
        self._has_succeeded = False
        #: For how long a call is tried; None is ``retry_deadline`` of the client.
        self._max_seconds: float | None = None

    @property
    def name(self) -> str:
        """The worker's name."""
        return self.identity.name

    def run(self, operation: Operation[T]) -> T:
        """Run an operation with the client; while the worker stops, only for a short time."""
        if self._max_seconds is not None:
            operation.limit = start_time_limit(self._max_seconds)
        return self.client.run(operation)

    def attempt(self, call: Callable[[], T]) -> T | None:
        """
        Make a call, unless one has failed a short time ago.

        Returns:
            Its result; None if it was not made, or has failed.

        Raises:
            WorkerReplaced: another worker has the name.
            ClientClosed: the client was closed.
        """
        if self.is_pausing:
            return None
        self._max_seconds = _STOPPING_SECONDS if self._failures and self.is_stopping else None
        try:
            result = call()
        except (ClientClosed, WorkerReplaced):
            raise
        except (RedisError, RSMQError, OSError) as error:
            self._note_failure(error)
            return None
        self._has_succeeded = True
        return result

    def seconds_since(self, server_ms: int | None) -> float:
        """Return the seconds since a time of the server, by its clock; 0 if there is none."""
        if server_ms is None:
            return 0.0
        return time.monotonic() + self.server_ahead - server_ms / 1000

    # Failures.

    @property
    def has_failed(self) -> bool:
        """Whether calls fail."""
        return self._failures > 0

    @property
    def is_pausing(self) -> bool:
        """Whether no call is made now, because one has failed."""
        return self._failures > 0 and self.retry_at > time.monotonic()

    @property
    def last_error(self) -> str:
        """The last error of calls that fail, as text."""
        return "" if self._error is None else f"{type(self._error).__name__}: {self._error}"

    def retry_now(self) -> None:
        """Make calls again at once."""
        self.retry_at = 0.0

    def _note_failure(self, error: BaseException) -> None:
        self._error, self._has_succeeded = error, False
        self._failures += 1
        pause = exponential_seconds(
            self._failures, _FIRST_RETRY_PAUSE_SECONDS, _MAX_RETRY_PAUSE_SECONDS
        )
        self.retry_at = time.monotonic() + with_jitter(pause)
        if self._failures in (1, 5) or self._failures % 30 == 0:
            _log.warning(
                "worker %s continues to try: %s: %s", self.name, type(error).__name__, error
            )

    def end_turn(self) -> None:
        """Note the end of a turn of the loop: forget failures if calls succeed again."""
        if self._failures and self._has_succeeded:
            self._failures, self._error = 0, None
            _log.info("worker %s: Redis answers again", self.name)

    # The name, and the sign of life.

    def register(
        self, info: dict[str, Any], check_stop: Callable[[], None]
    ) -> tuple[float, list[int]]:
        """Register the worker once its name is free; see ``registry.register``."""
        self.is_registered = True
        return register(self.client, self.identity, info, check_stop)

    def send_heartbeat(self, info: dict[str, Any], report: bytes) -> Orders:
        """
        Renew the worker's sign of life. Return its orders.

        Args:
            info: its description of itself.
            report: see ``operations.send_heartbeat``.

        Raises:
            WorkerReplaced: another worker has the name.
        """
        return self.run(send_heartbeat(self.identity, info, ttl=TTL, report=report))

    def unregister(self) -> None:
        """
        Remove the worker's name; it has ended.

        Raises:
            WorkerReplaced: another worker has the name.
        """
        self.run(unregister_worker(self.identity))
        self.is_registered = False


def make_async_client(client: RSMQ[B_co]) -> AsyncRSMQ[B_co]:
    """
    Return an asyncio client on the server of a synchronous one, with its settings.

    It connects with its first call. Close it in the event loop that has used it.

    Args:
        client: the synchronous client.

    Raises:
        InvalidFormat: the connections of that client have a class of their own, or an option that
            redis.asyncio does not have.
    """
    origin: Any = replace(client.origin, servers=as_asyncio(client.origin.servers))
    return AsyncRSMQ(
        origin,
        ns=client.namespace.name,
        codec=client.codec,
        realtime=client.realtime,
        strict_names=client.namespace.strict_names,
        confirm=client.confirm,
    )
