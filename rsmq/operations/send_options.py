"""
The options of a send that need ``send_with_options.lua``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from rsmq.errors import InvalidCombination, InvalidFormat, InvalidValue, show
from rsmq.operations.arguments import check_batch, digits, encode_dedup_window
from rsmq.wire.ids import mark_group
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import (
    MAX_RECEIVES,
    MAX_SECONDS,
    Seconds,
    check_label,
    check_whole_number,
    to_milliseconds,
)


@dataclass(frozen=True, slots=True)
class SendOptions:
    """
    The options of one send, checked.

    Attributes:
        dedup_ids: the dedup_id of each message, empty for a message without one; None for none.
        window: the window of the dedup_ids in ms; empty without them.
        unique_keys: the unique_key of each message, as dedup_ids.
        replace: whether a message that waits with the same unique_key is replaced.
        max_wait: ms after its first send by which a replaced message is visible; empty for any.
        expires: ms after the send at which the messages expire; empty for never.
        max_retries: how often they may be tried again; empty for the number of the policy.
        track: whether new messages get a record.
        groups: the group of each message, as dedup_ids.
    """

    dedup_ids: list[bytes] | None
    window: bytes
    unique_keys: list[bytes] | None
    replace: bool
    max_wait: bytes
    expires: bytes
    max_retries: bytes
    track: bool
    groups: list[bytes] | None

    @property
    def may_repeat(self) -> bool:
        """
        Whether a second run changes nothing more.

        A unique_key alone is not enough: the first message may be done by then, or replaced.
        """
        return self.dedup_ids is not None and all(self.dedup_ids)

    def keys(self, queue: QueueKeys) -> tuple[bytes, ...]:
        """Return the keys behind those of the queue; its hash in place of a key without use."""
        return (
            queue.hash if self.dedup_ids is None else queue.dedup,
            queue.hash if self.unique_keys is None else queue.unique,
            queue.limits if self.expires or self.max_retries else queue.hash,
        )

    @property
    def has_groups_only(self) -> bool:
        """Whether the messages have groups and no other option."""
        return self.groups is not None and self == replace(GROUPS_ONLY, groups=self.groups)

    def mark(self, suffixes: list[bytes]) -> list[bytes]:
        """Return the random parts of ids, with the mark of messages that have a group."""
        if self.groups is None:
            return suffixes
        pairs = zip(suffixes, self.groups, strict=True)
        return [mark_group(suffix) if group else suffix for suffix, group in pairs]

    def args(self, raws: list[bytes]) -> tuple[bytes, ...]:
        """Return the arguments behind those of ``send_messages.lua``, with the bodies."""
        nothing = [b""] * len(raws)
        messages = zip(
            raws,
            self.dedup_ids or nothing,
            self.unique_keys or nothing,
            self.groups or nothing,
            strict=True,
        )
        return (
            self.window,
            b"1" if self.replace else b"0",
            self.max_wait,
            self.expires,
            self.max_retries,
            b"1" if self.track else b"",
            *(value for message in messages for value in message),
        )


#: The options of messages that have groups and no other option.
GROUPS_ONLY = SendOptions(None, b"", None, False, b"", b"", b"", False, None)


def check_options(
    number: int,
    *,
    dedup_ids: Iterable[str | None] | None,
    dedup_window: Seconds,
    unique_keys: Iterable[str | None] | None,
    replace: bool,
    max_wait: Seconds | None,
    delay: Seconds | None,
    expires: Seconds | None,
    max_retries: int | None,
    track: bool,
    groups: Iterable[str | None] | None = None,
    front: bool = False,
) -> SendOptions | None:
    """
    Return the options of so many messages; None if there are none, for the faster scripts.

    Raises:
        InvalidFormat: a dedup_id, unique_key or group is not a str of 1 to 128 characters, or a
            group contains a zero byte; there are more or fewer than messages.
        InvalidCombination: an option lacks one that it needs.
        InvalidValue: dedup_window, max_wait, expires or max_retries is out of range, or max_wait is
            less than delay, or expires is not greater.
    """
    if not isinstance(replace, bool):
        raise InvalidFormat("replace", value=show(replace), hint="Pass True or False.")
    if replace and unique_keys is None:
        raise InvalidCombination(
            "replace",
            value=replace,
            hint="It replaces the message with the same unique_key: pass one.",
        )
    encoded_wait = b"" if max_wait is None else _encode_max_wait(max_wait, delay, replace=replace)
    encoded_expires, retries = encode_limits(expires, max_retries, delay)
    if not isinstance(track, bool):
        raise InvalidFormat("track", value=show(track), hint="Pass True or False.")
    checked_groups = _check_groups(groups, number, front=front)
    if (
        dedup_ids is None
        and unique_keys is None
        and not (encoded_expires or retries or track or checked_groups)
    ):
        return None
    return SendOptions(
        _check_labels("dedup_id", dedup_ids, number),
        b"" if dedup_ids is None else encode_dedup_window(dedup_window),
        _check_labels("unique_key", unique_keys, number),
        replace,
        encoded_wait,
        encoded_expires,
        retries,
        track,
        checked_groups,
    )


def _check_groups(
    groups: Iterable[str | None] | None, number: int, *, front: bool
) -> list[bytes] | None:
    checked = _check_labels("group", groups, number)
    if checked is not None and front:
        raise InvalidCombination(
            "front",
            value=front,
            hint="The messages of a group are in the order of their sends. Omit group or front.",
        )
    for group in checked or ():
        if b"\0" in group:
            raise InvalidFormat("group", value=group, hint="A group is a text without zero bytes.")
    return checked


def _encode_max_wait(max_wait: Any, delay: Seconds | None, *, replace: bool) -> bytes:
    if not replace or delay is None:
        raise InvalidCombination(
            "max_wait",
            value=max_wait,
            hint="It limits how long replace=True can put off a message by its delay: pass both.",
        )
    ms, least = to_milliseconds("max_wait", max_wait), to_milliseconds("delay", delay)
    if ms < least:
        raise InvalidValue(
            "max_wait",
            least / 1000,
            MAX_SECONDS,
            value=max_wait,
            hint="A message waits at least for its delay.",
        )
    return digits(ms)


def encode_limits(
    expires: Seconds | None, max_retries: int | None, delay: Seconds | None
) -> tuple[bytes, bytes]:
    """
    Return the limits of messages, as ``SendOptions`` has them.

    Raises:
        InvalidValue: one is out of range, or expires is not greater than delay.
    """
    return (
        b"" if expires is None else _encode_expires(expires, delay),
        b"" if max_retries is None else _encode_max_retries(max_retries),
    )


def _encode_expires(expires: Any, delay: Seconds | None) -> bytes:
    ms = to_milliseconds("expires", expires)
    least = 0 if delay is None else to_milliseconds("delay", delay)
    if ms <= least:
        raise InvalidValue(
            "expires",
            (least + 1) / 1000,
            MAX_SECONDS,
            value=expires,
            hint="A message must become visible before it expires.",
        )
    return digits(ms)


def _encode_max_retries(max_retries: Any) -> bytes:
    return digits(check_whole_number("max_retries", max_retries, 0, MAX_RECEIVES))


def _check_labels(
    item: str, labels: Iterable[str | None] | None, number: int
) -> list[bytes] | None:
    if labels is None:
        return None
    checked = [
        b"" if label is None else check_label(item, label)
        for label in check_batch(f"{item}s", labels)
    ]
    if len(checked) != number:
        raise InvalidFormat(
            f"{item}s",
            value=len(checked),
            hint=f"Pass one {item}, or None, for each of the {number} bodies.",
        )
    return checked
