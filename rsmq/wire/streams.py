"""
The entry of a stream of Spark among the streams of a namespace: JSON, written once a minute.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rsmq.wire.names import decode_name

#: A stream writes its entry so often; without a new one for twice as long, it counts as ended.
NOTE_SECONDS = 60.0
ALIVE_MS = 150_000
#: The most streams of a namespace, and the most queues of an entry: further ones are left out.
MAX_STREAMS = MAX_QUEUES = 100


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """
    A stream of Spark, as of its last entry.

    Attributes:
        name: its consumer group, or a generated name.
        seen_ms: Unix ms of the entry, by the server's clock.
        received: how many messages of each of its queues it has received since the entry before.
    """

    name: str
    seen_ms: int
    received: Mapping[str, int]


def pack_stream(stream: StreamInfo) -> bytes:
    """Return an entry, with at most 100 queues."""
    received = dict(list(stream.received.items())[:MAX_QUEUES])
    return json.dumps([stream.seen_ms, stream.name, received]).encode()


def parse_streams(entries: Mapping[bytes, bytes], now_ms: int) -> dict[str, StreamInfo]:
    """Return the streams that are alive, by their queries; entries of another form are left out."""
    found = {}
    for query, entry in entries.items():
        try:
            seen_ms, name, received = json.loads(entry)
            counts = {queue: int(count) for queue, count in received.items()}
            stream = StreamInfo(str(name), int(seen_ms), counts)
        except (ValueError, TypeError, AttributeError, OverflowError):
            continue
        if now_ms - stream.seen_ms < ALIVE_MS:
            found[decode_name(query)] = stream
    return found
