"""
Codecs, which turn bodies into bytes and back: TEXT, BYTES, JSON and MSGPACK.

A codec is any object with the two methods of ``Codec``. Nothing here knows of Redis or of queues,
and no codec is ever chosen by what a message contains.
"""

from __future__ import annotations

import json
from typing import Any, Protocol, runtime_checkable

import msgpack

from rsmq.errors import InvalidFormat, show


@runtime_checkable
class Codec(Protocol):
    """What a codec must have."""

    def encode(self, body: Any) -> str | bytes:
        """
        The text or bytes to be stored for this body.

        A text is limited by its UTF-16 code units, as Node does; bytes by their number.
        Any exception makes the send fail with MessageNotString.
        """

    def decode(self, raw: bytes) -> Any:
        """
        The body that these stored bytes stand for.

        Any exception makes ``Message.body`` raise BodyNotDecodable.
        """


class _Text:
    """str and UTF-8, the format of all other RSMQ clients."""

    def encode(self, body: Any) -> str:
        if not isinstance(body, str):
            raise TypeError("codec TEXT takes a str; codecs BYTES, JSON and MSGPACK take other")
        return body

    def decode(self, raw: bytes) -> str:
        return raw.decode("utf-8")

    def __repr__(self) -> str:
        return "rsmq.TEXT"

    def __reduce__(self) -> str:
        return "TEXT"


class _Bytes:
    """Bytes as they are."""

    def encode(self, body: Any) -> bytes:
        if not isinstance(body, bytes | bytearray | memoryview):
            raise TypeError("codec BYTES takes bytes, bytearray or memoryview")
        return bytes(body)

    def decode(self, raw: bytes) -> bytes:
        return raw

    def __repr__(self) -> str:
        return "rsmq.BYTES"

    def __reduce__(self) -> str:
        return "BYTES"


class _Json:
    """JSON text, compact, not escaped beyond need; NaN and infinity are refused."""

    def encode(self, body: Any) -> str:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def decode(self, raw: bytes) -> Any:
        return json.loads(raw.decode("utf-8"))

    def __repr__(self) -> str:
        return "rsmq.JSON"

    def __reduce__(self) -> str:
        return "JSON"


class _Msgpack:
    """MessagePack; aware datetimes travel as its timestamp type, tuples come back as lists."""

    def encode(self, body: Any) -> bytes:
        packed: bytes = msgpack.packb(body, use_bin_type=True, datetime=True)
        return packed

    def decode(self, raw: bytes) -> Any:
        return msgpack.unpackb(raw, raw=False, timestamp=3, strict_map_key=False)

    def __repr__(self) -> str:
        return "rsmq.MSGPACK"

    def __reduce__(self) -> str:
        return "MSGPACK"


TEXT = _Text()
BYTES = _Bytes()
JSON = _Json()
MSGPACK = _Msgpack()


def check_codec(codec: object) -> Codec:
    """
    The codec itself.

    Raises:
        InvalidFormat: it lacks ``encode`` or ``decode``.
    """
    if isinstance(codec, Codec) and not isinstance(codec, type):
        return codec
    raise InvalidFormat(
        "codec",
        value=show(codec),
        hint="A codec is TEXT, BYTES, JSON, MSGPACK, or an object with encode(body) and "
        f"decode(raw); got {show(codec)}.",
    )
