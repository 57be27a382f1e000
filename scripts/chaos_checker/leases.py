"""Rules on receives: one lease at a time, receive counts that rise, receipts, deletes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from .history import Call, Fault, Left
from .losses import Windows
from .messages import MessageCalls, Messages, received_after, received_before
from .violation import Violation, violation

#: Redis stores times in milliseconds, and its clock may run a little faster or slower.
_ROUNDING_SECONDS = 0.01


def check_leases(messages: Messages, windows: Windows, faults: list[Fault]) -> Iterator[Violation]:
    """Yield the violations."""
    for found in messages.by_id.values():
        yield from _check_counts(found, windows)
        yield from _check_overlaps(found, windows)
        yield from _check_stale(found, windows, faults)
        yield from _check_refusals(found, windows)
        yield from _check_deleted(found, windows, faults)


def _check_counts(found: MessageCalls, windows: Windows) -> Iterator[Violation]:
    deliveries = [each for each in found.deliveries if each.count is not None]
    by_count: dict[int | None, Call] = {}
    for each in deliveries:
        earlier = by_count.setdefault(each.count, each)
        if earlier is not each:
            allowed_by = windows.excuse([earlier])
            yield violation("receipt twice", found.id, [earlier, each], allowed_by)
    # In the order of their ends: the highest count of those that ended before another one began.
    ended = sorted(deliveries, key=received_before)
    for later in deliveries:
        for each in ended:
            if received_before(each) >= received_after(later):
                break
            if _count(each) > _count(later):
                allowed_by = windows.excuse([each])
                yield violation("receive count", found.id, [each, later], allowed_by)
                break
    highest = max(deliveries, key=_count, default=None)
    for left in found.left:
        if highest is not None and left.count is not None and left.count < _count(highest):
            allowed_by = windows.excuse([highest])
            yield violation("receive count", found.id, [highest, left], allowed_by)


def _count(call: Call) -> int:
    return call.count or 0


def _check_overlaps(found: MessageCalls, windows: Windows) -> Iterator[Violation]:
    receives = [each for each in found.deliveries if each.kind == "receive"]
    by_count = sorted(receives, key=_count)
    for earlier, later in pairwise(by_count):
        if later.begin <= earlier.end:
            continue  # which was first is unknown, or the receive count is wrong
        extensions = [
            each
            for each in found.extensions
            if each.count == earlier.count and (each.is_done or not each.is_ok)
        ]
        if later.end < _lease_end(earlier, extensions, later) - _ROUNDING_SECONDS:
            shown_by = [earlier, *extensions, later]
            allowed_by = windows.excuse([earlier, *extensions])
            yield violation("two leases", found.id, shown_by, allowed_by)


def _lease_end(receive: Call, extensions: list[Call], later: Call) -> float:
    """Return the time until which a lease was certainly valid, before a later receive."""
    certain = [each for each in extensions if each.is_ok and each.end < later.begin]
    last = max(certain, key=lambda each: each.begin, default=receive)
    possible = [each for each in extensions if each.end > last.begin and each.begin < later.end]
    return min(each.begin + each.vt for each in [last, *possible])


def _check_stale(found: MessageCalls, windows: Windows, faults: list[Fault]) -> Iterator[Violation]:
    for kind, calls in (("stale delete", found.deletes), ("stale extension", found.extensions)):
        for call in calls:
            if not call.is_ok or not call.is_done or call.count is None:
                continue
            newer = _newer_delivery(found, call)
            if newer is None or (kind == "stale delete" and _may_be_gone(found, call, faults)):
                continue
            allowed_by = windows.excuse([newer])
            yield violation(kind, found.id, [newer, call], allowed_by)


def _newer_delivery(found: MessageCalls, call: Call) -> Call | None:
    """Return a delivery with a higher receive count that was certainly before a call."""
    for each in found.deliveries:
        if _count(each) > _count(call) and received_before(each) < call.begin:
            return each
    return None


def _may_be_gone(found: MessageCalls, delete: Call, faults: list[Fault]) -> bool:
    """
    Return whether another consumer may have deleted the message while a fault broke connections.

    A delete that is repeated after an ambiguous failure finds no message then, and says that it was
    deleted, because it has probably deleted it itself.
    """
    is_disturbed = any(delete.begin <= fault.end and delete.end >= fault.begin for fault in faults)
    return is_disturbed and (
        any(each is not delete and each.begin <= delete.end for each in found.removers())
    )


def _check_refusals(found: MessageCalls, windows: Windows) -> Iterator[Violation]:
    for call in found.deletes:
        if not call.is_ok or call.is_done or call.count is None:
            continue
        shown: list[Call | Left] = [
            each for each in found.deliveries
            if each.count == call.count + 1 and received_after(each) > call.end
        ]  # fmt: skip
        shown += [left for left in found.left if left.count == call.count]
        if shown:
            allowed_by = windows.excuse([*found.sends, *found.deliveries])
            yield violation("refused delete", found.id, [call, *shown], allowed_by)


def _check_deleted(
    found: MessageCalls, windows: Windows, faults: list[Fault]
) -> Iterator[Violation]:
    deletes = [each for each in found.deletes if each.is_ok and each.is_done]
    if not deletes:
        return
    seen_after: list[tuple[Call | Left, Call]] = [
        (seen, delete)
        for seen in found.sightings
        for delete in deletes
        if isinstance(seen, Left)
        or delete.end < received_after(seen)
        or (_is_handled_after(seen, delete) and not _may_be_gone(found, delete, faults))
    ]
    if seen_after:
        # Each delete before the message was seen again must have been undone: one would be enough.
        excuses = [windows.excuse([delete]) for _seen, delete in seen_after]
        first = min(deletes, key=lambda each: each.end)
        shown_by = [first, *(seen for seen, _delete in seen_after)]
        allowed_by = excuses[0] if all(excuses) else None
        yield violation("undeleted", found.id, shown_by, allowed_by)


def _is_handled_after(handle: Call, delete: Call) -> bool:
    """Return whether a worker has received the message after a delete, as the counts say."""
    has_counts = handle.kind == "handle" and delete.count is not None
    return has_counts and handle.begin > delete.end and _count(handle) > _count(delete)
