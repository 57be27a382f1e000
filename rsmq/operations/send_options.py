"""
The options of a send that need ``send_with_options.lua``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from rsmq.errors import InvalidFormat, InvalidValue
from rsmq.operations.arguments import FRONT, check_batch, digits, encode_time
from rsmq.vocabulary.sends import (
    BATCH,
    SEND,
    SEND_OPTIONS,
    SendCall,
    SendOption,
    ValueKind,
    check_combinations,
    read_options,
)
from rsmq.wire.groups import check_group, holds_back, make_limit_group, parse_rate
from rsmq.wire.ids import mark_group
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import (
    DEFAULT_DEDUP_WINDOW,
    MAX_SECONDS,
    check_label,
    check_whole_number,
    to_milliseconds,
)
from rsmq.wire.names import decode_name, decode_names, encode_name


def _to_json(value: bytes | list[bytes]) -> str:
    """Return texts as JSON, in a third of the time that an encoder of any value takes."""
    if isinstance(value, bytes):
        return encode_basestring(decode_name(value))
    return f"[{','.join(map(encode_basestring, decode_names(value)))}]"


@dataclass(frozen=True, slots=True)
class SendOptions:
    """
    The options of the messages of one send, checked.

    Attributes:
        values: the options as ``send_with_options.lua`` reads them, by name.
    """

    values: Mapping[str, Any]

    @property
    def groups(self) -> list[bytes] | None:
        """
        The group of each message in which others wait for it, empty for one without such a group.

        That of a message with a limit key is that of the key. It is None if no message has one.
        """
        found: list[bytes] | None = self.values.get("groups")
        return found

    @property
    def may_repeat(self) -> bool:
        """
        Whether a second run changes nothing more.

        A unique_key alone is not enough: the first message may be done by then, or replaced.
        """
        return all(self.values.get("dedup_ids", (b"",)))

    def keys(self, queue: QueueKeys) -> tuple[bytes, ...]:
        """Return the keys behind those of the queue; its hash in place of a key without use."""
        used = self.values.keys()
        return (
            queue.dedup if "dedup_ids" in used else queue.hash,
            queue.unique if "unique_keys" in used else queue.hash,
            queue.limits if "expires" in used or "max_retries" in used else queue.hash,
            queue.rates if "rate_interval" in used else queue.hash,
        )

    @property
    def has_groups_only(self) -> bool:
        """Whether the messages have groups and no other option."""
        return self.values.keys() == {"groups"}

    def mark(self, suffixes: list[bytes]) -> list[bytes]:
        """Return the random parts of ids, with the mark of messages that have a group."""
        if self.groups is None:
            return suffixes
        pairs = zip(suffixes, self.groups, strict=True)
        return [mark_group(suffix) if group else suffix for suffix, group in pairs]

    def pack(self) -> bytes:
        """Return the options as one argument, which ``fragments/packed.lua`` reads."""
        items = (f'"{name}":{_to_json(value)}' for name, value in self.values.items())
        return encode_name(f"{{{','.join(items)}}}") if self.values else b""


#: The options that need no other script; without a dedup_id its window says nothing.
_OF_DELAY = frozenset({"delay", "deliver_at", "front"})
_OF_ALL_SCRIPTS = _OF_DELAY | {"dedup_window"}
#: The options that are packed in other forms than their own.
_OF_GROUPS = frozenset({"group", "limit_key", "max_running", "rate"})
_BY_NAME = {each.name: each for each in SEND_OPTIONS}
#: The options that are compared with the delay: the least ms beyond it, and why.
_BEYOND_DELAY = {
    "max_wait": (0, "A message waits at least for its delay."),
    "expires": (1, "A message must become visible before it expires."),
}


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
        InvalidFormat: a flag is not a bool; a dedup_id, unique_key, group or limit_key is not a str
            of 1 to 128 characters, or a group or limit_key contains a zero byte; there are more or
            fewer than messages; rate is malformed; or deliver_at is not an aware datetime.
        InvalidCombination: an option lacks one that it needs, or can't be combined with another.
        InvalidValue: a number is out of range, or max_wait is less than delay, or expires is not
            greater.
    """
    if len(options) == 1 and (delay := options.get("delay")) is not None:  # by far the most
        return digits(to_milliseconds("delay", delay)), None
    passed = read_options(options, call)
    plan = _plan((*passed,))
    for option in plan.of_message:
        value = passed[option.name]
        passed[option.name] = _as_list(option, value, number) if call.has_lists else [value]
    encoded_delay = _encode_delay(passed) if plan.has_time else b""
    if plan.has_rules:
        check_combinations(passed)
    if "deliver_at" in passed:
        encoded_delay = encode_time(passed["deliver_at"])
    if plan.is_of_all_scripts:
        return encoded_delay, None
    delay = passed.get("delay")
    values = {item: encode(option, passed[option.name], delay) for item, option, encode in plan.own}
    values.update(plan.constants)
    if plan.has_groups:
        _encode_groups(values, passed)
    return encoded_delay, SendOptions(values)


