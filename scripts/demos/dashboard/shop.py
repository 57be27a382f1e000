"""The workers of the demo: those of an invented shop, whose handlers sometimes fail."""

from __future__ import annotations

import asyncio
import os
import random
import smtplib
import time
from typing import Any

from rsmq import JSON, RSMQ
from rsmq.worker import Delivery, Worker, fixed

#: A message with this value ends the process of its worker, as a fault in native code does.
CRASHING = "crash"
#: The bank whose answer blocks the event loop.
BLOCKING = "slow.example"

queues = RSMQ.from_url("redis://127.0.0.1:6379/0", codec=JSON)  # --url has the server
worker = Worker(queues, concurrency=12)
thumbnails = Worker(queues, concurrency=2)
rates = Worker(queues, concurrency=4)

_chance = random.Random()  # noqa: S311


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


worker.schedule("sales", queue="reports", body={"kind": "sales"}, every=20)
worker.schedule(
    "nightly",
    queue="reports",
    body={"kind": "nightly"},
    cron="30 2 * * *",
    timezone="Europe/Berlin",
)
worker.schedule("invoices", queue="reports", body={"kind": "invoices"}, cron="0 8 1 * *")
