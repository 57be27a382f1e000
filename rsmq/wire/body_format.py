"""
The text form of bodies that are compressed, encrypted or stored elsewhere. Pure.

    rsmq-body/1:zstd=10240,aes256gcm=k2:from=rsmq%3Aorders:BASE64

Four parts, in ASCII: the version, the steps in the order in which they were done, fields, and the
payload in base64. A body that does not begin with ``rsmq-body/`` is plain. compat/PROTOCOL.md has
the grammar.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes

from rsmq.errors import show
from rsmq.errors.printable import format_count

#: With these bytes each body in this form begins. No JSON does, and no MessagePack of one value.
PREFIX = b"rsmq-body/"

_HEAD = re.compile(rb"rsmq-body/1:(?P<steps>[\w=.~,/%-]*):(?P<fields>[\w=.~;%-]*):")
_KEY_ID = re.compile(rb"rsmq-body/1:(?:[\w=.~/%-]*,)*?aes256gcm=([\w.-]{1,64})[,:]")
_ID_END, _ID_END_KEPT = 22, 20
_STORED = re.compile(rb"rsmq-body/1:(?:[\w=.~/%-]*,)*?stored=")
_STORED_SIZE = re.compile(rb"rsmq-body/1:(?:[\w=.~/%-]*,)*?stored=\w+/([0-9]{1,9})/")
_FROM, _HEADERS = "from", "headers"


class FormatError(ValueError):
    """
    A body begins as one in this form, and is not; the text does not contain it.

    Attributes:
        hint: the remedy.
    """

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class BodyStep:
    """
    Something that was done with the bytes of a body, as in ``zstd=10240``.

    Attributes:
        name: what was done.
        parameters: what is needed to undo it, percent-decoded.
    """

    name: str
    parameters: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.name}={'/'.join(map(_quote, self.parameters))}"
            if self.parameters
            else self.name
        )


@dataclass(frozen=True, slots=True)
class FormattedBody:
    """
    A body in this form.

    Attributes:
        steps: what was done with its bytes, in order.
        payload: the bytes that came out.
        origin: the queue for which it was encoded, as ``NAMESPACE:QUEUE``; None is the queue that
            it is in.
        headers: its headers, in clear text.
    """

    steps: tuple[BodyStep, ...]
    payload: bytes
    origin: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def format(self) -> str:
        """Return the text."""
        payload = binascii.b2a_base64(self.payload, newline=False).decode()
        return f"{format_steps(self.steps)}:{self._format_fields()}:{payload}"

    def _format_fields(self) -> str:
        fields = []
        if self.origin is not None:
            fields.append(f"{_FROM}={quote(self.origin, safe='')}")
        if self.headers:
            text = json.dumps(dict(self.headers), ensure_ascii=False, separators=(",", ":"))
            fields.append(f"{_HEADERS}={quote(text, safe='')}")
        return ";".join(fields)


def format_steps(steps: tuple[BodyStep, ...]) -> str:
    """Return the first two parts of the text, without the colon behind them."""
    return f"rsmq-body/1:{','.join(map(str, steps))}"


def is_formatted(raw: bytes) -> bool:
    """Return whether a stored body is in this form, of any version."""
    return raw.startswith(PREFIX)


def parse_head(raw: bytes) -> tuple[FormattedBody, int]:
    """
    Return a body in this form without its payload, and the position where that begins.

    Raises:
        FormatError: the version is unknown, or the text is damaged.
    """
    found = _HEAD.match(raw)
    if found is None:
        version = raw[len(PREFIX) : len(PREFIX) + 8].partition(b":")[0]
        if raw.startswith(PREFIX) and version.isdigit() and version != b"1":
            raise FormatError(
                f"The body has version {version.decode()} of the format of bodies",
                "Update rsmq: this version reads version 1.",
            )
        raise FormatError("The body begins as one in the format of bodies, and is damaged")
    fields = found["fields"].decode()
    names = dict(each.partition("=")[::2] for each in fields.split(";") if each) if fields else {}
    steps = tuple(_parse_step(each) for each in found["steps"].decode().split(",") if each)
    if len({step.name for step in steps}) < len(steps):  # each may inflate as much as is allowed
        raise FormatError("The body has a step twice, and is damaged")
    origin = names.get(_FROM)
    head = FormattedBody(
        steps, b"", None if origin is None else unquote_to_bytes(origin), _parse_headers(names)
    )
    return head, found.end()


def parse_body(raw: bytes) -> FormattedBody:
    """
    Return a body in this form.

    Raises:
        FormatError: the version is unknown, or the text is damaged.
    """
    head, start = parse_head(raw)
    try:
        payload = binascii.a2b_base64(raw[start:], strict_mode=True)
    except binascii.Error:
        raise FormatError("The payload of the body is not base64") from None
    return FormattedBody(head.steps, payload, head.origin, head.headers)


def add_origin(raw: bytes, origin: bytes) -> bytes:
    """
    Return a body with the queue that it comes from, if it is in this form and names none.

    Args:
        raw: any body.
        origin: ``NAMESPACE:QUEUE``.
    """
    found = _HEAD.match(raw) if raw.startswith(PREFIX) else None
    if found is None or found["fields"].startswith(b"from="):
        return raw
    start = found.start("fields")
    separator = b";" if found["fields"] else b""
    name = quote(origin, safe="").encode()
    return b"%bfrom=%b%b%b" % (raw[:start], name, separator, raw[start:])


def headers_of(raw: bytes) -> dict[str, str]:
    """Return the headers of a body in this form; empty if it is damaged."""
    try:
        return dict(parse_head(raw)[0].headers)
    except FormatError:
        return {}


def is_stored(raw: bytes) -> bool:
    """Return whether a body is the name of an object of a store."""
    return _STORED.match(raw) is not None


def stored_size(raw: bytes) -> int | None:
    """Return the size of the object of a body that is stored elsewhere, bytes; None of others."""
    found = _STORED_SIZE.match(raw)
    return None if found is None else int(found[1])


def name_object(id: bytes) -> str:
    """
    Return the name of the object that belongs to one message.

    Args:
        id: the id of the message, or its last 22 characters. The last two of them may change: they
            mark messages with groups.
    """
    return hashlib.sha256(id[-_ID_END:][:_ID_END_KEPT]).hexdigest()[:32]


def owned_object(raw: bytes, id: str) -> str | None:
    """
    Return the name of the object that only this message can have; None if there is none.

    A message owns its object while it is in the queue that it was sent to, and its id names the
    object. Whatever copies a body gives another id, or adds the first queue.

    Args:
        raw: the body as it is in the queue.
        id: the id of the message.
    """
    if not is_stored(raw):
        return None
    try:
        head, _ = parse_head(raw)
    except FormatError:
        return None
    name = name_object(id.encode("utf-8", "surrogateescape"))
    is_owned = head.origin is None and head.steps[-1].parameters[:1] == (name,)
    return name if is_owned else None


def key_id_of(raw: bytes) -> str | None:
    """Return the id of the key of an encrypted body, or of its first 200 bytes; else None."""
    found = _KEY_ID.match(raw)
    return None if found is None else found[1].decode()


def describe(raw: bytes) -> str:
    """
    Return in words what was done with a body in this form, as in "compressed (zstd, 10,240 bytes)
    and encrypted (key k2)"; "" for a plain body.
    """
    if not raw.startswith(PREFIX):
        return ""
    try:
        head, _ = parse_head(raw)
    except FormatError as error:
        return str(error)
    return " and ".join(map(_describe_step, head.steps)) or "text in base64"


def _describe_step(step: BodyStep) -> str:
    first = step.parameters[0] if step.parameters else ""
    match step.name:
        case "zlib" | "zstd":
            size = format_count(int(first), "byte") if re.fullmatch("[0-9]{1,18}", first) else first
            return f"compressed ({step.name}, {size})"
        case "aes256gcm":
            return f"encrypted (key {first})"
        case "stored":
            return f"stored elsewhere ({', size '.join(step.parameters[:2])})"
    return f"changed by {show(step.name)}"


def _parse_step(text: str) -> BodyStep:
    name, has_parameters, parameters = text.partition("=")
    if not has_parameters:
        return BodyStep(name)
    return BodyStep(name, tuple(_unquote(each) for each in parameters.split("/")))


def _parse_headers(names: Mapping[str, str]) -> dict[str, str]:
    if _HEADERS not in names:
        return {}
    try:
        headers: Any = json.loads(_unquote(names[_HEADERS]))
    except (ValueError, RecursionError):
        raise FormatError("The headers of the body are damaged") from None
    if not isinstance(headers, dict):
        raise FormatError("The headers of the body are damaged")
    return {name: value for name, value in headers.items() if isinstance(value, str)}


@lru_cache(maxsize=1024)
def _quote(text: str) -> str:
    return quote(text, safe="")


@lru_cache(maxsize=1024)
def _unquote(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise FormatError("The format of the body is damaged") from None
