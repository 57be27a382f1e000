"""
The page of a queue: its figures, its charts, and what concerns it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rsmq.vocabulary.queues import QUEUE_ATTRIBUTES, SET, QueueAttribute
from rsmq.vocabulary.sends import ValueKind
from rsmq.web.pages.charts import Chart, Mark, short_number
from rsmq.web.pages.formats import show_duration, show_number
from rsmq.web.pages.phrases import read_marks
from rsmq.web.pages.recent_changes import read_changes, say_changes, say_who
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.dead_letter_queues import read_newest, sources_of
from rsmq.web.pages.views.figures import (
    MINUTE,
    SPANS,
    Figure,
    Span,
    find_span,
    history_query,
    make_charts,
    spark_of,
    spark_of_sums,
)
from rsmq.web.routes.doctor import FindingJson, ReportJson
from rsmq.web.routes.explanations import QueueWhyJson
from rsmq.web.routes.forms import QueueJson
from rsmq.web.routes.history import HistoryJson
from rsmq.web.routes.queues import CountsJson
from rsmq.web.routes.subscribers import SubscriberJson, SubscribersJson
from rsmq.web.routes.workers import WorkerJson, WorkersJson
from rsmq.web.table import Scope

_MAX_CHAIN = 5
#: A total of so many digits has no room on a phone.
_LONG = 1_000_000
_RECEIVED_AGAIN = "received-again"
#: The last minutes in which other consumers have received something.
_LATELY = 5
#: Causes that need no attention.
_CALM = {"empty", "draining", "waiting", "all-hidden"}
#: The longest queue that the doctor examines for a page: it reads every message.
_MAX_EXAMINED = 10_000


@dataclass(frozen=True, slots=True)
class QueuePage:
    """
    A queue and what concerns it.

    Attributes:
        is_calm: whether its cause needs no attention.
        notes: who has changed what, if that matters.
        sources: of a dead-letter queue, the queues whose messages it has.
        explains: whether it is said why the queue is not drained.
        facts: titles and values of its settings.
        chain: the queue, its dead-letter queue, that one's, and so on; empty without one.
        workers: those that listen.
        is_received: whether other consumers have received from it a short time ago.
        findings: those of the doctor; None if it was not asked.
        longest: the most messages that the doctor examines for a page.
        flood_filter: finds the messages of the group that floods it; empty without one.
    """

    spans: ClassVar[Sequence[Span]] = SPANS
    longest: ClassVar[int] = _MAX_EXAMINED
    queue: QueueJson
    why: QueueWhyJson
    flood_filter: str
    is_calm: bool
    notes: list[str]
    is_received_again: bool
    sources: list[str]
    is_dead_letter_queue: bool
    explains: bool
    span: Span
    figures: list[Figure]
    charts: list[Chart]
    marks: list[Mark]
    facts: list[tuple[str, str]]
    chain: list[QueueJson]
    workers: list[WorkerJson]
    is_received: bool
    subscribers: list[SubscriberJson]
    findings: list[FindingJson] | None


async def _show(call: PageCall) -> QueuePage:
    """
    Return the values: thirteen commands, and one for each further queue of the chain.

    The policies of all queues are read too: at most once a minute, and after each action.
    """
    names, span = dict(call.names), find_span(call.query)
    queue = await call.read(QueueJson, names)
    history, why, hidden, workers, subscribers, sources = await asyncio.gather(
        call.read(HistoryJson, names, **history_query(span)),
        call.read(QueueWhyJson, names),
        call.read(CountsJson, names, estimate=True),
        call.read(WorkersJson),
        call.read(SubscribersJson, queue=queue["name"]),
        sources_of(call, queue["name"]),
    )
    listeners = [each for each in workers["workers"] if queue["name"] in each["in_flight"]]
    if sources == []:
        sources = await _sources_of_reasons(call, queue["name"])
    marks = await read_marks(call, queue["name"], history["start_ms"], history["end_ms"])
    is_recorded = any(each is not None for each in history["visible"])
    # A dead-letter queue needs no worker; one that has workers is explained as others are, and one
    # that was purged has the undo.
    is_in_use = why["purge"] is not None or any(each["is_alive"] for each in listeners)
    flooding = why["flooding"]
    return QueuePage(
        queue, why, "" if flooding is None else f"key:{json.dumps(flooding)}",
        why["cause"] in _CALM, await _notes(call, queue, why), span=span, marks=marks,
        is_received_again=_RECEIVED_AGAIN in {each["cause"] for each in why["causes"]},
        sources=sources or [], is_dead_letter_queue=sources is not None,
        explains=sources is None or is_in_use, figures=_figures(queue, hidden, history, span),
        charts=make_charts(history, span, marks) if is_recorded else [], facts=_facts(queue),
        chain=await _chain(call, queue), workers=listeners,
        is_received=span.step == MINUTE and any(history["received"][-_LATELY:]),
        subscribers=subscribers["subscribers"], findings=await _findings(call, queue),
    )  # fmt: skip


async def _notes(call: PageCall, queue: QueueJson, why: QueueWhyJson) -> list[str]:
    """Return who has paused it, or changed its visibility timeout, if that matters: a command."""
    causes = {each["cause"] for each in why["causes"]}
    if not queue["paused"] and _RECEIVED_AGAIN not in causes:
        return []
    entries, name = await read_changes(call), queue["name"]
    who = say_who(entries, "paused", name, 0) if queue["paused"] else ""
    changes = say_changes(entries, [name], why["now_ms"]) if _RECEIVED_AGAIN in causes else []
    return [*([who] if who else []), *changes]


async def _sources_of_reasons(call: PageCall, queue: str) -> list[str]:
    """Return where the newest message came from, if a worker has moved it here."""
    newest = await read_newest(call, queue)
    return [newest["reason"]["queue"]] if newest and newest["reason"] else []


async def _findings(call: PageCall, queue: QueueJson) -> list[FindingJson] | None:
    """Return what the doctor finds, if the address asks for it; a refresh does not repeat it."""
    if call.query.get("doctor") != "1" or queue["messages"] > _MAX_EXAMINED:
        return None
    report = await call.read(ReportJson, queue=queue["name"])
    return [each for each in report["findings"] if each["queue"] == queue["name"]]


def _figures(
    queue: QueueJson, hidden: CountsJson, history: HistoryJson, span: Span
) -> list[Figure]:
    margin = f"± {show_number(hidden['margin'])}" if hidden["margin"] else ""
    about = "\u2248 " if margin else ""

    def of_hidden(title: str, number: int, column: list[float | None] | None = None) -> Figure:
        return Figure(title, about + show_number(number), margin, spark=spark_of(column))

    visible = show_number(queue["visible_messages"])
    return [
        Figure("visible", visible, spark=spark_of(history["visible"])),
        of_hidden("in flight", hidden["in_flight"], history["in_flight"]),
        of_hidden("retrying", hidden["retrying"]),
        of_hidden("delayed", hidden["delayed"], history["delayed"]),
        *([of_hidden("held back", hidden["held_back"])] if hidden["held_back"] else []),
        Figure(
            "sent so far", _short(queue["total_sent"]), spark=spark_of_sums(history["sent"], span)
        ),
        Figure(
            "received so far", _short(queue["total_received"]),
            spark=spark_of_sums(history["received"], span),
        ),
    ]  # fmt: skip


def _short(total: int) -> str:
    return show_number(total) if total < _LONG else short_number(total)


def _facts(queue: QueueJson) -> list[tuple[str, str]]:
    """Return the titles and values of the settings: of those without a default only what is set."""
    values: Mapping[str, Any] = {**queue}
    facts = [
        (each.title, _show_setting(each, queue, values[each.name]))
        for each in QUEUE_ATTRIBUTES
        if each.name not in _SHOWN_ELSEWHERE and values[each.name] is not None
    ]
    if queue["created"]:
        facts.append(("created", queue["created"].replace("T", " ")[:19]))
    return facts


#: The attributes that have another place on the page, or are in the sentence of another one.
_SHOWN_ELSEWHERE = {
    "total_received", "total_sent", "created", "modified", "dead_letter_queue", "max_receives",
    "paused", "expired",
}  # fmt: skip


def _show_setting(attribute: QueueAttribute, queue: QueueJson, value: Any) -> str:
    match attribute.name:
        case "maxsize" if value != attribute.unlimited:
            return f"{value:,} characters or bytes"
        case "keep":
            end = dict(SET.options["expired"].choices)[queue["expired"]]
            return f"after {show_duration(value)}; expired messages {end}"
        case "max_running":
            return f"at most {value:,} at a time"
        case "rate":
            return f"at most {value}"
    if value == attribute.unlimited or value == 0 == attribute.default:
        return "none"
    return show_duration(value) if attribute.kind is ValueKind.SECONDS else f"{value:,}"


async def _chain(call: PageCall, queue: QueueJson) -> list[QueueJson]:
    """Return the queue, its dead-letter queue, that one's, and so on."""
    chain, seen = [queue], {queue["name"]}
    while len(chain) < _MAX_CHAIN:
        target = chain[-1]["dead_letter_queue"]
        if target is None or target in seen or not call.may(Scope.STATS, target):
            break
        seen.add(target)
        chain.append(await call.read(QueueJson, {"queue": target}))
    return chain if len(chain) > 1 else []


PAGES = (PageEntry("/queues/{queue}", "queue.html", Scope.STATS, _show, below="/queues"),)
