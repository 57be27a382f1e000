"""The calls of a history, grouped by message."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import datetime

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
        jobs: the reads of the status of its job.
    """

    id: str
    sends: list[Call] = field(default_factory=list)
    deliveries: list[Call] = field(default_factory=list)
    deletes: list[Call] = field(default_factory=list)
    extensions: list[Call] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    jobs: list[Call] = field(default_factory=list)

    @property
    def sightings(self) -> list[Call | Left]:
        """The calls and lines that show that it was stored."""
        return [*self.deliveries, *self.left]

    @property
    def is_untouched(self) -> bool:
        """Whether no consumer ever received it, as its receive count at the end says."""
        return not self.deliveries and bool(self.left) and self.left[0].count == 0

    @property
    def unique_key(self) -> str | None:
        return self.sends[0].unique_key if self.sends else None

    @property
    def is_ordered(self) -> bool:
        """Whether nothing but its send and its delay decides when it is due."""
        return len(self.sends) == 1 and not (
            self.sends[0].group or self.sends[0].limit_key or self.sends[0].unique_key
        )

    @property
    def expires_at(self) -> float:
        """The time before which it has not expired; infinite if it can't expire."""
        if any(each.expires == math.inf for each in self.sends) or not self.sends:
            return math.inf
        return min(each.begin + each.expires for each in self.sends)

    def has_newer(self, call: Call) -> bool:
        """Return whether the message was received after the receive that a call names."""
        return call.count is not None and any(
            each.count is not None and each.count > call.count for each in self.deliveries
        )

    def removers(self) -> list[Call]:
        """
        Return the calls that may have removed it: a worker does so when its handler returns.

        A receipt that is not the last one removes nothing. A delete that says that it did is one of
        these, too: that it was late is another violation.
        """
        return [
            each for each in self.deletes
            if (each.is_ok and each.is_done) or (not each.is_ok and not self.has_newer(each))
        ] + [
            each for each in self.deliveries
            if each.kind == "handle" and each.is_ok and not self.has_newer(each)
        ]  # fmt: skip


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
        bodies_of_server: the bodies of messages that the server sends itself.
        schedules: the names of schedules, whose messages the server sends, too.
        end: the end of the run.
    """

    by_id: dict[str, MessageCalls] = field(default_factory=dict)
    sends_by_body: dict[str, list[Call]] = field(default_factory=dict)
    empty_receives: list[Call] = field(default_factory=list)
    has_unknown_sends: bool = False
    bodies_of_server: set[str] = field(default_factory=set)
    schedules: set[str] = field(default_factory=set)
    end: float = math.inf

    def of(self, id: str) -> MessageCalls:
        """Return the calls of an id."""
        return self.by_id.setdefault(id, MessageCalls(id))

    def is_of_server(self, body: str) -> bool:
        """Return whether the server sends a message with this body itself."""
        tick = tick_of(body) if self.schedules else None
        return body in self.bodies_of_server or (tick is not None and tick[0] in self.schedules)

    def ids_by_body(self) -> dict[str, set[str]]:
        """Return the ids under which each body was seen."""
        ids: dict[str, set[str]] = {}
        for found in self.by_id.values():
            for each in found.sightings:
                if each.body is not None:
                    ids.setdefault(each.body, set()).add(found.id)
        return ids


def tick_of(body: str) -> tuple[str, float] | None:
    """Return the schedule and the tick, in seconds since 1970, of a message of a schedule."""
    if not body.startswith("{"):
        return None
    try:
        fields = json.loads(body)
        return str(fields["schedule"]), datetime.fromisoformat(fields["tick"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return None


def group(history: History) -> Messages:
    """Return the messages of a history."""
    messages = Messages(
        bodies_of_server={each.body for each in history.follows},
        schedules={each.name for each in history.schedules},
        end=history.end,
    )
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
            "delete": found.deletes, "extend": found.extensions, "job": found.jobs,
        }  # fmt: skip
        lists[call.kind].append(call)
    for left in history.left:
        messages.of(left.id).left.append(left)
    return messages
