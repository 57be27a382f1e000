"""
A model of a queue with groups: its keys, and the scripts that decide which messages are due.

A message is a number; the messages of a group are consecutive numbers, in the order of their sends.
The model has no times: a state says what a score says (``State``), and events let times pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.admission.events import Lease, State


class Cut(Exception):
    """The server has died in the middle of a script: its further writes are not made."""


@dataclass(frozen=True)
class Size:
    """
    The size of a model.

    Attributes:
        groups, messages: how many groups, and messages of each.
        consumers: how many handlers run at a time.
        most: how many messages of a group may run at a time, the k of ``max_running``.
    """

    groups: int
    messages: int
    consumers: int
    most: int


class Snapshot(NamedTuple):
    """
    All that a state of the model consists of. Sets of messages are the bits of an integer.

    Attributes:
        states: the state of each message.
        sent: how many messages of each group were sent.
        received: messages with a receive count.
        admitted, held, keyed: the messages in ``x:admitted``, ``x:held_back`` and ``x:group_of``.
        later: messages that are held back, or of which ``x:admitted`` was lost, and whose delay is
            not over, as ``x:group_of`` says.
        outside: messages that were shown by hand or have come back: their order is not promised.
        handlers: the message and the lease of each handler that runs, sorted.
        is_cut: whether a script was cut.
        is_lost: whether keys were lost.
        is_neglected: whether a day passed without a sweep.
    """

    states: tuple[State, ...]
    sent: tuple[int, ...]
    received: int
    admitted: int
    held: int
    keyed: int
    later: int
    outside: int
    handlers: tuple[tuple[int, Lease], ...]
    is_cut: bool
    is_lost: bool
    is_neglected: bool

    @property
    def faults(self) -> int:
        """The number of faults that led here: of ``FAULTS``, and scripts that were cut."""
        return self.is_cut + self.is_lost + self.is_neglected + self.outside.bit_count()


class Model:
    """
    A queue, and the scripts. Each method that is a script makes its writes with those below.

    Attributes:
        writes: how many writes the scripts have made.
        last_write: the number of writes after which the script is cut; None if it is not.
    """

    def __init__(self, size: Size, start: Snapshot, last_write: int | None = None):
        self.size = size
        self.states = list(start.states)
        self.sent = list(start.sent)
        self.received, self.outside = start.received, start.outside
        self.admitted, self.held, self.keyed = start.admitted, start.held, start.keyed
        self.later = start.later
        self.handlers = list(start.handlers)
        self.is_cut, self.is_lost = start.is_cut, start.is_lost
        self.is_neglected = start.is_neglected
        self.writes, self.last_write = 0, last_write

    def snapshot(self) -> Snapshot:
        return Snapshot(
            tuple(self.states),
            tuple(self.sent),
            self.received,
            self.admitted,
            self.held,
            self.keyed,
            self.later & self.keyed & (self.held | ~self.admitted),
            self.outside,
            tuple(sorted(self.handlers)),
            self.is_cut,
            self.is_lost,
            self.is_neglected,
        )

    def members(self, group: int) -> range:
        return range(group * self.size.messages, (group + 1) * self.size.messages)

    # The scripts

    def send(self, group: int, *, is_delayed: bool = False) -> None:
        message = group * self.size.messages + self.sent[group]
        self.sent[group] += 1
        room = self.admit(group)
        self.add("keyed", message)
        if room > 0:
            self.add("admitted", message)
            self.score(message, State.HIDDEN if is_delayed else State.DUE)
        else:
            self.add("held", message)
            self.score(message, State.HELD_BACK)
            self.later |= is_delayed << message

    def admit(self, group: int) -> int:
        """Admit messages while there is room. Return how much room is left."""
        room = self.size.most
        for message in self.members(group):
            if room > 0 and self.admitted >> message & 1:
                if self.is_gone(message):
                    self.forget(message)
                else:
                    room -= 1
        for message in self.members(group):
            if room <= 0:
                break
            if self.held >> message & 1:
                if self.is_gone(message):
                    self.forget(message)
                    continue
                # First of all, so that a cut leaves the message in both lists, for the sweep.
                self.add("admitted", message)
                self.show(message)
                self.discard("held", message)
                room -= 1
        return room

    def show(self, message: int) -> None:
        """Set the score of a message that is admitted, unless another client has shown it."""
        if not self.was_received(message):
            is_later = self.later & self.keyed & 1 << message
            self.score(message, State.HIDDEN if is_later else State.DUE)

    def is_gone(self, message: int) -> bool:
        """Return whether a listed message has left the queue, which Node may have done."""
        return self.states[message] == State.ABSENT

    def was_received(self, message: int) -> bool:
        """
        Return whether a listed message was received: then another client has made it visible, and
        its score is a lease.
        """
        return bool(self.received >> message & 1)

    def settle(self, message: int) -> None:
        """Remove a message, and admit the next one of its group: delete, pop, dead-letter."""
        self.remove(message)
        if self.keyed >> message & 1:
            self.forget(message)
            group = message // self.size.messages
            if any(self.held >> each & 1 for each in self.members(group)):
                self.admit(group)

    def forget(self, message: int) -> None:
        """Remove what the keys with x: say of a message."""
        self.discard("admitted", message)
        self.discard("held", message)
        self.discard("keyed", message)

    def show_by_id(self, message: int) -> None:
        """
        Release or change the visibility of a message that is held back: it stays so, unless the
        records that say so were lost.
        """
        if not self.held & self.keyed & ~self.received & 1 << message:
            self.score(message, State.DUE)

    def restore(self, message: int) -> None:
        """
        Add a message that was in the queue earlier, as undo, moves and imports do: visible, also if
        it was held back. What the keys with x: still say of it holds again.
        """
        self.score(message, State.DUE)

    def sweep(self, group: int) -> None:
        """Examine the messages of a group in ``x:held_back``, and restore records that are lost."""
        for message in self.members(group):
            if self.is_unlisted(message):
                self.add("held", message)
        listed = [message for message in self.members(group) if self.held >> message & 1]
        for message in self.members(group) if listed else ():
            if (self.held | self.admitted) >> message & 1 and not self.is_gone(message):
                self.add("keyed", message)
        for message in listed:
            if self.is_gone(message):
                self.forget(message)
            elif self.admitted >> message & 1:  # its admission was cut
                self.show(message)
                self.discard("held", message)
            elif not self.was_received(message):  # Node may have shown it
                self.score(message, State.HELD_BACK)
        if listed:
            self.admit(group)

    def is_unlisted(self, message: int) -> bool:
        """Return whether a message with a group is hidden, was not received, and is not listed."""
        is_hidden = self.states[message] in (State.HIDDEN, State.HELD_BACK)
        lists = self.admitted | self.held | self.received
        return is_hidden and bool(self.keyed & ~lists & 1 << message)

    def renewed(self) -> int:
        """Return the messages whose scores a sweep moves to a day from now."""
        return self.held & ~self.received

    def purge(self) -> None:
        self.write()
        self.states = [State.ABSENT] * len(self.states)
        self.admitted = self.held = self.keyed = 0

    # The writes

    def write(self) -> None:
        if self.writes == self.last_write:
            raise Cut
        self.writes += 1

    def score(self, message: int, state: State) -> None:
        if self.states[message] != state:
            self.write()
            self.states[message] = state

    def remove(self, message: int) -> None:
        self.score(message, State.ABSENT)

    def add(self, key: str, message: int) -> None:
        if not getattr(self, key) >> message & 1:
            self.write()
            setattr(self, key, getattr(self, key) | 1 << message)

    def discard(self, key: str, message: int) -> None:
        if getattr(self, key) >> message & 1:
            self.write()
            setattr(self, key, getattr(self, key) & ~(1 << message))


def first_snapshot(size: Size) -> Snapshot:
    """Return the empty queue."""
    states = (State.ABSENT,) * (size.groups * size.messages)
    sent = (0,) * size.groups
    return Snapshot(states, sent, 0, 0, 0, 0, 0, 0, (), False, False, False)
