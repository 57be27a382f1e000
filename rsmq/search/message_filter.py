"""
The language of filters.

    id:ftqzj8          an id that begins so
    body:"red shoes"   a body that contains this text, upper and lower case as written
    json.a.b:value     a body that is JSON with this value at the path a.b
    json.a.b>=3        ... with such a number there
    rc>=3              a receive count: also : < <= >
    sent<2026-10-25T01:30:00Z    when it was sent: also <= > >=; or Unix ms
    cause:3f2a9b7c01de a dead letter of this cause, by its key; cause:none is one without a reason
    key:acme           a message of this limit key or group

Spaces separate terms, and a message must fit all of them. A value with spaces or quotes is a string
of JSON. Without quotes, ``json.a:5`` is the number 5 or the text "5", and ``true``, ``false`` and
``null`` are these values or texts.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rsmq.errors import InvalidFormat
from rsmq.model import DeadLetterReason
from rsmq.search.failure_causes import cause_of, is_cause_key
from rsmq.search.json_path import (
    JsonPath,
    NotJson,
    fault,
    find_values,
    parse_json,
    read_path,
    read_quoted,
)

_MAX_CHARACTERS = 2000
_MAX_TERMS = 20
_FIELD = re.compile("[a-z]*")
_OPERATOR = re.compile(r":|<=|>=|<|>")
_WORD = re.compile(r'[^\s"]\S*')
#: A number of JSON; no longer, so that none is infinite or takes time.
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99})?(?:[eE][+-]?\d{1,2})?")
_MAX_DIGITS = 15

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    ":": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FilteredMessage:
    """
    The parts of a message that a filter looks at.

    Attributes:
        id: as clients see it.
        raw: the body.
        sent_us: Unix microseconds of the send; None if its id contains no time.
        reason: why it is a dead letter; None without one.
        key: its limit key or group; None without one.
    """

    id: str
    raw: bytes
    receive_count: int
    sent_us: int | None
    reason: DeadLetterReason | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """
    A condition of a filter.

    Attributes:
        field: id, body, json, rc, sent, cause or key.
        operator: ``:``, ``<``, ``<=``, ``>`` or ``>=``.
        value: of id, cause and key a text, of body bytes, of rc a number, of sent Unix
            microseconds, of json the values one of which must be there.
        path: of json.
    """

    field: str
    operator: str
    value: Any
    path: JsonPath = ()

    def fits(self, message: FilteredMessage, document: Callable[[], Any]) -> bool:
        """
        Return whether a message fits.

        Args:
            document: returns the body as a value of JSON; raises NotJson.
        """
        if self.field in {"id", "body", "cause", "key"}:
            return self._fits_text(message)
        if self.field == "rc":
            return _COMPARE[self.operator](message.receive_count, self.value)
        if self.field == "sent":
            us = message.sent_us
            return us is not None and _COMPARE[self.operator](us, self.value)
        try:
            found = find_values(document(), self.path)
            return any(_is_like(each, self.operator, one) for each in found for one in self.value)
        except (NotJson, RecursionError):
            return False

    def _fits_text(self, message: FilteredMessage) -> bool:
        if self.field == "id":
            return message.id.startswith(self.value)
        if self.field == "body":
            return self.value in message.raw
        if self.field == "key":
            return bool(self.value == message.key)
        return bool(cause_of(message.reason).key == self.value)


def _is_like(found: Any, sign: str, value: Any) -> bool:
    if isinstance(found, dict | list):
        return False
    if _is_number(value):
        return _is_number(found) and _COMPARE[sign](found, value)
    return type(found) is type(value) and bool(found == value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Conditions that a message must all meet; without one, each message fits."""

    terms: tuple[Term, ...] = ()

    def fits(self, message: FilteredMessage) -> bool:
        """Return whether a message fits."""
        parsed: list[Any] = []

        def document() -> Any:
            if not parsed:
                parsed.append(parse_json(message.raw))
            return parsed[0]

        return all(term.fits(message, document) for term in self.terms)


