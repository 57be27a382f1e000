"""
The states of a message in flight and of a handler call, and the transitions between them. Pure.

An event that has no transition in the present state changes nothing. So a lost lease, the end of a
call and a decision of the worker may happen in any order: the first one decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol, TypeVar


class MessageState(IntEnum):
    """
    The state of a message that a worker has received.

    Values:
        READY: it waits for a slot.
        LATE: its visibility timeout ended before its handler was called.
        RUNNING: its handler was called.
        EXPIRED: as RUNNING, but its visibility timeout has ended, and the handler may know it.
        SETTLING: its outcome is decided, and not yet confirmed by Redis.
        SETTLED: Redis has confirmed its outcome.
        LOST: its lease is lost: another consumer may have received it.
    """

    READY = 0
    LATE = 1
    RUNNING = 2
    EXPIRED = 3
    SETTLING = 4
    SETTLED = 5
    LOST = 6


class MessageEvent(IntEnum):
    """
    An event in the life of a message.

    Values:
        BEGIN: its handler is called.
        EXPIRE: its visibility timeout has ended.
        DECIDE: the worker decides its outcome: delete, retry, dead-letter, drop or release.
        CONFIRM: Redis has confirmed the outcome.
        LOSE: the worker finds that the lease is lost.
    """

    BEGIN = 0
    EXPIRE = 1
    DECIDE = 2
    CONFIRM = 3
    LOSE = 4


class CallState(IntEnum):
    """
    The state of a handler call.

    Values:
        WAITING: it waits for a slot.
        WITHDRAWN: it is not called, because its messages are released.
        RUNNING: it is running.
        ENDED: it has ended.
        ABANDONED: the worker does not wait for its end: it ran for too long, or the worker stops.
    """

    WAITING = 0
    WITHDRAWN = 1
    RUNNING = 2
    ENDED = 3
    ABANDONED = 4


class CallEvent(IntEnum):
    """
    An event in the life of a handler call.

    Values:
        BEGIN: a thread or task calls the handler.
        END: the handler has returned or raised.
        ABANDON: the worker stops waiting for its end.
        WITHDRAW: its messages are released before it begins.
    """

    BEGIN = 0
    END = 1
    ABANDON = 2
    WITHDRAW = 3


#: The members under short names: Python 3.11 needs 60 ns to find a member of an enum.
READY, LATE, RUNNING, EXPIRED, SETTLING, SETTLED, LOST = MessageState
BEGIN, EXPIRE, DECIDE, CONFIRM, LOSE = MessageEvent
CALL_WAITING, CALL_WITHDRAWN, CALL_RUNNING, CALL_ENDED, CALL_ABANDONED = CallState
BEGIN_CALL, END_CALL, ABANDON_CALL, WITHDRAW_CALL = CallEvent

State = TypeVar("State", bound=IntEnum)
Event = TypeVar("Event", bound=IntEnum)


def _table(
    states: type[State], events: type[Event], transitions: Mapping[tuple[State, Event], State]
) -> tuple[tuple[State | None, ...], ...]:
    return tuple(tuple(transitions.get((state, event)) for event in events) for state in states)


_MESSAGE_TRANSITIONS = _table(
    MessageState,
    MessageEvent,
    {
        (READY, BEGIN): RUNNING,
        (READY, EXPIRE): LATE,
        (READY, DECIDE): SETTLING,
        (READY, LOSE): LOST,
        (LATE, LOSE): LOST,
        (RUNNING, EXPIRE): EXPIRED,
        (RUNNING, DECIDE): SETTLING,
        (RUNNING, LOSE): LOST,
        (EXPIRED, LOSE): LOST,
        (SETTLING, CONFIRM): SETTLED,
        (SETTLING, LOSE): LOST,
    },
)
_CALL_TRANSITIONS = _table(
    CallState,
    CallEvent,
    {
        (CALL_WAITING, BEGIN_CALL): CALL_RUNNING,
        (CALL_WAITING, WITHDRAW_CALL): CALL_WITHDRAWN,
        (CALL_RUNNING, END_CALL): CALL_ENDED,
        (CALL_RUNNING, ABANDON_CALL): CALL_ABANDONED,
    },
)

#: States in which the lease of a message is over for its handler.
OVER = frozenset({LATE, EXPIRED, LOST})
#: States of messages that began no handler call.
UNBEGUN = frozenset({READY, LATE})


class HasState(Protocol):
    """A message in flight."""

    state: MessageState


class HasCallState(Protocol):
    """A handler call."""

    call_state: CallState


def change_message(message: HasState, event: MessageEvent) -> bool:
    """Apply an event to a message. Return whether its state has changed."""
    following = _MESSAGE_TRANSITIONS[message.state][event]
    if following is not None:
        message.state = following
        return True
    return False


def change_call(call: HasCallState, event: CallEvent) -> bool:
    """Apply an event to a handler call. Return whether its state has changed."""
    following = _CALL_TRANSITIONS[call.call_state][event]
    if following is None:
        return False
    call.call_state = following
    return True
