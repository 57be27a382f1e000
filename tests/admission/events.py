"""
The states of a message with a group, and the events that change them.

These are the words of the model, of its search, and of the tests of the scripts.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class State(IntEnum):
    """The state of a message, as its score says it."""

    ABSENT = 0  # not sent yet, or gone
    DUE = 1  # visible: any consumer may receive it
    HIDDEN = 2  # in flight, delayed, or waiting for a retry
    HELD_BACK = 3  # its group does not admit it yet: its score is a day ahead


class Lease(IntEnum):
    """The lease of a handler that has received a message, and may still run."""

    VALID = 0  # its visibility timeout runs
    ENDED = 1  # the timeout is over, and no other consumer has received the message
    LOST = 2  # another consumer has received the message, or it is gone


class Event(Enum):
    """An event. Those of Node admit no message, since Node knows only the two keys of RSMQ."""

    SEND = "send"
    SEND_DELAYED = "send with a delay"
    RECEIVE = "receive, by any client"
    POP = "pop"
    NODE_POP = "pop by Node"
    DELETE = "delete by receipt"
    NODE_DELETE = "delete by Node"
    DEAD_LETTER = "dead-letter"
    EXPIRE = "expire, or dead-letter at a receive"
    EXTEND = "change visibility"
    RETRY = "hide until the next attempt"
    RELEASE = "release"
    LEASE_ENDS = "a visibility timeout or a delay ends"
    CRASH = "a consumer dies"
    DELETE_HELD = "delete a message that is held back"
    NODE_DELETE_HELD = "delete a message that is held back, by Node"
    RELEASE_HELD = "release a message that is held back, or change its visibility"
    NODE_SHOW_HELD = "change the visibility of a message that is held back, by Node"
    RETURN = "undo, move or import: a message comes back with its id"
    PURGE = "purge"
    SWEEP = "sweep"
    DAY = "a day with sweeps"
    DAY_WITHOUT_SWEEP = "a day without a sweep"
    LOSE = "keys with x: are lost"


#: The events by which a consumer gets a message.
CONSUMING = frozenset({Event.RECEIVE, Event.POP, Event.NODE_POP})

#: The events after which a message may be gone.
REMOVING = frozenset(
    {
        Event.POP,
        Event.NODE_POP,
        Event.DELETE,
        Event.NODE_DELETE,
        Event.DEAD_LETTER,
        Event.EXPIRE,
        Event.DELETE_HELD,
        Event.NODE_DELETE_HELD,
        Event.PURGE,
    }
)

#: The events that admit messages of their group, or of all groups.
ADMITTING = frozenset(
    {
        Event.SEND,
        Event.SEND_DELAYED,
        Event.POP,
        Event.DELETE,
        Event.DEAD_LETTER,
        Event.EXPIRE,
        Event.DELETE_HELD,
        Event.SWEEP,
        Event.DAY,
    }
)

#: The events that should not happen, or that an operator causes by hand.
FAULTS = frozenset({Event.NODE_SHOW_HELD, Event.RETURN, Event.DAY_WITHOUT_SWEEP, Event.LOSE})
