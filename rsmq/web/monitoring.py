"""
The pages of a server about itself: ``/healthz``, ``/readyz`` and ``/metrics``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rsmq.errors import RSMQError
from rsmq.history.call_operations import StoredCalls, read_calls_in_steps
from rsmq.history.call_records import TASK_COUNTERS, TASK_HISTOGRAMS, CallCounts, make_histogram
from rsmq.model import QueueAttributes
from rsmq.operations.queues import list_queues_in_steps
from rsmq.web.access.gate import PRINCIPAL
from rsmq.web.access.gate import Scope as AsgiScope
from rsmq.web.access.principals import Principal
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.web.liveness import ping
from rsmq.web.problems import describe, problem_response
from rsmq.web.routes.queue_list import read_attributes
from rsmq.web.table import Scope

_READY_SECONDS = 1.0
_METRICS_SECONDS = 10.0

_FIGURES = {
    "messages": ("messages", "gauge", "Messages in the queue"),
    "visible": ("visible_messages", "gauge", "Messages that are due"),
    "hidden": ("hidden_messages", "gauge", "Messages that are not due"),
    "paused": ("paused", "gauge", "Whether the queue is paused for workers"),
    "sent_total": ("total_sent", "counter", "Messages sent"),
    "received_total": ("total_received", "counter", "Receives"),
}

#: Returns the names of the namespaces in which a caller has rights.
NamespacesOf = Callable[[Principal], tuple[str, ...]]
Endpoint = Callable[[Request], Awaitable[Response]]


async def healthz(_: Request) -> Response:
    """Answer 200: the event loop runs."""
    return PlainTextResponse("ok\n")


def readyz_of(clients: Sequence[Client]) -> Endpoint:
    """Return an endpoint that answers 200 if Redis answers each client within a second."""

    async def readyz(_: Request) -> Response:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await asyncio.gather(*map(ping, clients))
        except (RedisError, RSMQError, OSError):
            return PlainTextResponse("Redis is away\n", 503, {"Retry-After": "1"})
        return PlainTextResponse("ok\n")

    return readyz


def metrics_of(clients: Sequence[Client], namespaces_of: NamespacesOf) -> Endpoint:
    """
    Return an endpoint with the figures of the queues that the caller may see.

    Each figure has the label ``ns``, as those of ``rsmq exporter`` and of workers.
    """

    async def metrics(request: Request) -> Response:
        scope: AsgiScope = request.scope
        try:
            scope[PRINCIPAL].check(Scope.METRICS, None, read_only=False)
        except Refused as error:
            return problem_response(describe(error, may_repeat=True))
        shown = namespaces_of(scope[PRINCIPAL])
        read = await asyncio.gather(
            *(_read(scope, each) for each in clients if each.namespace.name in shown)
        )
        labels = [f'ns="{_escape(each.namespace.name)}"' for each, _, _ in read]
        lines = ["# HELP rsmq_up Whether Redis has answered", "# TYPE rsmq_up gauge"]
        for label, (_, found, _) in zip(labels, read, strict=True):
            lines.append(f"rsmq_up{{{label}}} {int(found is not None)}")
        for figure, (attribute, kind, text) in _FIGURES.items():
            series = f"rsmq_queue_{figure}"
            lines += [f"# HELP {series} {text}", f"# TYPE {series} {kind}"]
            for label, (_, found, _) in zip(labels, read, strict=True):
                lines += [
                    f'{series}{{{label},queue="{_escape(name)}"}} {_show(getattr(each, attribute))}'
                    for name, each in (found or {}).items()
                ]
        of_tasks = [
            (f'{label},queue="{_escape(queue)}",task="{_escape(task)}"', each.total)
            for label, (_, _, tasks) in zip(labels, read, strict=True)
            for (queue, task), each in tasks.items()
        ]
        lines += _show_tasks(of_tasks)
        return Response(
            "\n".join(lines) + "\n", media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    return metrics


def _show_tasks(tasks: Sequence[tuple[str, CallCounts]]) -> Iterator[str]:
    """Yield the lines of the figures of tasks, each with its labels."""
    for field, (name, text) in TASK_COUNTERS.items():
        yield from (f"# HELP {name}_total {text}", f"# TYPE {name}_total counter")
        for labels, counts in tasks:
            yield f"{name}_total{{{labels}}} {getattr(counts, field)}"
    for field, (name, text) in TASK_HISTOGRAMS.items():
        yield from (f"# HELP {name} {text}", f"# TYPE {name} histogram")
        for labels, counts in tasks:
            buckets, total = make_histogram(getattr(counts, field))
            yield from (
                f'{name}_bucket{{{labels},le="{bound}"}} {number}' for bound, number in buckets
            )
            yield f"{name}_sum{{{labels}}} {total}"
            yield f"{name}_count{{{labels}}} {buckets[-1][1]}"


_Read: TypeAlias = tuple[
    Client, dict[str, QueueAttributes] | None, dict[tuple[str, str], StoredCalls]
]


async def _read(scope: AsgiScope, queues: Client) -> _Read:
    """
    Return a client, the attributes of the queues that the caller may see, and their tasks.

    The attributes are None if Redis is away.
    """
    try:
        async with asyncio.timeout(_METRICS_SECONDS):
            listed = await queues.run_steps(list_queues_in_steps(queues.namespace))
            names = [name for name in listed if _may_see(scope, name)]
            attributes = await read_attributes(queues, names)
            reading = read_calls_in_steps(queues.namespace, attributes)
            _, tasks = await queues.run_steps(reading)
            return queues, attributes, tasks
    except (RedisError, RSMQError, OSError):
        return queues, None, {}


def _show(value: Any) -> str:
    return f"{float(value):g}" if isinstance(value, bool) else str(value)


def _may_see(scope: AsgiScope, name: str) -> bool:
    try:
        scope[PRINCIPAL].check(Scope.METRICS, name, read_only=False)
    except Refused:
        return False
    return True


def _escape(name: str) -> str:
    text = name.encode(errors="replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
