"""
The workers that are measured, and their numbers of jobs at a time.

The numbers are those that each supports: RQ's worker runs one job at a time; those of dramatiq, SAQ
and arq are made for many.

They are measured on one processor, as all throughput is, and then on all processors, because one
alone would be unfair. A worker that sends while the server works, such as BullMQ with many jobs at
a time, reaches twice as much on two processors. A worker that waits for each reply, such as RQ,
reaches less than on one. Each has one process. More processes, as are usual with RQ and dramatiq,
multiply the throughput of every worker.

A handler that does nothing shows the cost of the worker itself. It favours a worker that deletes
many messages in one call. So all workers are also measured, on all processors, with handlers that
sleep, as if they waited for a database or for another service; and without a sleep, in turns with
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scripts.benchmark.cases import BATCHES, Case

THREADS = "rsmq, threads"
ASYNCIO = "rsmq, asyncio"
RQ = "RQ, SimpleWorker (without fork)"
RQ_FORK = "RQ, rq worker (a fork for each job)"
DRAMATIQ = "dramatiq, threads"
SAQ = "SAQ, asyncio"
ARQ = "arq, asyncio"
BULLMQ = "BullMQ"

LOOP_STEP = 100
LOOP = BATCHES.format(LOOP_STEP)  # receive_messages and delete_messages in a plain loop
LOOP_CONCURRENCY = 8  # jobs at a time of the workers that the loop is compared with


def _case(label: str, process: str, at_a_time: int, way: str = "") -> Case:
    return Case("receive", label, process, way, at_a_time)


def _ours(at_a_time: int) -> list[Case]:
    return [
        _case(THREADS, "our_worker", at_a_time, "threads"),
        _case(ASYNCIO, "our_worker", at_a_time, "asyncio"),
    ]


def _many(at_a_time: int) -> list[Case]:
    return [
        *_ours(at_a_time),
        _case(DRAMATIQ, "dramatiq", at_a_time),
        _case(SAQ, "saq", at_a_time),
        _case(ARQ, "arq", at_a_time),
        _case(BULLMQ, "bullmq", at_a_time),
    ]


WORKER_CASES = [
    _case(LOOP, "ours", LOOP_STEP, "batches"),
    *_ours(1),
    _case(RQ, "rq", 1, "simple"),
    _case(RQ_FORK, "rq", 1, "fork"),
    _case(BULLMQ, "bullmq", 1),
    *_many(8),
    *_many(100),
]

SLEEPS_MS = (0, 5, 50)
HANDLER_TIME_CASES = [
    replace(case, sleep_ms=sleep_ms)
    for sleep_ms in SLEEPS_MS
    for case in WORKER_CASES
    if case.label != LOOP
]


@dataclass(frozen=True)
class Difference:
    """
    The properties of a worker that explain its figures.

    Attributes:
        label: the label of the worker.
        handlers: where its handlers run.
        receives: how many jobs a call to Redis receives.
        acknowledges: how many jobs a call to Redis acknowledges.
    """

    label: str
    handlers: str
    receives: str
    acknowledges: str


_OURS = ("many, before a slot is free", "up to 250")
_TRANSACTION = "a transaction for each job"

DIFFERENCES = [
    Difference(THREADS, "threads", *_OURS),
    Difference(ASYNCIO, "tasks of an event loop", *_OURS),
    Difference(RQ, "the worker's only thread", "1", _TRANSACTION),
    Difference(RQ_FORK, "a forked process for each job", "1", _TRANSACTION),
    Difference(DRAMATIQ, "threads", "up to 1,000, before a thread is free", "1"),
    Difference(SAQ, "tasks of an event loop", "1", _TRANSACTION),
    Difference(
        ARQ, "tasks of an event loop", "many ids, then transactions for each job", _TRANSACTION
    ),
    Difference(BULLMQ, "promises of Node's event loop", "1, with an acknowledgement", "1"),
]
