"""
What Spark makes of queues, beside plain Python loops that do the same with one process.

Each row is messages a second, the median of three rounds, and its ratio to the plain loop of the
same kind; both are measured in turn in each round. Spark's times leave out the start of the session
and the first, cold job.
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

SIZE = 200
ROUNDS = 3
PLAIN = "plain loop"


@dataclass
class Row:
    """
    One line of the table.

    Attributes:
        name: what was measured.
        beside: the plain loop that it is set against; None is one itself.
        target: the ratio that it should reach.
        rates: messages a second, of each round.
    """

    name: str
    beside: str | None = None
    target: float | None = None
    rates: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The median."""
        return statistics.median(self.rates)


class Bench:
    """A server, a session, and the cases."""

    def __init__(self, url: str, port: int, messages: int, folder: Path) -> None:
        self.messages = messages
        self.folder = folder
        self.raw: Any = redis.Redis(port=port, protocol=2)
        self.rsmq = RSMQ.from_url(url, codec=BYTES)
        self.at = {"url": url}
        self.spark = pipelines.session("bench", "local[2,4]")
        self.bodies = [b"%08d" % n + b"x" * (SIZE - 8) for n in range(messages)]
        self._runs = 0

    def fill(self, messages: int) -> None:
        """Just so many messages in ``q``."""
        self.rsmq.create_queue("q", exist_ok=True)
        self.rsmq.purge_queue("q")
        for begin in range(0, messages, 1000):
            self.rsmq.send_messages("q", self.bodies[begin : min(begin + 1000, messages)])

    def plain_read(self) -> int:
        """All messages with both counters, as the frame has them."""
        members = self.raw.execute_command("ZRANGE", "rsmq:q", 0, -1, "WITHSCORES")
        ids, found = members[::2], 0
        for begin in range(0, len(ids), 2000):
            part = ids[begin : begin + 2000]
            fields = [name for id in part for name in (id, id + b":rc", id + b":fr")]
            found += len(self.raw.hmget("rsmq:q:Q", fields)) // 3
        return found

    def spark_read(self, **options: Any) -> int:
        """The same as a frame that nobody looks at."""
        frame = self.spark.read.format("rsmq").options(**self.at, queue="q", **options).load()
        frame.write.format("noop").mode("overwrite").save()
        return self.messages

    def plain_write(self) -> int:
        """send_messages, a thousand at a time."""
        for begin in range(0, self.messages, 1000):
            self.rsmq.send_messages("q", self.bodies[begin : begin + 1000])
        return self.messages

    def spark_write(self, delivery: str) -> int:
        """A frame of as many messages, made in Spark."""
        frame = self.spark.range(0, self.messages, 1, 4).selectExpr(
            f"rpad(cast(id AS string), {SIZE}, 'x') AS message"
        )
        writer = frame.write.format("rsmq").options(**self.at, queue="q", delivery=delivery)
        writer.mode("append").save()
        return self.messages

    def plain_drain(self) -> int:
        """receive_messages and delete_messages, a thousand at a time."""
        drained = 0
        while received := self.rsmq.receive_messages("q", 1000, vt=600):
            drained += len(self.rsmq.delete_messages(received))
        return drained

    def spark_stream(self, batch: int) -> int:
        """All messages through a query, batch by batch."""
        there = self.rsmq.get_queue_attributes("q").messages
        frame = self.spark.readStream.format("rsmq").options(
            **self.at, queue="q", maxMessagesPerTrigger=batch
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
        return there

    def idle_commands(self, seconds: float = 20) -> float:
        """Redis commands a second of a query that waits for messages, as Redis counts them."""
        self.rsmq.purge_queue("q")
        frame = self.spark.readStream.format("rsmq").options(**self.at, queue="q").load()
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


def timed(prepare: Callable[[], object], run: Callable[[], int]) -> float:
    """Messages a second."""
    prepare()
    begin = time.perf_counter()
    number = run()
    return number / (time.perf_counter() - begin)


def measure(bench: Bench) -> list[Row]:
    """All cases, in rounds."""
    whole, none = bench.messages, 0
    cases: list[tuple[Row, int, Callable[[], int]]] = [
        (Row(f"read, {PLAIN}: ids, then HMGET of body and counters"), whole, bench.plain_read),
        (Row("read, Spark, all columns", "read", 1.0), whole, bench.spark_read),
        (
            Row("read, Spark, `columns=id,message`", "read"),
            whole,
            lambda: bench.spark_read(columns="id,message"),
        ),
        (Row(f"write, {PLAIN}: send_messages(1000)"), none, bench.plain_write),
        (
            Row("write, Spark, at-least-once", "write", 0.9),
            none,
            lambda: bench.spark_write("at-least-once"),
        ),
        (
            Row("write, Spark, exactly-once", "write"),
            none,
            lambda: bench.spark_write("exactly-once"),
        ),
        (
            Row(f"stream, {PLAIN}: receive_messages(1000) + delete_messages"),
            whole,
            bench.plain_drain,
        ),
    ]
    for batch, target in ((5_000, None), (20_000, None), (100_000, 0.6), (500_000, None)):
        # Small batches take their time each; some thirty of them tell.
        number = min(whole, 30 * batch)
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
    ).options(**bench.at, queue="q", delivery="exactly-once").mode("append").save()
    for _ in range(ROUNDS):
        for row, number, run in cases:
            row.rates.append(timed(lambda number=number: bench.fill(number), run))  # type: ignore[misc]
            print(f"{row.rates[-1]:>12,.0f}/s  {row.name}", file=sys.stderr)
    return [row for row, _, _ in cases]


def report(rows: list[Row], idle: float, messages: int) -> str:
    """The table."""
    plain = {row.name.partition(",")[0]: row for row in rows if row.beside is None}
    lines = [
        f"{messages:,} messages of {SIZE} B, medians of {ROUNDS} rounds, local[2].",
        "",
        "| | messages/s | against the plain loop | target |",
        "|---|---|---|---|",
    ]
    for row in rows:
        ratio, target = "", ""
        if row.beside is not None:
            times = row.rate / plain[row.beside].rate
            ratio = f"{times:.2f}x"
            if row.target is not None:
                met = "met" if times >= row.target else "**not met**"
                target = f"{row.target:g}x, {met}"
        lines.append(f"| {row.name} | {row.rate:,.0f} | {ratio} | {target} |")
    met = "met" if idle <= 20 else "**not met**"  # noqa: PLR2004 - the target, as it says
    lines.append(f"| idle query, Redis commands a second | {idle:.1f} | | at most 20, {met} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write."""
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
    (args.output / "bench-spark.md").write_text(text)
    figures = {"rows": [vars(row) for row in rows], "idle_commands_a_second": idle}
    (args.output / "bench-spark.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
