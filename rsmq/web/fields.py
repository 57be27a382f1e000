"""
The fields of requests: their kinds, each with its JSON schema and its reader.

A reader checks the type only. The ranges are checked by the client, whose errors name them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from rsmq.errors import RSMQError, show


class Refused(Exception):
    """
    A request that is not valid, or not allowed.

    Attributes:
        code: the name of the fault, for programs.
        status: the HTTP status.
        value: the refused value; None without one.
        hint: the rule or the remedy.
        headers: further headers of the answer.
        extra: further members of the answer.
    """

    def __init__(
        self,
        code: str,
        text: str,
        *,
        status: int = 422,
        value: object = None,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.value = value
        self.hint = hint
        self.headers: dict[str, str] = dict(headers or {})
        self.extra: dict[str, Any] = dict(extra or {})


class ItemRefused(Exception):
    """
    A message of a batch that is not valid.

    Attributes:
        index: its place in the batch, from 0.
        error: what is wrong with it.
    """

    def __init__(self, index: int, error: Refused | RSMQError) -> None:
        super().__init__(str(error))
        self.index = index
        self.error = error


@dataclass(frozen=True, slots=True)
class _Type:
    """
    Attributes:
        of_json: whether a value of JSON is of this kind.
        of_text: reads it from a query; raises ValueError.
    """

    schema: Mapping[str, Any]
    what: str
    of_json: Callable[[Any], bool]
    of_text: Callable[[str], Any]
    convert: Callable[[Any], Any] = lambda value: value


#: Larger numbers are out of every range; and some of them can't be a float.
_MAX_NUMBER = 2**63


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= _MAX_NUMBER  # which is false for NaN


def _is_number_or_null(value: object) -> bool:
    return value is None or _is_number(value)


def _is_whole(value: object) -> bool:
    # In JSON, 1.0 and 1 are the same number.
    return _is_number(value) and value == int(value)  # type: ignore[call-overload]


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


#: As in JSON: Python also reads underscores, spaces, and digits of other scripts.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _read_number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    value = float(text)
    if not _is_number(value):
        raise ValueError(text)
    return int(value) if value.is_integer() else value


def _read_flag(text: str) -> bool:
    values = {"true": True, "1": True, "": True, "false": False, "0": False}
    if text not in values:
        raise ValueError(text)
    return values[text]


def _read_time(value: Any) -> datetime:
    return datetime.fromisoformat(str(value))


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and _read_time(value).tzinfo is not None
    except ValueError:
        return False


def _refuse(text: str) -> Any:
    raise ValueError(text)


_MAX_DIGITS = 20


def _read_whole(text: str) -> int:
    value = _read_number(text[: _MAX_DIGITS + 1])
    if len(text) > _MAX_DIGITS or not isinstance(value, int):
        raise ValueError(text)
    return value


class Shape(Enum):
    """The kind of a field."""

    TEXT = _Type({"type": "string"}, "a text", lambda value: isinstance(value, str), str)
    NUMBER = _Type({"type": "number"}, "a number", _is_number, _read_number)
    WHOLE = _Type({"type": "integer"}, "a whole number", _is_whole, _read_whole, int)
    FLAG = _Type({"type": "boolean"}, "true or false", lambda v: isinstance(v, bool), _read_flag)
    TIME = _Type(
        {"type": "string", "format": "date-time"},
        "a time with its offset, such as 2026-10-25T01:30:00Z",
        _is_time,
        lambda text: text if _is_time(text) else _refuse(text),
        _read_time,
    )
    TEXTS = _Type(
        {"type": "array", "items": {"type": "string"}}, "a list of texts", _is_texts,
        lambda text: text.split(","),
    )  # fmt: skip
    NUMBERS = _Type(
        {"type": "array", "items": {"type": ["number", "null"]}},
        "a list of numbers",
        lambda value: isinstance(value, list) and all(map(_is_number_or_null, value)),
        _refuse,
    )
    ANY = _Type({}, "any value of JSON", lambda _: True, str)
    OBJECT = _Type({"type": "object"}, "an object", lambda value: isinstance(value, dict), _refuse)
    OBJECTS = _Type(
        {"type": "array", "items": {"type": "object"}},
        "a list of objects",
        lambda value: isinstance(value, list) and all(isinstance(each, dict) for each in value),
        _refuse,
    )


@dataclass(frozen=True, slots=True)
class Field:
    """
    A field of a query, of a JSON body, or of a JSON answer.

    Attributes:
        rule: the rest of its JSON schema, such as a range, which the handler or the client checks.
        default: its value in a request that does not have it.
        items: the fields of an object, or of each object of a list, for its JSON schema; of a
            request, the handler checks them.
    """

    name: str
    kind: Shape
    text: str
    required: bool = False
    rule: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[Field, ...] = ()
    default: Any = None

    def read(self, values: Mapping[str, Any]) -> Any:
        """Return its value in a request, or its default."""
        return values.get(self.name, self.default)


def between(low: float, high: float) -> dict[str, Any]:
    """Return the rule of a number."""
    return {"minimum": low, "maximum": high}


def number_of(what: str, high: int, default: int, name: str = "limit") -> Field:
    """Return the field for how many things a caller wants."""
    text = f"{what}, 1 to {high:,}; {default:,} by default."
    return Field(name, Shape.WHOLE, text, rule=between(1, high), default=default)


def one_of(*values: str) -> dict[str, Any]:
    """Return the rule of a text."""
    return {"enum": list(values)}


#: The rule of times in seconds.
SECONDS = between(0, 9_999_999)


def read_query(
    pairs: list[tuple[str, str]], fields: tuple[Field, ...], in_body: tuple[Field, ...] = ()
) -> dict[str, Any]:
    """
    Return the values of a query.

    Args:
        in_body: the fields that belong to the body instead.

    Raises:
        Refused: a field is unknown, missing, repeated, or of another kind.
    """
    values: dict[str, Any] = {}
    for name, text in pairs:
        each = _find(name, fields, in_body, "the body, as JSON")
        if name in values:
            raise Refused("repeatedField", f"The field {show(name)} is there twice", status=400)
        try:
            values[name] = each.kind.value.convert(each.kind.value.of_text(text))
        except ValueError:
            raise _wrong_kind(each, text) from None
    _check_required(values, fields)
    return values


def read_object(
    content: Any, fields: tuple[Field, ...], in_query: tuple[Field, ...] = ()
) -> dict[str, Any]:
    """
    Return the values of a JSON object; a field that is null counts as one that is not passed.

    Args:
        in_query: the fields that belong to the query instead.

    Raises:
        Refused: as for ``read_query``, or the content is not an object.
    """
    if not isinstance(content, dict):
        raise Refused("invalidFormat", "The body is not a JSON object")
    values: dict[str, Any] = {}
    for name, value in content.items():
        each = _find(name, fields, in_query, "the query")
        if value is None and each.kind is not Shape.ANY:
            continue
        if not each.kind.value.of_json(value):
            raise _wrong_kind(each, value)
        values[name] = each.kind.value.convert(value)
    _check_required(values, fields)
    return values


def _find(name: str, fields: tuple[Field, ...], others: tuple[Field, ...], place: str) -> Field:
    for each in fields:
        if each.name == name:
            return each
    if any(each.name == name for each in others):
        hint = f"It is a field of {place}."
    elif fields:
        hint = f"The fields are: {', '.join(each.name for each in fields)}."
    else:
        hint = "This call has no fields here." if others else "This call has no fields."
    raise Refused("unknownField", f"There is no field {show(name)} here", value=name, hint=hint)


def _wrong_kind(each: Field, value: object) -> Refused:
    is_blank = each.kind is Shape.TIME and isinstance(value, str) and " " in value
    return Refused(
        "invalidFormat",
        f"The field {each.name} is not {each.kind.value.what}",
        value=None if each.name in _WITH_BODIES else value,
        hint="In a query, + is a blank: write %2B, or a time with Z." if is_blank else None,
    )


def _check_required(values: Mapping[str, Any], fields: tuple[Field, ...]) -> None:
    for each in fields:
        if each.required and each.name not in values:
            raise Refused("missingParameter", f"The field {each.name} is missing", hint=each.text)


#: The three forms of a body; a request has one of them.
BODY_FIELDS = (
    Field("body", Shape.TEXT, "The body as text."),
    Field("body_base64", Shape.TEXT, "The body as bytes, in base64."),
    Field("json", Shape.ANY, "The body as a value, which is stored as JSON."),
)


#: The fields whose values no problem contains.
_WITH_BODIES = {"messages", *(each.name for each in BODY_FIELDS)}
_BODY_RULE = "A message has one of body, body_base64 and json."


def read_body(values: Mapping[str, Any]) -> str | bytes:
    """
    Return the body of a message.

    Raises:
        Refused: there is none, or more than one, or the base64 is invalid.
    """
    passed = [each.name for each in BODY_FIELDS if each.name in values]
    if not passed:
        raise Refused("missingParameter", "The message has no body", hint=_BODY_RULE)
    if len(passed) > 1:
        raise Refused("invalidFormat", f"The message has {' and '.join(passed)}", hint=_BODY_RULE)
    if passed == ["body"]:
        text: str = values["body"]
        return text
    if passed == ["json"]:
        try:
            return json.dumps(
                values["json"], ensure_ascii=False, separators=(",", ":"), allow_nan=False
            )
        except RecursionError:
            raise Refused("invalidFormat", "The field json is nested too deeply") from None
        except ValueError:  # 1e400 is valid JSON, and would be stored as Infinity
            raise Refused(
                "invalidFormat",
                "json has a number that is too large for a float",
                hint="Send it as text, or the body as text in body.",
            ) from None
    try:
        return base64.b64decode(values["body_base64"], validate=True)
    except (binascii.Error, ValueError):
        raise Refused("invalidFormat", "body_base64 is not base64") from None
