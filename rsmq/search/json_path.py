"""
JSON paths, such as ``customer.email``: names of members, with dots between them.

A path goes through a list into each of its elements, so ``items.price`` is the price of every item;
a number is also the position of one element. ``*`` is any member. A name with other characters than
letters, digits, ``_`` and ``-`` is a string of JSON: ``"first name".x``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, TypeAlias

from rsmq.errors import InvalidFormat
from rsmq.wire.json_constants import refuse_constant


class Wildcard(Enum):
    """The part of a path that is any member."""

    ANY = "*"


ANY: Literal[Wildcard.ANY] = Wildcard.ANY
JsonPath: TypeAlias = tuple[str | Literal[Wildcard.ANY], ...]

#: A string of JSON, which may contain any character.
QUOTED = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_NAME = re.compile(r"[\w-]+")
_MAX_PARTS = 32


class NotJson(Exception):
    """A body is not JSON."""


def read_path(text: str, at: int = 0) -> tuple[JsonPath, int]:
    """
    Return the path that begins at a position of a text, and the position behind it.

    Raises:
        SyntaxError: there is none; ``offset`` is the position of the fault.
    """
    parts: list[str | Literal[Wildcard.ANY]] = []
    while True:
        if text[at : at + 1] == ANY.value:
            parts.append(ANY)
            at += 1
        elif name := _NAME.match(text, at):
            parts.append(name[0])
            at = name.end()
        else:
            part, at = read_quoted(text, at, "a name, a string in quotes, or *")
            parts.append(part)
        if len(parts) > _MAX_PARTS:
            raise fault(at, f"A path has at most {_MAX_PARTS} names")
        if text[at : at + 1] != ".":
            return tuple(parts), at
        at += 1


def read_quoted(text: str, at: int, expected: str) -> tuple[str, int]:
    """Return the string of JSON at a position, and the position behind it; raises SyntaxError."""
    quoted = QUOTED.match(text, at)
    if quoted is None:
        is_open = text[at : at + 1] == '"'
        raise fault(at, "The quotes are not closed" if is_open else f"Here is {expected}")
    try:
        value: str = json.loads(quoted[0])
        value.encode()
    except ValueError:
        raise fault(at, "It is not a string of JSON") from None
    return value, quoted.end()


def fault(at: int, text: str) -> SyntaxError:
    """Return the error of a fault at a position, counted from 0."""
    error = SyntaxError(text)
    error.offset = at
    return error


def parse_path(text: str) -> JsonPath:
    """
    Return a path.

    Raises:
        InvalidFormat: it is not one.
    """
    try:
        path, end = read_path(text)
        if end != len(text):
            raise fault(end, "Here is a dot or the end of the path")
    except SyntaxError as error:
        hint = f"At character {(error.offset or 0) + 1}: {error.msg}. As in customer.email."
        raise InvalidFormat("JSON path", value=text, hint=hint) from None
    if path[0] == "json" and not text.startswith('"'):
        # Else a path that was copied from a filter would name nothing.
        hint = 'A path has no json. before it. If there is a member json, quote it: "json".x.'
        raise InvalidFormat("JSON path", value=text, hint=hint)
    return path


def parse_json(raw: bytes) -> Any:
    """
    Return the value of a body that is JSON.

    Raises:
        NotJson: it is not JSON in UTF-8, or too deep.
    """
    try:
        return json.loads(raw.decode(), parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise NotJson from None


class PathSteps:
    """
    A path as an automaton, for one walk through a value: it visits each value within once.

    Where a walk is in the path is a number, its *places*: bit i is set if the first i parts have
    been passed. A list both stays at a place and passes its next part, so there may be several.
    """

    __slots__ = ("_any", "_end", "_named")

    def __init__(self, path: JsonPath) -> None:
        self._end = 1 << len(path)
        self._any = sum(1 << at for at, part in enumerate(path) if part is ANY)
        self._named: dict[object, int] = {}
        for at, part in enumerate(path):
            self._named[part] = self._named.get(part, 0) | 1 << at

    def is_end(self, places: int) -> bool:
        """Return whether a value is at the path."""
        return bool(places & self._end)

    def of_element(self, places: int, at: int) -> int:
        """Return the places of an element of a list; 0 is none."""
        return places | self._passed(places, str(at))

    def of_member(self, places: int, name: str) -> int:
        """Return the places of a member of an object; 0 is none."""
        return self._passed(places, name)

    def _passed(self, places: int, name: str) -> int:
        return (places & (self._any | self._named.get(name, 0))) << 1


#: The places of the value that a walk begins with.
BEGIN = 1


def find_values(value: Any, path: JsonPath, *, elements: bool = True) -> Iterator[Any]:
    """
    Yield the values at a path, each once, in the order of the text.

    The time is that of a walk through the value, however many ways lead to a value within.

    Args:
        elements: whether those of a list at the end of the path follow it. Else no value within
            one that was yielded is.
    """
    steps = PathSteps(path)
    left: list[tuple[Any, int]] = [(value, BEGIN)]
    while left:
        value, places = left.pop()
        if steps.is_end(places):
            yield value
            if not elements:
                continue
        inner: list[tuple[Any, int]] = []
        if isinstance(value, list):
            inner = [(each, steps.of_element(places, at)) for at, each in enumerate(value)]
        elif isinstance(value, dict):
            inner = [(each, steps.of_member(places, name)) for name, each in value.items()]
        left.extend(each for each in reversed(inner) if each[1])
