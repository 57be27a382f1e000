"""
The workers, and the page of one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from rsmq.errors import QueueNotFound
from rsmq.explain.sentences import remedy_of_stalled
from rsmq.web.fields import Refused
from rsmq.web.pages.formats import show_duration, show_number
from rsmq.web.pages.held import hidden_of, suspect_of, visible_at
from rsmq.web.pages.recent_changes import read_changes, say_stop
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Figure
from rsmq.web.routes.forms import QueueJson, StoredJson
from rsmq.web.routes.workers import (
    HeldJson,
    HeldMessagesJson,
    RunningCallJson,
    RunningCallsJson,
    StalledJson,
    WorkerJson,
    WorkersJson,
)
from rsmq.web.table import Scope

#: Messages of a worker that its page lists.
_MAX_LISTED = 200
#: Dead workers of which it is read what they still have in flight.
_MAX_DEAD = 20
#: Queues of a dead worker whose visibility timeouts are read.
_MAX_QUEUES = 5
#: So many seconds after its last sign of life a worker may still have received messages.
_LATER_SECONDS = 10


class WorkerRow(WorkerJson):
    """A worker with how many messages it has in flight."""

    held: int


@dataclass(frozen=True, slots=True)
class WorkersPage:
    """The workers, and how many are alive."""

    workers: list[WorkerRow]
    alive: int


async def _show(call: PageCall) -> WorkersPage:
    """
    Return the values: one command, and a few for each of twenty dead workers.

    Of others it is shown what they had in flight when they died.
    """
    rows = [_row(each) for each in (await call.read(WorkersJson))["workers"]]
    # One may have received its only message after its last heartbeat; the others come first.
    dead = sorted(
        (each for each in rows if not each["is_alive"]), key=lambda each: not each["held"]
    )
    still = await asyncio.gather(*(_read_held(call, each["name"]) for each in dead[:_MAX_DEAD]))
    for row, hidden in zip(dead, still, strict=False):
        row["held"] = len(hidden)
    # Those that need attention are first, then those that are alive.
    rows.sort(key=lambda each: (each["is_alive"] or not each["held"], not each["is_alive"]))
    alive = sum(each["is_alive"] for each in rows)
    return WorkersPage(rows, alive)


async def _read_held(call: PageCall, name: str) -> list[HeldJson]:
    """Return the messages of a worker that are still hidden."""
    return hidden_of((await call.read(HeldMessagesJson, {"worker": name}))["messages"])


def _row(worker: WorkerJson) -> WorkerRow:
    return {**worker, "held": sum(worker["in_flight"].values())}


@dataclass(frozen=True, slots=True)
class WorkerPage:
    """
    A worker.

    Attributes:
        longer: why messages of a dead one are hidden for longer than their queues say.
        suspect: the message that may have killed it.
        may_order: whether the caller may give it orders.
        held: the first messages in flight, and ``rest`` the number of the others.
        died_with: how many it had when it died, and ``visible`` those that wait for another one.
        remedy: what to do about the message whose call blocks it; ``is_settled`` if that has left
            its queue.
    """

    worker: WorkerRow
    longer: list[str]
    suspect: HeldJson | None
    figures: list[Figure]
    running: list[RunningCallJson]
    may_order: bool
    held: list[HeldJson]
    rest: int
    died_with: int
    last_visible_ms: int | None
    visible: int
    remedy: str
    is_settled: bool


async def _show_one(call: PageCall) -> WorkerPage:
    """
    Return the values: three commands, and one for each queue with messages of the worker; of a dead
    one, one more for each of the first five, and of a blocked one, one more for its message.

    Messages that are visible again are not in flight, so they are not listed.
    """
    name = call.names["worker"]
    found = await call.read(WorkersJson)
    worker = next((_row(each) for each in found["workers"] if each["name"] == name), None)
    if worker is None:
        stop = say_stop(await read_changes(call), name)
        raise Refused(
            "workerNotFound",
            "This worker does not run" if stop else "There is no such worker",
            status=404,
            value=name,
            hint=f"{stop} One that has shut down is not listed, and a dead one for a day.".lstrip(),
        )
    held = (await call.read(HeldMessagesJson, {"worker": name}))["messages"]
    hidden = hidden_of(held)
    if not worker["is_alive"]:
        # Its last sign of life is older than what happened to its messages since.
        still = Counter(each["queue"] for each in hidden)
        worker["in_flight"] = {name: still[name] for name in worker["in_flight"] | still}
    is_alive = worker["is_alive"]
    receives = await _read_receives(call, worker["stalled"])
    return WorkerPage(
        worker, [] if is_alive else await _say_longer(call, hidden, worker["seen_ms"]),
        None if is_alive else suspect_of(hidden), _figures(worker, len(hidden)),
        await _read_running(call, name) if is_alive else [],
        may_order=all(call.may(Scope.MANAGE, each) for each in worker["in_flight"]),
        held=hidden[:_MAX_LISTED], rest=max(len(hidden) - _MAX_LISTED, 0), died_with=len(held),
        last_visible_ms=max(map(visible_at, hidden), default=None),
        visible=sum(not each["is_hidden"] and each["visible_at_ms"] is not None for each in held),
        remedy=remedy_of_stalled(receives), is_settled=receives == 0,
    )  # fmt: skip


async def _read_receives(call: PageCall, stalled: StalledJson | None) -> int | None:
    """
    Return how often the message was received whose call blocks a worker.

    Returns:
        The number; 0 if it has left its queue, and None if the caller may not read it.
    """
    if stalled is None or not stalled["id"] or not call.may(Scope.PEEK, stalled["queue"]):
        return None
    names = {"queue": stalled["queue"], "id": stalled["id"]}
    try:
        return (await call.read(StoredJson, names, max_bytes=1))["receive_count"]
    except QueueNotFound:
        return 0
    except Refused as error:
        if error.code != "messageNotFound":
            raise
        return 0


async def _read_running(call: PageCall, name: str) -> list[RunningCallJson]:
    """Return the calls of the last report of a worker, if it was asked a short time ago."""
    if not call.may(Scope.PEEK, None):
        return []
    return (await call.read(RunningCallsJson, {"worker": name}))["calls"]


async def _say_longer(call: PageCall, hidden: list[HeldJson], seen_ms: int) -> list[str]:
    """Return why messages of a dead worker are hidden for longer than their queues say."""
    names = sorted({each["queue"] for each in hidden if call.may(Scope.STATS, each["queue"])})
    found = []
    for name in names[:_MAX_QUEUES]:
        vt = (await call.read(QueueJson, {"queue": name}))["vt"]
        last_ms = max(visible_at(each) for each in hidden if each["queue"] == name)
        # It had received or extended them at its last sign of life, or a little later.
        if last_ms - seen_ms > (vt + _LATER_SECONDS) * 1000:
            found.append(
                f"{name} has a visibility timeout of {show_duration(vt)}, and the worker had asked "
                "for a longer one: its listener has its own, or its handler has extended it."
            )
    return found


def _figures(worker: WorkerRow, hidden: int) -> list[Figure]:
    failed, calls = worker["failed"], worker["failed"] + worker["handled"]
    share = f"{100 * failed / calls:.0f} % of its calls" if failed else ""
    if worker["is_alive"]:
        slots = f"of {worker['slots']} slots" if worker["slots"] else ""
        now = [
            Figure("in flight", show_number(worker["held"])),
            Figure("running calls", show_number(worker["running"]), slots),
        ]
    else:
        now = [Figure("still in flight", show_number(hidden))]
    return [
        *now,
        Figure("handled", show_number(worker["handled"])),
        Figure("failed", show_number(failed), share, "warn" if failed else ""),
        Figure("runs for" if worker["is_alive"] else "ran for", _span_of(worker)),
    ]


def _span_of(worker: WorkerJson) -> str:
    # Up to its last sign of life, so that the page of a dead worker stays as it is.
    return show_duration(max(worker["seen_ms"] - worker["since_ms"], 0) / 1000)


PAGES = (
    PageEntry("/workers", "workers.html", Scope.STATS, _show, menu="Workers"),
    PageEntry("/workers/{worker}", "worker.html", Scope.STATS, _show_one, below="/workers"),
)
