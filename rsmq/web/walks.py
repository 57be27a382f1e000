"""
Walks through all queues, for lists that are sorted, for what is wrong, and for totals.

A walk through 10,000 queues takes 50 ms of Redis's time. Pages share one: it is made again when it
is older than many times its duration. So however many pages are open, and however many queues there
are, walks take Redis about a hundredth of its time. A program that calls the API gets a new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rsmq.figures.facts import BACKLOG, RATES, QueueBacklog, QueueFact, QueueRate, T
from rsmq.figures.reading import read_queues_in_steps
from rsmq.history.recent_calls import RecentCalls, TaskMinutes
from rsmq.operations.queues import list_queues_in_steps
from rsmq.web.client import Client
from rsmq.web.recoveries import Recoveries

#: A shared walk is used for so many seconds; if it took long, for so many times as long as it took.
_MIN_SECONDS, _TIMES_ITS_OWN, _MAX_SECONDS = 1.5, 150, 60.0

#: The value of each queue that has one, and the dead-letter queues of the policies.
Values = tuple[dict[str, float], set[str]]

_VALUES: Mapping[str, Callable[[QueueBacklog], float | None]] = {
    "depth": lambda each: each.messages,
    "visible": lambda each: each.visible,
    "hidden": lambda each: each.messages - each.visible,
    "oldest": lambda each: each.visible_since_ms,
    "sent": lambda each: each.sent,
    "received": lambda each: each.received,
    "created": lambda each: each.created,
    "dead_letters": lambda each: each.dead_letters,
}


class QueueWalks:
    """
    Walks that are made when they are asked for.

    Attributes:
        recoveries: what is known of the alerts of those before; the route of alerts compares them.
    """

    def __init__(self, queues: Client) -> None:
        self._queues = queues
        self.recoveries = Recoveries()
        self._calls = RecentCalls()

    async def names(self) -> list[str]:
        """
        Return the names of all queues that exist.

        They are not those of one moment, see ``list_queues_in_steps``.
        """
        return await self._queues.run_steps(list_queues_in_steps(self._queues.namespace))

    async def states(self, names: Iterable[str]) -> tuple[dict[str, QueueBacklog], float]:
        """Return what waits in those queues that exist, and how many seconds ago it was read."""
        return await self._read(names, BACKLOG), 0.0

    async def rates(self, names: Iterable[str]) -> dict[str, QueueRate]:
        """Return the rates of those queues of which they are known."""
        found = await self._read(names, RATES)
        return {name: each for name, each in found.items() if each is not None}

    async def tasks(self, names: Iterable[str]) -> list[TaskMinutes]:
        """Return the calls of the tasks of queues in the last hour."""
        reading = self._calls.read_in_steps(self._queues.namespace, names)
        return await self._queues.run_steps(reading)

    async def values(self, names: Iterable[str], sort: str) -> Values:
        """Return the values of queues, and the dead-letter queues of their policies."""
        states, _ = await self.states(names)
        found = {name: _VALUES[sort](each) for name, each in states.items()}
        values = {name: value for name, value in found.items() if value is not None}
        targets = {each.dead_letter_queue for each in states.values()}
        return values, {each for each in targets if each is not None}

    async def _read(self, names: Iterable[str], fact: QueueFact[T]) -> dict[str, T]:
        reading = read_queues_in_steps(self._queues.namespace, names, fact)
        found = await self._queues.run_steps(reading)
        return {name: each[fact] for name, each in found.items()}


@dataclass(frozen=True, slots=True)
class _LastWalk:
    """The result of a walk; ``begun_at`` is monotonic seconds."""

    content: Any
    begun_at: float
    seconds: float

    @property
    def lasts(self) -> float:
        """For how many seconds after its begin it is used."""
        return min(max(_MIN_SECONDS, _TIMES_ITS_OWN * self.seconds), _MAX_SECONDS)


class SharedWalks(QueueWalks):
    """The last walks, for the pages of this process. Rights are for those who ask."""

    def __init__(self, queues: Client, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(queues)
        self._clock = clock
        self._walks: dict[str, _LastWalk] = {}
        self._running: dict[str, asyncio.Task[_LastWalk]] = {}

    async def names(self) -> list[str]:
        """See ``QueueWalks``."""
        states = self._walks.get("states")
        if states is not None and self._lasts(states):
            return list(states.content[0])
        return list((await self._get("names", super().names)).content)

    async def states(self, names: Iterable[str]) -> tuple[dict[str, QueueBacklog], float]:
        """See ``QueueWalks``."""
        walk = await self._get("states", self._walk_states)
        _, states = walk.content
        chosen = {name: states[name] for name in names if name in states}
        return chosen, self._clock() - walk.begun_at

    async def rates(self, names: Iterable[str]) -> dict[str, QueueRate]:
        """See ``QueueWalks``."""
        rates = (await self._get("rates", self._walk_rates)).content
        return {name: rates[name] for name in names if name in rates}

    async def tasks(self, names: Iterable[str]) -> list[TaskMinutes]:
        """See ``QueueWalks``. Workers write once a minute."""
        found = (await self._get("tasks", self._walk_tasks)).content
        chosen = set(names)
        return [each for each in found if each.queue in chosen]

    def forget_all(self) -> None:
        """Let the next page walk again, after a change."""
        self._walks.clear()
        self._running.clear()

    async def _walk_states(self) -> tuple[list[str], dict[str, QueueBacklog]]:
        names = await self.names()
        return names, await self._read(names, BACKLOG)

    async def _walk_rates(self) -> dict[str, QueueRate]:
        return await super().rates(await self.names())

    async def _walk_tasks(self) -> list[TaskMinutes]:
        return await super().tasks(await self.names())

    async def _get(self, kind: str, walk: Callable[[], Awaitable[Any]]) -> _LastWalk:
        last = self._walks.get(kind)
        if last is not None and self._lasts(last):
            return last
        task = self._running.get(kind)
        if task is None:
            task = asyncio.create_task(self._make(walk))
            self._running[kind] = task
            task.add_done_callback(partial(self._keep, kind))
        # A client that leaves does not take the walk away from others.
        return await asyncio.shield(task)

    def _lasts(self, walk: _LastWalk) -> bool:
        return self._clock() - walk.begun_at < walk.lasts

    async def _make(self, walk: Callable[[], Awaitable[Any]]) -> _LastWalk:
        begun_at = self._clock()
        content = await walk()
        return _LastWalk(content, begun_at, self._clock() - begun_at)

    def _keep(self, kind: str, task: asyncio.Task[_LastWalk]) -> None:
        if self._running.get(kind) is not task:  # forgotten meanwhile
            return
        del self._running[kind]
        if not task.cancelled() and task.exception() is None:  # the waiting call has it
            self._walks[kind] = task.result()
