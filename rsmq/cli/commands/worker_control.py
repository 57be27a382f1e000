"""
Pausing queues, resuming them, listing workers and checking them.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_age, format_table, format_text, to_json_value
from rsmq.wire.workers import WorkerInfo
from rsmq.worker.registry import list_workers, read_workers

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
            found = _find_workers(list_workers(rsmq), name)
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
    return (worker.name, worker.alive, age, worker.handled, worker.failed, holds or None, *place)
