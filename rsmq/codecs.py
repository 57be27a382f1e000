"""
Codecs, which convert bodies to bytes and back: TEXT, BYTES, JSON and MSGPACK.

A codec is any object with the two methods of ``Codec``. This module does not depend on Redis or on
queues. A codec is never chosen by the content of a message.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NoReturn, Protocol, runtime_checkable

import msgpack

from rsmq.errors import InvalidFormat, show


@runtime_checkable
class Codec(Protocol):
    """The interface of codecs."""

    def encode(self, body: Any) -> str | bytes:
        """
        Return the text or bytes to store for a body.

        For a text, maxsize limits the number of UTF-16 code units, as in Node; for bytes, their
        number. If this raises any exception, the send raises MessageNotString.
        """

    def decode(self, raw: bytes) -> Any:
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


class _Text:
    """A codec of str as UTF-8, the format of all other RSMQ clients."""

    def encode(self, body: Any) -> str:
        if not isinstance(body, str):
            raise CannotEncode(
                "TEXT", body, "Pass a str, or use codec=BYTES, codec=JSON or codec=MSGPACK."
            )
        return body

    def decode(self, raw: bytes) -> str:
        return raw.decode("utf-8")

    def __repr__(self) -> str:
        return "rsmq.TEXT"

    def __reduce__(self) -> str:
        return "TEXT"


class _Bytes:
    """A codec that stores bytes unchanged."""

    def encode(self, body: Any) -> bytes:
        if not isinstance(body, bytes | bytearray | memoryview):
            raise CannotEncode("BYTES", body, "Pass bytes, bytearray or memoryview.")
        return bytes(body)

    def decode(self, raw: bytes) -> bytes:
        return raw

    def __repr__(self) -> str:
        return "rsmq.BYTES"

    def __reduce__(self) -> str:
        return "BYTES"


class _Json:
    """A codec of compact JSON text with a minimum of escapes; NaN and infinity are refused."""

    def encode(self, body: Any) -> str:
        try:
            return json.dumps(
                body,
                ensure_ascii=False,
                allow_nan=False,
                separators=(",", ":"),
                default=_refuse_in_json,
            )
        except CannotEncode:
            raise
        except (TypeError, ValueError) as error:
            # A key of another type, NaN, infinity, or a container that contains itself.
            raise CannotEncode("JSON", body, f"{str(error).partition(':')[0]}.") from error

    def decode(self, raw: bytes) -> Any:
        return json.loads(raw.decode("utf-8"))

    def __repr__(self) -> str:
        return "rsmq.JSON"

    def __reduce__(self) -> str:
        return "JSON"


def _refuse_in_json(part: object) -> NoReturn:
    raise CannotEncode(
        "JSON",
        part,
        "Convert it to str, int, float, bool, None, list or dict, or use codec=MSGPACK.",
    )


class _Msgpack:
    """A codec of MessagePack. Aware datetimes use its timestamp type; tuples become lists."""

    def encode(self, body: Any) -> bytes:
        packed: bytes = msgpack.packb(
            body, use_bin_type=True, datetime=True, default=_refuse_in_msgpack
        )
        return packed

    def decode(self, raw: bytes) -> Any:
        return msgpack.unpackb(raw, raw=False, timestamp=3, strict_map_key=False)

    def __repr__(self) -> str:
        return "rsmq.MSGPACK"

    def __reduce__(self) -> str:
        return "MSGPACK"


def _refuse_in_msgpack(part: object) -> NoReturn:
    hint = "Convert it to a type of MessagePack."
    if isinstance(part, datetime):
        hint = "Give the datetime a time zone."
    raise CannotEncode("MSGPACK", part, hint)


TEXT = _Text()
BYTES = _Bytes()
JSON = _Json()
MSGPACK = _Msgpack()


def check_codec(codec: object) -> Codec:
    """
    Check a codec, and return it.

    Raises:
        InvalidFormat: it lacks ``encode`` or ``decode``.
    """
    if isinstance(codec, Codec) and not isinstance(codec, type):
        return codec
    raise InvalidFormat(
        "codec",
        value=show(codec),
        hint="A codec is TEXT, BYTES, JSON, MSGPACK, or an object with encode(body) and "
        "decode(raw).",
    )
