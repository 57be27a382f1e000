"""The workers of the demo: those of an invented shop, whose handlers sometimes fail."""

from __future__ import annotations

import asyncio
import os
import random
import smtplib
import time
from collections.abc import Callable
from typing import Any

from rsmq import JSON, RSMQ
from rsmq.tasks import RESULT, Tasks, chain
from rsmq.worker import Delivery, Worker, fixed

#: A message with this value ends the process of its worker, as a fault in native code does.
CRASHING = "crash"
#: The bank whose answer blocks the event loop.
BLOCKING = "slow.example"

queues = RSMQ.from_url("redis://127.0.0.1:6379/0", codec=JSON)  # --url has the server
worker = Worker(queues, concurrency=12)
thumbnails = Worker(queues, concurrency=2)
canary = Worker(queues, concurrency=12)
imports = Worker(queues, concurrency=8)
rates = Worker(queues, concurrency=4)

_chance = random.Random(23)  # noqa: S311


@worker.listener("orders", max_retries=2, backoff=fixed(3), dead_letter_queue="orders-dead")
def handle_order(order: dict[str, Any], message: Delivery) -> None:
    """Price an order. Some have no currency, or no items."""
    if order.get("note") == CRASHING:
        time.sleep(3)  # so that it is seen in flight
        os._exit(1)
    if message.attempt == 1 and _chance.random() < 0.02:  # noqa: PLR2004
        raise ConnectionError(f"payments.example:443: connection reset, order {order['number']}")
    _price(order)
    time.sleep(0.02)


@imports.listener("imports", max_retries=1, drop=True)
def import_products(_: Any) -> None:
    """Import the products of a tenant, into a database that has room for two imports."""
    time.sleep(2)


@canary.listener("orders", max_retries=2, backoff=fixed(3), dead_letter_queue="orders-dead")
def handle_order_of_new_version(order: dict[str, Any], message: Delivery) -> None:
    """Price an order, as a version does that asks the payments without a retry of its own."""
    if message.attempt == 1 and _chance.random() < 0.3:  # noqa: PLR2004
        raise TimeoutError(f"payments.example:443: no answer in 1 s, order {order['number']}")
    _price(order)
    time.sleep(0.02)


def _price(order: dict[str, Any]) -> str:
    each = order["total"] / len(order["items"])
    return f"{each:.2f} {order['currency']}"


@worker.listener(
    "mail", max_retries=1, backoff=fixed(2), dead_letter_queue="mail-dead", concurrency=4
)
def send_mail(mail: dict[str, Any]) -> None:
    """Send a mail; some addresses are refused."""
    time.sleep(0.1)
    if mail["to"].endswith(".invalid"):
        raise smtplib.SMTPRecipientsRefused({mail["to"]: (550, b"no such user")})
    if mail["to"].startswith("bounce"):
        raise smtplib.SMTPServerDisconnected("connection unexpectedly closed")


@worker.listener("search-index", max_retries=1, drop=True, concurrency=1)
def index(_: Any) -> None:
    """Index a product, more slowly than products change."""
    time.sleep(0.5)


@worker.listener("campaign", max_retries=1, drop=True)
def advertise(_: Any) -> None:
    """Do nothing: the queue is paused."""


@worker.listener("exports", track=True, vt=600, max_retries=1, drop=True)
def export(job: dict[str, Any], message: Delivery) -> dict[str, Any]:
    """Write a file, and report how far it has come."""
    for row in range(job["rows"]):
        if message.cancelled:
            break
        message.set_progress(row, job["rows"], f"{job['customer']}: rows")
        time.sleep(0.2)
    return {"file": f"{job['customer']}.csv", "rows": job["rows"]}


@worker.listener("reminders", max_retries=1, drop=True)
def remind(_: Any) -> None:
    """Remind a customer, who has got the message with a delay."""


@worker.listener("reports", max_retries=1, drop=True)
def report(_: Any) -> None:
    """Make the report of a schedule."""
    time.sleep(1)


@thumbnails.listener("thumbnails", vt=30, max_retries=1, drop=True)
def shrink(_: Any) -> None:
    """Shrink a picture: the slow consumer."""
    time.sleep(3)


@rates.listener("rates", max_runtime=3600, max_retries=1, drop=True)
async def convert(rate: dict[str, Any]) -> None:
    """Ask a bank for a rate; of one it reads the answer without await."""
    if rate["bank"] == BLOCKING:
        time.sleep(3600)  # noqa: ASYNC251 - the incident
    await asyncio.sleep(0.2)


def make_books(client: RSMQ[Any]) -> tuple[Tasks, Callable[[str], object]]:
    """Return the tasks of the accounts, and what sends a flow of them for a customer."""
    tasks = Tasks(client)
    asked: list[int] = []

    @tasks.task(queue="books", name="books.sum", track=True)
    def add_up(customer: str) -> int:
        """Add up the orders of a customer."""
        return 17 * len(customer)

    @tasks.task(queue="books", name="books.charge", track=True, backoff=fixed(7200))
    def charge(total: int) -> int:
        """Ask the bank for the money; it does not answer the first time."""
        if not asked:
            asked.append(total)
            raise ConnectionError("bank.example:443: connection refused")
        return total

    @tasks.task(queue="books", name="books.receipt", track=True)
    def send_receipt(_: int) -> None:
        """Send a receipt."""

    def bill(customer: str) -> object:
        return chain(
            add_up.signature(customer), charge.signature(RESULT), send_receipt.signature(RESULT)
        ).send()

    return tasks, bill


books, _ = make_books(queues)
worker.schedule("sales", queue="reports", body={"kind": "sales"}, every=20)
worker.schedule(
    "nightly",
    queue="reports",
    body={"kind": "nightly"},
    cron="30 2 * * *",
    timezone="Europe/Berlin",
)
worker.schedule("invoices", queue="reports", body={"kind": "invoices"}, cron="0 8 1 * *")
