"""
A tour of the dashboard beside traffic: what its pages cost a large Redis.

    .venv/bin/python -m scripts.benchmark.dashboard [QUEUES] [MESSAGES] [SECONDS]

It makes queues (10,000) and one queue of many messages (10,000,000, which need some 3 GiB), and
measures how long a producer and a consumer wait for their messages, without and with a tour through
all pages. Prints the percentiles, the slow commands of Redis (5 ms), and the slowest pages.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlsplit

from rsmq import RSMQ
from scripts.benchmark.server import Server

SLOW_US = 5000
PAUSE_SECONDS = 0.01
#: Filled by one script per step, since a benchmark of pages needs no honest senders.
_STEP = 20_000
_FILL = """
local queue, data = KEYS[1], KEYS[1] .. ':Q'
for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local id = string.format('%s%022d', ARGV[3], number)
  redis.call('ZADD', queue, 1700000000000 + number, id)
  redis.call('HSET', data, id, '{"n":' .. number .. '}')
end
redis.call('HINCRBY', data, 'totalsent', tonumber(ARGV[2]) - tonumber(ARGV[1]) + 1)
"""
_PATHS = (
    "/", "/queues", "/queues?sort=name", "/queues?sort=-hidden", "/queues?sort=-oldest",
    "/queues/large", "/queues/large?span=24h", "/queues/large/messages",
    "/queues/large/messages?state=in_flight", "/queues/pair", "/queues/pair/messages", "/workers",
    "/delayed", "/doctor", "/activity", "/webhooks", "/dead-letters",
)  # fmt: skip


class Pair:
    """A producer and a consumer that measure how long a message takes from the one to the other."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ended = threading.Event()
        self.seconds: list[float] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with RSMQ.from_url(self._url) as queues:
            while not self._ended.is_set():
                begin = time.perf_counter()
                queues.send_message("pair", "x")
                message = queues.receive_message("pair")
                if message is not None:
                    queues.delete_message(message)
                self.seconds.append(time.perf_counter() - begin)
                time.sleep(PAUSE_SECONDS)

    def measure(self, seconds: float) -> list[float]:
        """Return the sorted times."""
        self._thread.start()
        time.sleep(seconds)
        self._ended.set()
        self._thread.join()
        return sorted(self.seconds)


def fill(server: Server, queues: int, messages: int) -> None:
    """Make the queues and the messages."""
    with RSMQ.from_url(server.url) as client:
        for number in range(queues):
            client.create_queue(f"q{number:05}")
        for name in ("large", "pair"):
            client.create_queue(name)
    fill_step = server.client.register_script(_FILL)
    for begin in range(1, messages + 1, _STEP):
        fill_step(["rsmq:large"], [begin, min(begin + _STEP - 1, messages), "abcdefghij"])
        print(f"\r{begin + _STEP - 1:,} messages", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


@contextlib.contextmanager
def serving(url: str) -> Iterator[tuple[str, int]]:
    """Run the server, and give its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rsmq", "web", "--port", "0", "--no-auth"],
        env={**os.environ, "RSMQ_URL": url, "RSMQ_CONFIG": "/dev/null"},
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: Any = process.stderr
    try:
        parts = urlsplit(lines.readline().partition(": Ctrl")[0])
        yield parts.hostname or "", parts.port or 0
    finally:
        process.terminate()
        process.wait()


class Tour:
    """A walk through the pages, again and again, as an operator makes it."""

    def __init__(self, host: str, port: int) -> None:
        self._place = host, port
        self._ended = threading.Event()
        self.times: dict[str, list[float]] = defaultdict(list)
        self.failed: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        connection = http.client.HTTPConnection(*self._place)
        while not self._ended.is_set():
            for path in _PATHS:
                begin = time.perf_counter()
                connection.request("GET", path, headers={"Accept": "text/html"})
                answer = connection.getresponse()
                answer.read()
                self.times[path].append(time.perf_counter() - begin)
                if answer.status != http.HTTPStatus.OK:
                    self.failed[path] = answer.status
                if self._ended.wait(0.5):
                    return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def _percentile(times: list[float], share: float) -> float:
    return 1000 * times[min(int(len(times) * share), len(times) - 1)]


def main() -> None:
    """Fill, measure and print."""
    numbers = [int(each) for each in sys.argv[1:]]
    queues, messages, seconds = (*numbers, *(10_000, 10_000_000, 600)[len(numbers) :])
    with Server() as server:
        server.client.config_set("slowlog-log-slower-than", SLOW_US)
        fill(server, queues, messages)
        server.client.slowlog_reset()
        for name in ("without", "with", "without", "with"):
            context: Any = contextlib.nullcontext()
            with contextlib.ExitStack() as stack:
                if name == "with":
                    place = stack.enter_context(serving(server.url))
                    context = Tour(*place)
                tour = stack.enter_context(context)
                found = Pair(server.url).measure(seconds / 2)
            shown = " ".join(f"p{100 * p:g} {_percentile(found, p):.2f} ms" for p in (0.5, 0.99))
            print(f"{name:8} the dashboard: {len(found)} messages, {shown}", flush=True)
            if tour is not None:
                _print_tour(tour)
        for entry in server.client.slowlog_get(20):
            print(f"slow: {entry['duration'] / 1000:.1f} ms {entry['command'][:120]}")


def _print_tour(tour: Tour) -> None:
    for path, times in sorted(tour.times.items(), key=lambda each: -max(each[1])):
        times.sort()
        print(f"  {path}: p50 {_percentile(times, 0.5):.0f} ms, max {1000 * times[-1]:.0f} ms")
    for path, status in tour.failed.items():
        print(f"  {path}: {status}")


if __name__ == "__main__":
    main()
