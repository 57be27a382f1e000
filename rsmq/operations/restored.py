"""
Messages that are put back into a queue as they were, and the totals of their queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rsmq.lua.load import load
from rsmq.model import QueueAttributes
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry
from rsmq.wire.ids import check_id, parse_sent_us
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import check_body_size
from rsmq.wire.names import encode_name


@dataclass(frozen=True, slots=True)
class Restored:
    """
    A message that is put back as it was.

    Attributes:
        id: its id.
        raw: its body.
        visible_at_ms: when it becomes visible; None is where it stood by its sent time.
        receive_count: how often it was received; 0 is never.
        first_received_ms: when it was first received; None is never, or not known.
    """

    id: str
    raw: bytes
    visible_at_ms: int | None
    receive_count: int
    first_received_ms: int | None

    def row(self) -> tuple[bytes, ...]:
        """As ``restoring.lua`` has it."""
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


def restore_messages(
    keys: QueueKeys, messages: Sequence[Restored], *, largest: int, realtime: bool
) -> Operation[int]:
    """Put messages back unless their ids are there; how many were added."""
    return Operation(
        load("restore_messages"),
        (keys.hash, keys.zset),
        (
            digits(largest),
            keys.channel if realtime else b"",
            *(value for message in messages for value in message.row()),
        ),
        int,
        Retry.ALWAYS,
        (keys.name,),
    )


def restore_totals(keys: QueueKeys, attributes: QueueAttributes) -> Operation[int]:
    """Raise a queue's totals to those of another one, and date it back."""
    created = attributes.created
    return Operation(
        load("restore_totals"),
        (keys.hash,),
        (
            digits(attributes.total_sent),
            digits(attributes.total_received),
            b"" if created is None else digits(int(created.timestamp())),
        ),
        int,
        Retry.ALWAYS,
        (keys.name,),
    )
