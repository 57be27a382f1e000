"""
The workers, and what they have in flight.
"""

from __future__ import annotations

from typing import Any

from rsmq.control.asyncio_ import MAX_CONCURRENCY
from rsmq.control.operations import list_workers, parse_workers, read_running
from rsmq.errors import WorkerNotFound
from rsmq.explain.held import HeldMessage, read_held
from rsmq.web.fields import SECONDS, Field, Refused, Shape, between
from rsmq.web.routes.forms import may, read_receipts, show_fields
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.limits import MAX_SECONDS
from rsmq.wire.orders import RunningCall
from rsmq.wire.workers import WorkerInfo

_RELEASED_AT_ONCE = 1000


def _show_worker(call: ApiCall, worker: WorkerInfo) -> dict[str, Any]:
    shown = show_fields(worker)
    queues, is_alive = shown.pop("queues"), shown.pop("alive")
    in_flight = {name: each for name, each in queues.items() if may(call, Scope.STATS, name)}
    stalled = worker.stalled if in_flight and worker.alive else None
    shown["stalled"] = None if stalled is None else show_fields(stalled)
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


async def _allow(call: ApiCall) -> str:
    """
    Return the name of the worker of the path, to which the caller gives an order.

    Raises:
        Refused: there is no such worker, or the caller may not manage one of its queues.
    """
    name = call.names["worker"]
    worker = await _find_worker(call)
    if worker is None or not worker.alive:
        raise WorkerNotFound(name)
    for queue in worker.queues:
        call.allow(Scope.MANAGE, queue)
    return name


async def _pause(call: ApiCall) -> ApiAnswer:
    await call.queues.workers.pause(await _allow(call), **call.values)
    return _DONE


async def _resume(call: ApiCall) -> ApiAnswer:
    await call.queues.workers.resume(await _allow(call))
    return _DONE


async def _set_concurrency(call: ApiCall) -> ApiAnswer:
    values = {"concurrency": None, **call.values}
    await call.queues.workers.set_concurrency(await _allow(call), **values)
    return _DONE


async def _stop(call: ApiCall) -> ApiAnswer:
    await call.queues.workers.stop(await _allow(call), **call.values)
    return _DONE


async def _ask(call: ApiCall) -> ApiAnswer:
    return _show_calls(call, await call.queues.workers.running(await _allow(call)))


async def _read_report(call: ApiCall) -> ApiAnswer:
    running = await call.queues.run(read_running(call.queues.namespace, call.names["worker"]))
    if running is None and await _find_worker(call) is None:
        raise WorkerNotFound(call.names["worker"])
    return _show_calls(call, running or ())


def _show_calls(call: ApiCall, running: tuple[RunningCall, ...]) -> ApiAnswer:
    shown = [
        {**show_fields(each), "stack": [line._asdict() for line in each.stack]}
        for each in running
        if may(call, Scope.PEEK, each.queue)
    ]
    return ApiAnswer({"calls": shown})


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


_DONE = ApiAnswer(status=204)
_STORED = {204: "the order is stored; the worker follows within a second, at rest within three"}
_FOR = Field(
    "seconds",
    Shape.NUMBER,
    "After how many it ends by itself; a day by default.",
    rule=between(1, MAX_SECONDS),
)
_CALLS = (
    Field(
        "calls", Shape.OBJECTS, "At most 200, the longest first: queue, id, messages (more than "
        "one of a batch), attempt, seconds, kind (thread, task or process) and stack: the last "
        "lines of threads and tasks, each with file, line and function. For a minute after it was "
        "asked, a worker reports each second; else there are none.",
    ),
)  # fmt: skip

ROUTES = (
    Route(
        "GET", "/workers", Scope.STATS, "List the workers, with what they have in flight.",
        _list_workers, result=(Field("workers", Shape.OBJECTS, "Those that are alive, and those "
        "that died within a day, each as of its last sign of life; deaths are Unix ms of the last "
        "signs of life of those of its name that died before it, and stalled says why an alive "
        "one can't call handlers: cause, since_ms, queue and id, or null."),),
        calls=("workers.list",),
    ),
    Route(
        "POST", "/workers/{worker}:pause", Scope.MANAGE, "Let a worker receive nothing.", _pause,
        ("workers.pause",), body=(_FOR,), answers=_STORED,
    ),
    Route(
        "POST", "/workers/{worker}:resume", Scope.MANAGE, "Let a paused worker receive again.",
        _resume, ("workers.resume",), answers=_STORED,
    ),
    Route(
        "PUT", "/workers/{worker}/concurrency", Scope.MANAGE,
        "Change how many calls a worker runs at once.", _set_concurrency,
        ("workers.set_concurrency",), answers=_STORED,
        body=(
            Field(
                "concurrency", Shape.WHOLE, "The number; its own again without it.",
                rule=between(1, MAX_CONCURRENCY),
            ),
            _FOR,
        ),
    ),
    Route(
        "POST", "/workers/{worker}:stop", Scope.MANAGE,
        "Stop a worker gracefully, as SIGTERM does.", _stop, ("workers.stop",), answers=_STORED,
        body=(Field("grace", Shape.NUMBER, "Seconds that its calls have to end; its own by "
                    "default.", rule=SECONDS),),
    ),
    Route(
        "POST", "/workers/{worker}:running", Scope.MANAGE,
        "Ask a worker what it runs, and wait for its report.", _ask, ("workers.running",),
        result=_CALLS,
    ),
    Route(
        "GET", "/workers/{worker}/running", Scope.PEEK,
        "Read the last report of a worker that was asked what it runs.", _read_report,
        result=_CALLS,
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
