"""
The workers, and what they have in flight.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from rsmq.control.operations import list_workers, parse_workers, read_running
from rsmq.errors import WorkerNotFound
from rsmq.explain.held import HeldMessage, read_held
from rsmq.web.fields import Field, Refused, Shape
from rsmq.web.routes.forms import may, read_receipts, show_as
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.orders import RunningCall
from rsmq.wire.workers import WorkerInfo

_RELEASED_AT_ONCE = 1000


class StalledJson(TypedDict):
    """Handlers that a worker can't call."""

    cause: Annotated[str, "Why, a part of a sentence."]
    since_ms: Annotated[int, "Unix ms."]
    queue: Annotated[str, "The queue of the call that blocks; empty if it is not known."]
    id: Annotated[str, "Its message."]


class FailureJson(TypedDict):
    """The last failure of a handler."""

    at_ms: Annotated[int, "Unix ms."]
    error: Annotated[str, "The type and the text of the exception."]


class WorkerJson(TypedDict):
    """A worker, as of its last sign of life."""

    name: Annotated[str, "Its name."]
    is_alive: Annotated[bool, "Whether it gave a sign of life in the last five seconds."]
    since_ms: Annotated[int, "Unix ms of its start."]
    seen_ms: Annotated[int, "Unix ms of its last sign of life."]
    host: Annotated[str, "Its machine."]
    pid: Annotated[int, "Its process there."]
    in_flight: Annotated[dict[str, int], "By queue, the messages that it had in flight."]
    handled: Annotated[int, "Messages that it had handled."]
    failed: Annotated[int, "How often a handler had failed."]
    slots: Annotated[int, "How many calls it can run at once; 0 if it does not say so."]
    running: Annotated[int, "Calls that ran."]
    deaths: Annotated[list[int], "Unix ms of the last signs of life of its predecessors."]
    paused: Annotated[bool, "Whether it was ordered to receive nothing."]
    calls: Annotated[dict[str, dict[str, int]], "By queue and task, the calls that ran."]
    stalled: Annotated[StalledJson | None, "Why an alive one can't call handlers."]
    outcomes: Annotated[
        dict[str, tuple[int, int]], "By queue, the messages handled, and the failures of handlers."
    ]
    failures: Annotated[
        dict[str, FailureJson],
        "By queue, the last failure, of the five that failed last; needs peek.",
    ]
    ends_by_ms: Annotated[int | None, "Unix ms at which its grace period ends, if it stops."]


class WorkersJson(TypedDict):
    """The workers."""

    workers: Annotated[list[WorkerJson], "Those that are alive, and those that died within a day."]


class HeldJson(TypedDict):
    """A message that a worker has or had in flight."""

    queue: Annotated[str, "Its queue."]
    id: Annotated[str, "Its id."]
    receive_count: Annotated[int, "How often it was received."]
    visible_at_ms: Annotated[int | None, "Unix ms; null if it was settled or received since."]
    is_hidden: Annotated[bool, "Whether that is in the future."]


class HeldMessagesJson(TypedDict):
    """The messages of a worker."""

    messages: Annotated[list[HeldJson], "Those that it has in flight, or died with."]


class LineJson(TypedDict):
    """A line that runs."""

    file: Annotated[str, "Its file."]
    line: Annotated[int, "Its number."]
    function: Annotated[str, "Its function."]


class RunningCallJson(TypedDict):
    """A call of a handler that runs."""

    queue: Annotated[str, "The queue of its message."]
    id: Annotated[str, "Its message, of a batch the first one."]
    messages: Annotated[int, "How many it has; more than one of a batch."]
    attempt: Annotated[int, "The number of the attempt."]
    seconds: Annotated[float, "For how long it runs."]
    kind: Annotated[str, "thread, task or process."]
    stack: Annotated[list[LineJson], "The last lines, of threads and tasks."]


class RunningCallsJson(TypedDict):
    """The calls that a worker runs."""

    calls: Annotated[
        list[RunningCallJson],
        "At most 200, the longest first. For a minute after it was asked, a worker reports each "
        "second; else there are none.",
    ]


