"""
Operations that put messages back into a queue as they were, and the totals of a queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rsmq.model import QueueAttributes
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_queue
from rsmq.operations.scripts import load
from rsmq.vocabulary.stored import MESSAGE_RECORDS
from rsmq.wire.ids import check_id, parse_sent_us
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import check_body_size, large_body_size
from rsmq.wire.names import encode_name


@dataclass(frozen=True, slots=True)
class RestoredMessage:
    """
    A message that is put back as it was.

    Attributes:
        visible_at_ms: Unix ms from which it is visible; None uses its sent time.
        receive_count: how often it was received; 0 means never.
        first_received_ms: Unix ms of its first receive; None if it was never received, or if the
            time is unknown.
        records: those of ``MESSAGE_RECORDS`` that it gets, by key, none of them empty. It gets a
            group only if its id ends like those of messages with groups.
    """

    id: str
    raw: bytes
    visible_at_ms: int | None
    receive_count: int
    first_received_ms: int | None
    records: Mapping[str, bytes] = field(default_factory=dict)

    def row(self) -> tuple[bytes, ...]:
        """
        Return the message in the format of ``restoring.lua``.

        Raises:
            MissingParameter: the id is empty.
            InvalidFormat: the id has other characters.
            MessageTooLong: the body is larger than the largest that Redis accepts.
        """
        check_body_size(len(self.raw))
        score = self.visible_at_ms
        if score is None:
            sent = parse_sent_us(self.id)
            score = None if sent is None else sent // 1000
        return (
            encode_name(check_id(self.id)),
            self.raw,
            b"" if score is None else digits(score),
            digits(self.receive_count) if self.receive_count else b"",
            b"" if self.first_received_ms is None else digits(self.first_received_ms),
        )


def pair_records(messages: Iterable[tuple[str, Mapping[str, bytes]]]) -> list[list[bytes]]:
    """Return a list of ids and records in turn for each of ``MESSAGE_RECORDS``."""
    found = list(messages)
    return [
        [
            text
            for id, records in found
            if record.key in records
            for text in (encode_name(id), records[record.key])
        ]
        for record in MESSAGE_RECORDS
    ]


def _to_arguments(lists: Iterable[Sequence[bytes]]) -> Iterator[bytes]:
    """Yield lists as ``read_carried`` reads them."""
    for texts in lists:
        yield digits(len(texts))
        yield from texts


def restore_messages(
    keys: QueueKeys, messages: Sequence[RestoredMessage], *, largest: int, realtime: bool
) -> Operation[int]:
    """Put messages back whose ids are not in the queue; the result is how many were added."""
    lists = pair_records((each.id, each.records) for each in messages)
    return Operation(
        load("restore_messages"),
        (keys.hash, keys.zset),
        (
            digits(largest),
            keys.channel if realtime else b"",
            *_to_arguments(lists),
            *(value for message in messages for value in message.row()),
        ),
        int,
        RetryClass.ALWAYS,
        (keys.name,),
        large_body=large_body_size(max((len(each.raw) for each in messages), default=0)),
    )


def restore_records(keys: QueueKeys, records: Mapping[str, Mapping[str, bytes]]) -> Operation[None]:
    """
    Give messages that are in the queue their records again.

    Args:
        records: those of each message, by its id, as ``RestoredMessage`` has them.
    """
    return on_queue(
        keys,
        load("restore_records"),
        (keys.hash, keys.zset),
        tuple(_to_arguments(pair_records(records.items()))),
        lambda _: None,
    )


def restore_totals(keys: QueueKeys, attributes: QueueAttributes) -> Operation[int]:
    """Raise a queue's totals to those of another queue, and set its creation time back."""
    created = attributes.created
    return on_queue(
        keys,
        load("restore_totals"),
        (keys.hash,),
        (
            digits(attributes.total_sent),
            digits(attributes.total_received),
            b"" if created is None else digits(int(created.timestamp())),
        ),
        int,
    )
