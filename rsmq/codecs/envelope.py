"""
The codec of envelopes, which carry headers beside a body.
"""

from __future__ import annotations

import json
from typing import Any, Generic

from rsmq.codecs.formats import JSON, BytesCodec, JsonCodec, MsgpackCodec, TextCodec
from rsmq.codecs.interface import CannotDecode, CannotEncode, Codec, QueueCodec, check_codec
from rsmq.codecs.type_variables import In_contra, Out_co
from rsmq.errors import InvalidFormat, show
from rsmq.headers import current_headers
from rsmq.wire.envelopes import split_envelope


class EnvelopeCodec(Generic[In_contra, Out_co]):
    """
    A codec that writes the current headers and a body as ``{"headers": {...}, "body": ...}``.

    Without headers (``use_headers``) it writes the body as the inner codec does. It decodes both,
    so change consumers before producers. The headers are in ``Message.headers``, and count towards
    the queue's maxsize.

    Consumers without this codec, also those in other languages, see the envelope as the body. A
    JSON object with exactly these two fields, whose headers are an object, is an envelope of any
    producer. If a body looks like that, this codec puts it into an envelope.
    """

    __slots__ = ("_codec",)

    #: Whether bodies have headers; tracing looks at it.
    writes_headers = True

    def __init__(self, codec: Codec[In_contra, Out_co]) -> None:
        """
        Wrap a codec.

        Args:
            codec: JSON, the codec of a class, or another codec that writes JSON: its body is stored
                as a value of JSON. Or TEXT: its body is stored as a string.

        Raises:
            InvalidFormat: codec is not a codec, or is BYTES or MSGPACK, which JSON can't contain;
                or it compresses or encrypts, as ``Compressed(EnvelopeCodec(JSON))`` does.
        """
        if isinstance(codec, QueueCodec):
            hint = "Wrap the other way round, as in Compressed(EnvelopeCodec(JSON))."
            raise InvalidFormat("codec", value=show(codec), hint=hint)
        if isinstance(codec, BytesCodec | MsgpackCodec):
            hint = "An envelope is JSON: use EnvelopeCodec(JSON) or EnvelopeCodec(TEXT)."
            raise InvalidFormat("codec", value=show(codec), hint=hint)
        self._codec: Codec[In_contra, Out_co] = check_codec(codec)

    def encode(self, body: In_contra) -> str | bytes:
        """Return an envelope with the current headers; without headers the encoded body."""
        return self.envelop(self._codec.encode(body))

    def envelop(self, encoded: str | bytes) -> str | bytes:
        """Return an envelope with the current headers; without headers the encoded body."""
        raw = encoded.encode() if isinstance(encoded, str) else encoded
        if not isinstance(raw, bytes):
            return encoded  # the send refuses it
        headers = current_headers()
        if not headers and split_envelope(raw) is None:
            return encoded
        return f'{{"headers":{JSON.encode(dict(headers))},"body":{self._to_json(raw)}}}'

    @property
    def inner(self) -> Codec[In_contra, Out_co]:
        """The codec of the bodies inside envelopes."""
        return self._codec

    def _to_json(self, raw: bytes) -> str:
        """Return an encoded body as JSON."""
        if isinstance(self._codec, TextCodec):
            return JSON.encode(raw.decode())
        try:
            text = raw.decode()
            if not isinstance(self._codec, JsonCodec):
                json.loads(text)
        except ValueError:
            hint = "An envelope is JSON: the inner codec must write JSON, or be TEXT."
            raise CannotEncode(self, raw, hint) from None
        return text

    def decode(self, raw: bytes) -> Out_co:
        """Return the body of an envelope; without one, what the inner codec decodes."""
        envelope = split_envelope(raw)
        if envelope is None:
            return self._codec.decode(raw)
        _, body = envelope
        if isinstance(self._codec, JsonCodec):
            decoded: Any = body
            return decoded  # type: ignore[no-any-return]
        if not isinstance(self._codec, TextCodec):
            return self._codec.decode(json.dumps(body).encode())
        if not isinstance(body, str):
            raise CannotDecode("The body of the envelope is not a string")
        return self._codec.decode(body.encode())

    def __repr__(self) -> str:
        return f"EnvelopeCodec({self._codec!r})"
