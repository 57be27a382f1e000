"""
The page of a queue: its figures, its charts, and what concerns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.web.pages.formats import show_duration, show_number
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import (
    SPANS,
    Figure,
    find_span,
    history_query,
    make_charts,
    spark_of,
)
from rsmq.web.table import Scope

_MAX_CHAIN = 5


async def _show(call: PageCall) -> Mapping[str, Any]:
    names, span = dict(call.names), find_span(call.query)
    queue = await call.read("/queues/{queue}", names)
    history = await call.read("/queues/{queue}/history", names, **history_query(span))
    workers = await call.read("/workers")
    return {
        "queue": queue,
        "spans": SPANS,
        "span": span,
        "figures": _figures(queue, history),
        "charts": make_charts(history, span),
        "facts": _facts(queue),
        "chain": await _chain(call, queue),
        "workers": [each for each in workers["workers"] if queue["name"] in each["in_flight"]],
    }


def _figures(queue: Mapping[str, Any], history: Mapping[str, Any]) -> list[Figure]:
    return [
        Figure(
            "visible", show_number(queue["visible_messages"]), spark=spark_of(history["visible"])
        ),
        Figure("hidden", show_number(queue["hidden_messages"])),
        Figure("sent", show_number(queue["total_sent"]), "so far", spark=spark_of(history["sent"])),
        Figure(
            "received", show_number(queue["total_received"]), "so far",
            spark=spark_of(history["received"]),
        ),
    ]  # fmt: skip


def _facts(queue: Mapping[str, Any]) -> list[tuple[str, str]]:
    size = queue["maxsize"]
    facts = [
        ("visibility timeout", show_duration(queue["vt"])),
        ("delay", show_duration(queue["delay"]) if queue["delay"] else "none"),
        ("size limit", "none" if size == -1 else f"{size:,} characters or bytes"),
    ]
    if queue["keep"] is not None:
        end = "are removed" if queue["expired"] == "drop" else "become dead letters"
        facts.append(("expiry", f"after {show_duration(queue['keep'])}; expired messages {end}"))
    if queue["created"]:
        facts.append(("created", queue["created"].replace("T", " ")[:19] + " UTC"))
    return facts


async def _chain(call: PageCall, queue: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the queue, its dead-letter queue, that one's, and so on."""
    chain, seen = [queue], {queue["name"]}
    while len(chain) < _MAX_CHAIN:
        target = chain[-1]["dead_letter_queue"]
        if target is None or target in seen or not call.may(Scope.STATS, target):
            break
        seen.add(target)
        chain.append(await call.read("/queues/{queue}", {"queue": target}))
    return chain if len(chain) > 1 else []


PAGES = (PageEntry("/queues/{queue}", "queue.html", Scope.STATS, _show, below="/queues"),)
