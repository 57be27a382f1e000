"""
Receives whose replies were lost, and how much the next receives ask for. Pure.

A server or a proxy may close a connection because a reply is too large. The messages of that reply
are then hidden, and no consumer has them. So a lost reply halves what the next receive asks for.
Connections break for other reasons too, so the requests grow again after receives that succeed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

from rsmq.errors import ReplyLost
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import load

T = TypeVar("T")

#: So many lost replies in a row to requests for one message are an error.
LOST_SINGLES_UNTIL_ERROR = 3
#: The same if no receive in between has found the queue empty: the next message may be smaller.
LOST_SINGLES_UNTIL_STUCK = 5
#: A row of lost replies ends after so many seconds, or two visibility timeouts, without another.
_ROW_SECONDS = 600.0
#: A message is received before its reply is lost: so much earlier at most.
_REPLY_SECONDS = 60.0

#: The number of successful receives before requests grow: doubled if the larger reply is lost too.
_FIRST_RECEIVES_UNTIL_GROWTH = 4
_MAX_RECEIVES_UNTIL_GROWTH = 1024


@dataclass(slots=True)
class _Row:
    """
    Lost replies in a row to requests for one message.

    Attributes:
        began: monotonic seconds of the first one.
        ends: monotonic seconds after which a further one begins a new row.
        number: how many were lost.
        has_found_nothing: whether a receive since has found no messages.
    """

    began: float
    ends: float
    number: int = 0
    has_found_nothing: bool = False


class LostReplies:
    """
    The lost replies of the receives of one client, or of a worker.

    Requests for one message are counted by the names of their queues; a worker has one count.

    Attributes:
        generation: changes with the other attributes. A lost reply counts only if its receive was
            built in the present generation: calls that run at the same time often fail together.
        halvings: how often requests are halved.
        builders: cached functions that build receives, by the function that they call.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.generation: int = 0
        self.halvings: int = 0
        self.builders: dict[Callable[..., Operation[Any]], Callable[..., Operation[Any]]] = {}
        self._clock = clock
        self._rows: dict[tuple[str, ...], _Row] = {}
        self._receives_until_growth = _FIRST_RECEIVES_UNTIL_GROWTH
        self._receives = 0
        self._has_grown = False

    def lost_singles(self, queues: tuple[str, ...] = ()) -> int:
        """Return how many replies in a row to requests for one message were lost."""
        row = self._rows.get(queues)
        return row.number if row else 0

    def is_limiting(self, queues: tuple[str, ...] = ()) -> bool:
        """Return whether replies were lost, and no receive since has returned to normal."""
        return self.halvings > 0 or queues in self._rows

    def limit(self, number: int) -> int:
        """Return a number of messages or bytes, halved as often as requests are, at least 1."""
        return max(number >> self.halvings, 1)

    def note_lost(
        self, generation: int, max_messages: int, queues: tuple[str, ...] = (), vt: bytes = b""
    ) -> None:
        """
        Note that the reply to a receive was lost.

        Args:
            generation: the generation in which the receive was built.
            max_messages: the number of messages that it asked for.
            vt: its visibility timeout in milliseconds; empty is that of the queue.
        """
        if generation != self.generation:
            return
        self.generation += 1
        if max_messages == 1:
            now = self._clock()
            self._rows = {names: row for names, row in self._rows.items() if now <= row.ends}
            row = self._rows.setdefault(queues, _Row(now, now))
            row.number += 1
            row.ends = now + max(_ROW_SECONDS, 2 * int(vt or 0) / 1000)
        else:
            self.halvings += 1
        self._receives = 0
        if self._has_grown:
            self._has_grown = False
            self._receives_until_growth = min(
                2 * self._receives_until_growth, _MAX_RECEIVES_UNTIL_GROWTH
            )

    def note_received(self, queues: tuple[str, ...] = ()) -> None:
        """Note that a receive has returned messages."""
        if self._rows.pop(queues, None):
            self.generation += 1
        self._receives += 1
        if self.halvings and self._receives >= self._receives_until_growth:
            self._receives = 0
            self._has_grown = True
            self.halvings -= 1
            self.generation += 1

    def note_nothing(self, queues: tuple[str, ...]) -> None:
        """Note that a receive has found no messages: the lost ones may be hidden."""
        row = self._rows.get(queues)
        if row:
            row.has_found_nothing = True

    def take_row(self, queues: tuple[str, ...] = ()) -> int:
        """Return the number of too many lost replies, and count from 0 again; 0 if too few."""
        if self.lost_singles(queues) < LOST_SINGLES_UNTIL_ERROR:
            return 0
        self.generation += 1
        return self._rows.pop(queues).number

    def _take_check(
        self, operation: Operation[T], vt: bytes, nothing: Callable[[], T]
    ) -> Operation[T] | None:
        """Return what to do instead of a repeat that would probably fail too; None repeats."""
        queues = operation.queues
        row = self._rows.get(queues)
        if row is None or not (row.has_found_nothing or row.number >= LOST_SINGLES_UNTIL_STUCK):
            return None
        number = self.take_row(queues)
        if not number:
            return None
        age_ms = round((self._clock() - row.began + _REPLY_SECONDS) * 1000)
        times, error = (vt, digits(age_ms)), ReplyLost(number, queues)
        return _check_hidden(
            operation, times, error, nothing, has_found_nothing=row.has_found_nothing
        )

    def watch(
        self,
        operation: Operation[T],
        vt: bytes,
        max_messages: int,
        *,
        nothing: Callable[[], T],
        repeat: Callable[[], Operation[T]],
        has_messages: Callable[[T], object] = bool,
    ) -> Operation[T]:
        """
        Let a receive note whether its reply was lost.

        Args:
            operation: the receive, which was just built.
            vt: its visibility timeout in milliseconds; empty is that of the queue.
            max_messages: the number of messages that it asks for.
            nothing: returns the result of a receive without messages.
            repeat: builds the receive that repeats it.
            has_messages: returns whether a result has messages.
        """
        # Without the operation itself: it would be in a reference cycle after each receive.
        generation, queues = self.generation, operation.queues

        def after_lost_reply(failure: Exception, has_repeat: bool) -> Operation[T]:  # noqa: FBT001
            self.note_lost(generation, max_messages, queues, vt)
            number = self.lost_singles(queues)
            if not has_repeat:
                # It is not known whether the reply was too large: the server may be away.
                if number >= LOST_SINGLES_UNTIL_ERROR:
                    note = str(ReplyLost(number, queues))
                    if note not in getattr(failure, "__notes__", ()):  # calls may share an error
                        failure.add_note(note)
                return repeat()
            repeated = repeat()
            return self._take_check(repeated, vt, nothing) or repeated

        operation.after_lost_reply = after_lost_reply
        operation.rebuild = repeat
        if self.is_limiting(queues):
            parse = operation.parse

            def parse_and_note(reply: Any) -> T:
                result = parse(reply)
                if has_messages(result):
                    self.note_received(queues)
                else:
                    self.note_nothing(queues)
                return result

            operation.parse = parse_and_note
        return operation


def _check_hidden(
    operation: Operation[T],
    times: tuple[bytes, bytes],
    error: ReplyLost,
    nothing: Callable[[], T],
    *,
    has_found_nothing: bool,
) -> Operation[T]:
    """
    Return an operation that raises an error, unless no message is hidden by the lost receives.

    Then the lost replies had no messages: the connection broke for another reason, such as a
    firewall that drops idle connections. Messages that are delayed, or that others have received,
    are no sign: one that is too large was received as often as its reply was lost, or there are as
    many as lost replies if none of the receives between them has found the queue empty.
    """

    def parse_check(reply: Any) -> T:
        highest, number = reply
        if highest >= LOST_SINGLES_UNTIL_ERROR or (
            number >= LOST_SINGLES_UNTIL_STUCK and not has_found_nothing
        ):
            raise error
        return nothing()

    return Operation(
        load("count_hidden"),
        operation.keys,
        times,
        parse_check,
        RetryClass.ALWAYS,
        operation.queues,
    )
