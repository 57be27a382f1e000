"""
The codecs of one format each: TEXT, BYTES, JSON and MSGPACK.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NoReturn

import msgpack

from rsmq.codecs.interface import CannotEncode


class TextCodec:
    """A codec of str as UTF-8, the format of all other RSMQ clients."""

    def encode(self, body: str) -> str:
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


class BytesCodec:
    """A codec that stores bytes unchanged."""

    def encode(self, body: bytes | bytearray | memoryview) -> bytes:
        if not isinstance(body, bytes | bytearray | memoryview):
            raise CannotEncode("BYTES", body, "Pass bytes, bytearray or memoryview.")
        return bytes(body)

    def decode(self, raw: bytes) -> bytes:
        return raw

    def __repr__(self) -> str:
        return "rsmq.BYTES"

    def __reduce__(self) -> str:
        return "BYTES"


class JsonCodec:
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
    hint = "Convert it to str, int, float, bool, None, list or dict"
    if isinstance(part, bytes) or (isinstance(part, datetime) and part.tzinfo is not None):
        hint += ", or use codec=MSGPACK"
    raise CannotEncode("JSON", part, f"{hint}.")


class MsgpackCodec:
    """
    A codec of MessagePack. Aware datetimes use its timestamp type; tuples become lists.

    It refuses bodies that no consumer can decode: a map with a tuple as key, which becomes a list,
    and a time that ``datetime`` does not have.
    """

    def encode(self, body: Any) -> bytes:
        packed: bytes = msgpack.packb(
            body, use_bin_type=True, datetime=True, default=_refuse_in_msgpack
        )
        try:
            self.decode(packed)
        except (TypeError, OverflowError):
            _refuse_undecodable(body)
            raise
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


def _refuse_undecodable(part: Any) -> None:
    """Raise CannotEncode for the first part that MessagePack can encode, but not decode."""
    if isinstance(part, dict):
        for key, value in part.items():
            if isinstance(key, tuple) and not isinstance(key, msgpack.ExtType):
                hint = "As the key of a map, use a str, bytes, a number or a datetime."
                raise CannotEncode("MSGPACK", key, hint)
            _refuse_undecodable(key)
            _refuse_undecodable(value)
    elif isinstance(part, list | tuple):
        for each in part:
            _refuse_undecodable(each)
    elif isinstance(part, datetime | msgpack.Timestamp):
        try:
            MSGPACK.decode(msgpack.packb(part, datetime=True))
        except OverflowError as error:
            hint = "In UTC it is not between the years 1 and 9999."
            raise CannotEncode("MSGPACK", part, hint) from error


TEXT = TextCodec()
BYTES = BytesCodec()
JSON = JsonCodec()
MSGPACK = MsgpackCodec()