@dataclass(frozen=True, slots=True)
class _Plan:
    """
    The checks of a send, by the names of its options. It is made once for these.

    Attributes:
        of_message: the options that each message has of its own.
        has_time: whether ``delay`` or another one says when the messages become visible.
        has_rules: whether one of them may lack another, or exclude one.
        is_of_all_scripts: whether they need no other script.
        own: those that are packed in their own form, with their names there and how to encode them.
        constants: what is packed without being passed.
        has_groups: whether groups are packed.
    """

    of_message: tuple[SendOption, ...]
    has_time: bool
    has_rules: bool
    is_of_all_scripts: bool
    own: tuple[tuple[str, SendOption, Callable[[SendOption, Any, Any], Any]], ...]
    constants: Mapping[str, Any]
    has_groups: bool


@lru_cache(maxsize=1024)
def _plan(names: tuple[str, ...]) -> _Plan:
    passed = set(names)
    options = [_BY_NAME[name] for name in names]
    own = [each for each in options if each.name not in _OF_DELAY and each.name not in _OF_GROUPS]
    constants = {}
    if "dedup_id" not in passed:
        own = [each for each in own if each.name != "dedup_window"]
    elif "dedup_window" not in passed:
        constants["dedup_window"] = digits(to_milliseconds("dedup_window", DEFAULT_DEDUP_WINDOW))
    return _Plan(
        tuple(each for each in options if each.of_message),
        not passed.isdisjoint(_OF_DELAY),
        any(
            any(map(passed.isdisjoint, each.needs)) or not passed.isdisjoint(each.excludes)
            for each in options
        ),
        passed <= _OF_ALL_SCRIPTS,
        tuple((each.name_in(BATCH), each, _ENCODERS[each.kind]) for each in own),
        constants,
        not passed.isdisjoint(_OF_GROUPS),
    )


def _encode_delay(passed: dict[str, Any]) -> bytes:
    """Return the delay, or FRONT. A delay of 0 is removed then, since it excludes nothing."""
    delay = passed.get("delay")
    encoded = b"" if delay is None else digits(to_milliseconds("delay", delay))
    if "front" not in passed:
        return encoded
    if encoded == b"0":
        del passed["delay"]
    return FRONT


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


def _encode_labels(option: SendOption, labels: list[Any], _: Any) -> list[bytes]:
    return [b"" if label is None else check_label(option.name, label) for label in labels]


def _encode_flag(*_: Any) -> bytes:
    return b"1"


def _encode_number(option: SendOption, value: Any, _: Any) -> bytes:
    low, high = int(option.low or 0), int(option.high or 0)
    return digits(check_whole_number(option.name, value, low, high))


def _encode_seconds(option: SendOption, value: Any, delay: Any) -> bytes:
    ms = to_milliseconds(option.name, value)
    beyond, hint = _BEYOND_DELAY.get(option.name, (None, "Pass a number of seconds."))
    if beyond is None:
        least = round((option.low or 0) * 1000)
    else:
        least = beyond + (0 if delay is None else to_milliseconds("delay", delay))
    if ms < least:
        smallest = least / 1000 if least % 1000 else least // 1000
        raise InvalidValue(option.name, smallest, MAX_SECONDS, value=value, hint=hint)
    return digits(ms)


_ENCODERS: Mapping[ValueKind, Callable[[SendOption, Any, Any], Any]] = {
    ValueKind.LABEL: _encode_labels,
    ValueKind.FLAG: _encode_flag,
    ValueKind.WHOLE_NUMBER: _encode_number,
    ValueKind.SECONDS: _encode_seconds,
}


def _encode_groups(values: dict[str, Any], passed: Mapping[str, Any]) -> None:
    """Add the group of each message, as it is stored, and the interval of a rate."""
    most = 0
    if (max_running := passed.get("max_running")) is not None:
        option = _BY_NAME["max_running"]
        most = check_whole_number("max_running", max_running, 1, int(option.high or 0))
    named = _check_each(passed.get("group"), check_group)
    limited = _check_each(passed.get("limit_key"), lambda key: make_limit_group(key, most))
    if named is not None and limited is not None:
        named = [group or limit for group, limit in zip(named, limited, strict=True)]
    groups = (limited if named is None else named) or []
    if any(map(holds_back, groups)):
        values["groups"] = [group if holds_back(group) else b"" for group in groups]
    if "rate" in passed:
        values["rate_interval"] = digits(parse_rate(passed["rate"]))
        values["rate_keys"] = groups


def _check_each(labels: list[Any] | None, check: Callable[[Any], bytes]) -> list[bytes] | None:
    """Return what ``check`` returns for the label of each message; empty for None."""
    return None if labels is None else [b"" if each is None else check(each) for each in labels]
