"""
Webhooks: the subscribers of queues, and the states of all targets.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from rsmq.web.pages.formats import show_number
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Figure, counted
from rsmq.web.routes.subscribers import SubscriberJson, SubscribersJson, TargetJson, TargetsJson
from rsmq.web.table import Scope

#: The texts of a page for the states of ``rsmq.webhooks.breaker.TargetState``.
_STATES = {
    "closed": ("active", "good"),
    "open": ("stopped", "bad"),
    "trial": ("on trial", "warn"),
    "paused": ("paused by it", "warn"),
    "gone": ("ended by 410", "bad"),
}
_REDACTED = "***"


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """
    A subscriber with the state of its target, or another target.

    Attributes:
        subscriber: its name; None for a target that is not a subscriber.
        own_queue: the queue whose messages are pushed.
        exact_url: the URL, if it is shown whole.
        secret_env: the variable with the secret; None does not sign, or is not known.
        until_ms: the end of a pause.
        answer: the last failure, or why nothing is pushed.
    """

    queue: str
    subscriber: str | None
    own_queue: str
    url: str
    exact_url: str | None
    secret_env: str | None
    state: str
    level: str
    failures: int
    until_ms: int | None
    answer: str | None
    has_target: bool

    @property
    def is_stopped(self) -> bool:
        """Whether it can be resumed."""
        return self.state in {"stopped", "paused by it", "ended by 410", "on trial"}


_NO_TARGET: TargetJson = {
    "queue": "", "url": "", "state": "closed", "failures": 0, "until_ms": None, "answer": None,
    "refusal": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WebhooksPage:
    """The subscribers, and the targets that are not of one."""

    example: ClassVar[str] = "rsmq subscribers add orders crm https://example.org/hooks"
    subscribers: list[WebhookRow]
    others: list[WebhookRow]
    figures: list[Figure]


async def _show(call: PageCall) -> WebhooksPage:
    """Show them; two commands."""
    listed, states = await asyncio.gather(call.read(SubscribersJson), call.read(TargetsJson))
    targets = {(each["queue"], each["url"]): each for each in states["webhooks"]}
    subscribers = []
    for each in listed["subscribers"]:
        target = targets.pop((each["own_queue"], each["url"]), None)
        subscribers.append(_row_of(each, target))
    others = [_row_of(None, each) for each in targets.values()]
    return WebhooksPage(subscribers, others, _figures([*subscribers, *others]))


def _row_of(subscriber: SubscriberJson | None, target: TargetJson | None) -> WebhookRow:
    facts = target or _NO_TARGET
    state, level = _STATES[facts["state"]]
    if state == "active" and facts["failures"]:
        level = "warn"
    own = subscriber or facts
    if facts["refusal"]:
        state, level = "not pushed", "bad"
    if subscriber is not None and subscriber["state"] == "draining":
        state, level = "removed, draining", "plain"
    return WebhookRow(
        own["queue"],
        None if subscriber is None else subscriber["name"],
        subscriber["own_queue"] if subscriber else own["queue"],
        own["url"],
        None if _REDACTED in own["url"] else own["url"],
        None if subscriber is None else subscriber["secret_env"],
        state,
        level,
        facts["failures"],
        facts["until_ms"],
        facts["refusal"] or facts["answer"],
        target is not None,
    )


def _figures(rows: list[WebhookRow]) -> list[Figure]:
    bad = sum(each.level == "bad" for each in rows)
    failing = sum(each.level == "warn" for each in rows)
    return [
        counted(sum(each.subscriber is not None for each in rows), "subscriber"),
        counted(sum(each.subscriber is None for each in rows), "other target"),
        Figure("stopped", show_number(bad), level="bad" if bad else ""),
        Figure("failing", show_number(failing), level="warn" if failing else ""),
    ]


PAGES = (PageEntry("/webhooks", "webhooks.html", Scope.STATS, _show, menu="Webhooks"),)
