"""
The parameters of tasks whose annotations pydantic checks.

Needs the extra ``pydantic``. Without it, the import raises MissingExtra.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast, get_args

from rsmq.errors import InvalidFormat, MissingExtra, Shown
from rsmq.tasks.converters import WrongArgument, check_arrival, check_json, is_any_json

try:
    from pydantic import PydanticUserError, TypeAdapter, ValidationError
    from pydantic_core import PydanticKnownError, PydanticSerializationError, to_json
    from pydantic_core.core_schema import ErrorType
except ImportError as error:
    raise MissingExtra("pydantic", "rsmq.tasks") from error


#: Errors of pydantic whose text contains no part of the value. Those of validators are not known.
_EXPLAINED = set(get_args(ErrorType)) - {
    "assertion_error", "bytes_invalid_encoding", "get_attribute_error", "iteration_error",
    "json_invalid", "mapping_type", "timezone_offset", "union_tag_invalid", "url_parsing",
    "uuid_parsing", "value_error",
}  # fmt: skip


_NO_JSON = "Its values can't be stored as JSON. Pass an id, or a model of pydantic."
#: Remedies for other errors of annotations, by the code of pydantic.
_HINTS = {
    "typed-dict-version": "Before Python 3.12, import TypedDict from typing_extensions, not typing."
}


def _explain(fault: Mapping[str, Any]) -> str:
    """Return the type of a fault, with the text of pydantic if no part of the value is in it."""
    kind: str = fault["type"]
    if kind not in _EXPLAINED:
        return kind
    try:
        text = PydanticKnownError(cast("Any", kind), fault.get("ctx")).message()
    except (TypeError, ValueError):  # it is that of a validator, which has used this type
        return kind
    return f"{kind} ({text})"


class PydanticArgument:
    """A parameter whose values a ``TypeAdapter`` checks, as ``validate_call`` does."""

    def __init__(self, task: str, name: str, kind: Any) -> None:
        """
        Make it.

        Raises:
            InvalidFormat: pydantic has no rule for the annotation.
        """
        self._name = name
        self._is_any_json = is_any_json(kind)
        self._fields = set(getattr(kind, "model_fields", None) or ())
        if is_dataclass(kind):
            self._fields = {each.name for each in fields(kind)}
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        except PydanticUserError as error:
            raise InvalidFormat(
                "annotation",
                value=Shown(f"{name}: {getattr(kind, '__name__', kind)}, of task {task}"),
                hint=_HINTS.get(error.code or "", _NO_JSON),
            ) from error

    def to_json(self, value: Any) -> Any:
        """
        See ``ArgumentConverter``.

        The worker validates again, because other programs may have sent the value. So the value
        must be valid when it is read from its JSON, and must not change then.
        """
        try:
            valid = self._adapter.validate_python(value)
            if self._is_any_json:
                check_json(self._name, valid)
            encoded = self._adapter.dump_python(
                valid, mode="json", by_alias=True, round_trip=True, warnings="error"
            )
        except ValidationError as error:
            rule = self._describe(error)
        except (PydanticSerializationError, ValueError) as error:
            rule = (
                f"{self._name} can't be stored as JSON, {type(error).__name__}; it is of type "
                f"{type(value).__name__}. Annotate it with a type that pydantic stores"
            )
        else:
            raw = self._to_json(encoded)
            if b"NaN" in raw or b"Infinity" in raw:
                check_json(self._name, encoded)
            check_arrival(self._name, valid, self._restore(raw))
            return encoded
        # Outside of the except clause: the text of pydantic's error contains the value.
        raise WrongArgument(rule)

    def from_json(self, value: Any) -> Any:
        """See ``ArgumentConverter``."""
        return self._validate(self._to_json(value))

    def _to_json(self, value: Any) -> bytes:
        try:
            return to_json(value)
        except PydanticSerializationError:
            check_json(self._name, value)  # a lone surrogate
            raise

    def _validate(self, raw: bytes) -> Any:
        try:
            return self._adapter.validate_json(raw)
        except ValidationError as error:
            rule = self._describe(error)
        raise WrongArgument(rule)

    def _restore(self, raw: bytes) -> Any:
        """Return a value from its JSON, as the worker will."""
        try:
            return self._validate(raw)
        except WrongArgument:
            raise
        except Exception as error:  # noqa: BLE001 - a validator may raise any
            kind = type(error).__name__
        raise WrongArgument(f"{self._name} can't be read from its JSON: a validator raises {kind}")

    def _describe(self, error: ValidationError) -> str:
        """Return the faults without values: pydantic's type of each, with the field of a class."""
        faults: dict[str, None] = {}
        for fault in error.errors(include_url=False, include_input=False):
            # Only names of the class: the rest of the location may be keys of the value.
            field = fault["loc"][0] if fault["loc"] else None
            text = _explain(fault)
            faults[f"{field}: {text}" if field in self._fields else text] = None
        return f"{self._name} is not valid, {', '.join(faults)}"
