"""
Whose workers are measured, and with how many jobs at a time.

Each at what it can do: RQ's does one at a time; dramatiq's, SAQ's and arq's are made for many.

They are measured on one processor, as all throughput is, and then on all, for one alone is unfair:
who sends while the server works does twice as much on two, as BullMQ does with many at a time, and
who waits for each reply, as RQ does, less than on one. Each has one process. Who would start more,
as is usual with RQ and dramatiq, does as many times as much, and so does everybody else.
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
BESIDE_LOOP = 8  # jobs at a time of the workers that the loop is compared with


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
