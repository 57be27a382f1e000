"""
Operations that put messages back into a queue as they were, and the totals of a queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rsmq.model import QueueAttributes
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_queue
from rsmq.operations.scripts import load
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
        group: the group that it gets again; None for none. An import gives it only to an id that
            ends like those of messages with groups.
        limits: its own expiry and number of retries, as in ``limits.lua``; empty for none.
    """

    id: str
    raw: bytes
    visible_at_ms: int | None
    receive_count: int
    first_received_ms: int | None
    group: str | None = None
    limits: bytes = b""

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


def pair_options(messages: Sequence[RestoredMessage]) -> tuple[list[bytes], list[bytes]]:
    """Return the groups, then the limits: the id and the group or limits of each that has some."""
    groups = [(each.id, encode_name(each.group)) for each in messages if each.group]
    limits = [(each.id, each.limits) for each in messages if each.limits]
    grouped, limited = (
        [text for id, value in pairs for text in (encode_name(id), value)]
        for pairs in (groups, limits)
    )
    return grouped, limited


def restore_messages(
    keys: QueueKeys, messages: Sequence[RestoredMessage], *, largest: int, realtime: bool
) -> Operation[int]:
    """Put messages back whose ids are not in the queue; the result is how many were added."""
    grouped, limited = pair_options(messages)
    return Operation(
        load("restore_messages"),
        (keys.hash, keys.zset),
        (
            digits(largest),
            keys.channel if realtime else b"",
            digits(len(grouped)),
            digits(len(limited)),
            *grouped,
            *limited,
            *(value for message in messages for value in message.row()),
        ),
        int,
        RetryClass.ALWAYS,
        (keys.name,),
        large_body=large_body_size(max((len(each.raw) for each in messages), default=0)),
    )


def restore_limits(keys: QueueKeys, records: Mapping[bytes, bytes]) -> Operation[int]:
    """
    Give messages their limits again, unless they have some.

    The result is how many of the messages in the queue have other limits.

    Args:
        records: the limits by id, as in ``limits.lua``.
    """
    return on_queue(
        keys,
        load("restore_limits"),
        (keys.hash, keys.zset, keys.limits),
        tuple(text for record in records.items() for text in record),
        int,
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
