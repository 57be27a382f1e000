"""
The codec of a pydantic model.

Needs the extra ``pydantic``. Without it, the import raises MissingExtra.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from rsmq.codecs.interface import CannotDecode, CannotEncode
from rsmq.codecs.value_changes import find_change
from rsmq.errors import InvalidFormat, MissingExtra, show

try:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import PydanticSerializationError
except ImportError as error:
    raise MissingExtra("pydantic", "rsmq.codecs.pydantic_codec") from error

Model = TypeVar("Model", bound=BaseModel)


class PydanticCodec(Generic[Model]):
    """The codec that ``pydantic_codec`` returns."""

    __slots__ = ("_model",)

    def __init__(self, model: type[Model]) -> None:
        if not (isinstance(model, type) and issubclass(model, BaseModel)) or model is BaseModel:
            raise InvalidFormat(
                "model", value=show(model), hint="Pass a subclass of pydantic.BaseModel."
            )
        self._model = model

    def encode(self, body: Model) -> str:
        """Return the JSON of a valid object of the model."""
        if type(body) is not self._model:  # fields of a subclass would be lost
            raise CannotEncode(self, body, f"Pass an object of {self._model.__name__}.")
        with suppress(PydanticSerializationError, ValidationError):
            encoded = body.model_dump_json(by_alias=True, round_trip=True, warnings="error")
            change = find_change(body, self._model.model_validate_json(encoded))
            if change is None:
                return encoded
            hint = f"It would arrive {change}: its JSON, or a validator that reads it, changes it."
            raise CannotEncode(self, body, hint)
        raise CannotEncode(self, body, self._invalid_hint(body))

    def _invalid_hint(self, body: Model) -> str:
        """Return the faults of an object, without its values: pydantic's errors contain them."""
        name = self._model.__name__
        fields = body.model_dump(by_alias=True, round_trip=True, warnings=False)
        try:
            self._model.model_validate(fields, strict=True)
        except ValidationError as error:
            faults = ", ".join(_describe_faults(self._model, error))
            return f"It is not a valid {name}: {faults}. Build it with {name}.model_validate."
        return f"{name} does not accept its own JSON: serialize fields as they are validated."

    def decode(self, raw: bytes) -> Model:
        """Return a valid object of the model."""
        try:
            return self._model.model_validate_json(raw)
        except ValidationError as error:
            faults = ", ".join(_describe_faults(self._model, error))
        # Outside of the except clause: the text of pydantic's error contains values of the body.
        raise CannotDecode(f"The body is not a valid {self._model.__name__}: {faults}")

    def __repr__(self) -> str:
        return f"pydantic_codec({self._model.__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PydanticCodec, (self._model,)


def _describe_faults(model: type[BaseModel], error: ValidationError) -> Iterator[str]:
    """Return for each fault the field of the model, if there is one, and pydantic's type."""
    own_names = set(model.model_fields)
    for each in model.model_fields.values():
        own_names |= {name for name in (each.alias, each.validation_alias) if isinstance(name, str)}
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        # Only names of the model: the rest of the location may be keys of the body.
        field = fault["loc"][0] if fault["loc"] else None
        yield f"{field}: {fault['type']}" if field in own_names else fault["type"]