def parse_filter(text: str) -> SearchFilter:
    """
    Return a filter.

    Raises:
        InvalidFormat: the text is not one; the hint has the position of the fault, from 1.
    """
    terms: list[Term] = []
    at = 0
    try:
        if len(text) > _MAX_CHARACTERS:
            raise fault(_MAX_CHARACTERS, f"A filter has at most {_MAX_CHARACTERS} characters")
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            if len(terms) == _MAX_TERMS:
                raise fault(at, f"A filter has at most {_MAX_TERMS} terms")
            term, at = _read_term(text, at)
            terms.append(term)
    except SyntaxError as error:
        hint = f"At character {(error.offset or 0) + 1}: {error.msg}."
        raise InvalidFormat("filter", value=text, hint=hint) from None
    return SearchFilter(tuple(terms))


def _read_term(text: str, at: int) -> tuple[Term, int]:
    found = _FIELD.match(text, at)
    name, begin = found[0] if found else "", at
    at += len(name)
    if name not in _READERS:
        raise fault(
            begin, "A term begins with id:, body:, json., rc, sent, cause: or key:, as in rc>=3"
        )
    path: JsonPath = ()
    if name == "json":
        if text[at : at + 1] != ".":
            raise fault(at, "Here is a dot and a path, as in json.customer.email:x")
        path, at = read_path(text, at + 1)
    sign = _OPERATOR.match(text, at)
    signs = _OPERATORS[name]
    if sign is None or sign[0] not in signs:
        raise fault(at, f"Here is {' or '.join(signs)}")
    at = sign.end()
    is_quoted = text[at : at + 1] == '"'
    if is_quoted:
        value, end = read_quoted(text, at, "a value")
    else:
        word = _WORD.match(text, at)
        if word is None:
            raise fault(at, "Here is a value")
        value, end = word[0], word.end()
    if end < len(text) and not text[end].isspace():
        raise fault(end, "Here is a space or the end of the filter")
    read = _READERS[name](_Value(value, at, sign[0], is_quoted=is_quoted))
    return Term(name, sign[0], read, path), end


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of a term as it was written, at a position."""

    text: str
    at: int
    sign: str
    is_quoted: bool


def _read_text(value: _Value) -> bytes:
    try:
        return value.text.encode()
    except UnicodeEncodeError:
        raise fault(value.at, "It is not a text") from None


def _read_cause(value: _Value) -> str:
    if not is_cause_key(value.text):
        raise fault(value.at, "Here is the key of a group of dead letters, or none")
    return value.text


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _read_count(value: _Value) -> int:
    if not _is_whole(value.text):
        raise fault(value.at, "Here is a whole number, as in rc>=3")
    return int(value.text)


def _read_us(value: _Value) -> int:
    if _is_whole(value.text):
        return int(value.text) * 1000
    try:
        time = datetime.fromisoformat(value.text)
        if time.tzinfo is not None:
            # Exact, which a float of seconds is not.
            return (time - _EPOCH) // datetime.resolution
    except (ValueError, OverflowError):
        pass
    raise fault(value.at, "Here is a time with its offset, as in 2026-10-25T01:30:00Z, or Unix ms")


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


def _read_values(value: _Value) -> tuple[Any, ...]:
    literals: tuple[Any, ...] = ()
    if not value.is_quoted and _NUMBER.fullmatch(value.text):
        literals = (json.loads(value.text),)
    elif not value.is_quoted and value.text in _LITERALS:
        literals = (_LITERALS[value.text],)
    if value.sign == ":":
        return (value.text, *literals)
    if not literals or not _is_number(literals[0]):
        raise fault(value.at, "Here is a number, as in json.price>=10")
    return literals


_LITERALS = {"true": True, "false": False, "null": None}
_READERS: Mapping[str, Callable[[_Value], Any]] = {
    "id": lambda value: value.text, "body": _read_text, "json": _read_values, "rc": _read_count,
    "sent": _read_us, "cause": _read_cause, "key": lambda value: value.text,
}  # fmt: skip
_ALL = (":", "<", "<=", ">", ">=")
_OPERATORS: Mapping[str, tuple[str, ...]] = {
    "id": (":",), "body": (":",), "json": _ALL, "rc": _ALL, "sent": _ALL[1:],
    "cause": (":",), "key": (":",),
}  # fmt: skip
