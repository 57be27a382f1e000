"""
The throughput of Spark on queues, compared with plain Python loops in one process.

Each row is messages per second, the median of three rounds, and its ratio to the plain loop of the
same kind; each round measures both in turn. Spark's times exclude the start of the session and the
first, cold job.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from rsmq import BYTES, RSMQ
from rsmq.spark import pipelines

BODY_BYTES = 200
ROUNDS = 3
PLAIN = "plain loop"


@dataclass
class Row:
    """
    One line of the table.

    Attributes:
        name: what was measured.
        beside: the plain loop that it is compared with; None for a plain loop itself.
        target: the ratio that it should reach.
        rates: messages per second, of each round.
    """

    name: str
    beside: str | None = None
    target: float | None = None
    rates: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The median of the rates."""
        return statistics.median(self.rates)


class Bench:
    """A server, a Spark session, and the cases."""

    def __init__(self, url: str, port: int, messages: int, folder: Path) -> None:
        self.messages = messages
        self.folder = folder
        self.raw: Any = redis.Redis(port=port, protocol=2)
        self.rsmq = RSMQ.from_url(url, codec=BYTES)
        self.options = {"url": url}
        self.spark = pipelines.session("bench", "local[2,4]")
        self.bodies = [b"%08d" % n + b"x" * (BODY_BYTES - 8) for n in range(messages)]
        self._runs = 0

    def fill(self, messages: int) -> None:
        """Fill ``q`` with exactly this many messages."""
        self.rsmq.create_queue("q", exist_ok=True)
        self.rsmq.purge_queue("q")
        for begin in range(0, messages, 1000):
            self.rsmq.send_messages("q", self.bodies[begin : min(begin + 1000, messages)])

    def plain_read(self) -> int:
        """Read all messages with both counters, which the frame has too; return their number."""
        members = self.raw.execute_command("ZRANGE", "rsmq:q", 0, -1, "WITHSCORES")
        ids, count = members[::2], 0
        for begin in range(0, len(ids), 2000):
            part = ids[begin : begin + 2000]
            fields = [name for id in part for name in (id, id + b":rc", id + b":fr")]
            count += len(self.raw.hmget("rsmq:q:Q", fields)) // 3
        return count

    def spark_read(self, **options: Any) -> int:
        """Read the same messages into a frame whose rows are discarded."""
        frame = self.spark.read.format("rsmq").options(**self.options, queue="q", **options).load()
        frame.write.format("noop").mode("overwrite").save()
        return self.messages

    def plain_write(self) -> int:
        """Send all messages with send_messages, a thousand per call."""
        for begin in range(0, self.messages, 1000):
            self.rsmq.send_messages("q", self.bodies[begin : begin + 1000])
        return self.messages

    def spark_write(self, delivery: str) -> int:
        """Write a frame of as many messages, generated in Spark."""
        frame = self.spark.range(0, self.messages, 1, 4).selectExpr(
            f"rpad(cast(id AS string), {BODY_BYTES}, 'x') AS message"
        )
        writer = frame.write.format("rsmq").options(**self.options, queue="q", delivery=delivery)
        writer.mode("append").save()
        return self.messages

    def plain_drain(self) -> int:
        """Receive and delete all messages, a thousand per call."""
        drained = 0
        while received := self.rsmq.receive_messages("q", 1000, vt=600):
            drained += len(self.rsmq.delete_messages(received))
        return drained

    def spark_stream(self, batch: int) -> int:
        """Run all messages through a query, batch by batch."""
        messages = self.rsmq.get_queue_attributes("q").messages
        frame = self.spark.readStream.format("rsmq").options(
            **self.options, queue="q", maxMessagesPerTrigger=batch
        )
        self._runs += 1
        query = (
            frame.load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(self.folder / f"checkpoint-{self._runs}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        if self.rsmq.get_queue_attributes("q").messages:
            raise SystemExit("The stream has left messages.")
        return messages

    def idle_commands(self, seconds: float = 20) -> float:
        """
        Return the Redis commands per second, counted by Redis, of a query that waits for messages.
        """
        self.rsmq.purge_queue("q")
        frame = self.spark.readStream.format("rsmq").options(**self.options, queue="q").load()
        folder = str(self.folder / "checkpoint-idle")
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.start()
        time.sleep(10)
        before = self._commands()
        time.sleep(seconds)
        rate = (self._commands() - before) / seconds
        query.stop()
        return rate

    def _commands(self) -> int:
        return int(self.raw.info("stats")["total_commands_processed"])


def measure_rate(prepare: Callable[[], object], run: Callable[[], int]) -> float:
    """Return the messages per second of a run."""
    prepare()
    begin = time.perf_counter()
    number = run()
    return number / (time.perf_counter() - begin)


def measure(bench: Bench) -> list[Row]:
    """Run all cases, in rounds."""
    all_messages, no_messages = bench.messages, 0
    cases: list[tuple[Row, int, Callable[[], int]]] = [
        (
            Row(f"read, {PLAIN}: ids, then HMGET of body and counters"),
            all_messages,
            bench.plain_read,
        ),
        (Row("read, Spark, all columns", "read", 1.15), all_messages, bench.spark_read),
        (
            Row("read, Spark, `columns=id,message`", "read"),
            all_messages,
            lambda: bench.spark_read(columns="id,message"),
        ),
        (Row(f"write, {PLAIN}: send_messages(1000)"), no_messages, bench.plain_write),
        (
            Row("write, Spark, at-least-once", "write", 1.0),
            no_messages,
            lambda: bench.spark_write("at-least-once"),
        ),
        (
            Row("write, Spark, exactly-once", "write", 0.95),
            no_messages,
            lambda: bench.spark_write("exactly-once"),
        ),
        (
            Row(f"stream, {PLAIN}: receive_messages(1000) + delete_messages"),
            all_messages,
            bench.plain_drain,
        ),
    ]
    for batch, target in ((5_000, None), (20_000, None), (100_000, 0.85), (500_000, None)):
        # Small batches take long; thirty of them are enough for a figure.
        number = min(all_messages, 30 * batch)
        cases.append(
            (
                Row(f"stream, Spark, {batch:,} a batch", "stream", target),
                number,
                lambda batch=batch: bench.spark_stream(batch),  # type: ignore[misc]
            )
        )
    bench.fill(1000)
    bench.spark_read()
    bench.spark_stream(1000)
    bench.fill(0)
    bench.spark.range(1000).selectExpr("cast(id AS string) AS message").write.format(
        "rsmq"
    ).options(**bench.options, queue="q", delivery="exactly-once").mode("append").save()
    for _ in range(ROUNDS):
        for row, number, run in cases:
            row.rates.append(measure_rate(lambda number=number: bench.fill(number), run))  # type: ignore[misc]
            print(f"{row.rates[-1]:>12,.0f}/s  {row.name}", file=sys.stderr)
    return [row for row, _, _ in cases]


def report(rows: list[Row], idle: float, messages: int) -> str:
    """Return the results as a Markdown table."""
    plain = {row.name.partition(",")[0]: row for row in rows if row.beside is None}
    lines = [
        f"{messages:,} messages of {BODY_BYTES} B, medians of {ROUNDS} rounds, local[2].",
        "",
        "| | messages/s | against the plain loop | target |",
        "|---|---|---|---|",
    ]
    for row in rows:
        ratio, target = "", ""
        if row.beside is not None:
            ratio_value = row.rate / plain[row.beside].rate
            ratio = f"{ratio_value:.2f}x"
            if row.target is not None:
                verdict = "met" if ratio_value >= row.target else "**not met**"
                target = f"{row.target:g}x, {verdict}"
        lines.append(f"| {row.name} | {row.rate:,.0f} | {ratio} | {target} |")
    verdict = "met" if idle <= 20 else "**not met**"  # noqa: PLR2004 - the target, as it says
    lines.append(f"| idle query, Redis commands a second | {idle:.1f} | | at most 20, {verdict} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the report, and write it to files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=Path.cwd(), help="for bench-spark.md, .json")
    args = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="rsmq-bench-"))
    program = shutil.which("redis-server") or "redis-server"
    server = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    try:
        time.sleep(1)
        bench = Bench(f"redis://127.0.0.1:{port}/0", port, args.messages, folder)
        rows, idle = measure(bench), bench.idle_commands()
        bench.spark.stop()
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
    text = report(rows, idle, args.messages)
    print(text)
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "bench-spark.md").write_text(text)
    figures = {"rows": [vars(row) for row in rows], "idle_commands_a_second": idle}
    (args.output / "bench-spark.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
