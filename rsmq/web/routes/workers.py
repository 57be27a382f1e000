"""
The workers, and what they have in flight.
"""

from __future__ import annotations

from typing import Any

from rsmq.explain.held import HeldMessage, read_held
from rsmq.web.fields import Field, Refused, Shape
from rsmq.web.routes.forms import may, read_receipts, show_fields
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.workers import WorkerInfo
from rsmq.worker.operations import list_workers
from rsmq.worker.registry import parse_workers

_RELEASED_AT_ONCE = 1000


def _show_worker(call: ApiCall, worker: WorkerInfo) -> dict[str, Any]:
    shown = show_fields(worker)
    queues, is_alive = shown.pop("queues"), shown.pop("alive")
    in_flight = {name: each for name, each in queues.items() if may(call, Scope.STATS, name)}
    return {**shown, "is_alive": is_alive, "in_flight": in_flight}


async def _list_workers(call: ApiCall) -> ApiAnswer:
    workers = await _read_workers(call)
    return ApiAnswer({"workers": [_show_worker(call, each) for each in workers]})


async def _list_in_flight(call: ApiCall) -> ApiAnswer:
    name = call.names["worker"]
    held = await _read_held(call)
    if not held and await _find_worker(call) is None:
        raise _not_found(name)
    shown = [show_fields(each) for each in held if may(call, Scope.STATS, each.queue)]
    return ApiAnswer({"messages": shown})


async def _release_held(call: ApiCall) -> ApiAnswer:
    name = call.names["worker"]
    worker = await _find_worker(call)
    if worker is not None and worker.alive:
        raise Refused(
            "workerAlive", "The worker is alive", status=409, value=name,
            hint="It still works on its messages. Release single ones by their receipts.",
        )  # fmt: skip
    held = [each for each in await _read_held(call) if each.is_hidden]
    if not held and worker is None:
        raise _not_found(name)
    for queue in {each.queue for each in held}:
        call.allow(Scope.MANAGE, queue)
    released = 0
    for start in range(0, len(held), _RELEASED_AT_ONCE):
        messages = [
            message
            for each in held[start : start + _RELEASED_AT_ONCE]
            for message in read_receipts(each.queue, [f"{each.id}.{each.receive_count}"])
        ]
        released += len(await call.queues.release_messages(messages))
    return ApiAnswer({"released": released})


async def _read_held(call: ApiCall) -> list[HeldMessage]:
    """Return what is recorded as in flight with the worker of the path."""
    name = call.names["worker"]
    found = await call.queues.run_steps(read_held(call.queues.namespace, [name]))
    return found[name]


def _not_found(name: str) -> Refused:
    return Refused("workerNotFound", "There is no such worker", status=404, value=name)


async def _find_worker(call: ApiCall) -> WorkerInfo | None:
    """Return the worker of the path."""
    workers = await _read_workers(call)
    return next((each for each in workers if each.name == call.names["worker"]), None)


async def _read_workers(call: ApiCall) -> list[WorkerInfo]:
    return parse_workers(*await call.queues.run(list_workers(call.queues.namespace)))[1]


ROUTES = (
    Route(
        "GET", "/workers", Scope.STATS, "List the workers, with what they have in flight.",
        _list_workers, result=(Field("workers", Shape.OBJECTS, "Those that are alive, and those "
        "that died within a day, each as of its last sign of life; deaths are Unix ms of the last "
        "signs of life of those of its name that died before it."),),
    ),
    Route(
        "GET", "/workers/{worker}/held", Scope.STATS,
        "List the messages that a worker has in flight.", _list_in_flight,
        result=(Field("messages", Shape.OBJECTS, "Their queues, ids, receive counts, and Unix ms "
        "from which they are visible: null if they were settled or received again since. is_hidden "
        "is whether that is in the future."),),
    ),
    Route(
        "POST", "/workers/{worker}:release", Scope.MANAGE,
        "Make visible at once what a dead worker has in flight.", _release_held,
        result=(Field("released", Shape.WHOLE, "Messages; without those that were received again "
        "since."),), is_long=True,
    ),
)  # fmt: skip
