# Generated from rsmq/control/asyncio_.py by scripts/generate-sync. Do not edit.
"""
``queues.workers`` of the synchronous clients.
"""

from __future__ import annotations

from typing import Any, Literal

from rsmq.control.operations import list_workers, order_worker, parse_workers, read_running
from rsmq.errors import NotPossible, WorkerNotFound
from rsmq.transport.clock import now
from rsmq.transport.threads.interruption import pause as sleep
from rsmq.wire.limits import check_duration, check_whole_number
from rsmq.wire.orders import RunningCall
from rsmq.wire.workers import WorkerInfo

#: How long an order is in force by default.
DAY_SECONDS = 86_400.0
#: The largest concurrency of a worker.
MAX_CONCURRENCY = 10_000
#: How long a worker reports after it was asked, and how long the first report is waited for.
_WATCH_SECONDS, _ANSWER_SECONDS = 60.0, 7.0
_POLL_SECONDS = 0.1


class Workers:
    """
    The workers of a namespace, in all processes, and orders to them.

    A worker reads its orders with its sign of life, so it follows them within about a second,
    and within three if it has nothing to do. Then it reads them again before it receives a message.
    Orders belong to the run of a worker: its next run, also under the same name, has none. Each
    ends by itself, so that a forgotten one does no harm. Workers of ``rsmq-worker --processes N``
    have a name each. Consumers that are no workers of this library have no orders.
    """

    def __init__(self, client: Any) -> None:
        """Make it for a synchronous client; nothing is read."""
        self._client = client

    def list(self) -> list[WorkerInfo]:
        """
        Return the workers, by name: those alive, and those that died within a day.

        A worker that shut down gracefully is not listed. One atomic read.
        """
        stored = self._client.run(list_workers(self._client.namespace))
        return parse_workers(*stored)[1]

    def pause(self, name: str, *, seconds: float = DAY_SECONDS) -> None:
        """
        Let a worker receive nothing. Calls that run end as usual; what waits is released.

        One atomic script.

        Args:
            name: the worker's name.
            seconds: after how many it receives again by itself, 1 to 9,999,999.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
            InvalidValue: seconds is out of range.
            WorkerNotFound: no worker of this name is alive.
        """
        self._order(name, "pause", seconds=check_duration("seconds", seconds, 1))

    def resume(self, name: str) -> None:
        """
        Let a paused worker receive again. One atomic script.

        Args:
            name: the worker's name.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
            WorkerNotFound: no worker of this name is alive.
        """
        self._order(name, "pause", seconds=None)

    def set_concurrency(
        self, name: str, concurrency: int | None, *, seconds: float = DAY_SECONDS
    ) -> None:
        """
        Change how many calls a worker runs at once. Calls that run end as usual.

        The ``concurrency`` of its listeners still limits them, and slots that they reserve stay.
        One atomic script.

        Args:
            name: the worker's name.
            concurrency: the number, 1 to 10,000; None is its own again.
            seconds: after how many it is its own again by itself, 1 to 9,999,999.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
            InvalidValue: concurrency or seconds is out of range.
            WorkerNotFound: no worker of this name is alive.
        """
        check_duration("seconds", seconds, 1)
        if concurrency is None:
            self._order(name, "concurrency", seconds=None)
        else:
            check_whole_number("concurrency", concurrency, 1, MAX_CONCURRENCY)
            self._order(name, "concurrency", str(concurrency), seconds=seconds)

    def stop(self, name: str, *, grace: float | None = None) -> None:
        """
        Stop a worker gracefully, as SIGTERM does. One atomic script, which does not wait for it.

        Its supervisor may start it again, as the supervisor of ``--processes`` does.

        Args:
            name: the worker's name.
            grace: seconds that its calls have to end; None is its own number.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
            InvalidValue: grace is out of range.
            WorkerNotFound: no worker of this name is alive.
        """
        value = "" if grace is None else f"{check_duration('grace', grace)}"
        self._order(name, "stop", value, seconds=DAY_SECONDS)

    def running(self, name: str) -> tuple[RunningCall, ...]:
        """
        Ask a worker what it runs, and return its report, which takes one to three seconds.

        An atomic script asks, and reads follow until the report is there. The worker reports each
        second for a minute, so that HTTP and the dashboard show what changes.

        Args:
            name: the worker's name.

        Returns:
            The calls, at most 200, those that have run for longest first. For threads and tasks
            with the lines where they are.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
            WorkerNotFound: no worker of this name is alive.
            NotPossible: it has not answered within seven seconds.
        """
        self._order(name, "running", seconds=_WATCH_SECONDS)
        until = now() + _ANSWER_SECONDS
        report: tuple[RunningCall, ...] | None = None
        while report is None:
            if now() > until:
                raise NotPossible(
                    "The worker has not answered",
                    value=name,
                    hint="It may be stopped, or its version is older.",
                )
            sleep(_POLL_SECONDS)
            report = self._client.run(read_running(self._client.namespace, name))
        return report

    def _order(
        self,
        name: str,
        order: Literal["pause", "concurrency", "running", "stop"],
        value: str = "",
        *,
        seconds: float | None,
    ) -> None:
        namespace = self._client.namespace
        if not self._client.run(order_worker(namespace, name, order, value, seconds=seconds)):
            raise WorkerNotFound(name)
