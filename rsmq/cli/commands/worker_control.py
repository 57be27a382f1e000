"""
Listing workers, checking them, and orders to them.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.cli.app.call import Call
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_age, format_table, format_text, to_json_value
from rsmq.wire.orders import RunningCall
from rsmq.wire.workers import WorkerInfo
from rsmq.worker.registry import read_workers

_HEADINGS = ("name", "alive", "for", "handled", "failed", "holds", "process", "host")


def show_workers(call: Call) -> None:
    """Write a table of the workers of the namespace."""
    with call.open() as rsmq:
        now_ms, workers = read_workers(rsmq)
    rows = [_row(worker, now_ms) for worker in workers]
    call.out.result(workers, format_table(_HEADINGS, rows, width=call.out.width))


def check_workers(call: Call, name: str | None) -> int:
    """
    Write whether workers are alive, in each of the namespaces; for probes.

    Args:
        name: a worker's name, or that of a supervisor: then all its processes must be alive. None
            is all workers of this host, of which one must be.

    Returns:
        The exit code: DONE, or NOT_ALL if a namespace does not have such workers.
    """
    is_ok, results, lines = True, list[Any](), list[str]()
    where = f"named {name}" if name is not None else "of this host"
    with call.open_each() as clients:
        for rsmq in clients:
            found = _find_workers(rsmq.workers.list(), name)
            is_alive = [each.alive for each in found]
            is_ok &= any(is_alive) if name is None else bool(found) and all(is_alive)
            has_one = len(clients) == 1
            ns = rsmq.namespace.name
            results += found if has_one else ({"ns": ns, **to_json_value(each)} for each in found)
            of_ns = [_describe(each) for each in found]
            if not found:
                of_ns = [f"there is no worker {where}"]
            lines += of_ns if has_one else (f"{format_text(ns)}: {line}" for line in of_ns)
    call.out.result(results, lines)
    return Exit.DONE if is_ok else Exit.NOT_ALL


def order_workers(call: Call, name: str, order: str, args: SimpleNamespace) -> None:
    """
    Give an order to a worker, or to all processes of a supervisor, and write what was done.

    Args:
        order: pause, resume, concurrency, running or stop.
        args: the options of the command ``worker``.

    Raises:
        WorkerNotFound: no such worker is alive.
    """
    results, lines = list[Any](), list[str]()
    with call.open() as rsmq:
        found = _find_workers(rsmq.workers.list(), name)
        for each in [worker.name for worker in found if worker.alive] or [name]:
            if order == "running":
                running = rsmq.workers.running(each)
                results += ({"worker": each, **to_json_value(one)} for one in running)
                lines += [line for one in running for line in _describe_call(each, one)]
            else:
                done = _give_order(rsmq, each, order, args)
                results.append({"worker": each, "done": done})
                lines.append(f"{each} {done}")
    call.out.result(results, lines)


def _give_order(rsmq: RSMQ[Any], name: str, order: str, args: SimpleNamespace) -> str:
    """Give an order. Return what the worker does."""
    if order == "pause":
        rsmq.workers.pause(name, seconds=args.seconds)
        return "pauses"
    if order == "resume":
        rsmq.workers.resume(name)
        return "resumes"
    if order == "stop":
        rsmq.workers.stop(name, grace=args.grace)
        return "stops"
    rsmq.workers.set_concurrency(name, args.number, seconds=args.seconds)
    return "has its own concurrency" if args.number is None else f"has concurrency {args.number}"


def _describe_call(worker: str, running: RunningCall) -> list[str]:
    age = format_age(running.seconds)
    more = f" and {running.messages - 1} more" if running.messages > 1 else ""
    place = f"{worker}: {format_text(running.queue)} {format_text(running.id)}"
    return [
        f"{place}{more}, attempt {running.attempt}, for {age}, in a {running.kind}",
        *(
            f"    {format_text(line.file)}:{line.line}, in {format_text(line.function)}"
            for line in running.stack
        ),
    ]


def _find_workers(workers: Sequence[WorkerInfo], name: str | None) -> list[WorkerInfo]:
    if name is None:
        host = socket.gethostname()
        return [each for each in workers if each.host == host]
    return [each for each in workers if each.name == name or _is_process_of(each.name, name)]


def _describe(worker: WorkerInfo) -> str:
    state = "alive" if worker.alive else "dead"
    return f"{worker.name}: {state}, host {format_text(worker.host)}, process {worker.pid}"


def _is_process_of(worker: str, name: str) -> bool:
    head, _, number = worker.rpartition("-")
    return head == name and number.isdigit()


def _row(worker: WorkerInfo, now_ms: int) -> tuple[Any, ...]:
    since_ms = worker.since_ms if worker.alive else worker.seen_ms
    age = format_age(max(now_ms - since_ms, 0) / 1000)
    holds = ", ".join(
        f"{format_text(queue)}: {number}" for queue, number in worker.queues.items() if number
    )
    place = (worker.pid, format_text(worker.host))
    alive: object = worker.alive
    if worker.alive:
        stopping = worker.ends_by_ms is not None and "stopping"
        alive = stopping or (worker.stalled and "stalled") or (worker.paused and "paused") or True
    return (worker.name, alive, age, worker.handled, worker.failed, holds or None, *place)
