"""
The messages of a queue: by state, by a filter, with columns of values of JSON.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rsmq.errors import InvalidFormat
from rsmq.search.json_path import JsonPath
from rsmq.search.message_filter import parse_filter
from rsmq.web.json_text import read_columns
from rsmq.web.pages.actions import BY_NAME
from rsmq.web.pages.actions.form import PageAction
from rsmq.web.pages.body_forms import show_line, value_at
from rsmq.web.pages.links import with_query
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.dead_letter_queues import sources_of
from rsmq.web.problems import HttpProblem, describe
from rsmq.web.routes.forms import QueueJson, StoredJson
from rsmq.web.routes.message_list import ListedMessageJson, MessagesJson
from rsmq.web.routes.queues import CountsJson
from rsmq.web.table import Scope

_LIMIT = 50
_LINE_CHARACTERS = 160
_VALUE_CHARACTERS = 60
#: A page whose reading looks at more messages, or is cut by its time, is not asked for again by
#: itself.
_LIVE_SCAN = 400
_STATES = (
    (None, "All"), ("visible", "Visible"), ("in_flight", "In flight"), ("retrying", "Retrying"),
    ("delayed", "Delayed"), ("held_back", "Held back"),
)  # fmt: skip
_DIGITS = 15


@dataclass(frozen=True, slots=True)
class Tab:
    """
    A state among those of the list.

    Attributes:
        is_about: whether the count is that of a sample.
    """

    title: str
    url: str
    count: int
    is_about: bool
    is_current: bool


@dataclass(frozen=True, slots=True)
class Row:
    """
    A message.

    Attributes:
        line: the begin of the body on one line; None if it is withheld.
        values: those of the columns.
    """

    message: ListedMessageJson
    line: str | None
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessagesPage:
    """
    A part of the messages of a queue.

    Attributes:
        cols: the paths of the columns, as in the address.
        columns: their titles.
        problem: what is wrong with the filter or the columns.
        scanned: the messages that were looked at, with those of the parts before.
        is_cut: whether the search has ended before the part was full.
        actions: on chosen messages.
        on_all: the names of those on all messages of the filter or the state.
    """

    queue: QueueJson
    tabs: list[Tab]
    filter: str
    state: str | None
    cols: str
    columns: list[str]
    problem: HttpProblem | None
    rows: list[Row]
    scanned: int
    is_live: bool
    is_cut: bool
    next: str | None
    first: str | None
    actions: list[PageAction]
    on_all: list[str]


async def _show(call: PageCall) -> MessagesPage:
    """
    Return the page: four commands, and those of its counts, which are sampled.

    The policies of all queues are read too: at most once a minute, and after each action.
    """
    query = call.query
    names = {"queue": call.names["queue"]}
    text, state = query.get("filter", "").strip(), query.get("state") or None
    columns, problem = _read_state(text, query.get("cols", ""))
    queue = await call.read(QueueJson, names)
    counts = await call.read(CountsJson, names, estimate=True)
    sources = await sources_of(call, names["queue"])
    page: MessagesJson = {"messages": [], "scanned": 0, "cursor": None}
    if problem is None:
        page = await call.read(
            MessagesJson, names, state=state, filter=text or None,
            cursor=query.get("cursor"), limit=_LIMIT,
        )  # fmt: skip
    rest = {name: query[name] for name in ("state", "filter", "cols") if query.get(name)}
    scanned = _number(query.get("scanned")) + page["scanned"]
    following = page["cursor"] and with_query(
        {**rest, "cursor": page["cursor"], "scanned": scanned if text else None}
    )
    is_cut = len(page["messages"]) < _LIMIT and page["cursor"] is not None
    is_dead = sources is not None or any(each["reason"] for each in page["messages"])
    actions = actions_on(
        call, names["queue"], is_dead=is_dead, is_due_later=state in {"delayed", "retrying"}
    )
    matching = (each.name.replace("-messages", "-matching") for each in actions)
    return MessagesPage(
        queue, _tabs(queue, counts, rest), text, state, query.get("cols", ""),
        [title for title, _ in columns], problem,
        [_row(each, columns) for each in page["messages"]], scanned,
        is_live=page["scanned"] <= _LIVE_SCAN and not is_cut,
        is_cut=is_cut, next=following,
        first=(with_query(rest) or "?") if "cursor" in query else None,
        actions=actions,
        on_all=[each for each in matching if each in BY_NAME] if text or state else [],
    )  # fmt: skip


def actions_on(
    call: PageCall, queue: str, *, is_dead: bool, is_due_later: bool = False
) -> list[PageAction]:
    """
    Return the actions on messages that their ids name.

    Args:
        is_due_later: whether all are delayed, or wait for a retry.
    """
    if not (call.may(Scope.RECEIVE, queue) and call.may(Scope.MANAGE, queue)):
        return []
    verbs = ["run" if is_due_later else "release", "hide", "move", "delete"]
    return [BY_NAME[f"{each}-messages"] for each in (["redrive"] if is_dead else []) + verbs]


def _read_state(text: str, cols: str) -> tuple[list[tuple[str, JsonPath]], HttpProblem | None]:
    """Return the columns of an address, and what is wrong with its filter or its columns."""
    try:
        if text:
            parse_filter(text)
        return read_columns(cols), None
    except InvalidFormat as error:
        return [], describe(error, may_repeat=True)


def _tabs(queue: QueueJson, counts: CountsJson, rest: Mapping[str, str]) -> list[Tab]:
    found: Any = {**counts, None: queue["messages"]}
    sampled = {"in_flight", "retrying", "delayed", "held_back"} if counts["is_estimate"] else set()
    return [
        Tab(
            title,
            with_query({**rest, "state": state}) or "?",
            found[state],
            state in sampled,
            rest.get("state") == state,
        )
        for state, title in _STATES
    ]


def _row(message: ListedMessageJson, columns: list[tuple[str, JsonPath]]) -> Row:
    raw = raw_of(message)
    if raw is None:
        return Row(message, None, ("",) * len(columns))
    values = tuple(value_at(raw, path, _VALUE_CHARACTERS) for _, path in columns)
    return Row(message, show_line(raw, _LINE_CHARACTERS), values)


def raw_of(message: StoredJson) -> bytes | None:
    """Return the bytes of the body of a message of the API, or their begin; None if withheld."""
    if "body_base64" in message:
        return base64.b64decode(message["body_base64"])
    body = message["body"]
    return None if body is None else str(body).encode()


def _number(text: str | None) -> int:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return int(text) if is_number and text is not None else 0


PAGES = (
    PageEntry("/queues/{queue}/messages", "messages.html", Scope.PEEK, _show, below="/queues"),
)
