"""Between which times a message was certainly in the queue."""

from __future__ import annotations

import math

from .disturbances import Disturbances
from .history import Call
from .messages import MessageCalls, received_before


def received_first(found: MessageCalls) -> float:
    """Return a time before which it was certainly received once; infinite if it never was."""
    return min(map(received_before, found.deliveries), default=math.inf)


def exists_from(found: MessageCalls) -> float:
    """Return a time at which it had certainly been stored; infinite if it never was."""
    return min([received_first(found), *(each.end for each in found.sends)])


def exists_until(found: MessageCalls, disturbances: Disturbances) -> float:
    """
    Return the last time at which it was certainly stored; infinite if it is left.

    Args:
        found: the message.
        disturbances: the faults. A delete that was repeated says that it has found a message.
    """
    if found.left:
        return math.inf
    removers = found.removers()
    times = [each.begin for each in found.deliveries if each.kind == "receive"]
    times += [
        each.begin for each in found.deletes
        if each.is_ok and each.is_done
        and not disturbances.concern(each.client, each.begin, each.end)
    ]  # fmt: skip
    times += [
        min(_existed_until(each, removers), found.expires_at)
        for each in found.deliveries
        if each.kind == "handle"
    ]
    return max(times, default=-math.inf)


def _existed_until(handle: Call, removers: list[Call]) -> float:
    """Return a time of a handler call at which its message was not gone."""
    until = handle.end if handle.is_ok else handle.begin
    before = [_removed_after(each) for each in removers if each is not handle]
    if all(each > handle.begin for each in before):
        return min([until, *before])
    return -math.inf


def _removed_after(remover: Call) -> float:
    """Return a time before which a call has removed nothing."""
    return remover.end if remover.kind == "handle" else remover.begin


def removed_before(found: MessageCalls, disturbances: Disturbances) -> float:
    """Return a time at which the message was certainly gone; infinite if none is known."""
    times = [each.end for each in found.deletes if each.is_ok and each.is_done]
    times += [
        each.end + AFTER_HANDLER_SECONDS
        for each in found.deliveries
        if is_settled(found, each, disturbances)
    ]
    return min(times, default=math.inf)


#: How long after the end of an undisturbed handler call its message is certainly deleted.
AFTER_HANDLER_SECONDS = 10.0


def is_settled(found: MessageCalls, call: Call, disturbances: Disturbances) -> bool:
    """Return whether a worker must have deleted the message soon after a handler call."""
    return (
        call.kind == "handle"
        and call.is_ok
        and not found.has_newer(call)
        and not disturbances.concern(call.client, call.begin, call.end + AFTER_HANDLER_SECONDS)
    )
