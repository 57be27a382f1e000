# Generated from rsmq/vocabulary/sends.py by scripts/generate-sync. Do not edit.
"""
The options of sends, as type checkers and editors read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypedDict


class SendArguments(TypedDict, total=False):
    """The options of ``send_message``."""

    delay: float | timedelta | None
    """
    Seconds until it is visible, 0 to 9,999,999, fractions to the millisecond; None uses the queue's
    delay.
    """

    deliver_at: datetime | None
    """
    When it becomes visible, instead of a delay: an aware datetime, at most 9,999,999 seconds ahead
    by the server's clock, rounded up to the millisecond. A time in the past means at once.
    """

    front: bool
    """
    If True, the message is visible at once, before all messages in the queue, whatever the queue's
    delay; it can't be combined with deliver_at, or with a delay greater than 0.
    """

    dedup_id: str | None
    """
    A deduplication id of 1 to 128 characters. If a message was sent to this queue with the same id
    within the window, nothing is added, and the id of that message is returned, even if the message
    was deleted in the meantime. Purging the queue, or deleting and creating it again, forgets all
    deduplication ids.
    """

    dedup_window: float | timedelta
    """
    Seconds for which the dedup_id is remembered, 1 to 9,999,999. Use more than retry_deadline, so
    that the last retry falls within the window.
    """

    unique_key: str | None
    """
    A text of 1 to 128 characters. While a message with this key is in the queue, in flight or not,
    nothing is added, and the id of that message is returned. The key is free once that message is
    deleted, popped or dead-lettered, by any client. With a dedup_id too, the dedup_id is looked up
    first.
    """

    replace: bool
    """
    If True, and the message with the unique_key was never received, it gets this body, and with a
    delay, deliver_at or front also this time; it keeps its id. If it was received, this message is
    added, and gets the key. It needs unique_key.
    """

    max_wait: float | timedelta | None
    """
    Seconds after the first send of a message within which it becomes visible, however often it is
    replaced with a delay; at least the delay, and at most 9,999,999. None puts it off by the delay
    each time. It needs replace and delay.
    """

    expires: float | timedelta | None
    """
    Seconds after this send at which the message expires, more than its delay and at most 9,999,999,
    fractions to the millisecond; None is never. Then it is not delivered any more, but removed or
    dead-lettered, see ``set_queue_attributes``; a handler that has it by then keeps it. It counts
    for a message that is added or replaced. Node and PHP consumers ignore it.
    """

    max_retries: int | None
    """
    How often the message is tried again after its first attempt, 0 to 1,000,000, instead of the
    number of its worker's listener or of the queue's dead-letter policy; 0 is a single attempt. It
    has no effect where there is neither a dead-letter queue nor ``drop``. It counts for a message
    that is added or replaced. Node and PHP consumers ignore it.
    """

    track: bool
    """
    If True, a new or replaced message gets a record of what becomes of it, which ``job`` reads. The
    listener that handles it needs ``track=True`` too. Clients in other languages handle it without
    the record.
    """

    group: str | None
    """
    A text of 1 to 128 characters. The messages of a group are handled one at a time, in the order
    of their sends: the next one becomes visible when this one was deleted or dead- lettered.
    Consumers in other languages obey too. It can't be combined with front. A message that is
    replaced keeps its group.
    """

    limit_key: str | None
    """
    A text of 1 to 128 characters that names what the messages share, such as a tenant or an API. It
    needs max_running, rate or both, and can't be combined with group or front. Consumers in other
    languages obey too.
    """

    max_running: int | None
    """
    How many messages of the limit_key may be in flight, delayed or waiting for a retry at a time, 1
    to 1,000; the others are held back, and become visible in the order of their sends. All senders
    of a key pass the same number: those that were sent with another one are counted apart.
    """

    rate: str | None
    """
    How many messages of the limit_key or of the group become visible in a time, as "10/s", "100/m",
    "1000/h" or "5000/d": evenly spaced, so with "100/m" each one at least 0.6 s after the one
    before. The number is 1 to 1,000,000. It counts sends, and no retries.
    """


class BatchArguments(TypedDict, total=False):
    """The options of ``send_messages``."""

    delay: float | timedelta | None
    """As for send_message."""

    deliver_at: datetime | None
    """As for send_message."""

    front: bool
    """As for send_message."""

    dedup_ids: Iterable[str | None] | None
    """For each body a dedup_id as for send_message, or None."""

    dedup_window: float | timedelta
    """As for send_message."""

    unique_keys: Iterable[str | None] | None
    """
    For each body a unique_key as for send_message, or None. A key that the batch has twice counts
    as sent before at the second place.
    """

    replace: bool
    """As for send_message."""

    max_wait: float | timedelta | None
    """As for send_message."""

    expires: float | timedelta | None
    """As for send_message."""

    max_retries: int | None
    """As for send_message."""

    track: bool
    """As for send_message."""

    groups: Iterable[str | None] | None
    """For each body a group as for send_message, or None."""

    limit_keys: Iterable[str | None] | None
    """For each body a limit_key as for send_message, or None."""

    max_running: int | None
    """As for send_message."""

    rate: str | None
    """As for send_message."""


class PublishArguments(TypedDict, total=False):
    """The options of ``publish``."""

    delay: float | timedelta | None
    """As for send_message."""

    deliver_at: datetime | None
    """As for send_message."""

    expires: float | timedelta | None
    """As for send_message."""

    max_retries: int | None
    """As for send_message."""


class TaskSendArguments(TypedDict, total=False):
    """The options of ``options``."""

    delay: float | timedelta | None
    """
    Seconds until it is visible, 0 to 9,999,999, fractions to the millisecond; None uses the queue's
    delay.
    """

    deliver_at: datetime | None
    """
    When it becomes visible, instead of a delay: an aware datetime, at most 9,999,999 seconds ahead
    by the server's clock, rounded up to the millisecond. A time in the past means at once.
    """

    front: bool
    """
    If True, the message is visible at once, before all messages in the queue, whatever the queue's
    delay; it can't be combined with deliver_at, or with a delay greater than 0.
    """

    dedup_id: str | None
    """
    A deduplication id of 1 to 128 characters. If a message was sent to this queue with the same id
    within the window, nothing is added, and the id of that message is returned, even if the message
    was deleted in the meantime. Purging the queue, or deleting and creating it again, forgets all
    deduplication ids.
    """

    dedup_window: float | timedelta
    """
    Seconds for which the dedup_id is remembered, 1 to 9,999,999. Use more than retry_deadline, so
    that the last retry falls within the window.
    """

    unique_key: str | None
    """
    A text of 1 to 128 characters. While a message with this key is in the queue, in flight or not,
    nothing is added, and the id of that message is returned. The key is free once that message is
    deleted, popped or dead-lettered, by any client. With a dedup_id too, the dedup_id is looked up
    first.
    """

    replace: bool
    """
    If True, and the message with the unique_key was never received, it gets this body, and with a
    delay, deliver_at or front also this time; it keeps its id. If it was received, this message is
    added, and gets the key. It needs unique_key.
    """

    max_wait: float | timedelta | None
    """
    Seconds after the first send of a message within which it becomes visible, however often it is
    replaced with a delay; at least the delay, and at most 9,999,999. None puts it off by the delay
    each time. It needs replace and delay.
    """

    expires: float | timedelta | None
    """
    Seconds after this send at which the message expires, more than its delay and at most 9,999,999,
    fractions to the millisecond; None is never. Then it is not delivered any more, but removed or
    dead-lettered, see ``set_queue_attributes``; a handler that has it by then keeps it. It counts
    for a message that is added or replaced. Node and PHP consumers ignore it.
    """

    max_retries: int | None
    """
    How often the message is tried again after its first attempt, 0 to 1,000,000, instead of the
    number of its worker's listener or of the queue's dead-letter policy; 0 is a single attempt. It
    has no effect where there is neither a dead-letter queue nor ``drop``. It counts for a message
    that is added or replaced. Node and PHP consumers ignore it.
    """

    group: str | None
    """
    A text of 1 to 128 characters. The messages of a group are handled one at a time, in the order
    of their sends: the next one becomes visible when this one was deleted or dead- lettered.
    Consumers in other languages obey too. It can't be combined with front. A message that is
    replaced keeps its group.
    """

    limit_key: str | None
    """
    A text of 1 to 128 characters that names what the messages share, such as a tenant or an API. It
    needs max_running, rate or both, and can't be combined with group or front. Consumers in other
    languages obey too.
    """

    max_running: int | None
    """
    How many messages of the limit_key may be in flight, delayed or waiting for a retry at a time, 1
    to 1,000; the others are held back, and become visible in the order of their sends. All senders
    of a key pass the same number: those that were sent with another one are counted apart.
    """

    rate: str | None
    """
    How many messages of the limit_key or of the group become visible in a time, as "10/s", "100/m",
    "1000/h" or "5000/d": evenly spaced, so with "100/m" each one at least 0.6 s after the one
    before. The number is 1 to 1,000,000. It counts sends, and no retries.
    """


class ScheduleSendArguments(TypedDict, total=False):
    """The options of ``schedules.add``."""

    delay: float | timedelta | None
    """
    Seconds until it is visible, 0 to 9,999,999, fractions to the millisecond; None uses the queue's
    delay.
    """

    front: bool
    """
    If True, the message is visible at once, before all messages in the queue, whatever the queue's
    delay; it can't be combined with deliver_at, or with a delay greater than 0.
    """

    unique_key: str | None
    """
    A text of 1 to 128 characters. While a message with this key is in the queue, in flight or not,
    nothing is added, and the id of that message is returned. The key is free once that message is
    deleted, popped or dead-lettered, by any client. With a dedup_id too, the dedup_id is looked up
    first.
    """

    replace: bool
    """
    If True, and the message with the unique_key was never received, it gets this body, and with a
    delay, deliver_at or front also this time; it keeps its id. If it was received, this message is
    added, and gets the key. It needs unique_key.
    """

    max_wait: float | timedelta | None
    """
    Seconds after the first send of a message within which it becomes visible, however often it is
    replaced with a delay; at least the delay, and at most 9,999,999. None puts it off by the delay
    each time. It needs replace and delay.
    """

    expires: float | timedelta | None
    """
    Seconds after this send at which the message expires, more than its delay and at most 9,999,999,
    fractions to the millisecond; None is never. Then it is not delivered any more, but removed or
    dead-lettered, see ``set_queue_attributes``; a handler that has it by then keeps it. It counts
    for a message that is added or replaced. Node and PHP consumers ignore it.
    """

    max_retries: int | None
    """
    How often the message is tried again after its first attempt, 0 to 1,000,000, instead of the
    number of its worker's listener or of the queue's dead-letter policy; 0 is a single attempt. It
    has no effect where there is neither a dead-letter queue nor ``drop``. It counts for a message
    that is added or replaced. Node and PHP consumers ignore it.
    """

    track: bool
    """
    If True, a new or replaced message gets a record of what becomes of it, which ``job`` reads. The
    listener that handles it needs ``track=True`` too. Clients in other languages handle it without
    the record.
    """

    group: str | None
    """
    A text of 1 to 128 characters. The messages of a group are handled one at a time, in the order
    of their sends: the next one becomes visible when this one was deleted or dead- lettered.
    Consumers in other languages obey too. It can't be combined with front. A message that is
    replaced keeps its group.
    """

    limit_key: str | None
    """
    A text of 1 to 128 characters that names what the messages share, such as a tenant or an API. It
    needs max_running, rate or both, and can't be combined with group or front. Consumers in other
    languages obey too.
    """

    max_running: int | None
    """
    How many messages of the limit_key may be in flight, delayed or waiting for a retry at a time, 1
    to 1,000; the others are held back, and become visible in the order of their sends. All senders
    of a key pass the same number: those that were sent with another one are counted apart.
    """

    rate: str | None
    """
    How many messages of the limit_key or of the group become visible in a time, as "10/s", "100/m",
    "1000/h" or "5000/d": evenly spaced, so with "100/m" each one at least 0.6 s after the one
    before. The number is 1 to 1,000,000. It counts sends, and no retries.
    """
