"""Rules on the options of sends: groups, limit keys, unique keys, expiry."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from itertools import accumulate

from .disturbances import Disturbances
from .history import Call
from .losses import Windows
from .messages import MessageCalls, Messages
from .presence import exists_from, exists_until, received_first, removed_before
from .violation import Record, Violation, violation

#: Redis stores times in milliseconds.
_ROUNDING_SECONDS = 0.01

#: Two times, and a message.
_Span = tuple[float, float, MessageCalls]


def check_constraints(
    messages: Messages, windows: Windows, disturbances: Disturbances
) -> Iterator[Violation]:
    """Yield the violations."""
    sent = [each for each in messages.by_id.values() if each.sends]
    for group in _by(sent, lambda send: send.group):
        yield from _check_group(group, windows, disturbances)
    for limited in _by(sent, lambda send: send.limit_key and (send.limit_key, send.max_running)):
        yield from _check_limit(limited, windows, disturbances)
    for unique in _by(sent, lambda send: send.unique_key):
        yield from _check_unique(unique, windows, disturbances)
    for found in sent:
        yield from _check_unique_gone(found, windows, disturbances)
        yield from _check_expired(found)


def _by(sent: list[MessageCalls], key: Callable[[Call], Hashable]) -> Iterator[list[MessageCalls]]:
    groups: dict[Hashable, list[MessageCalls]] = defaultdict(list)
    for found in sent:
        if (name := key(found.sends[0])) is not None:
            groups[name].append(found)
    yield from groups.values()


def _shown(*messages: MessageCalls) -> list[Call]:
    return [call for each in messages for call in [*each.sends, *each.deliveries]]


def _excuse(windows: Windows, *messages: MessageCalls) -> str | None:
    """Return the setting that may have undone a send, a receive or a delete of these messages."""
    calls = [call for each in messages for call in [*_shown(each), *each.deletes]]
    return windows.excuse(calls)


def _check_group(
    group: list[MessageCalls], windows: Windows, disturbances: Disturbances
) -> Iterator[Violation]:
    """Yield a violation for each message that was received before an earlier one was gone."""
    group = sorted(group, key=lambda each: each.sends[0].end)
    sent = [each.sends[0].end for each in group]
    until = [exists_until(each, disturbances) for each in group]
    # For each position: that of the message up to it that was there for longest.
    longest = list(accumulate(range(len(group)), lambda *each: max(each, key=until.__getitem__)))
    for found in group:
        number = bisect_left(sent, found.sends[0].begin)
        if number and until[longest[number - 1]] > received_first(found):
            earlier = group[longest[number - 1]]
            shown_by: list[Record] = [*_shown(earlier, found), *earlier.left]
            yield violation("group order", found.id, shown_by, _excuse(windows, earlier, found))


def _with_others(
    present: list[_Span], spans: list[_Span]
) -> Iterator[tuple[MessageCalls, list[MessageCalls]]]:
    """Yield the message of each span with the others that were present during all of it."""
    waiting, active = sorted(present, key=lambda each: each[0], reverse=True), list[_Span]()
    for begin, end, found in sorted(spans, key=lambda each: each[0]):
        while waiting and waiting[-1][0] <= begin:
            active.append(waiting.pop())
        active = [each for each in active if each[1] >= begin]
        yield found, [each for _, until, each in active if until >= end and each is not found]


def _check_limit(
    limited: list[MessageCalls], windows: Windows, disturbances: Disturbances
) -> Iterator[Violation]:
    """
    Yield a violation for each message that was received while others had all the room.

    A message has room from the time at which it is due until it is gone, also between two attempts.
    """
    present = [(received_first(each), exists_until(each, disturbances), each) for each in limited]
    spans = [(*_had_room(each, disturbances), each) for each in limited if each.deliveries]
    for found, others in _with_others(present, spans):
        if len(others) >= found.sends[0].max_running:
            allowed_by = _excuse(windows, found, *others)
            yield violation("over limit", found.id, _shown(found, *others), allowed_by)


def _had_room(found: MessageCalls, disturbances: Disturbances) -> tuple[float, float]:
    """Return the shortest time within which the message certainly had room, at some moment."""
    first = received_first(found)
    if exists_until(found, disturbances) >= first:
        return first, first
    receives = [each for each in found.deliveries if each.kind == "receive"]
    spans = [(each.begin, each.end) for each in receives]
    return min(spans, key=lambda each: each[1] - each[0], default=(-math.inf, math.inf))


def _check_unique(
    unique: list[MessageCalls], windows: Windows, disturbances: Disturbances
) -> Iterator[Violation]:
    """Yield a violation for each send that returned another id than that of the key's message."""
    present = [(exists_from(each), exists_until(each, disturbances), each) for each in unique]
    spans = [(send.begin, send.end, each) for each in unique for send in each.sends]
    for found, others in _with_others(present, spans):
        for other in others[:1]:
            shown_by: list[Record] = [*_shown(other, found), *other.left]
            yield violation("unique twice", found.id, shown_by, _excuse(windows, other, found))


def _check_unique_gone(
    found: MessageCalls, windows: Windows, disturbances: Disturbances
) -> Iterator[Violation]:
    """Yield a violation if a send has added nothing, because of a message that was gone."""
    gone = removed_before(found, disturbances)
    for send in found.sends:
        if send.unique_key is not None and send.begin > gone:
            shown_by = [send, *found.deliveries, *found.deletes]
            yield violation("unique gone", found.id, shown_by, _excuse(windows, found))
            return


def _check_expired(found: MessageCalls) -> Iterator[Violation]:
    """Yield a violation if a message was received after its expiry."""
    expired = max(each.end + each.expires for each in found.sends)
    for each in found.deliveries:
        if each.kind != "receive" or each.ignores_expiry:
            continue
        if each.begin > expired + _ROUNDING_SECONDS:
            yield violation("expired", found.id, [*found.sends, each])
            return