def _show_worker(call: ApiCall, worker: WorkerInfo) -> WorkerJson:
    worker = worker.restrict(lambda name: may(call, Scope.STATS, name))
    found = worker.stalled if worker.queues and worker.alive else None
    stalled = None if found is None else show_as(StalledJson, found)
    failures: dict[str, FailureJson] = {
        name: {"at_ms": each.at_ms, "error": call.redaction.failure(each.error) or ""}
        for name, each in worker.failures.items()
        if may(call, Scope.PEEK, name)  # it may quote a body
    }
    return show_as(
        WorkerJson, worker, is_alive=worker.alive, in_flight=worker.queues, stalled=stalled,
        failures=failures,
    )  # fmt: skip


async def _list_workers(call: ApiCall) -> ApiAnswer[WorkersJson]:
    workers = await _read_workers(call)
    return ApiAnswer({"workers": [_show_worker(call, each) for each in workers]})


async def _list_in_flight(call: ApiCall) -> ApiAnswer[HeldMessagesJson]:
    name = call.names["worker"]
    held = await _read_held(call)
    if not held and await _find_worker(call) is None:
        raise _not_found(name)
    shown = [show_as(HeldJson, each) for each in held if may(call, Scope.STATS, each.queue)]
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


async def _ask(call: ApiCall) -> ApiAnswer[RunningCallsJson]:
    return _show_calls(call, await call.queues.workers.running(await _allow(call)))


async def _read_report(call: ApiCall) -> ApiAnswer[RunningCallsJson]:
    running = await call.queues.run(read_running(call.queues.namespace, call.names["worker"]))
    if running is None and await _find_worker(call) is None:
        raise WorkerNotFound(call.names["worker"])
    return _show_calls(call, running or ())


def _show_calls(call: ApiCall, running: tuple[RunningCall, ...]) -> ApiAnswer[RunningCallsJson]:
    seen = (each for each in running if may(call, Scope.PEEK, each.queue))
    return ApiAnswer({"calls": [show_as(RunningCallJson, each) for each in seen]})


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

ROUTES = (
    Route(
        "GET", "/workers", Scope.STATS, "List the workers, with what they have in flight.",
        _list_workers, result=WorkersJson, calls=("workers.list",),
    ),
    Route(
        "POST", "/workers/{worker}:pause", Scope.MANAGE, "Let a worker receive nothing.", _pause,
        ("workers.pause",), body=list_arguments("workers.pause"), answers=_STORED,
    ),
    Route(
        "POST", "/workers/{worker}:resume", Scope.MANAGE, "Let a paused worker receive again.",
        _resume, ("workers.resume",), answers=_STORED,
    ),
    Route(
        "PUT", "/workers/{worker}/concurrency", Scope.MANAGE,
        "Change how many calls a worker runs at once.", _set_concurrency,
        ("workers.set_concurrency",), answers=_STORED,
        body=list_arguments("workers.set_concurrency"),
    ),
    Route(
        "POST", "/workers/{worker}:stop", Scope.MANAGE,
        "Stop a worker gracefully, as SIGTERM does.", _stop, ("workers.stop",), answers=_STORED,
        body=list_arguments("workers.stop"),
    ),
    Route(
        "POST", "/workers/{worker}:running", Scope.MANAGE,
        "Ask a worker what it runs, and wait for its report.", _ask, ("workers.running",),
        result=RunningCallsJson,
    ),
    Route(
        "GET", "/workers/{worker}/running", Scope.PEEK,
        "Read the last report of a worker that was asked what it runs.", _read_report,
        result=RunningCallsJson,
    ),
    Route(
        "GET", "/workers/{worker}/held", Scope.STATS,
        "List the messages that a worker has in flight.", _list_in_flight,
        result=HeldMessagesJson,
    ),
    Route(
        "POST", "/workers/{worker}:release", Scope.MANAGE,
        "Make visible at once what a dead worker has in flight.", _release_held,
        result=(Field("released", Shape.WHOLE, "Messages; without those that were received again "
        "since."),), is_long=True,
    ),
)  # fmt: skip
