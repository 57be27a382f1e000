"""
Receives whose replies were lost, and how much the next receives ask for. Pure.

A server or a proxy may close a connection because a reply is too large. The messages of that reply
are then hidden, and no consumer has them. So a lost reply halves what the next receive asks for.
Connections break for other reasons too, so the requests grow again after receives that succeed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rsmq.errors import ReplyLost
from rsmq.operations.operation import Operation, Retry
from rsmq.operations.queues import describe_queues
from rsmq.wire.keys import Namespace

T = TypeVar("T")

#: So many lost replies in a row to requests for one message are an error.
LOST_SINGLES_UNTIL_ERROR = 3
#: The same if no receive in between has found the queue empty: the next message may be smaller.
LOST_SINGLES_UNTIL_STUCK = 5

#: The number of successful receives before requests grow: doubled if the larger reply is lost too.
_FIRST_RECEIVES_UNTIL_GROWTH = 4
_MAX_RECEIVES_UNTIL_GROWTH = 1024


class LostReplies:
    """
    The lost replies of the receives of one client, or of a worker in one cell.

    Attributes:
        generation: changes with the other attributes. A lost reply counts only if its receive was
            built in the present generation: calls that run at the same time often fail together.
        halvings: how often requests are halved.
        lost_singles: how many replies in a row to requests for one message were lost.
    """

    def __init__(self) -> None:
        self.generation: int = 0
        self.halvings: int = 0
        self.lost_singles: int = 0
        self._receives_until_growth = _FIRST_RECEIVES_UNTIL_GROWTH
        self._receives = 0
        self._has_grown = False
        self._has_found_nothing = False

    @property
    def is_limiting(self) -> bool:
        """Whether replies were lost, and requests have not grown to their full size again."""
        return self.halvings > 0 or self.lost_singles > 0

    def limit(self, number: int) -> int:
        """Return a number of messages or bytes, halved as often as requests are, at least 1."""
        return max(number >> self.halvings, 1)

    def note_lost(self, generation: int, max_messages: int) -> None:
        """
        Note that the reply to a receive was lost.

        Args:
            generation: the generation in which the receive was built.
            max_messages: the number of messages that it asked for.
        """
        if generation != self.generation:
            return
        self.generation += 1
        if max_messages == 1:
            self.lost_singles += 1
        else:
            self.halvings += 1
        self._receives = 0
        if self._has_grown:
            self._has_grown = False
            self._receives_until_growth = min(
                2 * self._receives_until_growth, _MAX_RECEIVES_UNTIL_GROWTH
            )

    def note_received(self) -> None:
        """Note that a receive has returned messages."""
        self._has_found_nothing = False
        if self.lost_singles:
            self.lost_singles = 0
            self.generation += 1
        self._receives += 1
        if self.halvings and self._receives >= self._receives_until_growth:
            self._receives = 0
            self._has_grown = True
            self.halvings -= 1
            self.generation += 1

    def note_nothing(self) -> None:
        """Note that a receive has found no messages: the lost ones may be hidden."""
        self._has_found_nothing = True

    def take_error(self, queues: tuple[str, ...]) -> ReplyLost | None:
        """Return the error of too many lost replies, and count from 0 again; None if too few."""
        if self.lost_singles < LOST_SINGLES_UNTIL_ERROR:
            return None
        number, self.lost_singles = self.lost_singles, 0
        self.generation += 1
        return ReplyLost(number, queues)

    def _is_stuck(self) -> bool:
        """Return whether a repeat would probably fail too, so that it is not worth a try."""
        return self._has_found_nothing or self.lost_singles >= LOST_SINGLES_UNTIL_STUCK

    def watch(
        self,
        operation: Operation[T],
        namespace: Namespace,
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
            namespace: the namespace of its queues.
            max_messages: the number of messages that it asks for.
            nothing: returns the result of a receive without messages.
            repeat: builds the receive that repeats it.
            has_messages: returns whether a result has messages.

        Returns:
            The operation.
        """
        # Without the operation itself: it would be in a reference cycle after each receive.
        generation, queues = self.generation, operation.queues

        def after_lost_reply(failure: Exception, has_repeat: bool) -> Operation[T]:  # noqa: FBT001
            self.note_lost(generation, max_messages)
            if self.lost_singles >= LOST_SINGLES_UNTIL_ERROR and not has_repeat:
                # It is not known whether the reply was too large: the server may be away.
                note = str(ReplyLost(self.lost_singles, queues))
                if note not in getattr(failure, "__notes__", ()):  # calls may share an error
                    failure.add_note(note)
            elif self._is_stuck() and (error := self.take_error(queues)) is not None:
                return _check_hidden(namespace, queues, error, nothing)
            return repeat()

        operation.after_lost_reply = after_lost_reply
        operation.rebuild = repeat
        if self.is_limiting:
            parse = operation.parse

            def parse_and_note(reply: Any) -> T:
                result = parse(reply)
                if has_messages(result):
                    self.note_received()
                else:
                    self.note_nothing()
                return result

            operation.parse = parse_and_note
        return operation


def _check_hidden(
    namespace: Namespace, queues: tuple[str, ...], error: ReplyLost, nothing: Callable[[], T]
) -> Operation[T]:
    """
    Return an operation that raises an error, unless no message of the queues is hidden.

    Then the lost replies had no messages: the connection broke for another reason, such as a
    firewall that drops idle connections.
    """
    check = describe_queues(namespace, queues)
    parse = check.parse

    def parse_check(reply: Any) -> T:
        if any(each is None or each.hidden_messages for each in parse(reply).values()):
            raise error
        return nothing()

    return Operation(check.script, check.keys, check.args, parse_check, Retry.ALWAYS, queues)
