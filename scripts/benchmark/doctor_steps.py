"""
The longest step of an examination and of each repair, on a queue of many messages.

    .venv/bin/python -m scripts.benchmark.doctor_steps [MESSAGES]

It fills a queue, by default with 1,000,000 messages, of which one hundredth has each kind of fault.
It prints for the examination and for each repair:

- the number of messages;
- the largest processor time that the main thread of the server needs for one step (Linux only);
- the longest script by the server's clock (SLOWLOG);
- the longest wait of a second client, which sends PING every millisecond.

The last two contain what the machine does besides: on a busy machine they are longer.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import redis

from rsmq import RSMQ
from rsmq.doctor import Finding, examine, repair
from scripts.benchmark.server import Server

MESSAGES = 1_000_000
BATCH = 5000
HOUR_MS = 3_600_000
QUEUE, SAME_SCORE, IDS = "all-faults", "one-score", "ids-only"
SLOWLOG_FROM_US = 100

Message = tuple[str, float, dict[str, str]]


def base36(number: int) -> str:
    """Return a number as in the ids of messages."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return text


def create_message(number: int, now_ms: int, fault: str) -> Message:
    """Return the id, the score and the fields of a message with a fault."""
    sent_ms = now_ms + (HOUR_MS if fault == "sent-in-future" else -HOUR_MS)
    id = f"{base36(sent_ms * 1000 + number)}{number:022d}"
    if fault == "undeletable-id":
        id = id[:-1] + "_"
    scores = {
        "microseconds-score": sent_ms * 1000.0 + number,
        "seconds-score": sent_ms // 1000 - number,
        "far-future": float("inf"),
    }
    changes: dict[str, tuple[str, str | None]] = {
        "ghost": ("", None),
        "left-over-counter": ("", None),
        "bad-counter": (":rc", "x"),
        "count-without-time": (":fr", None),
        "odd-first-received": (":fr", str(sent_ms // 1000)),
        "first-received-in-future": (":fr", str(sent_ms + 10 * 24 * HOUR_MS)),
    }
    fields: dict[str, str | None] = {"": "a short body", ":rc": "1", ":fr": str(sent_ms)}
    if fault == "sent-in-future":
        fields = {"": "a short body"}
    if fault in changes:
        suffix, value = changes[fault]
        fields[suffix] = value
    stored = {id + suffix: value for suffix, value in fields.items() if value is not None}
    return id, scores.get(fault, sent_ms), stored


FAULTS = (
    "ghost", "left-over-counter", "orphan-body", "bad-counter", "count-without-time",
    "odd-first-received", "first-received-in-future", "undeletable-id", "microseconds-score",
    "seconds-score", "far-future", "sent-in-future",
)  # fmt: skip
WITHOUT_ID = {"left-over-counter", "orphan-body"}


def fill(rsmq: RSMQ, client: redis.Redis, messages: int) -> None:
    """Create the queues: with every fault, with one score, and a sorted set without a hash."""
    now_ms = int(time.time() * 1000)
    ns = rsmq.namespace.name
    rsmq.create_queue(QUEUE)
    rsmq.create_queue(SAME_SCORE)
    for first in range(0, messages, BATCH):
        ids: dict[str, float] = {}
        fields: dict[str, str] = {}
        same_score: dict[str, str] = {}
        for number in range(first, min(first + BATCH, messages)):
            place = number % 100
            fault = FAULTS[place] if place < len(FAULTS) else ""
            id, score, stored = create_message(number, now_ms, fault)
            fields |= stored
            if fault not in WITHOUT_ID:
                ids[id] = score
            same_score[f"{base36((now_ms - HOUR_MS) * 1000)}{number:022d}"] = "a short body"
        client.hset(f"{ns}:{QUEUE}:Q", mapping=fields)
        client.zadd(f"{ns}:{QUEUE}", ids)
        client.hset(f"{ns}:{SAME_SCORE}:Q", mapping=same_score)
        client.zadd(f"{ns}:{SAME_SCORE}", dict.fromkeys(same_score, now_ms - HOUR_MS))
        client.zadd(f"{ns}:{IDS}", dict.fromkeys(same_score, now_ms - HOUR_MS))


class MeasuredRSMQ(RSMQ):
    """A client that keeps the largest processor time of a step, in ms."""

    server_pid = 0
    longest_ms = 0.0

    def run(self, operation: Any) -> Any:
        """Run an operation, and measure it."""
        before = self.processor_ms()
        result = super().run(operation)
        self.longest_ms = max(self.longest_ms, self.processor_ms() - before)
        return result

    def processor_ms(self) -> float:
        """Return the processor time of the server's main thread so far, in ms."""
        path = Path(f"/proc/{self.server_pid}/task/{self.server_pid}/schedstat")
        return int(path.read_text().split()[0]) / 1e6 if path.exists() else 0.0


def ping(port: int, longest: Synchronized[float]) -> None:
    """Send PING every millisecond, and store the longest wait in seconds."""
    client = redis.Redis(port=port)
    while True:
        began = time.perf_counter()
        client.ping()
        longest.value = max(longest.value, time.perf_counter() - began)
        time.sleep(0.001)


@dataclass
class Measurement:
    """
    The longest steps of an examination or a repair.

    Attributes:
        name: the name of the examination, or the code of the finding.
        messages: the number of messages.
        processor_ms: the largest processor time of a step.
        script_ms: the longest script.
        ping_ms: the longest wait of the other client.
    """

    name: str
    messages: int
    processor_ms: float
    script_ms: float
    ping_ms: float

    def __str__(self) -> str:
        return (
            f"{self.name:26}{self.messages:>10,}{self.processor_ms:>12.1f} ms"
            f"{self.script_ms:>12.1f} ms{self.ping_ms:>12.1f} ms"
        )


def measure(
    rsmq: MeasuredRSMQ,
    client: redis.Redis,
    longest_wait: Synchronized[float],
    run: Callable[[], tuple[str, int]],
) -> Measurement:
    """Run a function, which returns a name and a number of messages, and measure its steps."""
    client.slowlog_reset()
    longest_wait.value = rsmq.longest_ms = 0.0
    name, messages = run()
    wait_ms = longest_wait.value * 1000
    scripts = [
        entry["duration"] / 1000
        for entry in client.slowlog_get(10_000)
        if entry["command"].startswith(b"EVAL")
    ]
    longest_script = max(scripts, default=SLOWLOG_FROM_US / 1000)
    return Measurement(name, messages, rsmq.longest_ms, longest_script, wait_ms)


def measure_all(
    rsmq: MeasuredRSMQ, client: redis.Redis, longest_wait: Synchronized[float]
) -> Iterator[Measurement]:
    """Yield the measurements of the examination and of each repair."""
    findings = []

    def examine_queues(name: str, queues: list[str] | None) -> tuple[str, int]:
        report = examine(rsmq, queues)
        findings[:] = report.findings
        return f"examination, {name}", report.messages

    def repair_finding(finding: Finding) -> tuple[str, int]:
        also = [way for way in finding.ways if way != "orphan-body:remove"]
        (done,) = repair(rsmq, [finding], also=also)
        return finding.code, done.number

    for name, queues in (("one score", [SAME_SCORE]), ("all queues", None)):
        yield measure(rsmq, client, longest_wait, partial(examine_queues, name, queues))
    for finding in findings:
        if finding.safe or finding.ways:
            yield measure(rsmq, client, longest_wait, partial(repair_finding, finding))


def main() -> None:
    """Print a table of the longest steps."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    with Server() as server, MeasuredRSMQ.from_url(server.url, strict_names=False) as rsmq:
        client = server.client
        rsmq.server_pid = client.info("server")["process_id"]
        fill(rsmq, client, messages)
        client.config_set("slowlog-log-slower-than", SLOWLOG_FROM_US)
        client.config_set("slowlog-max-len", 10_000)
        longest_wait = multiprocessing.Value("d", 0.0)
        pinging = multiprocessing.Process(
            target=ping, args=(server.port, longest_wait), daemon=True
        )
        pinging.start()
        print(f"{'':26}{'messages':>10}{'processor':>15}{'script':>15}{'ping':>15}")
        for each in measure_all(rsmq, client, longest_wait):
            print(each, flush=True)
        pinging.terminate()


if __name__ == "__main__":
    main()
