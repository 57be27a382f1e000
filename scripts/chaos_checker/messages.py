"""The calls of a history, grouped by message."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .history import Call, History, Left


@dataclass
class MessageCalls:
    """
    All calls that name one id, in the order of their begin.

    Attributes:
        id: the id.
        sends: the acknowledged sends that returned it; more than one is a fault.
        deliveries: the receives that returned it, and the handler calls.
        deletes: the deletes, but for those that have certainly not run.
        extensions: the same of extensions.
        left: the lines that list it in the queue at the end.
    """

    id: str
    sends: list[Call] = field(default_factory=list)
    deliveries: list[Call] = field(default_factory=list)
    deletes: list[Call] = field(default_factory=list)
    extensions: list[Call] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    @property
    def sightings(self) -> list[Call | Left]:
        """The calls and lines that show that it was stored."""
        return [*self.deliveries, *self.left]

    @property
    def is_untouched(self) -> bool:
        """Whether no consumer ever received it, as its receive count at the end says."""
        return not self.deliveries and bool(self.left) and self.left[0].count == 0


def received_before(delivery: Call) -> float:
    """Return when the message had certainly been received. A worker has received it before."""
    return delivery.begin if delivery.kind == "handle" else delivery.end


def received_after(delivery: Call) -> float:
    """Return a time before the receive. That of a worker is not recorded."""
    return -math.inf if delivery.kind == "handle" else delivery.begin


@dataclass
class Messages:
    """
    The messages of a history.

    Attributes:
        by_id: the calls of each id.
        sends_by_body: the sends of each body; all bodies of a run differ.
        empty_receives: the receives that found no message.
        has_unknown_sends: whether a send may have stored a message whose id was not returned.
    """

    by_id: dict[str, MessageCalls] = field(default_factory=dict)
    sends_by_body: dict[str, list[Call]] = field(default_factory=dict)
    empty_receives: list[Call] = field(default_factory=list)
    has_unknown_sends: bool = False

    def of(self, id: str) -> MessageCalls:
        """Return the calls of an id."""
        return self.by_id.setdefault(id, MessageCalls(id))


def group(history: History) -> Messages:
    """Return the messages of a history."""
    messages = Messages()
    for call in sorted(history.calls, key=lambda each: each.begin):
        if call.kind == "send" and call.body is not None:
            messages.sends_by_body.setdefault(call.body, []).append(call)
            messages.has_unknown_sends |= call.outcome == "unknown"
        if call.kind == "receive" and call.is_ok and call.id is None:
            messages.empty_receives.append(call)
        if call.id is None or not call.is_possible:
            continue
        found = messages.of(call.id)
        lists = {
            "send": found.sends, "receive": found.deliveries, "handle": found.deliveries,
            "delete": found.deletes, "extend": found.extensions,
        }  # fmt: skip
        lists[call.kind].append(call)
    for left in history.left:
        messages.of(left.id).left.append(left)
    return messages
