"""
The forms in which a page shows a body: JSON, text, hex and msgpack. Numbers keep their digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack

from rsmq.search.json_path import JsonPath
from rsmq.web.json_text import (
    INDENT,
    Members,
    NotThisForm,
    enclose,
    read_json,
    values_at,
    write_json,
)
from rsmq.web.pages.formats import iso_time, plural, show_name, show_text

#: Bytes that are shown as hex.
_HEX_BYTES = 8192
_HEX_LINE = 16
_ELLIPSIS = "\u2026"


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
    text = show_name(values_at(raw, path))
    return text if len(text) <= characters else text[:characters] + _ELLIPSIS


def _try(show: Callable[[bytes], str], raw: bytes) -> str | None:
    try:
        return show(raw)
    except (NotThisForm, RecursionError):
        return None


def _as_json(raw: bytes) -> str:
    return show_text(write_json(read_json(raw, Members), ""))


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
            raw, strict_map_key=False, object_pairs_hook=Members, unicode_errors="surrogateescape"
        )
    except (ValueError, TypeError, msgpack.UnpackException):
        raise NotThisForm from None
    if not isinstance(value, list):  # one character of a text is a number, too
        raise NotThisForm
    return show_text(_write_msgpack(value, ""))


def _write_msgpack(value: Any, indent: str) -> str:
    inner = indent + INDENT
    match value:
        case Members():
            pairs = (f"{_write_msgpack(k, inner)}: {_write_msgpack(v, inner)}" for k, v in value)
            text = enclose(list(pairs), "{}", indent)
        case msgpack.ExtType():
            text = f"ext({value.code}, h'{value.data.hex()}')"
        case list() | tuple():  # a tuple as a key
            text = enclose([_write_msgpack(each, inner) for each in value], "[]", indent)
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
