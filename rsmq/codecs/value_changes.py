"""
The difference between a value that is sent and the one that arrives, which its JSON has restored.

``==`` is not enough: it is the rule of a class, which may leave out attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

#: Types whose values are the same if they are equal.
_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})
_CHANGED = "changed"
_WITH = "with "


def find_change(sent: Any, arrived: Any) -> str | None:
    """
    Return how a value has changed, as "as Order" or "with Order.lines changed"; None if it has not.

    A tuple may arrive as a list, other containers as those of JSON or of the annotation, a text or
    number as its base class, and a datetime with its offset instead of the name of its zone. The
    text has names of classes and of their attributes only.
    """
    try:
        return _compare(sent, arrived)
    except RecursionError:
        return _CHANGED


def _compare(sent: Any, arrived: Any) -> str | None:
    kind = type(sent)
    if (kind in _SCALARS and kind is type(arrived)) or _is_text_or_number(sent, arrived):
        return None if sent == arrived else _CHANGED
    if isinstance(sent, Sequence) and type(arrived) in (kind, list):
        return _compare_items(sent, arrived)
    if isinstance(sent, Mapping) and isinstance(arrived, dict):
        return _compare_items(sent, arrived) or _compare_items(sent.values(), arrived.values())
    are_sets = isinstance(sent, AbstractSet) and isinstance(arrived, AbstractSet)
    if kind is not type(arrived) and not are_sets:
        return f"as {type(arrived).__name__}"
    return _compare_objects(sent, arrived)


def _is_text_or_number(sent: object, arrived: object) -> bool:
    """Return whether a text or a number has arrived as one of its class, or of a base class."""
    of_json = isinstance(sent, str | int | float | bytes)
    return of_json and isinstance(arrived, type(sent).__mro__[:-1])


def _compare_items(sent: Iterable[Any], arrived: Iterable[Any]) -> str | None:
    all_sent, all_arrived = list(sent), list(arrived)
    if len(all_sent) != len(all_arrived):
        return _CHANGED
    if _SCALARS.issuperset(map(type, all_sent)) and all_sent == all_arrived:
        return None
    change = next(filter(None, map(_compare, all_sent, all_arrived)), None)
    return change if change is None or change.startswith(_WITH) else f"{_WITH}an item {change}"


def _compare_attributes(
    name: str, sent: Mapping[str, Any], arrived: Mapping[str, Any]
) -> str | None:
    for attribute, value in sent.items():
        change = _compare(value, arrived.get(attribute))
        if change is not None:
            return change if change.startswith(_WITH) else f"{_WITH}{name}.{attribute} {change}"
    return None


def _compare_objects(sent: Any, arrived: Any) -> str | None:
    if sent is arrived:
        return None
    attributes = _attributes(sent)
    if attributes is not None:
        return _compare_attributes(type(sent).__name__, attributes, _attributes(arrived) or {})
    if _are_equal(sent, arrived):
        return None
    if isinstance(sent, datetime) and sent.tzinfo and arrived.tzinfo:
        # Times of different zones are never equal in an hour that a clock repeats.
        return None if sent.astimezone(UTC) == arrived.astimezone(UTC) else _CHANGED
    return _CHANGED


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object; None if ``==`` compares its class better."""
    kind: Any = type(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {each.name: getattr(value, each.name, None) for each in fields(value)}
    if hasattr(kind, "__pydantic_private__"):  # a model of pydantic
        return {
            **{name: getattr(value, name, None) for name in kind.model_fields},
            **(getattr(value, "__pydantic_private__", None) or {}),
            **(getattr(value, "__pydantic_extra__", None) or {}),
        }
    return dict(getattr(value, "__dict__", {})) if kind.__eq__ is object.__eq__ else None


def _are_equal(sent: Any, arrived: Any) -> bool:
    try:
        return bool(sent == arrived)
    except Exception:  # noqa: BLE001 - a class may refuse to compare
        return False
