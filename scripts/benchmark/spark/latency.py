"""The time from the sending of a message until a stream passes it to the user's function."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .environment import Environment

RATE = 20
#: A query is stopped this long after its last batch: Spark logs long errors if one is interrupted.
_LAST_BATCH_SECONDS = 2
_TRIGGERS = {"0": "0 seconds", "1 s": "1 second"}


@dataclass(frozen=True)
class Latency:
    """
    The latencies of a stream.

    Attributes:
        name: the source.
        trigger: the interval of the trigger.
        milliseconds: the latency of each message.
    """

    name: str
    trigger: str
    milliseconds: list[float]

    def percentile(self, percent: int) -> float:
        """Return a percentile, ms."""
        return statistics.quantiles(self.milliseconds, n=100, method="inclusive")[percent - 1]


def measure_latencies(env: Environment, seconds: int, warm_up_seconds: int) -> list[Latency]:
    """
    Measure each source with each trigger.

    Args:
        env: the session and the server.
        seconds: for how long messages are sent whose latency counts.
        warm_up_seconds: for how long messages are sent before.
    """
    number = RATE * (seconds + warm_up_seconds)
    sources: dict[str, Callable[[], Any]] = {
        "rsmq": lambda: _read_queue(env),
        "Spark without Redis, a source in Python": lambda: _read_memory(env, number),
        "Spark's rate source, from each row's own time": lambda: _read_rate(env),
    }
    latencies = []
    for trigger, interval in _TRIGGERS.items():
        for name, open_frame in sources.items():
            messages = number if name == "rsmq" else 0
            measured = _measure(env, open_frame(), interval, number, messages)
            latencies.append(Latency(name, trigger, measured[RATE * warm_up_seconds :]))
            p50 = latencies[-1].percentile(50)
            print(f"{p50:>12,.0f} ms  {name}, trigger {trigger}", file=sys.stderr)
    return latencies


def _read_queue(env: Environment) -> Any:
    env.fill(0)
    frame = env.spark.readStream.format("rsmq").options(**env.options, queue="q").load()
    return frame.selectExpr("cast(message AS bigint) AS sent_us")


def _read_memory(env: Environment, number: int) -> Any:
    reader = env.spark.readStream.format("bench_memory")
    frame = reader.options(rate=RATE, messages=number).load()
    return frame.selectExpr("cast(message AS bigint) AS sent_us")


def _read_rate(env: Environment) -> Any:
    frame = env.spark.readStream.format("rate").option("rowsPerSecond", RATE).load()
    return frame.selectExpr("unix_micros(timestamp) AS sent_us")


def _measure(
    env: Environment, frame: Any, interval: str, number: int, messages: int
) -> list[float]:
    """Return the latencies of the first rows, ms; send as many ``messages`` meanwhile."""
    latencies: list[float] = []

    def note(batch: Any, _number: int) -> None:
        rows = batch.collect()
        now_us = time.time_ns() // 1000
        latencies.extend(
            (now_us - sent_us) / 1000 for sent_us in sorted(row.sent_us for row in rows)
        )

    writer = frame.writeStream.foreachBatch(note).trigger(processingTime=interval)
    sender = threading.Thread(target=_send, args=(env, messages))
    query = writer.option("checkpointLocation", env.make_checkpoint()).start()
    sender.start()
    try:
        while len(latencies) < number:
            if query.exception() is not None:
                raise SystemExit(f"The stream has failed: {query.exception()}")
            time.sleep(0.1)
        time.sleep(_LAST_BATCH_SECONDS)
    finally:
        query.stop()
        sender.join()
    return latencies[:number]


def _send(env: Environment, messages: int) -> None:
    due = time.monotonic()
    for _ in range(messages):
        env.rsmq.send_message("q", b"%d" % (time.time_ns() // 1000))
        due += 1 / RATE
        time.sleep(max(0.0, due - time.monotonic()))
