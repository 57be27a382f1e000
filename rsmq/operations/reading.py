"""
Reads of all messages of a queue, in steps: its ids, and its messages by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.codecs import BYTES
from rsmq.model import StoredMessage
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, on_queue
from rsmq.operations.replies import parse_stored_message, shown_at
from rsmq.operations.scripts import load
from rsmq.vocabulary.stored import FoundRecord, MessageRecord
from rsmq.wire.ids import GROUP_MARK
from rsmq.wire.keys import QueueKeys, extension_key
from rsmq.wire.names import decode_name

_MAX_STEP_BYTES = digits(1024 * 1024)
_VALUES_PER_ID = 4  # in the reply of get_messages.lua


def scan_ids(keys: QueueKeys, cursor: bytes) -> Operation[tuple[bytes, list[bytes]]]:
    """
    Return a step of a scan of all ids, in no order: the next cursor, then ids and scores in turn.

    The first cursor is ``b"0"``, and so is the cursor after the last step. A message that is in the
    queue from the first step to the last is returned, even if it is received in the meantime; it
    may be returned twice.
    """
    return on_queue(
        keys,
        load("scan_ids"),
        (keys.hash, keys.zset),
        (cursor,),
        lambda reply: (reply[0], reply[1]),
    )


def count_fitting(keys: QueueKeys, ids: Sequence[bytes], max_bytes: int) -> Operation[int]:
    """Return how many of the first ids have bodies of at most ``max_bytes``; at least one."""
    return on_queue(keys, load("count_fitting"), (keys.hash,), (digits(max_bytes), *ids), int)


@dataclass(frozen=True, slots=True)
class LookupResult:
    """
    The result of reading messages by their ids.

    Attributes:
        now_ms: Unix ms of the read.
        messages: for each id, in order, its message, or None if it has none. The list may be
            shorter than the list of ids, but not empty: then the remaining ids are to be read next.
        ghosts: how many of those without a message are ids without a body.
    """

    now_ms: int
    messages: list[StoredMessage | None]
    ghosts: int


def get_messages(keys: QueueKeys, ids: Sequence[bytes]) -> Operation[LookupResult]:
    """Read messages by their ids as stored in Redis, at most 1,000 ids."""

    def parse(reply: Any) -> LookupResult:
        now, vt, values, shown, errors = reply
        messages: list[StoredMessage | None] = []
        ghosts = 0
        for index in range(len(values) // _VALUES_PER_ID):
            raw, count, first, score = values[_VALUES_PER_ID * index : _VALUES_PER_ID * (index + 1)]
            if raw is None or score is None:
                messages.append(None)
                ghosts += score is not None
                continue
            of_message = shown_at(shown, index), errors[index]
            stored = raw, count, first, score, now, vt, *of_message
            messages.append(parse_stored_message(keys.name, decode_name(ids[index]), BYTES, stored))
        return LookupResult(int(now), messages, ghosts)

    return on_queue(
        keys, load("get_messages"), (keys.hash, keys.zset), (_MAX_STEP_BYTES, *ids), parse
    )


def read_records(
    record: MessageRecord,
    hmget: Callable[[bytes, Sequence[bytes]], Sequence[bytes | None]],
    zset: bytes,
    hash: bytes,
    ids: Sequence[bytes],
) -> dict[bytes, FoundRecord]:
    """
    Read a record of messages; the result has by id what those have that have it.

    Args:
        record: one of ``MESSAGE_RECORDS``.
        hmget: returns fields of the hash with a key, as HMGET does.
        zset: the key of the ids of the queue.
        hash: the key of its bodies.
        ids: the ids of the messages.
    """
    asked = [id for id in ids if not record.is_marked or id.endswith(GROUP_MARK)]
    if not asked or (record.queue_field and hmget(hash, [record.queue_field.encode()])[0] is None):
        return {}
    stored = zip(asked, hmget(extension_key(zset, record.key), asked), strict=True)
    found = ((id, record.find(each or b"")) for id, each in stored)
    return {id: each for id, each in found if each is not None}
