"""
The codec of a dataclass: JSON of its fields.

For each field there is a converter, made from the type of the field when the codec is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from rsmq.codecs.formats import JSON
from rsmq.codecs.interface import CannotDecode, CannotEncode
from rsmq.codecs.value_changes import find_change
from rsmq.errors import InvalidFormat, Shown, show

Class = TypeVar("Class")
Convert = Callable[[Any], Any]

#: The types of one value of JSON, each with the types of the values that its fields may have.
_SCALARS: dict[type, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
    NoneType: (NoneType,),
}


class DataclassCodec(Generic[Class]):
    """The codec that ``dataclass_codec`` returns."""

    __slots__ = ("_class", "_converter", "_may_change")

    def __init__(self, cls: type[Class]) -> None:
        if not (isinstance(cls, type) and is_dataclass(cls)):
            raise InvalidFormat("dataclass", value=show(cls), hint="Pass a class, a dataclass.")
        converters: dict[type[Any], _ObjectConverter] = {}
        self._class = cls
        self._converter = _ObjectConverter(cls, converters)
        self._may_change = any(hasattr(each, "__post_init__") for each in converters)

    def encode(self, body: Class) -> str:
        """Return the JSON of an object of the class."""
        try:
            converted = self._converter.to_json(body)
        except WrongType as error:
            raise CannotEncode(self, error.value, f"{error.rule}.") from None
        if self._may_change:
            change = find_change(body, self._converter.from_json(converted))
            if change is not None:
                hint = f"It would arrive {change}: a __post_init__ changes it again."
                raise CannotEncode(self, body, hint)
        return JSON.encode(converted)

    def decode(self, raw: bytes) -> Class:
        """Return an object of the class."""
        try:
            body: Class = self._converter.from_json(JSON.decode(raw))
        except WrongType as error:
            raise CannotDecode(error.rule) from None
        return body

    def __repr__(self) -> str:
        return f"dataclass_codec({self._class.__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        return DataclassCodec, (self._class,)


class WrongType(Exception):
    """A value does not have the type of its field."""

    def __init__(self, rule: str, value: object) -> None:
        super().__init__(rule)
        self.rule = rule
        self.value = value


class FieldConverter(NamedTuple):
    """Two functions that check and convert a value of a field; both raise WrongType."""

    to_json: Convert
    from_json: Convert


class _ObjectConverter:
    """Converts objects of a dataclass."""

    def __init__(self, cls: type[Any], converters: dict[type[Any], _ObjectConverter]) -> None:
        converters[cls] = self  # an object may contain objects of its own class
        self._class = cls
        own_fields = fields(cls)
        if set(inspect.signature(cls).parameters) != {each.name for each in own_fields}:
            raise InvalidFormat(
                "dataclass",
                value=Shown(cls.__name__),
                hint="Its constructor must take exactly its fields: no InitVar, and no "
                "field(init=False).",
            )
        types = _resolve_types(cls)
        self._fields = {
            each.name: make_converter(types[each.name], f"{cls.__name__}.{each.name}", converters)
            for each in own_fields
        }
        self._required = [
            each.name
            for each in own_fields
            if each.default is MISSING and each.default_factory is MISSING
        ]

    def to_json(self, value: Any) -> dict[str, Any]:
        """Return a dict of the fields of an object."""
        if type(value) is not self._class:  # fields of a subclass would be lost
            raise WrongType(f"Pass an object of {self._class.__name__}", value)
        return {
            name: converter.to_json(getattr(value, name))
            for name, converter in self._fields.items()
        }

    def from_json(self, value: Any) -> Any:
        """Return an object of the dict of its fields."""
        if not isinstance(value, dict):
            raise WrongType(f"{self._class.__name__} must be a JSON object", value)
        for name in self._required:
            if name not in value:
                raise WrongType(f"{self._class.__name__}.{name} is missing", value)
        return self._class(
            **{
                name: converter.from_json(value[name])
                for name, converter in self._fields.items()
                if name in value
            }
        )


def _resolve_types(cls: type[Any]) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except Exception as error:
        raise InvalidFormat(
            "dataclass",
            value=Shown(cls.__name__),
            hint=f"The types of its fields can't be resolved ({error}). Define or import them at "
            "the top of the module.",
        ) from error


def make_converter(
    kind: Any, where: str, converters: dict[type[Any], _ObjectConverter]
) -> FieldConverter:
    """
    Return the converter of a type.

    Raises:
        InvalidFormat: its values can't be restored from JSON.
    """
    origin, parameters = get_origin(kind) or kind, get_args(kind)
    if kind is Any:
        return FieldConverter(_return_unchanged, _return_unchanged)
    if isinstance(kind, type) and kind in _SCALARS:
        return FieldConverter(_check_scalar(kind, where), _restore_scalar(kind, where))
    if isinstance(kind, type) and is_dataclass(kind):
        found = converters.get(kind) or _ObjectConverter(kind, converters)
        return FieldConverter(found.to_json, found.from_json)
    if origin is list:
        (item,) = parameters or (Any,)
        inner = make_converter(item, where, converters)
        return FieldConverter(*(_for_items(convert, where) for convert in inner))
    key, *values = parameters or (str, Any)
    if origin is dict and key is str:
        inner = make_converter(values[0], where, converters)
        return FieldConverter(*(_for_values(convert, where) for convert in inner))
    others = [each for each in parameters if each is not NoneType]
    if origin in (Union, UnionType) and len(others) == 1:
        inner = make_converter(others[0], where, converters)
        return FieldConverter(*(_unless_none(convert) for convert in inner))
    raise InvalidFormat(
        "dataclass",
        value=Shown(f"{where}: {getattr(kind, '__name__', kind)}"),
        hint="A field is a str, int, float, bool, None, list, dict with str keys, dataclass, Any, "
        "or one of these or None. Use pydantic_codec for other types.",
    )


def _return_unchanged(value: Any) -> Any:
    return value


def _check_scalar(kind: type, where: str) -> Convert:
    types, is_number = _SCALARS[kind], kind in (int, float)
    rule = f"{where} must be {'None' if kind is NoneType else kind.__name__}"

    def check(value: Any) -> Any:
        if not isinstance(value, types) or (is_number and isinstance(value, bool)):
            raise WrongType(rule, value)
        return value

    return check


def _restore_scalar(kind: type, where: str) -> Convert:
    check = _check_scalar(kind, where)
    if kind is not float:
        return check
    return lambda value: float(check(value))  # other programs may store 1.0 as 1


def _for_items(convert: Convert, where: str) -> Convert:
    def convert_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise WrongType(f"{where} must be list", value)
        return [convert(item) for item in value]

    return convert_list


def _for_values(convert: Convert, where: str) -> Convert:
    def convert_dict(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise WrongType(f"{where} must be dict with str keys", value)
        return {key: convert(item) for key, item in value.items()}

    return convert_dict


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)
