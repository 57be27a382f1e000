"""
The commands that idle worker processes send for a message, and the time until a handler begins.

    .venv/bin/python -m scripts.benchmark.idle_workers [--seconds SECONDS] [PROCESSES ...]

It starts worker processes, by default 1, then 5, then 15, which all listen on one queue. It sends
one message each 100 ms, for 60 seconds. It prints for each number of processes:

- the scripts that ran for a message (EVALSHA), without the send itself;
- the milliseconds from the send of a message to the begin of its handler: median and 99th
  percentile.

Then it stops the process that has handled the last message, with SIGSTOP, and sends a message,
20 times in 60 seconds. It prints the longest time from the send to the begin of the handler.

At last it sends messages for a tenth of the time under MONITOR, and prints the commands of the
workers for a message by kind: scripts by their names, and other commands.
"""

from __future__ import annotations

import argparse
import math
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import redis

from rsmq import RSMQ
from rsmq.operations.scripts import load
from rsmq.worker import Worker
from scripts.benchmark.figures import percentile
from scripts.benchmark.server import Server

QUEUE = "signals"
PROCESSES = (1, 5, 15)
SECONDS = 60.0
PAUSE_SECONDS = 0.1  # between two messages
WARM_UP_SECONDS = 5.0  # after which the processes have found out which of them answers
SECONDS_PER_STOP = 3.0
MESSAGES_BEFORE_STOP = 5
TIMEOUT_SECONDS = 60.0
SCRIPTS = {
    "receive_for_worker": "worker",
    "settle_messages": "worker",
    "send_heartbeat": "worker",
    "get_queue_attributes": "",
}


def work(url: str) -> None:
    """Run a worker process, which prints the milliseconds until each of its messages began."""
    worker = Worker(RSMQ.from_url(url))

    @worker.listener(QUEUE)
    def print_milliseconds(body: str) -> None:
        print((time.monotonic() - float(body)) * 1000, flush=True)

    worker.run()


@contextmanager
def start_worker(url: str) -> Iterator[subprocess.Popen[str]]:
    """Run a worker process during the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.benchmark.idle_workers", "--worker", url],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def send_for(rsmq: RSMQ, seconds: float) -> int:
    """Send messages at a constant rate, and return their number."""
    count = max(round(seconds / PAUSE_SECONDS), 1)
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(began + number * PAUSE_SECONDS - time.monotonic(), 0))
        rsmq.send_message(QUEUE, str(time.monotonic()))
    time.sleep(PAUSE_SECONDS)
    return count


@dataclass
class Handled:
    """
    A handled message.

    Attributes:
        process: the worker process.
        milliseconds: the time from its send to the begin of its handler.
    """

    process: subprocess.Popen[str]
    milliseconds: float


def collect(process: subprocess.Popen[str], handled: list[Handled]) -> None:
    """Collect the lines that a worker process prints."""
    for line in process.stdout or ():
        handled.append(Handled(process, float(line)))  # noqa: PERF401 - others use the list meanwhile


def stop_and_send(rsmq: RSMQ, handled: list[Handled]) -> float:
    """
    Stop the process that handles messages at present, and return the milliseconds of a message.
    """
    send_for(rsmq, MESSAGES_BEFORE_STOP * PAUSE_SECONDS)
    process = handled[-1].process
    count = len(handled)
    process.send_signal(signal.SIGSTOP)
    try:
        rsmq.send_message(QUEUE, str(time.monotonic()))
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(handled) == count:
            if time.monotonic() > deadline:
                raise RuntimeError("no other process handles the message")
            time.sleep(0.001)
    finally:
        process.send_signal(signal.SIGCONT)
    return handled[-1].milliseconds


def count_commands(server: Server, commands: Counter[str]) -> None:
    """Count the commands that clients send, without those of scripts, until the last message."""
    scripts = {load(name, feature).sha1.decode(): name for name, feature in SCRIPTS.items()}
    with redis.Redis(port=server.port).monitor() as monitor:
        commands["MONITOR"] = 1
        for each in monitor.listen():
            if each["client_type"] == "lua":
                continue
            name, *arguments = each["command"].split()
            if name == "ECHO":
                return
            commands[scripts.get(arguments[0], "send") if name == "EVALSHA" else name] += 1


@dataclass
class Measurement:
    """
    The commands and times of a number of worker processes.

    Attributes:
        processes: the number of worker processes.
        scripts: the scripts that ran for a message, without its send.
        milliseconds: for each message the time from its send to the begin of its handler.
        longest_after_stop: the longest such time after SIGSTOP; None for one process.
        commands: the commands for a message, by kind.
    """

    processes: int
    scripts: float
    milliseconds: list[float]
    longest_after_stop: float | None
    commands: dict[str, float]

    def __str__(self) -> str:
        p50, p99 = (percentile(self.milliseconds, percent) for percent in (50, 99))
        kinds = ", ".join(f"{name} {number:.1f}" for name, number in self.commands.items())
        stopped = "" if self.longest_after_stop is None else f"{self.longest_after_stop:.0f}"
        return (
            f"{self.processes:>9}{self.scripts:>9.1f}{p50:>9.2f}{p99:>9.2f}{stopped:>11}  {kinds}"
        )


def measure(processes: int, seconds: float) -> Measurement:
    """Measure a number of worker processes on a server of their own."""
    handled: list[Handled] = []
    commands: Counter[str] = Counter()
    longest_after_stop = None
    with ExitStack() as stack:
        server = stack.enter_context(Server())
        rsmq = stack.enter_context(RSMQ.from_url(server.url))
        rsmq.create_queue(QUEUE)
        workers = [stack.enter_context(start_worker(server.url)) for _ in range(processes)]
        for process in workers:
            threading.Thread(target=collect, args=(process, handled)).start()
        while server.client.info("clients")["tracking_clients"] < processes:
            time.sleep(0.1)
        send_for(rsmq, WARM_UP_SECONDS)
        handled.clear()
        server.client.config_resetstat()
        count = send_for(rsmq, seconds)
        scripts = server.calls("evalsha") / count - 1
        milliseconds = [each.milliseconds for each in handled]
        if len(milliseconds) != count:
            raise RuntimeError(f"{len(milliseconds)} messages of {count} were handled")
        if processes > 1:
            stops = math.ceil(seconds / SECONDS_PER_STOP)
            longest_after_stop = max(stop_and_send(rsmq, handled) for _ in range(stops))
        counting = threading.Thread(target=count_commands, args=(server, commands))
        counting.start()
        while not commands:
            time.sleep(0.01)
        count = send_for(rsmq, seconds / 10)
        server.client.echo("end")
        counting.join()
    per_message = {
        name: number / count
        for name, number in sorted(commands.items())
        if name not in {"MONITOR", "send", "INFO"}
    }
    return Measurement(processes, scripts, milliseconds, longest_after_stop, per_message)


def main() -> None:
    """Print a table with a line for each number of processes."""
    parser = argparse.ArgumentParser(prog="idle_workers")
    parser.add_argument("processes", nargs="*", type=int, default=PROCESSES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return
    titles = f"{'processes':>9}{'scripts':>9}{'p50 ms':>9}{'p99 ms':>9}{'stopped ms':>11}"
    print(f"{titles}  commands under MONITOR")
    for processes in arguments.processes:
        print(measure(processes, arguments.seconds), flush=True)


if __name__ == "__main__":
    main()
