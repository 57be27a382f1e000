"""
Converters of arguments between Python and JSON, one for each parameter of a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Protocol, Union, get_args, get_origin

from rsmq.codecs.dataclass_bodies import WrongType, make_converter
from rsmq.codecs.value_changes import find_change
from rsmq.errors import InvalidFormat, Shown

_LONE_SURROGATE = (
    "has a str with a lone surrogate, which UTF-8 can't encode. Names of files may have some: pass "
    "them as base64 of os.fsencode"
)


class WrongArgument(Exception):
    """An argument breaks the rule of its parameter; the text contains no value."""


class ArgumentConverter(Protocol):
    """Checks and converts the values of one parameter; both methods raise WrongArgument."""

    def to_json(self, value: Any) -> Any:
        """Return a value of JSON."""

    def from_json(self, value: Any) -> Any:
        """Return the value that the function takes."""


def check_json(name: str, value: Any) -> None:
    """
    Check that a value is one of JSON, as it is; a tuple counts as a list.

    Args:
        name: the name of the parameter.
        value: its value.

    Raises:
        WrongArgument: it is not.
    """
    try:
        rule = _find_fault(value)
    except RecursionError:
        rule = "contains itself, or is too deep"
    if rule is not None:
        raise WrongArgument(f"{name} {rule}")


def _find_fault(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return next(filter(None, map(_find_fault, value)), None)
    if isinstance(value, dict):
        faults = (*map(_find_fault_of_key, value), *map(_find_fault, value.values()))
        return next(filter(None, faults), None)
    if isinstance(value, str):
        return None if _is_unicode(value) else _LONE_SURROGATE
    if isinstance(value, float) and not math.isfinite(value):
        return "has a float that is not finite, which JSON does not have"
    if value is None or isinstance(value, int | float):
        return None
    return (
        f"is or has a value of type {type(value).__name__}, which JSON does not have. Pass a str, "
        "int, float, bool, None, list or dict, or annotate it with its type"
    )


def _find_fault_of_key(key: object) -> str | None:
    if not isinstance(key, str):
        return f"has a dict with a key of type {type(key).__name__}: in JSON all are str"
    return None if _is_unicode(key) else _LONE_SURROGATE


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def check_arrival(name: str, sent: Any, arrived: Any) -> None:
    """
    Check that a value arrives as it is sent.

    Args:
        name: the name of the parameter.
        sent: its value.
        arrived: the value that its JSON restores.

    Raises:
        WrongArgument: it does not.
    """
    change = find_change(sent, arrived)
    if change is not None:
        raise WrongArgument(
            f"{name} would arrive {change}: its JSON, or a validator that reads it, changes the "
            "value. Pass one whose JSON restores it, such as an id or its parts"
        )


def is_any_json(kind: Any) -> bool:
    """Return whether an annotation, as ``dict[str, Any]``, says no more than "a value of JSON"."""
    if get_origin(kind) is Annotated:
        inner, *others = get_args(kind)
        # A validator or a serializer may make a value of JSON of another one.
        return is_any_json(inner) and not any(
            hasattr(each, "__get_pydantic_core_schema__") for each in others
        )
    if get_origin(kind) in (Union, UnionType, list, dict, tuple):
        parts = get_args(kind)
        return all(map(_is_of_json, parts)) and any(map(is_any_json, parts))
    return kind in (Any, object, list, dict, tuple)


def _is_of_json(kind: Any) -> bool:
    return kind in (str, int, float, bool, None, type(None), ...) or is_any_json(kind)


class AnyArgument:
    """A parameter that takes any value of JSON: it has no annotation, or Any."""

    def __init__(self, name: str) -> None:
        """Make it."""
        self._name = name

    def to_json(self, value: Any) -> Any:
        """See ``ArgumentConverter``."""
        check_json(self._name, value)
        return value

    def from_json(self, value: Any) -> Any:
        """See ``ArgumentConverter``."""
        return value


class PlainArgument:
    """A parameter whose type is one of JSON, or a dataclass of such types."""

    def __init__(self, task: str, name: str, kind: Any) -> None:
        """
        Make it.

        Raises:
            InvalidFormat: values of this type can't be restored from JSON without pydantic.
        """
        try:
            self._name = name
            self._converter = make_converter(kind, name, {})
        except InvalidFormat:
            raise InvalidFormat(
                "annotation",
                value=Shown(f"{name}: {getattr(kind, '__name__', kind)}, of task {task}"),
                hint="It is a str, int, float, bool, None, list, dict with str keys, "
                "dataclass, Any, or one of these or None. The extra pydantic adds datetime, UUID, "
                "Enum, Decimal, models and others.",
            ) from None

    def to_json(self, value: Any) -> Any:
        """See ``ArgumentConverter``."""
        encoded = _convert(self._converter.to_json, value)
        check_json(self._name, encoded)
        check_arrival(self._name, value, self.from_json(encoded))
        return encoded

    def from_json(self, value: Any) -> Any:
        """See ``ArgumentConverter``."""
        return _convert(self._converter.from_json, value)


def _convert(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except WrongType as error:
        raise WrongArgument(error.rule) from None
