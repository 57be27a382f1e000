"""
The traffic of the demo: producers, a plain consumer as in Node, and the receiver of a webhook.

It runs until it is terminated: python -m scripts.demos.dashboard.traffic URL PORT [calm|slow]
"""

from __future__ import annotations

import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rsmq import JSON, RSMQ
from rsmq.push.subscribers import Subscribers

from .past import record_past

_chance = random.Random(40)  # noqa: S311
_CURRENCIES = ("EUR", "USD", "CHF")
_NAMES = ("anna", "ben", "cleo", "dora", "emil")
_FAILING_PERCENT = 20
_TOMORROW_SECONDS = 86_400


def order(number: int, *, is_calm: bool = False) -> dict[str, Any]:
    """Return an order; one in 25 can't be handled, unless all is calm."""
    made = {
        "number": number,
        "customer": {"name": _chance.choice(_NAMES), "email": f"customer{number}@example.org"},
        "items": [f"sku-{_chance.randrange(400)}"] * _chance.randint(1, 4),
        "total": _chance.randrange(500, 90_000) / 100,
        "currency": _chance.choice(_CURRENCIES),
    }
    if is_calm:
        return made
    if number % 50 == 0:
        del made["currency"]
    if number % 50 == 25:  # noqa: PLR2004
        made["items"] = []
    return made


def _mail(number: int, *, is_calm: bool = False) -> dict[str, str]:
    name = "bounce" if number % 40 == 0 and not is_calm else _chance.choice(_NAMES)
    domain = "example.invalid" if number % 25 == 0 and not is_calm else "example.org"
    return {"to": f"{name}{number}@{domain}", "subject": f"Your order {number}"}


def create_queues(queues: RSMQ[Any], url: str, *, is_calm: bool) -> None:
    """
    Create all queues, with a past, and with what is in them before the traffic begins.

    Args:
        is_calm: whether nothing is wrong in them.
    """
    for name in (
        "orders-dead", "orders", "mail-dead", "mail", "search-index", "campaign", "exports",
        "reminders", "reports", "thumbnails", "legacy-dead", "events",
    ):  # fmt: skip
        queues.create_queue(name)
    queues.create_queue("legacy", vt=30 if is_calm else 5)
    for hours in range(1, 30):
        queues.send_message("reminders", {"about": f"order {hours}"}, delay=hours * 1800)
    campaign = [{"to": name, "code": "AUTUMN"} for name in _NAMES * 60]
    if is_calm:
        queues.send_messages("campaign", campaign, delay=_TOMORROW_SECONDS)
    record_past(url, is_calm=is_calm)
    queues.set_dead_letter_policy("legacy", "legacy-dead", 2 if is_calm else 3)
    queues.set_dead_letter_policy("orders", "orders-dead", 3)
    if is_calm:
        return
    queues.pause_queue("campaign")  # and later over HTTP, so that the audit knows of it
    queues.send_messages("campaign", campaign)
    queues.send_messages("orders", [order(25 * number) for number in range(40)])
    queues.send_messages("mail", [_mail(20 * number) for number in range(20)])
    queues.send_messages("search-index", [{"product": number} for number in range(400)])


def _produce(queues: RSMQ[Any], *, is_calm: bool) -> None:
    products = 1 if is_calm else 5  # two in a second are indexed
    number = 1000
    for second in range(10**9):
        number += 5
        queues.send_messages("orders", [order(number + each, is_calm=is_calm) for each in range(5)])
        queues.send_messages("legacy", [{"row": number + each} for each in range(2)])
        queues.send_messages(
            "search-index", [{"product": number + each} for each in range(products)]
        )
        queues.send_message("reminders", {"about": f"cart {number}"}, delay=_chance.randint(5, 90))
        if is_calm:
            queues.send_messages("mail", [_mail(number + each, is_calm=True) for each in range(2)])
        elif second % 120 == 0:
            queues.send_messages("mail", [_mail(number + each) for each in range(300)])
        if second % 2 == 0:
            queues.send_message("thumbnails", {"path": f"photos/{number}.jpg", "width": 320})
            queues.send_message("events", {"type": "order.paid", "order": number})
        if second % 12 == 0:
            job = {"customer": _chance.choice(_NAMES), "rows": _chance.randint(20, 120)}
            queues.send_message("exports", job, track=True)
        time.sleep(1)


def _consume(queues: RSMQ[Any], seconds: float, *, is_calm: bool) -> None:
    """
    Receive and delete, as Node's programs do.

    Each hundredth message fails, and is received again, unless all is calm.
    """
    while True:
        message = queues.receive_message("legacy", wait=20)
        time.sleep(seconds)
        if message is not None and (is_calm or message.body["row"] % 100):
            queues.delete_message("legacy", message.id)


class _Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    failing_percent = _FAILING_PERCENT

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        is_failing = _chance.randrange(100) < self.failing_percent
        self.send_response(503 if is_failing else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def main(url: str, port: str, mode: str = "") -> None:
    """
    Run all of it until the process ends.

    Args:
        url: the URL of Redis.
        port: of the receiver.
        mode: ``calm`` if nothing fails; ``slow`` if the plain consumers need longer than the
            visibility timeout, and nothing else fails.
    """
    queues = RSMQ.from_url(url, codec=JSON)
    receiver = ThreadingHTTPServer(("127.0.0.1", int(port)), _Receiver)
    Subscribers(queues).add("events", "crm", f"http://127.0.0.1:{receiver.server_port}/hooks")
    is_calm = mode != ""
    if is_calm:
        _Receiver.failing_percent = 0
    # Two rows a second need 16 of the slow consumers; the others receive them again.
    consumers, seconds = (60, 8.0) if mode == "slow" else (1, 0.05)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    for _ in range(consumers):
        threading.Thread(
            target=_consume, args=(queues, seconds), kwargs={"is_calm": is_calm}, daemon=True
        ).start()
    _produce(queues, is_calm=is_calm)


if __name__ == "__main__":
    main(*sys.argv[1:])
