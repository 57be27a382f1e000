"""
The interface of codecs, and the errors of this library's codecs.
"""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from rsmq.codecs.type_variables import In_contra, Out_co
from rsmq.errors import InvalidFormat, show


@runtime_checkable
class Codec(Protocol[In_contra, Out_co]):
    """
    The interface of codecs.

    ``Codec[In, Out]`` encodes bodies of type In, and decodes them as Out. ``Codec[Order]`` is
    ``Codec[Order, Order]``, and ``Codec`` is ``Codec[Any, Any]``.
    """

    if not TYPE_CHECKING:  # Protocol's own refuses Codec[Order]: before 3.13 it has no defaults
        __class_getitem__ = classmethod(GenericAlias)

    def encode(self, body: In_contra) -> str | bytes:
        """
        Return the text or bytes to store for a body.

        For a text, maxsize limits the number of UTF-16 code units, as in Node; for bytes, their
        number. If this raises any exception, the send raises MessageNotString.
        """

    def decode(self, raw: bytes) -> Out_co:
        """
        Return the body that these stored bytes represent.

        If this raises any exception, ``Message.body`` raises BodyNotDecodable.
        """


class CannotEncode(TypeError):
    """
    A codec of this library can't encode a body; the text does not contain the body.

    Attributes:
        hint: the remedy.
    """

    def __init__(self, codec: object, part: object, hint: str) -> None:
        super().__init__(f"{codec} can't encode {type(part).__name__}")
        self.hint = hint


class CannotDecode(ValueError):
    """A codec of this library can't decode a body; the text does not contain the body."""


def check_codec(codec: object) -> Codec:
    """
    Check a codec, and return it.

    Raises:
        InvalidFormat: it lacks ``encode`` or ``decode``.
    """
    # As isinstance with the protocol, which takes ten times as long.
    has_both = callable(getattr(codec, "encode", None)) and callable(getattr(codec, "decode", None))
    if has_both and not isinstance(codec, type):
        return cast("Codec", codec)
    raise InvalidFormat(
        "codec",
        value=show(codec),
        hint="A codec is TEXT, BYTES, JSON, MSGPACK, or an object with encode(body) and "
        "decode(raw).",
    )
