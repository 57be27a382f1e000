"""
The forms in which a page shows a body: JSON, text, hex and msgpack. Numbers keep their digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from rsmq.headers import split_trace_line
from rsmq.search.json_path import JsonPath, find_values
from rsmq.web.pages.formats import iso_time, plural, show_name, show_text

#: Bytes that are shown as hex.
_HEX_BYTES = 8192
_HEX_LINE = 16
_INDENT = "  "
_ELLIPSIS = "\u2026"


class _WrittenNumber(str):
    """A number of JSON, as it is written."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """The members of an object of JSON, also those with a name that is there twice."""


class NotThisForm(Exception):
    """A body does not have a form."""


@dataclass(frozen=True, slots=True)
class BodyForm:
    """
    A body in a form.

    Attributes:
        name: in the address.
        text: None if the body does not have this form.
    """

    name: str
    title: str
    text: str | None


def forms_of(raw: bytes) -> list[BodyForm]:
    """Return a body in all forms; the first one that it has is the best."""
    return [BodyForm(name, title, _try(show, raw)) for name, title, show in _FORMS]


def show_line(raw: bytes, characters: int) -> str:
    """Return the beginning of a body on one line."""
    text = show_name(raw[: 4 * characters].decode(errors="backslashreplace"))
    return text if len(text) <= characters else text[:characters] + _ELLIPSIS


def value_at(raw: bytes, path: JsonPath, characters: int) -> str:
    """Return the values of a body at a path on one line; '' without one."""
    try:
        found = list(find_values(_read_json(raw, dict), path))
    except (NotThisForm, RecursionError):
        return ""
    # Of a list at its end, the values are the list and then its elements.
    shown = found[:1] if found and isinstance(found[0], list) else found
    text = show_name(", ".join(map(_show_short, shown)))
    return text if len(text) <= characters else text[:characters] + _ELLIPSIS


def _show_short(value: Any) -> str:
    return str(value) if isinstance(value, str) else _write_json(value)


def _try(show: Callable[[bytes], str], raw: bytes) -> str | None:
    try:
        return show(raw)
    except (NotThisForm, RecursionError):
        return None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _read_json(raw: bytes, members: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    try:
        return json.loads(
            split_trace_line(raw)[1].decode(),
            object_pairs_hook=members,
            parse_int=_WrittenNumber,
            parse_float=_WrittenNumber,
            parse_constant=_refuse,
        )
    except ValueError:
        raise NotThisForm from None


def _write_json(value: Any, indent: str | None = None) -> str:
    """Return a value of JSON as text; with an indent, each member is on a line."""
    if isinstance(value, _WrittenNumber):
        return str(value)
    if isinstance(value, Mapping):
        value = _Members(value.items())
    if not isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    inner = None if indent is None else indent + _INDENT
    is_object = isinstance(value, _Members)
    parts = [
        f"{json.dumps(each[0], ensure_ascii=False)}: {_write_json(each[1], inner)}"
        if is_object
        else _write_json(each, inner)
        for each in value
    ]
    return _enclose(parts, "{}" if is_object else "[]", indent)


def _enclose(parts: list[str], brackets: str, indent: str | None) -> str:
    begin, end = brackets[0], brackets[1]
    if not parts:
        return brackets
    if indent is None:
        return f"{begin}{', '.join(parts)}{end}"
    inner = f"\n{indent}{_INDENT}"
    return f"{begin}{inner}{f',{inner}'.join(parts)}\n{indent}{end}"


def _as_json(raw: bytes) -> str:
    line = raw[: len(raw) - len(split_trace_line(raw)[1])].decode(errors="backslashreplace")
    return show_text(line + _write_json(_read_json(raw, _Members), ""))


def _as_text(raw: bytes) -> str:
    try:
        return show_text(raw.decode())
    except UnicodeDecodeError:
        raise NotThisForm from None


def _as_hex(raw: bytes) -> str:
    lines = []
    for at in range(0, min(len(raw), _HEX_BYTES), _HEX_LINE):
        part = raw[at : at + _HEX_LINE]
        seen = "".join(chr(each) if 32 <= each < 127 else "." for each in part)  # noqa: PLR2004
        lines.append(f"{at:08x}  {part.hex(' '):{3 * _HEX_LINE}} {seen}")
    if len(raw) > _HEX_BYTES:
        lines.append(f"{_ELLIPSIS} {plural(len(raw) - _HEX_BYTES, 'more byte')}")
    return "\n".join(lines)


def _as_msgpack(raw: bytes) -> str:
    try:
        value = msgpack.unpackb(
            raw, strict_map_key=False, object_pairs_hook=_Members, unicode_errors="surrogateescape"
        )
    except (ValueError, TypeError, msgpack.UnpackException):
        raise NotThisForm from None
    if not isinstance(value, list):  # one character of a text is a number, too
        raise NotThisForm
    return show_text(_write_msgpack(value, ""))


def _write_msgpack(value: Any, indent: str) -> str:
    inner = indent + _INDENT
    match value:
        case _Members():
            pairs = (f"{_write_msgpack(k, inner)}: {_write_msgpack(v, inner)}" for k, v in value)
            text = _enclose(list(pairs), "{}", indent)
        case msgpack.ExtType():
            text = f"ext({value.code}, h'{value.data.hex()}')"
        case list() | tuple():  # a tuple as a key
            text = _enclose([_write_msgpack(each, inner) for each in value], "[]", indent)
        case bytes():
            text = f"h'{value.hex()}'"
        case msgpack.Timestamp():
            text = f"time({iso_time(value.to_unix() * 1000)})"
        case float():
            text = repr(value)
        case _:
            text = json.dumps(value, ensure_ascii=False)
    return text


_FORMS: tuple[tuple[str, str, Callable[[bytes], str]], ...] = (
    ("json", "JSON", _as_json),
    ("text", "Text", _as_text),
    ("msgpack", "msgpack", _as_msgpack),
    ("hex", "Hex", _as_hex),
)
