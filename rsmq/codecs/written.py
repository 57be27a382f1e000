"""
The bodies that a send has encoded, so that those which no message has got can be discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.codecs.interface import Codec, QueueCodec, bind_codec
from rsmq.wire.body_format import is_stored

#: The options by which a send may lead to an earlier message.
_LEAD_TO_EARLIER = frozenset({"dedup_id", "dedup_ids", "unique_key", "unique_keys"})
#: So many characters of the end of an id, from the 22nd last, are not changed by options.
_KEPT = 20


class WrittenBodies(QueueCodec[Any, Any]):
    """The codec of one send: that of the caller, which remembers what it has stored elsewhere."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._stored: list[tuple[QueueCodec[Any, Any], bytes, bytes]] = []

    @property
    def blocks(self) -> bool:
        return True

    def for_queue(self, place: bytes) -> Codec:
        return bind_codec(self._codec, place)

    def for_message(self, place: bytes, id_end: bytes) -> Codec:
        assert isinstance(self._codec, QueueCodec)  # noqa: S101 - others do not block
        return _OfMessage(self._codec.for_message(place, id_end), id_end, self._stored)

    def discard_unused(self, reply: str | list[str], options: Mapping[str, Any]) -> None:
        """
        Delete the objects of messages that were not added, because an earlier one was there.

        Args:
            reply: the ids that the send has returned.
            options: those of the send. With ``replace`` an earlier message may have the new body.
        """
        if options.get("replace") or _LEAD_TO_EARLIER.isdisjoint(options):
            return
        ids = {id[-22:][:_KEPT] for id in ([reply] if isinstance(reply, str) else reply)}
        for codec, raw, id_end in self._stored:
            if id_end[:_KEPT].decode() not in ids:
                codec.discard(raw, id_end.decode())


class _OfMessage(QueueCodec[Any, Any]):
    def __init__(
        self, codec: Codec, id_end: bytes, stored: list[tuple[QueueCodec[Any, Any], bytes, bytes]]
    ) -> None:
        self._codec = codec
        self._id_end = id_end
        self._stored = stored

    def encode(self, body: Any) -> str | bytes:
        encoded = self._codec.encode(body)
        raw = encoded.encode() if isinstance(encoded, str) else encoded
        if isinstance(self._codec, QueueCodec) and is_stored(raw):
            self._stored.append((self._codec, raw, self._id_end))
        return encoded

    def __repr__(self) -> str:
        return repr(self._codec)
