"""
Converters of arguments between Python and JSON, one for each parameter of a task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rsmq.codecs.dataclass_bodies import WrongType, make_converter
from rsmq.errors import InvalidFormat, Shown


class WrongArgument(Exception):
    """An argument breaks the rule of its parameter; the text contains no value."""


class ArgumentConverter(Protocol):
    """Checks and converts the values of one parameter; both methods raise WrongArgument."""

    def to_json(self, value: Any) -> Any:
        """Return a value of JSON."""

    def from_json(self, value: Any) -> Any:
        """Return the value that the function takes."""


class PlainArgument:
    """A parameter whose type is one of JSON, or a dataclass of such types."""

    def __init__(self, task: str, name: str, kind: Any) -> None:
        """
        Make it.

        Raises:
            InvalidFormat: values of this type can't be restored from JSON without pydantic.
        """
        try:
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
        return _convert(self._converter.to_json, value)

    def from_json(self, value: Any) -> Any:
        """See ``ArgumentConverter``."""
        return _convert(self._converter.from_json, value)


def _convert(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except WrongType as error:
        raise WrongArgument(error.rule) from None
