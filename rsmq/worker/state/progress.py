"""
The progress of a message with several handlers: which of them have finished. Pure.

In each attempt those handlers are called that have not finished, one after the other. Each goes
from WAITING over RUNNING to FINISHED or FAILED; a failed one is called again in the next attempt.
FINISHED is final, also for later attempts, if it could be recorded. The message is handled when all
of them have finished.

The thread or task of the call sends the events; the loop of the worker reads the finished ones,
and records them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from rsmq.worker.failure import HandlerFailure

#: How a failure counts beside those of other handlers: the lowest number decides the outcome of the
#: message. As long as one handler is to be called again, the message is not given up.
_RANKS: Mapping[str, int] = {"failed": 0, "timed_out": 0, "retry": 1, "defer": 2, "withdrawn": 2}
_GIVEN_UP = 3


class HandlerState(IntEnum):
    """
    The state of one of the handlers of a message, in one attempt.

    Values:
        WAITING: it is to be called.
        RUNNING: it was called.
        FINISHED: it has returned, or raised Discard, now or in an earlier attempt.
        FAILED: it has raised.
    """

    WAITING = 0
    RUNNING = 1
    FINISHED = 2
    FAILED = 3


class HandlerEvent(IntEnum):
    """
    An event in the life of one of the handlers of a message.

    Values:
        BEGIN: it is called.
        FINISH: it returns, or raises Discard.
        FAIL: it raises.
        RECALL: a record shows that it has finished in an earlier attempt.
    """

    BEGIN = 0
    FINISH = 1
    FAIL = 2
    RECALL = 3


_TRANSITIONS: Mapping[tuple[HandlerState, HandlerEvent], HandlerState] = {
    (HandlerState.WAITING, HandlerEvent.RECALL): HandlerState.FINISHED,
    (HandlerState.WAITING, HandlerEvent.BEGIN): HandlerState.RUNNING,
    (HandlerState.RUNNING, HandlerEvent.FINISH): HandlerState.FINISHED,
    (HandlerState.RUNNING, HandlerEvent.FAIL): HandlerState.FAILED,
}


def change_handler(states: dict[str, HandlerState], name: str, event: HandlerEvent) -> bool:
    """Apply an event to a handler. Return whether its state has changed."""
    following = _TRANSITIONS.get((states.get(name, HandlerState.WAITING), event))
    if following is None:
        return False
    states[name] = following
    return True


class HandlerProgress:
    """
    The handlers of a message, in one attempt.

    Attributes:
        recorded_count: how many finished handlers Redis has recorded. Written by
            ``note_recorded`` in the loop's thread.
    """

    __slots__ = ("_discarded", "_failures", "_states", "recorded_count")

    def __init__(self) -> None:
        self._states: dict[str, HandlerState] = {}
        self._failures: dict[str, HandlerFailure] = {}
        self._discarded: list[HandlerFailure] = []
        self.recorded_count = 0

    def recall(self, names: Iterable[str]) -> None:
        """Note the handlers that have finished in earlier attempts, by their record."""
        for name in names:
            change_handler(self._states, name, HandlerEvent.RECALL)
        self.recorded_count = len(self._states)

    def begin_each(self, names: Iterable[str]) -> Iterator[str]:
        """Begin each handler that has not finished, when the one before has ended."""
        for name in names:
            if change_handler(self._states, name, HandlerEvent.BEGIN):
                yield name

    def finish(self, name: str) -> None:
        """Note that a handler has returned."""
        change_handler(self._states, name, HandlerEvent.FINISH)

    def fail(self, name: str, failure: HandlerFailure) -> None:
        """Note that a handler has raised. Discard ends it like a return."""
        if failure.kind == "discard":
            self._discarded.append(failure)
            self.finish(name)
        elif change_handler(self._states, name, HandlerEvent.FAIL):
            self._failures[name] = failure

    @property
    def finished(self) -> tuple[str, ...]:
        """The names of the handlers that have finished, now or earlier; from any thread."""
        states = self._states.copy()
        return tuple(name for name, state in states.items() if state is HandlerState.FINISHED)

    def note_recorded(self, count: int) -> None:
        """Note that Redis has recorded so many finished handlers."""
        self.recorded_count = count

    def choose_failure(self) -> tuple[str, HandlerFailure] | None:
        """
        Return the handler whose failure decides the outcome, and the failure; None if there is
        none: the message is handled. If all handlers have raised Discard, it is one of these.
        """
        if self._failures:
            return choose_failure(self._failures)
        if self._discarded and len(self._discarded) == len(self.finished):
            name = self.finished[0]
            return name, self._discarded[0]
        return None


def choose_failure(failures: Mapping[str, HandlerFailure]) -> tuple[str, HandlerFailure]:
    """
    Return the failure that decides the outcome of a message.

    The order is: an exception; Retry; Defer; and last what gives the message up. Of several Retry
    or Defer it is the one with the shortest pause, else the first.

    Args:
        failures: at least one, by the name of its handler, in the order of the calls.
    """

    def precedence(name: str) -> tuple[int, float]:
        failure = failures[name]
        rank = _GIVEN_UP if failure.is_final else _RANKS.get(failure.kind, _GIVEN_UP)
        return rank, failure.after or 0.0

    name = min(failures, key=precedence)
    return name, failures[name]
