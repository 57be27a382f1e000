"""
Codecs, which convert bodies to bytes and back: TEXT, BYTES, JSON and MSGPACK, those of classes, and
``EnvelopeCodec``, which adds headers.

A codec is any object with the two methods of ``Codec``. This package does not depend on Redis or on
queues. A codec is never chosen by the content of a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rsmq.codecs.compression import Compressed
from rsmq.codecs.encryption import Encrypted
from rsmq.codecs.envelope import EnvelopeCodec
from rsmq.codecs.formats import BYTES, JSON, MSGPACK, TEXT
from rsmq.codecs.interface import (
    BodyStore,
    CannotDecode,
    CannotEncode,
    Codec,
    QueueCodec,
    bind_codec,
    blocks,
    check_codec,
    make_not_decodable,
)
from rsmq.codecs.stored import Stored

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "BYTES",
    "JSON",
    "MSGPACK",
    "TEXT",
    "BodyStore",
    "CannotDecode",
    "CannotEncode",
    "Codec",
    "Compressed",
    "Encrypted",
    "EnvelopeCodec",
    "QueueCodec",
    "Stored",
    "bind_codec",
    "blocks",
    "check_codec",
    "dataclass_codec",
    "make_not_decodable",
    "pydantic_codec",
]

Model = TypeVar("Model", bound="BaseModel")
Class = TypeVar("Class")


def pydantic_codec(model: type[Model]) -> Codec[Model, Model]:
    """
    Return a codec of a pydantic model: JSON, validated in both directions.

    It encodes objects of exactly this class, by alias and without computed fields. The send raises
    MessageNotString if an object is not valid, as after ``model_construct``, or if its JSON does
    not restore it, as with a SecretStr, a private attribute or an object of a subclass in a field.
    It decodes a body with ``model_validate_json``. If the body is not valid, ``Message.body``
    raises BodyNotDecodable; the text of its cause names fields, and never contains a value.

    The codec can be pickled if the class can be.

    Args:
        model: a subclass of ``pydantic.BaseModel``. It must accept its own JSON: a field needs the
            same alias for validation and for serialization, and no ``exclude=True``.

    Raises:
        InvalidFormat: it is not a subclass of BaseModel.
        MissingExtra: the extra ``pydantic`` is not installed.
    """
    from rsmq.codecs.pydantic_bodies import PydanticCodec  # noqa: PLC0415 - needs an extra

    return PydanticCodec(model)


def dataclass_codec(cls: type[Class]) -> Codec[Class, Class]:
    """
    Return a codec of a dataclass: a JSON object of its fields, checked in both directions.

    A field is a str, int, float, bool, None, list, dict with str keys, a dataclass, ``Any``, or one
    of these or None, such as ``list[Line]`` or ``str | None``. ``Any`` is a value of JSON. For
    other fields, such as datetime or Enum, use ``pydantic_codec``, or convert their values.

    It encodes objects of exactly this class. If a body lacks a field, the field's default is used;
    a field that the class does not have is ignored. If a field without default is missing, or a
    value has another type, ``Message.body`` raises BodyNotDecodable; the text of its cause names
    the field, and never contains a value.

    The codec can be pickled if the class can be.

    Args:
        cls: a dataclass whose constructor takes exactly its fields.

    Raises:
        InvalidFormat: it is not a dataclass; a field has a type that can't be restored from JSON or
            that can't be resolved; or the constructor takes other parameters than the fields.
    """
    from rsmq.codecs.dataclass_bodies import DataclassCodec  # noqa: PLC0415 - few programs need it

    return DataclassCodec(cls)
