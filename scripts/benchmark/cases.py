"""The cases of the throughput tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["send", "receive"]  # a receive includes its delete

SMALL, LARGE = 100, 10_240
SIZES = (SMALL, LARGE)

OURS = "rsmq, from_url"
PROVIDED_CLIENT = "rsmq, redis.Redis handed in"
BATCHES = "rsmq, batches of {}"
ASYNCIO = "rsmq, asyncio, 1 at a time"
ASYNCIO_100 = "rsmq, asyncio, 100 at a time"
PIPELINES = "redis-py, pipelines of 100 of our sends"
NODE = "Node rsmq, 1 at a time"
NODE_100 = "Node rsmq, 100 at a time"
PYRSMQ = "PyRSMQ"
PHP = "php-rsmq"
BULLMQ = "BullMQ, 1 at a time"
BULLMQ_100 = "BullMQ, 100 at a time"
BULLMQ_BULKS = "BullMQ, bulks of 100"
LIMIT = "redis-benchmark, our script, 1 at a time"
LIMIT_16 = "redis-benchmark, our script, 16 in flight"
LIMITS = (LIMIT, LIMIT_16)  # without the delete


@dataclass(frozen=True)
class Case:
    """
    One line of a table.

    Attributes:
        action: the measured action.
        label: the label of the line.
        process: the contender that runs it.
        way: the variant, as the contender names it.
        step: messages in progress at a time, or in one call.
        sleep_ms: the milliseconds that the handler of a worker sleeps.
    """

    action: Action
    label: str
    process: str
    way: str = ""
    step: int = 1
    sleep_ms: int = 0


def _both(label: str, process: str, way: str = "", step: int = 1) -> list[Case]:
    return [Case("send", label, process, way, step), Case("receive", label, process, way, step)]


CASES = [
    *_both(OURS, "ours", "from_url"),
    *_both(PROVIDED_CLIENT, "ours", "handed in"),
    *_both(BATCHES.format(10), "ours", "batches", 10),
    *_both(BATCHES.format(100), "ours", "batches", 100),
    *_both(BATCHES.format(1000), "ours", "batches", 1000),
    *_both(ASYNCIO, "ours", "asyncio"),
    *_both(ASYNCIO_100, "ours", "asyncio", 100),
    Case("send", PIPELINES, "ours", "pipelines", 100),
    *_both(NODE, "node"),
    *_both(NODE_100, "node", step=100),
    *_both(PYRSMQ, "pyrsmq"),
    *_both(PHP, "php"),
    *_both(BULLMQ, "bullmq", "one by one"),
    *_both(BULLMQ_100, "bullmq", "one by one", 100),
    Case("send", BULLMQ_BULKS, "bullmq", "bulks", 100),
    *_both(LIMIT, "redis-benchmark"),
    *_both(LIMIT_16, "redis-benchmark", step=16),
]
