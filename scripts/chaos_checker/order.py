"""Rules on which message comes next: in order, not before its delay, and not too late."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate

from .history import Call
from .losses import Windows
from .messages import MessageCalls, Messages, received_before
from .violation import Violation, violation

#: Times at which messages are due are stored in milliseconds. Two that are due in the same one are
#: in the order of their ids, so a delayed message, whose id is older, comes first.
_ROUNDING_SECONDS = 0.002


def check_order(messages: Messages, windows: Windows) -> Iterator[Violation]:
    """Yield the violations."""
    sent = [each for each in messages.by_id.values() if len(each.sends) == 1]
    sent = [each for each in sent if each.unique_key is None]  # another send may have added it
    yield from _check_early(sent)
    for queue in {each.sends[0].queue for each in sent}:
        sent_there = [each for each in sent if each.sends[0].queue == queue]
        plain = [each for each in sent_there if each.is_ordered]
        empty_receives = [each for each in messages.empty_receives if each.queue == queue]
        yield from _check_reordered(plain, sent_there, windows)
        yield from _check_missed(plain, empty_receives, windows)


def _due_after(found: MessageCalls) -> float:
    """Return a time before which the message was not due."""
    send = found.sends[0]
    return send.begin + send.delay - (_ROUNDING_SECONDS if send.delay else 0)


def _due_before(found: MessageCalls) -> float:
    """Return a time at which the message was certainly due."""
    send = found.sends[0]
    return send.end + send.delay + (_ROUNDING_SECONDS if send.delay else 0)


def _check_early(sent: list[MessageCalls]) -> Iterator[Violation]:
    for found in sent:
        if not found.sends[0].delay:
            continue
        for each in found.deliveries:
            if received_before(each) < _due_after(found):
                yield violation("early", found.id, [found.sends[0], each])


def _check_reordered(
    plain: list[MessageCalls], sent: list[MessageCalls], windows: Windows
) -> Iterator[Violation]:
    """
    Yield a violation for each plain message that was passed by one that was due after it.

    It was certainly not received before the receive that returned it with a count of 1. So it was
    visible when the other message was received.
    """
    others = sorted((each for each in sent if each.deliveries), key=_due_after)
    due = [_due_after(each) for each in others]
    received = [min(map(received_before, each.deliveries)) for each in others]
    # For each position: that of the message behind it that was received first.
    first_behind = list(
        accumulate(reversed(range(len(others))), _lower_of(lambda index: received[index]))
    )
    first_behind.reverse()
    for found in plain:
        start = bisect_right(due, _due_before(found))
        if start < len(others) and received[first_behind[start]] < _waits_until(found):
            other = others[first_behind[start]]
            allowed_by = windows.excuse_between(found.sends[0].begin, _waits_until(found))
            shown_by = [*found.sends, *other.sends, other.deliveries[0], *found.sightings[:1]]
            yield violation("reordered", found.id, shown_by, allowed_by)


def _lower_of(key: Callable[[int], float]) -> Callable[[int, int], int]:
    return lambda one, other: one if key(one) <= key(other) else other


def _check_missed(
    sent: list[MessageCalls], empty_receives: list[Call], windows: Windows
) -> Iterator[Violation]:
    """Yield a violation for each empty receive during which a message was visible all the time."""
    waiting = sorted(sent, key=_due_before)
    due = [_due_before(each) for each in waiting]
    # For each position: that of the message before it that was received last.
    last_before = list(
        accumulate(range(len(waiting)), _lower_of(lambda index: -_waits_until(waiting[index])))
    )
    for receive in empty_receives:
        end = bisect_left(due, receive.begin)
        if not end:
            continue
        found = waiting[last_before[end - 1]]
        if _waits_until(found) > receive.end:
            allowed_by = windows.excuse_between(found.sends[0].begin, _waits_until(found))
            shown_by = [*found.sends, receive, *found.sightings[:1]]
            yield violation("missed", found.id, shown_by, allowed_by)


def _waits_until(found: MessageCalls) -> float:
    """Return a time before which no consumer had certainly received it, nor had it expired."""
    if found.is_untouched:
        return found.expires_at
    first = found.deliveries[0] if found.deliveries else None
    is_first = first is not None and first.kind == "receive" and first.count == 1
    return min(first.begin, found.expires_at) if first is not None and is_first else -math.inf
