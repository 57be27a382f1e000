"""
Outcomes that are not written to Redis yet, in groups that are written together. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from rsmq.worker.failure import HandlerFailure
from rsmq.worker.outcome import Outcome, Retried
from rsmq.worker.state.calls import Lease
from rsmq.worker.state.jobs import GroupJob
from rsmq.worker.state.lane import Lane


@dataclass(slots=True, eq=False)
class Decision:
    """
    The outcome of a failed message.

    Attributes:
        failure: why it failed.
    """

    lane: Lane
    lease: Lease
    outcome: Outcome
    failure: HandlerFailure

    @property
    def is_failure(self) -> bool:
        """Whether the attempt has failed, and its handler has not asked for the outcome."""
        if self.failure.kind == "retry":
            return not isinstance(self.outcome, Retried)
        return self.failure.kind not in {"cancelled", "defer", "discard"}


class Kind(NamedTuple):
    """
    The common properties of messages that one group of ``settle_messages`` settles.

    Attributes:
        reason: why they are settled. The items of failed messages are decisions, all others leases.
        action: how they are settled; see ``Group``.
        has_records: see ``Group``.
    """

    lane: Lane
    reason: Literal["handled", "failed", "released", "lost"]
    action: Literal["delete", "retry", "defer", "release", "unbegun"]
    receive_count: int
    has_records: bool


class DeadLetterKind(NamedTuple):
    """
    The common properties of messages that are moved to a dead-letter queue together.

    Attributes:
        is_quarantined: whether they ran in quarantine.
    """

    lane: Lane
    target: str
    is_quarantined: bool


class _HasLane(Protocol):
    @property
    def lane(self) -> Lane:
        """The lane of the messages."""


K = TypeVar("K", bound=_HasLane)


class PendingWrites(Generic[K]):
    """
    Messages by the kind of their outcome.

    Attributes:
        by_kind: the messages, in the order in which the kinds are written. Only the methods change
            it.
    """

    def __init__(self) -> None:
        self.by_kind: dict[K, list[Any]] = {}

    def __bool__(self) -> bool:
        return bool(self.by_kind)

    def add(self, kind: K, item: Any) -> None:
        """Add a message."""
        self.items_of(kind).append(item)

    def items_of(self, kind: K) -> list[Any]:
        """Return the list of the messages of a kind, for more of them until the next write."""
        return self.by_kind.setdefault(kind, [])

    def first(self, number: int) -> list[tuple[K, list[Any]]]:
        """Return the first messages, with their kinds, at most ``number``. They stay here."""
        found = []
        for kind, items in self.by_kind.items():
            if number > 0:
                found.append((kind, items[:number]))
                number -= len(items)
        return found

    def remove(self, kind: K, number: int) -> None:
        """Remove the first messages of a kind. The others of this kind come last from now on."""
        items = self.by_kind.pop(kind)[number:]
        if items:
            self.by_kind[kind] = items

    def count(self, lane: Lane) -> int:
        """Return the number of messages of a lane."""
        return sum(len(items) for kind, items in self.by_kind.items() if kind.lane is lane)


class PendingOutcomes:
    """
    The outcomes that are not written yet.

    Attributes:
        settlements: messages that stay in their queue, or are deleted.
        finishes: messages that are deleted when the messages that follow them are sent.
        dead_letters: messages that are moved to a dead-letter queue.
        progress: messages of which some handlers have finished.
        settled: messages of which that was recorded, and which have left their queues.
    """

    def __init__(self) -> None:
        self.settlements: PendingWrites[Kind] = PendingWrites()
        self.finishes: PendingWrites[Kind] = PendingWrites()
        self.dead_letters: PendingWrites[DeadLetterKind] = PendingWrites()
        self.progress: dict[GroupJob, None] = {}
        self.settled: dict[GroupJob, None] = {}

    def __bool__(self) -> bool:
        return bool(  # asked several times in each turn of the loop, so without further calls
            self.settlements.by_kind
            or self.finishes.by_kind
            or self.dead_letters.by_kind
            or self.progress
            or self.settled
        )

    def has_backlog(self, lane: Lane, step: int) -> bool:
        """Return whether a step of so many messages of each kind can't write those of a lane."""
        each = self.settlements, self.finishes, self.dead_letters
        return any(writes.count(lane) > step for writes in each)
