"""
The states of a message in flight and of a handler call, and the transitions between them. Pure.

There are two machines. A message goes from READY over RUNNING and SETTLING to SETTLED; its call
goes from WAITING over RUNNING to ENDED. They are two because a batch is one call for several
messages, whose leases can be lost one by one, and because a worker can stop waiting for a call
(ABANDONED) and still settle its messages. ``RunQueue`` begins a call and its messages in one step.

Several threads send events: the loop of the worker, which decides outcomes, writes them and finds
lost leases; the threads and tasks of handlers, which begin and end calls; and any thread that asks
whether a lease is over. So events may come in any order. One that has no transition in the present
state changes nothing: the first one decides. For example, a call exceeds its max_runtime, and the
worker abandons it and decides that its message has failed. If the handler returns after all, its
call is ABANDONED, which END does not change, and the loop ignores its result. If the handler was
first, it is ABANDON that changes nothing. Callers of ``change_message`` and ``change_call`` look at
the result where it matters which was first.

The end of a visibility timeout decides little by itself. Only Redis knows whether another consumer
has received the message since, and each write names the receive count that it is for. So a message
that is still RUNNING gets the outcome of its handler even if that comes late, unless Redis replies
that it was received again. It is different if the end of the timeout has had an effect here:

- LATE: it was over when the call began, so the handler is not called with this message.
- EXPIRED: the handler has asked, or its child process has learned of it, or its task is cancelled
  for it. The handler may have stopped in the middle, so the worker does not trust its result,
  neither a return nor an exception.

From both there is only one way, LOST: another consumer will receive the message, or has. A message
whose lease can't be extended because its server fails is LOST too when its timeout ends.

SETTLING lasts until Redis has replied. During an outage the outcome is kept and written again, and
the handler is not called again. Meanwhile the heartbeat extends the lease as before, which may find
that it is lost; the write of the outcome may find that too. SETTLED and LOST are final.

Some of it is ugly. A call that has ended in its thread stays RUNNING until the thread frees its
slot, so ``ended_at`` is a third part of the state, and code that looks for running calls looks at
both. Nor is a place in ``Lane.in_flight`` a state: a message leaves it when it is SETTLED or
LOST, but one that is released before its call began leaves it at once. And a handler in a child
process has a copy of both machines there, which learns of new expiry times and of LOST from the
worker; the worker receives how it ended, and decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


M = TypeVar("M", bound=HasState)


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


def change_messages(messages: Iterable[M], event: MessageEvent) -> list[M]:
    """Apply an event to messages. Return those whose state has changed."""
    changed = []
    for message in messages:
        following = _MESSAGE_TRANSITIONS[message.state][event]
        if following is not None:
            message.state = following
            changed.append(message)
    return changed


def change_call(call: HasCallState, event: CallEvent) -> bool:
    """Apply an event to a handler call. Return whether its state has changed."""
    following = _CALL_TRANSITIONS[call.call_state][event]
    if following is None:
        return False
    call.call_state = following
    return True
