"""
``Compressed``: a codec that compresses large bodies, with zstd or zlib.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import ClassVar, Literal

from rsmq.codecs.inflation import LEVELS, MAX_BODY_BYTES, deflate, inflate, load_zstandard
from rsmq.codecs.interface import Codec
from rsmq.codecs.steps import OpenedStep, StepCodec, Stepped
from rsmq.codecs.type_variables import In_contra, Out_co
from rsmq.errors import InvalidFormat, InvalidValue, show
from rsmq.wire.body_format import BodyStep

Method = Literal["zstd", "zlib"]

#: The bytes that the format adds to a payload, about.
_HEAD_BYTES = 40
#: The largest value that Redis stores, bytes.
_MAX_SIZE = 512 * 1024 * 1024


class Compressed(StepCodec[In_contra, Out_co]):
    """
    A codec that compresses the bodies of another codec.

    A body that is small, or that would not get smaller, is stored as the inner codec encodes it. It
    also decodes bodies that are not compressed: give it to consumers before producers. A reader
    needs no setting: each codec of this family inflates both methods.

    Stored bodies are text (``rsmq.wire.body_format``), in base64, so that clients in other
    languages can read and move them. maxsize counts what is stored.
    """

    __slots__ = ("_above", "_limit", "_method")

    rank: ClassVar[int] = 1
    step_names: ClassVar[frozenset[str]] = frozenset(LEVELS)

    def __init__(
        self,
        codec: Codec[In_contra, Out_co],
        *,
        above: int = 2_000,
        method: Method | None = None,
        limit: int = MAX_BODY_BYTES,
    ) -> None:
        """
        Wrap a codec.

        Args:
            codec: TEXT, JSON, MSGPACK, that of a class, an EnvelopeCodec, or another codec.
            above: the size of an encoded body in bytes, from which on it is compressed; 0 to
                512 MiB.
            method: "zstd" (extra ``bodies``) or "zlib", which each reader has; None is zstd if it
                is installed, otherwise zlib.
            limit: the largest body that it compresses or inflates, bytes, 1 to 512 MiB; 64 MiB by
                default. If a body declares more, it is refused before it is inflated.

        Raises:
            InvalidFormat: codec is not a codec, or compresses or encrypts already; or method is
                not one of these.
            InvalidValue: above or limit is out of range.
            MissingExtra: the extra ``bodies`` is not installed, and method is "zstd".
        """
        super().__init__(codec)
        if method not in {None, *LEVELS}:
            raise InvalidFormat("method", value=show(method), hint="Pass 'zstd' or 'zlib'.")
        if method == "zstd":
            load_zstandard()
        self._above = check_size("above", above, 0)
        self._limit = check_size("limit", limit, 1)
        self._method: Method = method or ("zstd" if find_spec("zstandard") else "zlib")

    # Without a step that depends on the queue, the codec is complete as it is.
    def for_queue(self, place: bytes) -> Codec[In_contra, Out_co]:  # noqa: ARG002
        return self

    def encode(self, body: In_contra) -> str | bytes:
        return self.encode_for(body, b"")

    def decode(self, raw: bytes) -> Out_co:
        return self.decode_from(raw, b"")

    def apply(self, stepped: Stepped, place: bytes, id_end: bytes = b"") -> Stepped:  # noqa: ARG002
        raw = stepped.payload
        if len(raw) < self._above or len(raw) > self._limit:
            return stepped
        packed = deflate(raw, self._method)
        if len(packed) * 4 // 3 + _HEAD_BYTES >= len(raw):
            return stepped
        return Stepped(packed, (*stepped.steps, BodyStep(self._method, (str(len(raw)),))))

    def undo(self, opened: OpenedStep) -> bytes:
        return inflate(opened.step, opened.payload, self._limit)

    def __repr__(self) -> str:
        return f"Compressed({self.wrapped!r}, above={self._above}, method={self._method!r})"


def check_size(name: str, value: object, minimum: int) -> int:
    """Return a number of bytes from a minimum to 512 MiB; raise InvalidValue otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= _MAX_SIZE:
        return value
    raise InvalidValue(name, minimum, _MAX_SIZE, value=value)
