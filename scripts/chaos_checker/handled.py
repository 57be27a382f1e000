"""Rules on messages whose handler has returned, and on those that no consumer finds any more."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .disturbances import Disturbances
from .history import Call
from .losses import Windows
from .messages import MessageCalls, Messages, received_after
from .presence import AFTER_HANDLER_SECONDS, is_settled
from .violation import Violation, violation

#: Workers look once a minute for messages that wait although their turn has come.
STUCK_SECONDS = 75.0


def check_handled(
    messages: Messages, windows: Windows, disturbances: Disturbances
) -> Iterator[Violation]:
    """Yield the violations."""
    for found in messages.by_id.values():
        yield from _check_twice(found, windows, disturbances)
        yield from _check_kept(found, messages, windows, disturbances)
    yield from _check_stuck(messages, disturbances)


def _check_twice(
    found: MessageCalls, windows: Windows, disturbances: Disturbances
) -> Iterator[Violation]:
    handled = [each for each in found.deliveries if each.kind == "handle" and each.is_ok]
    for first in handled:
        again = next((each for each in found.deliveries if _is_again(first, each)), None)
        if again is None:
            continue
        if not disturbances.concern(first.client, first.begin, min(again.begin, _until(first))):
            allowed_by = windows.excuse([first])
            yield violation("handled twice", found.id, [first, again], allowed_by)
            return


def _is_again(first: Call, later: Call) -> bool:
    """Return whether a delivery follows a handler call that has returned."""
    is_newer = first.count is None or later.count is None or later.count > first.count
    if later is first or later.begin < first.begin or not is_newer:
        return False
    if later.kind == "handle":  # two that ran at the same time, too
        return later.is_ok or later.begin > first.end
    return received_after(later) > first.end


def _until(handle: Call) -> float:
    return handle.end + AFTER_HANDLER_SECONDS


def _check_kept(
    found: MessageCalls, messages: Messages, windows: Windows, disturbances: Disturbances
) -> Iterator[Violation]:
    for call in found.deliveries:
        if not found.left or _until(call) > messages.end:
            continue
        if is_settled(found, call, disturbances) and found.left[0].count in {None, call.count}:
            allowed_by = windows.excuse([call])
            yield violation("not deleted", found.id, [call, *found.left], allowed_by)
            return


def _check_stuck(messages: Messages, disturbances: Disturbances) -> Iterator[Violation]:
    """Yield a violation for each message that is left, though consumers have looked long after."""
    last_empty: dict[str, Call] = {}
    for receive in sorted(messages.empty_receives, key=lambda each: each.begin):
        last_empty[receive.queue] = receive
    changed_at: dict[tuple[str, str] | str, float] = {}
    for found in messages.by_id.values():
        for key in _keys(found):
            changed_at[key] = max(changed_at.get(key, 0.0), _last_change(found))
    for found in messages.by_id.values():
        looked = last_empty.get(found.sends[0].queue if found.sends else "")
        if not found.left or looked is None or messages.end > found.expires_at:
            continue
        last = max([disturbances.end, *(changed_at[key] for key in _keys(found))])
        if looked.begin > last + STUCK_SECONDS:
            yield violation("stuck", found.id, [*found.sends, *found.left, looked])


def _keys(found: MessageCalls) -> list[tuple[str, str] | str]:
    """Return what it waits for: itself, its group and its limit key."""
    keys: list[tuple[str, str] | str] = [found.id]
    keys += [("group", each.group) for each in found.sends if each.group]
    keys += [("limit", each.limit_key) for each in found.sends if each.limit_key]
    return keys


def _last_change(found: MessageCalls) -> float:
    """
    Return a time after which no call hides it.

    It is infinite while its handler may run, and if no call is known: then the time of its send is
    not.
    """
    times = [each.end + each.delay for each in found.sends]
    for each in [*found.deliveries, *found.extensions, *found.deletes]:
        has_no_end = each.kind == "handle" and len(each.lines) == 1
        begun = each.begin if each.outcome == "unknown" else each.end
        times.append(math.inf if has_no_end else begun + each.vt)
    return max(times, default=math.inf)
