"""
Archive orders with Spark while they are sent, and kill the job: none is lost, none is doubled.

A producer sends order events into a queue. ``rsmq-pipeline archive`` moves them to Parquet as a
stream; half-way it is killed with all its processes, and started again. Then one day's orders are
replayed into a second queue, and a report of both is written. The exit status is 0 only if every
order is in the archive once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import date, timedelta
from pathlib import Path

import redis
from rich.console import Console

from rsmq import RSMQ
from rsmq.cli.commands.pipeline import format_rows
from rsmq.spark import pipelines

FIRST_DAY = date(2026, 11, 1)
DAYS = 7
REPLAYED = FIRST_DAY + timedelta(days=3)
BATCH = 500
#: Seconds that the producer takes for all orders: the archive's job starts, dies and starts again.
SENDING = 40.0


def main() -> int:
    """Run the demo; 0 if every order is in the archive once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="for what it makes; a new one if none")
    parser.add_argument("--orders", type=int, default=100_000, help="how many orders are sent")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="rsmq-pipeline-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{folder} is not empty: give a new folder")
    console = Console(highlight=False)
    server, url = start_redis(folder)
    try:
        return demo(console, url, folder, args.orders)
    finally:
        server.terminate()
        server.wait()


def start_redis(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A Redis of this demo's own, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "redis"
    data.mkdir()
    program = shutil.which("redis-server") or "redis-server"
    server = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", data, "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    with redis.Redis(port=port) as client:
        for _ in range(100):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
    return server, f"redis://127.0.0.1:{port}/0"


def demo(console: Console, url: str, folder: Path, orders: int) -> int:
    """All of it, on one server."""
    archive, days = folder / "archive", [0] * DAYS
    with RSMQ.from_url(url) as rsmq:
        for name in ("orders", "orders-again"):
            rsmq.create_queue(name)
        producer = threading.Thread(target=send, args=(url, orders, days), daemon=True)
        producer.start()
        console.print(f"A producer sends {orders:,} orders. The archive's job starts ...")
        job = start_archive(url, archive)
        wait_for_batches(job, archive, 2)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        then = rsmq.get_queue_attributes("orders")
        console.print(
            f"[bold]Killed it[/] (kill -9, all its processes) when {then.total_sent:,} orders were "
            f"sent, {then.total_sent - then.messages:,} of them archived and removed, "
            f"{then.hidden_messages:,} in its hands. It starts again ..."
        )
        job = start_archive(url, archive)
        producer.join()
        while rsmq.get_queue_attributes("orders").messages:
            if job.poll() is not None:
                console.print(f"The job ended: {job.returncode}")
                return 1
            time.sleep(0.2)
        os.killpg(job.pid, signal.SIGINT)
        job.wait()
    console.print("The queue is empty. Reading the archive ...")
    spark = pipelines.session("pipeline-demo")
    at = pipelines.Queues(url)
    numbers = [
        json.loads(row["message"])["number"]
        for row in spark.read.parquet(str(archive)).select("message").toLocalIterator()
    ]
    missing, doubled = orders - len(set(numbers)), len(numbers) - len(set(numbers))
    console.print(
        f"[bold]{len(numbers):,} orders in the archive: {missing} lost, {doubled} doubled.[/]"
    )
    again = pipelines.replay(
        spark,
        str(archive),
        at,
        "orders-again",
        where=f"get_json_object(CAST(message AS STRING), '$.day') = '{REPLAYED}'",
    )
    expected = days[(REPLAYED - FIRST_DAY).days]
    console.print(f"Replayed the orders of {REPLAYED}: {again.messages:,} of {expected:,}.")
    told = pipelines.report(spark, at, path=str(folder / "report"))
    console.print("\n".join(format_rows(told.queues)), soft_wrap=True)
    console.print("Tables and plots:", *told.files, sep="\n  ")
    spark.stop()
    right = not missing and not doubled and again.messages == expected
    console.print("[bold green]All is right.[/]" if right else "[bold red]Something is wrong.[/]")
    return 0 if right else 1


def send(url: str, orders: int, days: list[int]) -> None:
    """Send orders of a week, evenly in time."""
    chance = random.Random(1)  # noqa: S311 - made-up orders
    begin = time.monotonic()
    with RSMQ.from_url(url) as rsmq:
        for first in range(0, orders, BATCH):
            bodies = []
            for number in range(first, min(first + BATCH, orders)):
                day = chance.randrange(DAYS)
                days[day] += 1
                bodies.append(
                    json.dumps(
                        {
                            "number": number,
                            "day": str(FIRST_DAY + timedelta(days=day)),
                            "customer": f"c-{chance.randrange(5000)}",
                            "total": round(chance.uniform(1, 500), 2),
                        }
                    )
                )
            rsmq.send_messages("orders", bodies)
            time.sleep(max(0.0, begin + SENDING * first / orders - time.monotonic()))


def start_archive(url: str, archive: Path) -> subprocess.Popen[bytes]:
    """The job, with its processes in a group of their own."""
    command = [sys.executable, "-m", "rsmq.cli.commands.pipeline", "archive"]
    with (archive.parent / "archive.log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--url", url, "--follow", "--batch", "20000", "orders", str(archive)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for_batches(job: subprocess.Popen[bytes], archive: Path, number: int) -> None:
    """Wait until so many batches are in the archive."""
    commits = archive / "_checkpoint" / "commits"
    while len([path for path in commits.glob("*") if path.name.isdigit()]) < number:
        if job.poll() is not None:
            raise SystemExit(f"The job ended: see {archive.parent / 'archive.log'}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
