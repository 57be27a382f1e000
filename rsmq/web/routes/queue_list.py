"""
The list of queues: sorted, and in pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, TypeAlias, TypedDict, cast

from rsmq.errors import InvalidFormat, InvalidValue, show_all
from rsmq.figures.facts import ACTIVITY, ATTRIBUTES, BACKLOG
from rsmq.figures.reading import ReadFacts, read_queues_in_steps
from rsmq.model import QueueAttributes
from rsmq.web.client import Client
from rsmq.web.fields import Field, Shape, number_of
from rsmq.web.routes.forms import QueueJson, bad_cursor, make_cursor, may, read_cursor, show_as
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.names import is_pattern

_MAX_LIMIT = 1000

#: The place of a queue in an order: whether it has no value, the value or its negative, its name.
_Place: TypeAlias = tuple[bool, float, str]


_RATES = ("sent_per_second", "received_per_second")
_SCRIPT_SORTS = (
    "depth", "visible", "hidden", "oldest", "sent", "received", "created", "dead_letters",
)  # fmt: skip
_SORTS = ("name", *_SCRIPT_SORTS, *_RATES)


class ActivityJson(TypedDict):
    """The traffic of a queue; null is without a record."""

    waiting_seconds: Annotated[float | None, "The age of the first visible message."]
    dead_letters: Annotated[int | None, "Messages in the queue of its policy."]
    has_reasons: Annotated[bool, "Whether workers have moved dead letters to it."]
    sent_per_second: Annotated[float | None, "In the last minute or two."]
    received_per_second: Annotated[float | None, "In the last minute or two."]
    visible_last_hour: Annotated[list[int | None], "A number for each minute."]


class ListedQueueJson(QueueJson, total=False):
    """A queue of a list."""

    activity: Annotated[ActivityJson | None, "If activity is true."]


class QueuesJson(TypedDict):
    """A part of the list of queues."""

    queues: Annotated[list[ListedQueueJson], "The queues, in this order."]
    cursor: Annotated[str | None, "For the next page; null after the last."]


async def read_attributes(queues: Client, names: list[str]) -> dict[str, QueueAttributes]:
    """Return the attributes of those queues that can be read."""
    found = await queues.run_steps(read_queues_in_steps(queues.namespace, names, ATTRIBUTES))
    return {name: each[ATTRIBUTES] for name, each in found.items()}


async def _read_sorted(
    call: ApiCall, names: list[str], order: str
) -> tuple[list[str], dict[str, float]]:
    """Return the queues that are listed, and the values by which they are sorted."""
    part = call.values.get("q", "")
    listed = [name for name in names if _has(name, part)]
    values: dict[str, float] = {}
    if call.values.get("dead_letter_queues") is False:
        # Those of the policies of all queues, also of queues that are not listed.
        by = order if order in _SCRIPT_SORTS else "depth"
        values, targets = await call.walks.values(names, by)
        listed = [name for name in listed if name not in targets]
    elif order in _SCRIPT_SORTS:
        values, _ = await call.walks.values(listed, order)
    if order in _RATES:
        rates = await call.walks.rates(listed)
        values = {name: getattr(rate, order) for name, rate in rates.items()}
    return listed, values


async def _list(call: ApiCall) -> ApiAnswer[QueuesJson]:
    limit = call.values.get("limit", 100)
    if not 1 <= limit <= _MAX_LIMIT:
        raise InvalidValue("limit", 1, _MAX_LIMIT, value=limit)
    sort = call.values.get("sort", "name")
    order, is_descending = sort.removeprefix("-"), sort.startswith("-")
    if order not in _SORTS:
        hint = f"It is one of {show_all(_SORTS)}, with - before it for the descending order."
        raise InvalidFormat("sort", value=sort, hint=hint)
    after = _read_place(call.values.get("cursor"), sort)
    seen = [name for name in await call.walks.names() if may(call, Scope.STATS, name)]
    names, values = await _read_sorted(call, seen, order)
    places: list[_Place]
    if order == "name":
        names.sort(reverse=is_descending)
        if after is not None:
            is_behind = after[2].__gt__ if is_descending else after[2].__lt__
            names = [name for name in names if is_behind(name)]
        places = [(False, 0, name) for name in names]
    else:
        places = _places_of(names, values, sign=-1 if is_descending else 1)
        if after is not None:
            places = [place for place in places if place > after]
    page = places[:limit]
    facts = (ATTRIBUTES, BACKLOG, ACTIVITY) if call.values.get("activity") else (ATTRIBUTES,)
    chosen = [name for _, _, name in page]
    reading = read_queues_in_steps(call.queues.namespace, chosen, *facts)
    read = await call.queues.run_steps(reading)
    return ApiAnswer(
        {
            "queues": [
                _show(name, read[name], has_activity=len(facts) > 1)
                for name in chosen
                if name in read and ATTRIBUTES in read[name]
            ],
            "cursor": make_cursor(sort, *page[-1]) if len(places) > limit else None,
        }
    )


def _show(name: str, facts: ReadFacts, *, has_activity: bool) -> ListedQueueJson:
    shown = show_as(QueueJson, facts[ATTRIBUTES], name=name)
    if has_activity:
        return {**shown, "activity": _show_activity(facts)}
    return cast("ListedQueueJson", shown)


def _show_activity(facts: ReadFacts) -> ActivityJson | None:
    activity, backlog = facts.get(ACTIVITY), facts.get(BACKLOG)
    if activity is None or backlog is None:
        return None
    since = backlog.visible_since_ms
    return {
        "waiting_seconds": None if since is None else (facts.now_ms - since) / 1000,
        "dead_letters": backlog.dead_letters,
        "has_reasons": backlog.has_reasons,
        "sent_per_second": activity.sent_per_second,
        "received_per_second": activity.received_per_second,
        "visible_last_hour": activity.hour.visible,
    }


def _has(name: str, part: str) -> bool:
    return fnmatchcase(name, part) if is_pattern(part) else part in name


def _places_of(names: Iterable[str], values: Mapping[str, float], *, sign: int) -> list[_Place]:
    """Return places in order; a queue without a value is at the end of both orders."""
    return sorted((name not in values, sign * values.get(name, 0), name) for name in names)


def _read_place(cursor: str | None, sort: str) -> _Place | None:
    if cursor is None:
        return None
    match read_cursor(cursor):
        case [of_sort, bool(is_missing), int() | float() as value, str(name)] if of_sort == sort:
            return is_missing, value, name
    raise bad_cursor(cursor)


ROUTES = (
    Route(
        "GET", "/queues", Scope.STATS, "List the queues, with their attributes and counts.", _list,
        ("list_queues",),
        query=(
            Field("cursor", Shape.TEXT, "The cursor of the page before."),
            number_of("Queues on a page", _MAX_LIMIT, 100),
            Field("sort", Shape.TEXT, f"One of {', '.join(_SORTS)}; with - before it in descending "
            "order. oldest is the queue whose first message has been visible the longest."),
            Field("activity", Shape.FLAG, "Whether each queue has an object activity."),
            Field("dead_letter_queues", Shape.FLAG, "false leaves out the dead-letter queues of "
            "policies."),
            Field("q", Shape.TEXT, "Only names that contain this text, or match it if it has *."),
        ),
        result=QueuesJson,
    ),
)  # fmt: skip
