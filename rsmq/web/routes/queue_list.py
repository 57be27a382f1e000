"""
The list of queues: sorted, and in pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from rsmq.cells.totals import add_attributes
from rsmq.errors import InvalidFormat, InvalidValue, MissingParameter, show_all
from rsmq.model import QueueAttributes
from rsmq.operations.queues import describe_queues
from rsmq.web.fields import Field, Shape, between
from rsmq.web.operations import sort_values
from rsmq.web.routes.forms import bad_cursor, make_cursor, may, read_cursor, show_attributes
from rsmq.web.table import ApiAnswer, ApiCall, Client, Route, Scope
from rsmq.wire.keys import Namespace
from rsmq.wire.names import is_pattern

#: Queues that one script reads.
_STEP = 100
_MAX_LIMIT = 1000

#: The place of a queue in an order: whether it has no value, the value or its negative, its name.
_Place: TypeAlias = tuple[bool, float, str]


#: Sorts by times; of a queue in several cells the earliest counts.
_TIMES = {"oldest", "created"}
_SORTS = ("name", "depth", "visible", "hidden", "oldest", "sent", "received", "created")


async def read_attributes(queues: Client, names: list[str]) -> dict[str, QueueAttributes]:
    """
    Return the attributes of those queues that exist, in a hundredth of the round trips.

    Other clients may have made queues with other names; those that no call accepts are left out.
    """
    found: dict[str, list[QueueAttributes]] = {}
    for cell in range(queues.engine.number):
        client: Any = await queues.engine.client(cell)
        namespace = _any_names(client)
        for step in _in_steps(namespace, names):
            read = await client.run(describe_queues(namespace, step))
            for name, attributes in read.items():
                if attributes is not None:
                    found.setdefault(name, []).append(attributes)
    return {
        name: each[0] if len(each) == 1 else add_attributes(each) for name, each in found.items()
    }


async def _read_values(queues: Client, names: list[str], sort: str) -> dict[str, float]:
    """Return the values of queues in all cells: the earliest time, or the sum."""
    found: dict[str, float] = {}
    for cell in range(queues.engine.number):
        client: Any = await queues.engine.client(cell)
        namespace = _any_names(client)
        for step in _in_steps(namespace, names):
            read = await client.run(sort_values(namespace, step, sort))
            for name, value in read.items():
                before = found.get(name)
                if before is None:
                    found[name] = value
                else:
                    found[name] = min(value, before) if sort in _TIMES else value + before
    return found


def _any_names(client: Any) -> Namespace:
    return Namespace(client.namespace.name, strict_names=False)


def _in_steps(namespace: Namespace, names: list[str]) -> Iterable[list[str]]:
    readable = [name for name in names if _is_readable(namespace, name)]
    return (readable[start : start + _STEP] for start in range(0, len(readable), _STEP))


def _is_readable(namespace: Namespace, name: str) -> bool:
    try:
        namespace.queue(name)
    except (InvalidFormat, MissingParameter):
        return False
    return True


async def _list(call: ApiCall) -> ApiAnswer:
    limit = call.values.get("limit", 100)
    if not 1 <= limit <= _MAX_LIMIT:
        raise InvalidValue("limit", 1, _MAX_LIMIT, value=limit)
    sort = call.values.get("sort", "name")
    order, is_descending = sort.removeprefix("-"), sort.startswith("-")
    if order not in _SORTS:
        hint = f"It is one of {show_all(_SORTS)}, with - before it for the descending order."
        raise InvalidFormat("sort", value=sort, hint=hint)
    after = _read_place(call.values.get("cursor"), sort)
    part = call.values.get("q", "")
    names = [
        name
        for name in await call.queues.list_queues()
        if _has(name, part) and may(call, Scope.STATS, name)
    ]
    places: list[_Place]
    if order == "name":
        names.sort(reverse=is_descending)
        if after is not None:
            is_behind = after[2].__gt__ if is_descending else after[2].__lt__
            names = [name for name in names if is_behind(name)]
        places = [(False, 0, name) for name in names]
    else:
        values = await _read_values(call.queues, names, order)
        places = _places_of(names, values, sign=-1 if is_descending else 1)
        if after is not None:
            places = [place for place in places if place > after]
    page = places[:limit]
    read = await read_attributes(call.queues, [name for _, _, name in page])
    return ApiAnswer(
        {
            "queues": [show_attributes(name, read[name]) for _, _, name in page if name in read],
            "cursor": make_cursor(sort, *page[-1]) if len(places) > limit else None,
        }
    )


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
            Field(
                "limit", Shape.WHOLE, "Queues on a page, 1 to 1,000; 100 by default.",
                rule=between(1, _MAX_LIMIT),
            ),
            Field("sort", Shape.TEXT, f"One of {', '.join(_SORTS)}; with - before it in descending "
            "order. oldest is the queue whose first message has been visible the longest."),
            Field("q", Shape.TEXT, "Only names that contain this text, or match it if it has *."),
        ),
        result=(
            Field("queues", Shape.OBJECTS, "The queues, in this order."),
            Field("cursor", Shape.TEXT, "For the next page; null after the last."),
        ),
    ),
)  # fmt: skip
