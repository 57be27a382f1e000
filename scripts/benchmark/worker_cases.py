"""
The workers that are measured, and their numbers of jobs at a time.

The numbers are those that each supports: RQ's worker runs one job at a time; those of dramatiq, SAQ
and arq are made for many.

They are measured on one processor, as all throughput is, and then on all processors, because one
alone would be unfair. A worker that sends while the server works, such as BullMQ with many jobs at
a time, reaches twice as much on two processors. A worker that waits for each reply, such as RQ,
reaches less than on one. Each has one process. More processes, as are usual with RQ and dramatiq,
multiply the throughput of every worker.
"""

from __future__ import annotations

from scripts.benchmark.cases import BATCHES, Case

THREADS = "rsmq, threads"
ASYNCIO = "rsmq, asyncio"
RQ = "RQ, SimpleWorker (without fork)"
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
    _case(RQ, "rq", 1),
    _case(BULLMQ, "bullmq", 1),
    *_many(8),
    *_many(100),
]
