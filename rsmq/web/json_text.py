"""
JSON as it is written: with all digits of its numbers, and with names that are there twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from rsmq.errors import InvalidFormat
from rsmq.search.json_path import JsonPath, fault, find_values, parse_path, read_path
from rsmq.wire.json_constants import refuse_constant

INDENT = "  "
_MAX_COLUMNS = 8


class WrittenNumber(str):
    """A number of JSON, as it is written."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """The members of an object of JSON, also those with a name that is there twice."""


class NotThisForm(Exception):
    """A body does not have a form."""


def read_json(raw: bytes, members: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    """
    Return the value of a body that is JSON.

    Raises:
        NotThisForm: it is not JSON.
        RecursionError: it is too deep.
    """
    try:
        return json.loads(
            raw.decode(),
            object_pairs_hook=members,
            parse_int=WrittenNumber,
            parse_float=WrittenNumber,
            parse_constant=refuse_constant,
        )
    except ValueError:
        raise NotThisForm from None


def write_json(value: Any, indent: str | None = None) -> str:
    """Return a value of JSON as text; with an indent, each member is on a line."""
    if isinstance(value, WrittenNumber):
        return str(value)
    if isinstance(value, Mapping):
        value = Members(value.items())
    if not isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    inner = None if indent is None else indent + INDENT
    is_object = isinstance(value, Members)
    parts = [
        f"{json.dumps(each[0], ensure_ascii=False)}: {write_json(each[1], inner)}"
        if is_object
        else write_json(each, inner)
        for each in value
    ]
    return enclose(parts, "{}" if is_object else "[]", indent)


def enclose(parts: list[str], brackets: str, indent: str | None) -> str:
    """Return parts in brackets; with an indent, each on a line."""
    begin, end = brackets[0], brackets[1]
    if not parts:
        return brackets
    if indent is None:
        return f"{begin}{', '.join(parts)}{end}"
    inner = f"\n{indent}{INDENT}"
    return f"{begin}{inner}{f',{inner}'.join(parts)}\n{indent}{end}"


def values_at(raw: bytes, path: JsonPath) -> str:
    """Return the values of a body at a path; '' without one."""
    try:
        # A list is shown whole, so its elements are not shown again.
        shown = list(find_values(read_json(raw, dict), path, elements=False))
    except (NotThisForm, RecursionError):
        return ""
    return ", ".join(str(each) if isinstance(each, str) else write_json(each) for each in shown)


def read_columns(text: str) -> list[tuple[str, JsonPath]]:
    """
    Return paths with commas between them, each as it is written and as a path.

    Raises:
        InvalidFormat: one is not valid, or there are too many.
    """
    columns: list[tuple[str, JsonPath]] = []
    at = 0
    text = text.strip()
    try:
        while at < len(text):
            begin = at
            _, at = read_path(text, at)
            path = text[begin:at]
            columns.append((path, parse_path(path)))
            rest = text[at:].lstrip()
            if rest and not rest.startswith(","):
                raise fault(at, "Here is a comma or the end")
            at = len(text) - len(rest[1:].lstrip())
            if len(columns) > _MAX_COLUMNS:
                raise fault(at, f"There are at most {_MAX_COLUMNS} columns")
    except SyntaxError as error:
        hint = f"At character {(error.offset or 0) + 1}: {error.msg}. As in customer.id, total."
        raise InvalidFormat("columns", value=text, hint=hint) from None
    return columns
