"""
The words of HTTP for errors of the client: fields instead of arguments, routes instead of methods.
"""

from __future__ import annotations

import ast
from datetime import datetime
from typing import Any

from rsmq.errors import (
    ArgumentError,
    ClientClosed,
    InvalidCombination,
    InvalidFormat,
    InvalidValue,
    JobNotTracked,
    MessageNotString,
    MissingExtra,
    RSMQError,
    Shown,
)
from rsmq.errors.hints import Words
from rsmq.vocabulary.calls import BY_NAME, names_in_errors

#: The fields of requests, by the arguments of the client that have other names.
_FIELDS = {
    **names_in_errors(lambda argument: argument.field_name),
    "qname": "queue",
    "the number of bodies": "the number of messages",
    "the bytes of bodies": "the bytes of messages",
}
#: The texts over HTTP in place of the hints.
_HINTS: dict[type[RSMQError], str] = {
    ClientClosed: "The server is being stopped.",
    JobNotTracked: "Send it with track.",
}
#: A value may be a body by mistake, so it is not repeated if it is long.
_MAX_SHOWN = 80
#: Larger ones are out of every range, and long.
_MAX_NUMBER = 2**64


class ForPrograms(str):
    """A hint that names a route: only a program can follow it, and pages leave it out."""

    __slots__ = ()


class HttpWords(Words):
    """
    The words of HTTP.

    Attributes:
        names_route: whether a text with these words names a route.
    """

    def __init__(self) -> None:
        self.names_route = False

    def value(self, value: object) -> str:
        """Return a value as JSON writes it."""
        if isinstance(value, bool):
            return str(value).lower()
        return value.isoformat() if isinstance(value, datetime) else super().value(value)

    def argument(self, name: str) -> str:
        """Return the field of an argument."""
        return _FIELDS.get(name, name)

    def passed(self, name: str, value: object) -> str:
        """Return a field with its value."""
        if name == "strict_names":
            return "--any-names to the server"
        field = self.argument(name)
        return field if value is True else f"{field}: {self.value(value)}"

    def method(self, name: str, argument: str | None, queue: str | None) -> str:  # noqa: ARG002 - the path has it
        """Return the route of a method."""
        self.names_route = True
        route = BY_NAME[name].route
        return route if argument is None else f"{self.argument(argument)} of {route}"


_WORDS = HttpWords()


def detail_of(error: RSMQError) -> str:
    """Return what is wrong, with the name of the field."""
    if isinstance(error, MessageNotString):
        return "The body has a character that UTF-8 can't encode"
    if isinstance(error, InvalidFormat) and error.has_value and value_of(error) is None:
        return f"There is no {_WORDS.argument(error.argument)}"
    return error.summary_in(_WORDS)


def hint_of(error: RSMQError) -> str | None:
    """Return the rule or the remedy; ``ForPrograms`` if it names a route."""
    if isinstance(error, MissingExtra):
        return f"Who runs the server can install its extra {error.value}."
    words = HttpWords()
    hint = _HINTS.get(type(error)) or error.hint_in(words)
    return ForPrograms(hint) if hint and words.names_route else hint


def facts_of(error: RSMQError) -> dict[str, Any]:
    """Return the members of a problem that say which field is wrong, and the rule."""
    if not isinstance(error, ArgumentError):
        return {}
    facts: dict[str, Any] = {"field": _WORDS.argument(error.argument)}
    if isinstance(error, InvalidCombination):
        facts |= {"needs": error.needs, "excludes": error.excludes}
    elif isinstance(error, InvalidValue):
        facts["range"] = error.range
    return {name: value for name, value in facts.items() if value != ()}


def value_of(error: RSMQError) -> str | float | bool | None:
    """Return the refused value as one of JSON, shortened; None without one."""
    if isinstance(error, MessageNotString):
        return None  # it is a part of a body
    value = error.value
    if isinstance(value, Shown):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            value = str(value)
    if isinstance(value, datetime):
        value = value.isoformat()
    return short(value)


def short(value: Any) -> str | float | bool | None:
    """Return a value of JSON that is neither a list nor an object, shortened; else None."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
    is_number = isinstance(value, int | float) and abs(value) <= _MAX_NUMBER  # not NaN
    return value if is_number else None
