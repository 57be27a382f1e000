"""
Send the lines of a file through a queue, and process every one although a consumer dies.

Two consumers receive and delete messages. Half-way one of them dies with messages in flight; these
become visible again when their visibility timeout ends, and the other consumer processes them. The
exit status is 0 only if every line was processed. Without --url it uses a redis-server of its own,
or the embedded Redis if none is installed.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from redis.exceptions import RedisError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from rsmq import BYTES, RSMQ, Message, RSMQError
from scripts.benchmark.server import Server

SAMPLE = Path(__file__).parents[1] / "examples" / "orders.jsonl"
VISIBILITY_TIMEOUT_SECONDS = 1
IN_FLIGHT_AT_DEATH = 5
POLL_SECONDS = 0.05


class DemoRun:
    """The state that the consumers share: the queue, and the record of what was processed."""

    def __init__(self, rsmq: RSMQ, queue: str, lines: list[bytes], progress: Progress) -> None:
        self.rsmq = rsmq
        self.queue = queue
        self.lines = lines
        self.progress = progress
        self.expected: dict[str, bytes] = {}
        self.processed: dict[str, bytes] = {}
        self.received = self.redelivered = self.deleted = 0
        self.errors: list[Exception] = []
        self.idle_seconds = 0.0
        self._other_died = threading.Event()
        self._lock = threading.Lock()
        self._bar = progress.add_task("processed", total=len(lines))

    def send(self) -> None:
        bar = self.progress.add_task("sent", total=len(self.lines))
        for line in self.lines:
            self.expected[self.rsmq.send_message(self.queue, line)] = line
            self.progress.advance(bar)

    def receive(self) -> Message | None:
        message = self.rsmq.receive_message(self.queue)
        if message is not None:
            with self._lock:
                self.received += 1
                self.redelivered += message.receive_count > 1
                if message.receive_count > 1:
                    self.progress.console.print(
                        f"{message.id} is received again: receive count {message.receive_count}"
                    )
        return message

    def process(self, message: Message) -> None:
        with self._lock:
            if message.id not in self.processed:
                self.progress.advance(self._bar)
            self.processed[message.id] = message.body
        if self.rsmq.delete_message(message):
            with self._lock:
                self.deleted += 1

    @property
    def is_half_way(self) -> bool:
        return len(self.processed) >= len(self.expected) // 2

    def surviving_consumer(self) -> None:
        while True:
            if self.is_half_way:
                self._other_died.wait()  # so that the other one has messages to die with
            message = self.receive()
            if message is None:
                if not self.rsmq.get_queue_attributes(self.queue).messages:
                    return
                time.sleep(POLL_SECONDS)
                self.idle_seconds += POLL_SECONDS
            else:
                self.process(message)

    def dying_consumer(self) -> None:
        while not self.is_half_way:
            message = self.receive()
            if message is not None:
                self.process(message)
        batch = [self.receive() for _ in range(IN_FLIGHT_AT_DEATH)]
        self.progress.console.print(
            f"A consumer died with {sum(message is not None for message in batch)} messages in "
            f"flight. They become visible {VISIBILITY_TIMEOUT_SECONDS} s after it received them."
        )

    def consume(self) -> None:
        threads = [
            threading.Thread(target=self._run_consumer, args=(consumer,))
            for consumer in (self.surviving_consumer, self.dying_consumer)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run_consumer(self, consumer: Callable[[], None]) -> None:
        try:
            consumer()
        except (RedisError, RSMQError) as error:
            self.errors.append(error)
        finally:
            if consumer == self.dying_consumer:
                self._other_died.set()


def report(run: DemoRun, seconds: float, console: Console) -> bool:
    """Print the result; return whether every line was processed as it was sent."""
    remaining = run.rsmq.get_queue_attributes(run.queue).messages
    is_complete = run.processed == run.expected and remaining == 0
    table = Table("sent", "received", "redelivered", "deleted", "left", "messages/s")
    table.add_row(
        str(len(run.expected)),
        str(run.received),
        str(run.redelivered),
        str(run.deleted),
        str(remaining),
        f"{len(run.expected) / (seconds - run.idle_seconds):,.0f}",
    )
    console.print(table)
    console.print(
        f"Took {seconds:.1f} s, of which {run.idle_seconds:.1f} s waiting (not in messages/s)."
    )
    console.print(
        f"Every one of {len(run.expected)} lines was processed."
        if is_complete
        else f"Processed {len(run.processed)} of {len(run.expected)} lines."
    )
    return is_complete


@contextmanager
def redis_of(url: str | None, console: Console) -> Iterator[str]:
    """Give the URL of the Redis for this run, and print which it is."""
    if url is not None:
        yield url
    elif shutil.which("redis-server"):
        with Server() as server:
            version = server.client.info("server")["redis_version"]
            console.print(
                f"A temporary redis-server {version} on port {server.port}. Without an installed "
                "one it would be the embedded Redis, in Python and in this process."
            )
            yield server.url
    else:
        console.print(
            "The embedded Redis, in Python and in this process: no redis-server is installed. "
            "With one, the demo uses it, and is several times faster."
        )
        yield "memory://"


def main() -> int:
    """Run the demo; return 0 if every line was processed, 1 if not, 2 if it can't run."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=SAMPLE, help="lines to send")
    parser.add_argument("--url", help="a Redis server; memory:// is the embedded one")
    arguments = parser.parse_args()
    try:
        lines = arguments.file.read_bytes().splitlines()
    except OSError as error:
        print(f"scripts/demo: can't read {arguments.file}: {error.strerror}", file=sys.stderr)
        return 2
    if not lines:
        print(f"scripts/demo: {arguments.file} has no lines to send", file=sys.stderr)
        return 2
    console = Console()
    with redis_of(arguments.url, console) as url:
        return run_demo(url, lines, console)


def run_demo(url: str, lines: list[bytes], console: Console) -> int:
    """Run the demo on one Redis; return as main() does."""
    try:
        rsmq = RSMQ.from_url(url, codec=BYTES, ns="rsmq-demo")
    except RSMQError as error:
        print(f"scripts/demo: {error}", file=sys.stderr)
        return 2
    queue = f"demo-{secrets.token_hex(4)}"
    try:
        rsmq.create_queue(queue, vt=VISIBILITY_TIMEOUT_SECONDS, maxsize=-1)
        try:
            with Progress(
                TextColumn("{task.description:>9}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=console,
            ) as progress:
                run = DemoRun(rsmq, queue, lines, progress)
                begin = time.monotonic()
                run.send()
                run.consume()
                seconds = time.monotonic() - begin
            if run.errors:
                raise run.errors[0]
            return 0 if report(run, seconds, console) else 1
        finally:
            rsmq.delete_queue(queue)
            rsmq.close()
    except (RedisError, RSMQError) as error:
        print(f"scripts/demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
