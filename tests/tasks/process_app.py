"""Tasks in memory, of which one runs in a child process, which imports this module."""

from __future__ import annotations

import os
import threading

from rsmq.tasks import RESULT, Tasks, current_flow

tasks = Tasks.from_url("memory://process-app")


@tasks.task(queue="here", track=True)
def find_thread() -> int:
    return os.getpid()


@tasks.task(queue="processes", process=True, track=True, max_retries=0)
def find_process() -> int:
    return os.getpid()


@tasks.task(queue="mixed", track=True)
def mixed_plain() -> tuple[int, str]:
    return os.getpid(), threading.current_thread().name


@tasks.task(queue="mixed", track=True, max_retries=3)
async def mixed_async() -> tuple[int, str]:
    return os.getpid(), threading.current_thread().name


@tasks.task(queue="mixed", track=True, process=True)
def mixed_process() -> tuple[int, str]:
    return os.getpid(), threading.current_thread().name


@tasks.task(queue="here", track=True)
def name_processes(own: int, others: list[int | None]) -> bool:
    return own not in others and os.getpid() not in others


@tasks.task(queue="processes", process=True, track=True, max_retries=0)
def add_to_flow() -> int:
    flow = current_flow()
    found = [flow.add(find_process.signature()) for _ in range(2)]
    flow.add(name_processes.signature(0, RESULT(found)))
    return os.getpid()
