"""
The incidents that the demo can have, each with one line that says what to look for.

All else is well in the shop, so its overview is calm when the incident is repaired.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis

from rsmq import JSON, RSMQ
from rsmq.worker import held_by

from . import shop, traffic

if TYPE_CHECKING:
    from .__main__ import Demo


@dataclass(frozen=True)
class Incident:
    """
    Something that goes wrong.

    Attributes:
        cause: makes it happen, once the demo runs.
        text: what to look for.
    """

    cause: Callable[[Demo], None]
    text: str


def _pause_orders(demo: Demo) -> None:
    demo.call("queues/orders:pause")


def _purge_campaign(demo: Demo) -> None:
    demo.call("queues/campaign:purge", undo=True)  # as its page does


def _kill_worker(demo: Demo) -> None:
    with RSMQ.from_url(demo.redis) as queues:
        while "exports" not in held_by(queues, "shop-2"):
            time.sleep(0.5)
    demo.workers.remove("shop-2")
    demo.kill("shop-2")


def _send_poison(demo: Demo) -> None:
    with RSMQ.from_url(demo.redis, codec=JSON) as queues:
        poison = {**traffic.order(1), "note": shop.CRASHING}
        queues.send_message("orders", poison, max_retries=1000)


def _slow_down(demo: Demo) -> None:
    demo.call("queues/legacy", method="PATCH", vt=3)
    demo.start("traffic", *demo.traffic, "slow")


def _delete_reports(demo: Demo) -> None:
    demo.call("queues/reports?undo=true", method="DELETE")  # as its page does


def _block_rates(demo: Demo) -> None:
    with RSMQ.from_url(demo.redis, codec=JSON) as queues:
        queues.create_queue("rates")
        for number in range(120):
            queues.send_message("rates", {"bank": f"bank{number}.example"}, delay=5 * number)
        demo.start_worker("rates-1")
        queues.send_message("rates", {"bank": shop.BLOCKING}, delay=15)


def _fill_memory(demo: Demo) -> None:
    photo = "0123456789" * 10_000
    with RSMQ.from_url(demo.redis, codec=JSON) as queues:
        queues.create_queue("uploads", maxsize=-1)
        for number in range(0, 300, 20):
            queues.send_messages("uploads", [{"name": number, "photo": photo}] * 20)
    with redis.Redis.from_url(demo.redis) as raw:
        raw.config_set("maxmemory", round(raw.info("memory")["used_memory"] / 0.92))


def _send_flow(demo: Demo) -> None:
    with RSMQ.from_url(demo.redis, codec=JSON) as queues:
        queues.create_queue("books")
        demo.start_worker("books-1")
        _, bill = shop.make_books(queues)
        bill("anna")


def _deploy(demo: Demo) -> None:
    demo.start_worker("shop-3")
    demo.workers.remove("shop-3")  # nothing starts it again when it is stopped
    demo.call("marks", text="v2.4 on shop-3")


def _flood_imports(demo: Demo) -> None:
    with RSMQ.from_url(demo.redis, codec=JSON) as queues:
        queues.create_queue("imports")
        queues.set_queue_limits("imports", max_running=2)
        for tenant, number in (("acme", 400), ("initech", 4), ("globex", 3), ("hooli", 2)):
            queues.send_messages(
                "imports", [{"tenant": tenant, "file": each} for each in range(number)],
                limit_keys=[tenant] * number, max_running=300,
            )  # fmt: skip
        demo.start_worker("imports-1")


INCIDENTS = {
    "stuck-queue": Incident(
        _pause_orders,
        "orders wait for longer and longer, although workers listen. Find out who has stopped "
        "them, and resume them.",
    ),
    "dead-worker": Incident(
        _kill_worker,
        "shop-2 is dead, and has exports in flight for ten minutes. Release them: shop-1 "
        "continues.",
    ),
    "poison": Incident(
        _send_poison,
        "Workers die again and again, with the same order in flight. Find it, and delete it.",
    ),
    "wrong-purge": Incident(
        _purge_campaign,
        "campaign had 300 messages for tomorrow, and has none. Find out who has removed them, and "
        "undo it.",
    ),
    "slow-consumer": Incident(
        _slow_down,
        "legacy is received more often than it is sent, and its messages die: they are handled in "
        "8 s, and its visibility timeout is 3 s. Make it 30 s, and redrive legacy-dead.",
    ),
    "schedule": Incident(
        _delete_reports,
        "The report of sales, each 20 s, has stopped. Find out why its schedule sends nothing, and "
        "bring back what it needs.",
    ),
    "blocked-loop": Incident(
        _block_rates,
        "The worker rates-1 is alive, and handles nothing. Find out which handler blocks it since "
        "when, and free it of that message.",
    ),
    "full-redis": Incident(
        _fill_memory,
        "Redis is nearly full: soon all sends are refused. Find out what fills it, and purge what "
        "no consumer receives.",
    ),
    "stuck-flow": Incident(
        _send_flow,
        "anna waits for a receipt. Find out at which node the flow is stuck, and why, and let "
        "it continue: the bank answers again.",
    ),
    "flood": Incident(
        _flood_imports,
        "The tenants initech, globex and hooli wait for their imports. Find out who floods the "
        "queue, and move that tenant's messages out of the way.",
    ),
    "bad-deploy": Incident(
        _deploy,
        "Orders fail several times as often since a deploy, as the overview says within two "
        "minutes. Find out which version and which worker it is, and stop that worker.",
    ),
}
