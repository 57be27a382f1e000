"""
Checks of the commands' parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rsmq.errors import RSMQError
from rsmq.pyrsmq.cmd.exceptions import InvalidParameterValue
from rsmq.vocabulary.queues import NODE_SETTINGS
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import MAX_SECONDS
from rsmq.wire.names import decode_name

_MAX_NAME_LENGTH = 64
_PYRSMQ_MAX_MAXSIZE = 65565  # PyRSMQ's own limit; larger than that of other clients

_SECONDS_HINT = f"Seconds from 0 to {MAX_SECONDS}."
_SIZE = NODE_SETTINGS["maxsize"]
_SIZE_HINT = f"A size from {_SIZE.low} to {_SIZE.high}, or {_SIZE.unlimited} for unlimited."


def check_parameter(namespace: Namespace, name: str, value: object) -> Any:
    """
    Return the value of a parameter in the form in which commands use it.

    Args:
        namespace: the namespace that a queue's name must fit into.
        name: the parameter.
        value: its value, as the program set it.

    Raises:
        InvalidParameterValue: the value is invalid.
    """
    return _CHECKS[name](namespace, value) if name in _CHECKS else value


def check_seconds(name: str, value: object) -> float:
    """
    Return a number of seconds, from a number or its text, as PyRSMQ accepts it.

    Raises:
        InvalidParameterValue: the value is not a number, or is out of range.
    """
    number = _parse_number(value)
    # PyRSMQ cuts fractions off before it compares, so that -0.5 counts as 0, and 9999999.5 as
    # 9999999.
    if number is None or not 0 <= int(number) <= MAX_SECONDS:
        raise InvalidParameterValue(name, value, _SECONDS_HINT)
    return min(max(number, 0), MAX_SECONDS)


def _check_qname(namespace: Namespace, value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _MAX_NAME_LENGTH or ":" in value:
        raise InvalidParameterValue(
            "qname", value, f"A name has 1 to {_MAX_NAME_LENGTH} characters, none of them a colon."
        )
    try:
        namespace.queue(value)
    except RSMQError as error:
        raise InvalidParameterValue("qname", value, error.hint) from error
    return str.__str__(value)  # a member of an enum of names has another text when formatted


def _check_message(_: Namespace, value: object) -> object:
    if value is None:
        raise InvalidParameterValue("message", value, "It is required.")
    return value


def _check_id(_: Namespace, value: object) -> str:
    if isinstance(value, bytes):
        return decode_name(value)
    if not isinstance(value, str) or not value:
        raise InvalidParameterValue("id", value, "An id is a str or bytes, and not empty.")
    return str.__str__(value)


def _check_maxsize(_: Namespace, value: object) -> float:
    number = _parse_number(value)
    low = _SIZE.low or 0
    is_in_range = number is not None and low <= int(number) <= _PYRSMQ_MAX_MAXSIZE
    if number is None or not (is_in_range or number == _SIZE.unlimited):
        raise InvalidParameterValue("maxsize", value, _SIZE_HINT)
    return number


def _seconds_check(name: str) -> Callable[[Namespace, object], float]:
    return lambda _, value: check_seconds(name, value)


def _parse_number(value: Any) -> float | None:
    """Return a finite number, or None. PyRSMQ accepts texts, bools and decimals too."""
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


_CHECKS: dict[str, Callable[[Namespace, object], Any]] = {
    "qname": _check_qname,
    "id": _check_id,
    **{name: _seconds_check(name) for name in NODE_SETTINGS},
    "maxsize": _check_maxsize,
    "message": _check_message,
}
