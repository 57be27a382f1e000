"""
The options of a send that need ``send_with_options.lua``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from rsmq.errors import InvalidCombination, InvalidFormat, InvalidValue, show
from rsmq.operations.arguments import check_batch, digits, encode_dedup_window
from rsmq.wire.groups import check_group, holds_back, make_limit_group, parse_rate
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
from rsmq.wire.throttle import MAX_RUNNING


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
        groups: the group of each message, as dedup_ids; of a message with a limit key, that of
            the key.
        interval: the microseconds between the messages of a key that have a rate; empty for none.
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
    interval: bytes = b""

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
            queue.rates if self.interval else queue.hash,
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
        return [mark_group(suffix) if holds_back(group) else suffix for suffix, group in pairs]

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
            self.interval,
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
    limit_keys: Iterable[str | None] | None = None,
    max_running: int | None = None,
    rate: str | None = None,
    front: bool = False,
) -> SendOptions | None:
    """
    Return the options of so many messages; None if there are none, for the faster scripts.

    Raises:
        InvalidFormat: a dedup_id, unique_key, group or limit_key is not a str of 1 to 128
            characters, or a group or limit_key contains a zero byte; there are more or fewer than
            messages; or rate is no rate.
        InvalidCombination: an option lacks one that it needs, or can't be combined with another.
        InvalidValue: dedup_window, max_wait, expires, max_retries or max_running is out of range,
            or max_wait is less than delay, or expires is not greater.
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
    interval = b"" if rate is None else digits(parse_rate(rate))
    checked_groups = _check_groups(
        groups, limit_keys, number, max_running=max_running, has_rate=rate is not None
    )
    if rate is not None and checked_groups is None:
        raise InvalidCombination(
            "rate",
            value=rate,
            hint="It is the rate of the messages with the same limit_key or group: pass one.",
        )
    if front and checked_groups is not None:
        raise InvalidCombination(
            "front",
            value=front,
            hint="The messages of a group or limit_key keep the order of their sends. Omit front.",
        )
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
        interval,
    )


def _check_groups(
    groups: Iterable[str | None] | None,
    limit_keys: Iterable[str | None] | None,
    number: int,
    *,
    max_running: int | None,
    has_rate: bool,
) -> list[bytes] | None:
    """Return the group of each message, as it is stored; None if no message can have one."""
    named = None if groups is None else _check_each("group", groups, number, check_group)
    if limit_keys is None:
        if max_running is not None:
            raise InvalidCombination(
                "max_running",
                value=max_running,
                hint="It is the limit of the messages with the same limit_key: pass one.",
            )
        return named
    keys = check_batch("limit_keys", limit_keys)
    most = 0
    if max_running is not None:
        most = check_whole_number("max_running", max_running, 1, MAX_RUNNING)
    elif not has_rate and any(key is not None for key in keys):
        raise InvalidCombination(
            "limit_key",
            value=next(key for key in keys if key is not None),
            hint="Pass the limit of the key too: max_running, rate or both.",
        )
    limited = _check_each("limit_key", keys, number, lambda key: make_limit_group(key, most))
    if named is None:
        return limited
    both = next((key for key, group in zip(keys, named, strict=True) if group and key), None)
    if both is not None:
        raise InvalidCombination(
            "limit_key",
            value=both,
            hint="The messages of a group run one at a time already. Omit group or limit_key.",
        )
    return [group or limit for group, limit in zip(named, limited, strict=True)]


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
    return _check_each(item, labels, number, lambda label: check_label(item, label))


def _check_each(
    item: str, labels: Iterable[str | None], number: int, check: Callable[[str], bytes]
) -> list[bytes]:
    """Return what ``check`` returns for the label of each message; empty for None."""
    checked = [b"" if label is None else check(label) for label in check_batch(f"{item}s", labels)]
    if len(checked) != number:
        raise InvalidFormat(
            f"{item}s",
            value=len(checked),
            hint=f"Pass one {item}, or None, for each of the {number} bodies.",
        )
    return checked
