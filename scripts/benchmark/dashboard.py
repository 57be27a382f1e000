"""
A tour of the dashboard beside traffic: what its pages cost a large Redis.

    .venv/bin/python -m scripts.benchmark.dashboard [QUEUES] [MESSAGES] [SECONDS] [ROUNDS]

It makes queues (10,000) and one queue of many messages (10,000,000, which need some 3 GiB), and
measures how long a message takes from a producer to a consumer, in rounds of two parts: without
anything else, and with a tour through all pages.

Redis, the producer and the consumer have one processor, the dashboard and the tour have the others,
as if they were another machine. Otherwise the dashboard's own work is measured, rather than
its calls of Redis. On that processor Redis comes first, if the user may set that, as root may. Else
the pair takes it away in the middle of a command, which then seems to take some 4 ms.

The tour takes SECONDS (600) in all ROUNDS (10) together. The parts of a round are in another order
each time, since other work on the machine comes and goes. It prints the percentiles of each round
and of all, the ratios, the longest commands of Redis in either part, and the slowest pages.
"""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import os
import random
import statistics
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Self

from rsmq import RSMQ
from scripts.benchmark.dashboard_server import PATHS, make_queues, serving
from scripts.benchmark.server import Server

SLOW_US = 5000
#: Commands of at least so many µs are looked at.
_NOTED_US = 500
PAUSE_SECONDS = 0.005
_PARTS = ("without", "with")
_SHARES = {"p50": 0.5, "p99": 0.99}
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


def send_and_receive(url: str, seconds: float, processors: set[int]) -> list[float]:
    """Return, sorted, how long messages took from a producer to a consumer, in seconds."""
    os.sched_setaffinity(0, processors)
    times = []
    end = time.perf_counter() + seconds
    with RSMQ.from_url(url) as queues:
        while (begin := time.perf_counter()) < end:
            queues.send_message("pair", "x")
            message = queues.receive_message("pair")
            if message is not None:
                queues.delete_message(message)
            times.append(time.perf_counter() - begin)
            time.sleep(PAUSE_SECONDS)
    return sorted(times)


def fill(server: Server, messages: int) -> None:
    """Make the messages of the long queue."""
    fill_step = server.client.register_script(_FILL)
    for begin in range(1, messages + 1, _STEP):
        fill_step(["rsmq:large"], [begin, min(begin + _STEP - 1, messages), "abcdefghij"])
        print(f"\r{begin + _STEP - 1:,} messages", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


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
            for path in PATHS:
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


class Comparison:
    """The rounds, and what was found in them."""

    def __init__(self, server: Server, seconds: float, processors: set[int]) -> None:
        self._server = server
        self._processors = processors
        self._seconds = seconds
        self._found: dict[str, dict[str, list[float]]] = {
            each: {name: [] for name in _SHARES} for each in _PARTS
        }
        self._times: dict[str, list[float]] = {each: [] for each in _PARTS}
        self.commands: dict[str, list[dict[str, Any]]] = {each: [] for each in _PARTS}
        self.page_times: dict[str, list[float]] = defaultdict(list)
        self.failed: dict[str, int] = {}

    def run_round(self) -> None:
        """Measure each part once."""
        for part in random.sample(_PARTS, len(_PARTS)):
            self._server.client.slowlog_reset()
            with contextlib.ExitStack() as stack:
                if part == "with":
                    server = stack.enter_context(serving(self._server.url))
                    tour = stack.enter_context(Tour(*server.address))
                times = _in_process(self._server.url, self._seconds, self._processors)
            self._times[part] += times
            self.commands[part] += self._server.client.slowlog_get(100_000)
            if part == "with":
                for path, each in tour.times.items():
                    self.page_times[path] += each
                self.failed |= tour.failed
            for name, share in _SHARES.items():
                self._found[part][name].append(_percentile(times, share))
            p50, p99 = (each[-1] for each in self._found[part].values())
            shown = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"
            print(f"{part:9} {len(times):6,} messages, {shown}", flush=True)

    def print_ratios(self) -> None:
        """Print the percentiles of all rounds, and the ratios of the parts of a round."""
        for times in self._times.values():
            times.sort()
        for name, share in _SHARES.items():
            alone, toured = (_percentile(self._times[part], share) for part in _PARTS)
            found = (self._found[part][name] for part in _PARTS)
            ratios = sorted(b / a for a, b in zip(*found, strict=True))
            print(
                f"{name} of all: without {alone:.3f} ms, with {toured:.3f} ms, "
                f"{toured / alone:.2f}x; of a round: median {statistics.median(ratios):.2f}x, "
                f"{ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} rounds"
            )


def _in_process(url: str, seconds: float, processors: set[int]) -> list[float]:
    """Measure in another process, which does not wait for the tour's interpreter lock."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(send_and_receive, url, seconds, processors).result()


def main() -> None:
    """Fill, measure and print."""
    numbers = [int(each) for each in sys.argv[1:]]
    queues, messages, seconds, rounds = (*numbers, *(10_000, 10_000_000, 600, 10)[len(numbers) :])
    every = os.sched_getaffinity(0)
    processors = {min(every)}
    os.sched_setaffinity(0, processors)  # a process that is started inherits its processors
    with Server() as server:
        os.sched_setaffinity(0, every - processors or every)
        prefer(server.client.info("server")["process_id"])
        make_queues(server.url, queues)
        fill(server, messages)
        server.client.config_set("slowlog-log-slower-than", _NOTED_US)
        server.client.config_set("slowlog-max-len", 100_000)
        comparison = Comparison(server, seconds / rounds, processors)
        for _ in range(rounds):
            comparison.run_round()
        comparison.print_ratios()
        for part in _PARTS:
            _print_commands(part, comparison.commands[part])
        _print_pages(comparison)


def prefer(process_id: int) -> None:
    """Let a process run before others on its processor."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(process_id, os.SCHED_FIFO, os.sched_param(1))


def _print_commands(part: str, noted: list[dict[str, Any]]) -> None:
    noted.sort(key=lambda each: -each["duration"])
    slow = sum(each["duration"] >= SLOW_US for each in noted)
    counts = f"{slow} commands of 5 ms and more, {len(noted)} of 0.5 ms and more"
    print(f"{part} the tour: {counts}; the longest:")
    for entry in noted[:10]:
        print(f"  {entry['duration'] / 1000:.2f} ms {entry['command'][:100]!r}")


def _print_pages(comparison: Comparison) -> None:
    print("pages:")
    for path, times in sorted(comparison.page_times.items(), key=lambda each: -max(each[1])):
        times.sort()
        print(f"  {path}: p50 {_percentile(times, 0.5):.0f} ms, max {1000 * times[-1]:.0f} ms")
    for path, status in comparison.failed.items():
        print(f"  {path}: {status}")


if __name__ == "__main__":
    main()
