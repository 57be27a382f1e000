"""
Archive orders with Spark while they are sent, and kill the job: no order is lost or duplicated.

A producer sends order events to a queue. ``rsmq-pipeline archive`` moves them to Parquet as a
stream; half-way it is killed with all its processes, and started again. Then the orders of one day
are replayed into a second queue, and a report of both queues is written. The exit status is 0 only
if every order is in the archive once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console

from rsmq import RSMQ
from rsmq.cli.commands.pipeline import format_rows
from rsmq.spark import pipelines
from scripts.benchmark.server import Server

FIRST_DAY = date(2026, 11, 1)
DAYS = 7
REPLAYED_DAY = FIRST_DAY + timedelta(days=3)
ORDERS_PER_CALL = 500
#: Seconds in which the producer sends all orders: enough to start, kill and restart the job.
SENDING_SECONDS = 40.0


def main() -> int:
    """Run the demo; return 0 if every order is in the archive once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="for its output; a new one if none")
    parser.add_argument("--orders", type=int, default=100_000, help="how many orders are sent")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="rsmq-pipeline-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{folder} is not empty: give a new folder")
    console = Console(highlight=False)
    with Server() as server:
        return run_demo(console, server.url, folder, args.orders)


def run_demo(console: Console, url: str, folder: Path, orders: int) -> int:
    """Run the demo on one server."""
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
        at_kill = rsmq.get_queue_attributes("orders")
        console.print(
            f"[bold]Killed it[/] (kill -9, all its processes) when {at_kill.total_sent:,} orders "
            f"were sent, {at_kill.total_sent - at_kill.messages:,} of them archived and removed, "
            f"{at_kill.hidden_messages:,} in its hands. It starts again ..."
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
    queues = pipelines.Queues(url)
    numbers = [
        json.loads(row["message"])["number"]
        for row in spark.read.parquet(str(archive)).select("message").toLocalIterator()
    ]
    missing, duplicated = orders - len(set(numbers)), len(numbers) - len(set(numbers))
    console.print(
        f"[bold]{len(numbers):,} orders in the archive: {missing} lost, {duplicated} doubled.[/]"
    )
    replayed = pipelines.replay(
        spark,
        str(archive),
        queues,
        "orders-again",
        where=f"get_json_object(CAST(message AS STRING), '$.day') = '{REPLAYED_DAY}'",
    )
    expected = days[(REPLAYED_DAY - FIRST_DAY).days]
    console.print(f"Replayed the orders of {REPLAYED_DAY}: {replayed.messages:,} of {expected:,}.")
    summary = pipelines.report(spark, queues, path=str(folder / "report"))
    console.print("\n".join(format_rows(summary.queues)), soft_wrap=True)
    console.print("Tables and plots:", *summary.files, sep="\n  ")
    spark.stop()
    is_correct = not missing and not duplicated and replayed.messages == expected
    console.print(
        "[bold green]All is right.[/]" if is_correct else "[bold red]Something is wrong.[/]"
    )
    return 0 if is_correct else 1


def send(url: str, orders: int, days: list[int]) -> None:
    """Send orders of a week, evenly distributed over time."""
    random_source = random.Random(1)  # noqa: S311 - made-up orders
    begin = time.monotonic()
    with RSMQ.from_url(url) as rsmq:
        for first in range(0, orders, ORDERS_PER_CALL):
            bodies = []
            for number in range(first, min(first + ORDERS_PER_CALL, orders)):
                day = random_source.randrange(DAYS)
                days[day] += 1
                bodies.append(
                    json.dumps(
                        {
                            "number": number,
                            "day": str(FIRST_DAY + timedelta(days=day)),
                            "customer": f"c-{random_source.randrange(5000)}",
                            "total": round(random_source.uniform(1, 500), 2),
                        }
                    )
                )
            rsmq.send_messages("orders", bodies)
            time.sleep(max(0.0, begin + SENDING_SECONDS * first / orders - time.monotonic()))


def start_archive(url: str, archive: Path) -> subprocess.Popen[bytes]:
    """Start the job, with its processes in a group of their own."""
    command = [sys.executable, "-m", "rsmq.cli.commands.pipeline", "archive"]
    with (archive.parent / "archive.log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--url", url, "--follow", "--batch", "20000", "orders", str(archive)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for_batches(job: subprocess.Popen[bytes], archive: Path, number: int) -> None:
    """Wait until this many batches are in the archive."""
    commits = archive / "_checkpoint" / "commits"
    while len([path for path in commits.glob("*") if path.name.isdigit()]) < number:
        if job.poll() is not None:
            raise SystemExit(f"The job ended: see {archive.parent / 'archive.log'}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
