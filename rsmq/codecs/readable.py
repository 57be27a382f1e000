"""
Bodies of any codec as bytes that people and programs read: for ``rsmq``, HTTP and Spark.
"""

from __future__ import annotations

import importlib
import os
import sys

from rsmq.codecs.formats import JSON, MsgpackCodec
from rsmq.codecs.interface import Codec, QueueCodec, check_codec
from rsmq.codecs.steps import StepCodec
from rsmq.errors import InvalidFormat, show
from rsmq.errors.printable import format_count
from rsmq.wire.body_format import describe


class ReadableBodies(QueueCodec[str | bytes, bytes]):
    """
    A codec of the bytes inside the bodies of another codec.

    It undoes and does their steps. MessagePack becomes JSON, if that has all its values; otherwise
    the bytes are those that the innermost codec stores, such as the text of JSON or of a class.
    """

    def __init__(self, codec: Codec) -> None:
        checked = check_codec(codec)
        self._steps = checked if isinstance(checked, StepCodec) else None
        leaf = checked if self._steps is None else self._steps.leaf
        self._is_msgpack = isinstance(leaf, MsgpackCodec)

    @property
    def blocks(self) -> bool:
        return self._steps is not None and self._steps.blocks

    def for_queue(self, place: bytes) -> Codec[str | bytes, bytes]:
        return _OfQueue(self, place)

    def for_message(self, place: bytes, id_end: bytes) -> Codec[str | bytes, bytes]:
        return _OfQueue(self, place, id_end)

    def load_from(self, raw: bytes, place: bytes) -> bytes:
        """As ``StepCodec.load_from``."""
        return raw if self._steps is None else self._steps.load_from(raw, place)

    def discard_from(self, raw: bytes, place: bytes, id: str) -> None:
        """As ``StepCodec.discard_from``."""
        if self._steps is not None:
            self._steps.discard_from(raw, place, id)

    def read(self, raw: bytes, place: bytes) -> bytes:
        """
        Return the bytes inside a stored body.

        Raises:
            CannotDecode: the codec can't undo its steps.
        """
        if self._steps is not None:
            raw = self._steps.open(raw, place)
        if not self._is_msgpack:
            return raw
        try:
            return JSON.encode(MsgpackCodec().decode(raw)).encode()
        except (TypeError, ValueError):
            return raw

    def write(self, body: str | bytes, place: bytes, id_end: bytes = b"") -> str | bytes:
        """
        Return the body to store for a text, or for bytes that ``read`` returns.

        Raises:
            ValueError: they are not JSON, which becomes MessagePack.
        """
        if self._is_msgpack:
            raw = body.encode() if isinstance(body, str) else body
            encoded: str | bytes = MsgpackCodec().encode(JSON.decode(raw))
        else:
            try:  # so its size is measured as Node does it
                encoded = body.decode() if isinstance(body, bytes) else body
            except UnicodeDecodeError:
                encoded = body
        return encoded if self._steps is None else self._steps.close(encoded, place, id_end)


class _OfQueue(QueueCodec[str | bytes, bytes]):
    def __init__(self, codec: ReadableBodies, place: bytes, id_end: bytes = b"") -> None:
        self._codec = codec
        self._place = place
        self._id_end = id_end

    def for_queue(self, place: bytes) -> Codec[str | bytes, bytes]:
        return _OfQueue(self._codec, place)

    def for_message(self, place: bytes, id_end: bytes) -> Codec[str | bytes, bytes]:
        return _OfQueue(self._codec, place, id_end)

    @property
    def blocks(self) -> bool:
        return self._codec.blocks

    def load(self, raw: bytes) -> bytes:
        return self._codec.load_from(raw, self._place)

    def discard(self, raw: bytes, id: str) -> None:
        self._codec.discard_from(raw, self._place, id)

    def encode(self, body: str | bytes) -> str | bytes:
        return self._codec.write(body, self._place, self._id_end)

    def decode(self, raw: bytes) -> bytes:
        return self._codec.read(raw, self._place)


def summarize(raw: bytes) -> str:
    """Return a sentence in place of a body with steps, as in "encrypted (key k2), 1,234 bytes"."""
    return f"{describe(raw)}, {format_count(len(raw), 'byte')} stored"


def import_codec(name: str) -> Codec:
    """
    Import the codec that ``MODULE:NAME`` names, from the working directory too.

    Raises:
        InvalidFormat: the name has another form, there is no such module or value, or it is not a
            codec.
    """
    module, colon, path = name.partition(":")
    if not colon or not all(map(str.isidentifier, [*module.split("."), *path.split(".")])):
        raise InvalidFormat("codec", value=show(name), hint="Write MODULE:NAME, as in app:codec.")
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - as sys.path has it
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as above
    try:
        found: object = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ModuleNotFoundError, AttributeError) as error:
        raise InvalidFormat("codec", value=show(name), hint=f"{error}.") from error
    return check_codec(found)
