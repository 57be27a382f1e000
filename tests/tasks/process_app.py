"""Tasks in memory, of which one runs in a child process, which imports this module."""

from __future__ import annotations

import os
import threading

from rsmq.tasks import Tasks

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
