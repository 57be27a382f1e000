"""
Dead letters in groups of the same cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rsmq.model import DeadLetterReason
from rsmq.operations.operation import Steps
from rsmq.search.failure_causes import FailureCause, cause_of
from rsmq.search.operations import DeadLetterEntry, SearchPosition, read_reasons
from rsmq.wire.ids import is_redriven
from rsmq.wire.keys import Namespace

#: Groups that are kept apart; further dead letters are counted together.
MAX_GROUPS = 200
#: Ids of a group that are named, the last ones.
_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """
    Dead letters of the same cause.

    Attributes:
        cause: what they have in common; its key is the filter ``cause:KEY``.
        count: their number.
        first_died_ms: Unix ms of the first death.
        last_died_ms: Unix ms of the last death.
        ids: some of their ids, those that died last.
        queues: how many came from each queue, as far as their reasons say it.
        redriven: how many of them had been redriven before: they died again.
        example: the reason of the last death; None without one.
    """

    cause: FailureCause
    count: int
    first_died_ms: float
    last_died_ms: float
    ids: tuple[str, ...]
    queues: Mapping[str, int]
    redriven: int
    example: DeadLetterReason | None

    @property
    def example_text(self) -> str | None:
        """The text of the last failure, with its values."""
        return None if self.example is None else self.example.exception or self.example.text


@dataclass(slots=True)
class _OpenGroup:
    cause: FailureCause
    letters: list[DeadLetterEntry] = field(default_factory=list)
    count: int = 0
    first_died_ms: float = float("inf")
    queues: Counter[str] = field(default_factory=Counter)
    redriven: int = 0

    def add(self, letter: DeadLetterEntry) -> None:
        self.count += 1
        self.redriven += is_redriven(letter.id)
        self.first_died_ms = min(self.first_died_ms, letter.died_ms)
        if letter.reason is not None:
            self.queues[letter.reason.queue] += 1
        self.letters.append(letter)
        self.letters.sort(key=lambda each: each.died_ms, reverse=True)
        del self.letters[_SAMPLES:]

    def close(self) -> FailureGroup:
        last = self.letters[0]
        return FailureGroup(
            self.cause,
            self.count,
            self.first_died_ms,
            last.died_ms,
            tuple(each.id for each in self.letters),
            dict(self.queues.most_common()),
            self.redriven,
            last.reason,
        )


class FailureGroups:
    """
    Collects dead letters by their causes.

    Attributes:
        count: the dead letters that were added.
        others: those of them that are in no group, because there were too many groups.
    """

    def __init__(self) -> None:
        self.count = 0
        self.others = 0
        self._groups: dict[str, _OpenGroup] = {}

    def add(self, letter: DeadLetterEntry) -> None:
        """Add a dead letter to the group of its cause."""
        self.count += 1
        cause = cause_of(letter.reason)
        group = self._groups.get(cause.key)
        if group is None:
            if len(self._groups) == MAX_GROUPS:
                self.others += 1
                return
            group = self._groups[cause.key] = _OpenGroup(cause)
        group.add(letter)

    def groups(self) -> list[FailureGroup]:
        """Return the groups, the largest first."""
        closed = [each.close() for each in self._groups.values()]
        return sorted(closed, key=lambda each: (-each.count, -each.last_died_ms, each.cause.key))


def group_dead_letters(namespace: Namespace, qname: str, max_messages: int) -> Steps[FailureGroups]:
    """Group dead letters by their causes: those at the front of the queue, 200 in a step."""
    found = FailureGroups()
    position: SearchPosition | None = SearchPosition()
    while position is not None and found.count < max_messages:
        letters, position = yield read_reasons(namespace.queue(qname), position)
        for each in letters[: max_messages - found.count]:
            found.add(each)
    return found
