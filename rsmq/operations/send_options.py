"""
The options of a send that need ``send_with_options.lua``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rsmq.errors import InvalidFormat, InvalidValue
from rsmq.operations.arguments import (
    FRONT,
    check_batch,
    digits,
    encode_dedup_window,
    encode_time,
)
from rsmq.vocabulary.sends import (
    BATCH,
    SEND,
    SEND_OPTIONS,
    SendCall,
    SendOption,
    check_combinations,
    read_options,
)
from rsmq.wire.groups import check_group, holds_back, make_limit_group, parse_rate
from rsmq.wire.ids import mark_group
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import (
    DEFAULT_DEDUP_WINDOW,
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
#: The options that need no other script; without a dedup_id its window says nothing.
_OF_ALL_SCRIPTS = frozenset({"delay", "deliver_at", "front", "dedup_window"})
_OF_MESSAGE = tuple(each for each in SEND_OPTIONS if each.of_message)


def check_send(
    options: Mapping[str, Any], call: SendCall = SEND, number: int = 1
) -> tuple[bytes, SendOptions | None]:
    """
    Check the options of a send.

    Args:
        options: the arguments of the call.
        call: the call.
        number: how many messages it sends.

    Returns:
        When the messages become visible, in the format of ``send_message.lua``; and the other
        options, None if there are none, for the faster scripts.

    Raises:
        TypeError: there is no such option.
        InvalidFormat: a flag is no bool; a dedup_id, unique_key, group or limit_key is not a str of
            1 to 128 characters, or a group or limit_key contains a zero byte; there are more or
            fewer than messages; rate is no rate; or deliver_at is not an aware datetime.
        InvalidCombination: an option lacks one that it needs, or can't be combined with another.
        InvalidValue: a number is out of range, or max_wait is less than delay, or expires is not
            greater.
    """
    if len(options) == 1 and (delay := options.get("delay")) is not None:  # by far the most
        return digits(to_milliseconds("delay", delay)), None
    passed = read_options(options, call)
    for option in _OF_MESSAGE:
        if option.name in passed:
            value = passed[option.name]
            passed[option.name] = (
                _as_list(option, value, number) if option.is_list_in(call) else [value]
            )
    delay, front = passed.get("delay"), passed.get("front", False)
    encoded_delay = b"" if delay is None else digits(to_milliseconds("delay", delay))
    if front and encoded_delay == b"0":
        del passed["delay"]  # as without it
    check_combinations(passed)
    if (deliver_at := passed.get("deliver_at")) is not None:
        encoded_delay = encode_time(deliver_at)
    elif front:
        encoded_delay = FRONT
    if passed.keys() <= _OF_ALL_SCRIPTS:
        return encoded_delay, None
    get = passed.get
    has_rate, window = "rate" in passed, get("dedup_window", DEFAULT_DEDUP_WINDOW)
    return encoded_delay, SendOptions(
        _check_labels("dedup_id", get("dedup_id")),
        encode_dedup_window(window) if "dedup_id" in passed else b"",
        _check_labels("unique_key", get("unique_key")),
        get("replace", False),
        _encode_max_wait(get("max_wait"), delay),
        *encode_limits(get("expires"), get("max_retries"), delay),
        get("track", False),
        _make_groups(get("group"), get("limit_key"), get("max_running")),
        digits(parse_rate(passed["rate"])) if has_rate else b"",
    )


def _as_list(option: SendOption, values: Iterable[Any], number: int) -> list[Any]:
    item = option.name_in(BATCH)
    found = check_batch(item, values)
    if len(found) != number:
        raise InvalidFormat(
            item,
            value=len(found),
            hint=f"Pass one {option.name}, or None, for each of the {number} bodies.",
        )
    return found


def _make_groups(
    groups: list[Any] | None, limit_keys: list[Any] | None, max_running: int | None
) -> list[bytes] | None:
    """Return the group of each message, as it is stored; None if no message can have one."""
    most = 0
    if max_running is not None:
        most = check_whole_number("max_running", max_running, 1, MAX_RUNNING)
    named = _check_each(groups, check_group)
    limited = _check_each(limit_keys, lambda key: make_limit_group(key, most))
    if named is None or limited is None:
        return limited if named is None else named
    return [group or limit for group, limit in zip(named, limited, strict=True)]


def _encode_max_wait(max_wait: Any, delay: Any) -> bytes:
    if max_wait is None:
        return b""
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


def _check_labels(item: str, labels: list[Any] | None) -> list[bytes] | None:
    return _check_each(labels, lambda label: check_label(item, label))


def _check_each(labels: list[Any] | None, check: Callable[[Any], bytes]) -> list[bytes] | None:
    """Return what ``check`` returns for the label of each message; empty for None."""
    if labels is None:
        return None
    return [b"" if label is None else check(label) for label in labels]
