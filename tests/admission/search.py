"""
The search through all states of the model, and the invariants that each of them must keep.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tests.admission.events import ADMITTING, CONSUMING, FAULTS, REMOVING, Event, Lease, State
from tests.admission.model import Cut, Model, Size, Snapshot, first_snapshot
from tests.admission.steps import Step, pass_day, steps


class Broken(AssertionError):
    """An invariant does not hold."""


def _alive(size: Size, at: Snapshot, group: int) -> list[int]:
    """Return the messages of a group that are in the queue and whose order is promised."""
    first = group * size.messages
    return [
        message
        for message in range(first, first + size.messages)
        if at.states[message] and not at.outside >> message & 1
    ]


def check(size: Size, before: Snapshot, step: Step, after: Snapshot) -> None:
    """
    Check the invariants of a step.

    Raises:
        Broken: one of them does not hold.
    """
    if step.event not in REMOVING:
        for message, state in enumerate(before.states):
            if state and not after.states[message]:
                raise Broken("lost", message)
    for message, lease in after.handlers:
        if lease == Lease.VALID and after.states[message] != State.HIDDEN:
            raise Broken("another consumer can receive it during a lease", message)
    if before.is_lost or before.is_neglected:
        return  # then order and limits are not promised
    if step.event in CONSUMING and not before.outside >> step.message & 1:
        alive = _alive(size, before, step.message // size.messages)
        if alive.index(step.message) >= size.most:
            raise Broken("not in order", step.message)
    for group in step.groups:
        _check_group(size, before, step, after, group)


def _check_group(size: Size, before: Snapshot, step: Step, after: Snapshot, group: int) -> None:
    alive = _alive(size, after, group)
    running = [m for m, lease in after.handlers if lease == Lease.VALID and m in alive]
    if len(running) > size.most:
        raise Broken("too many run", running)
    if after.is_cut:  # a cut script admits nothing more, and a sweep completes it
        admits = before.is_cut and step.event in (Event.SWEEP, Event.DAY)
    else:
        admits = step.event in ADMITTING
    admitted = [m for m in alive if after.states[m] != State.HELD_BACK]
    if admits and len(admitted) < min(size.most, len(alive)) and not after.outside:
        raise Broken("held back without need", alive)


def drain(make: type[Model], size: Size, at: Snapshot, drained: set[Snapshot]) -> None:
    """
    Let a state come to an end under a fair schedule: sweeps run, leases end, and Node receives and
    deletes. Days pass only if all records of a message were lost, or that of a cut admission.

    Raises:
        Broken: a message is stuck.
    """
    path = []
    for _ in range(4 * len(at.states)):
        if at in drained or not any(at.states):
            drained.update(path)
            return
        path.append(at)
        model = make(size, at)
        model.handlers = []
        for group in range(size.groups):
            model.sweep(group)
        is_known = model.held | model.keyed & ~model.admitted
        if any(
            state == State.HELD_BACK and not is_known >> message & 1
            for message, state in enumerate(model.states)
        ):
            pass_day(model, is_swept=True)
        for message, state in enumerate(model.states):
            if state == State.HIDDEN:
                model.score(message, State.DUE)
        due = [message for message, state in enumerate(model.states) if state == State.DUE]
        if due:
            model.remove(due[0])
        at = model.snapshot()
    raise Broken("stuck", path[0])


class Found(NamedTuple):
    """What a search has found."""

    states: int
    steps: int


def search(size: Size, make: type[Model] = Model, *, faults: int) -> Found:
    """
    Go through all states that the model can reach, and check each step and each state.

    Args:
        make: the model; a mutant is another class.
        faults: how many faults (``FAULTS``, and cuts) a history may have.

    Raises:
        Broken: an invariant does not hold. Its notes are the events that lead there.
    """
    start = first_snapshot(size)
    came_from: dict[Snapshot, tuple[Snapshot, Event] | None] = {start: None}
    waiting, drained, count = deque([start]), set(), 0
    while waiting:
        before = waiting.popleft()
        for step, after in _successors(make, size, before, faults):
            count += 1
            at = _canonical(size, after)
            is_new = at not in came_from
            came_from.setdefault(at, (before, step.event))
            try:
                check(size, before, step, after)
                if is_new:
                    drain(make, size, at, drained)
            except Broken as error:
                error.add_note("\n".join(_history(came_from, before)))
                error.add_note(f"then {step.event.value}:\n{after}")
                raise
            if is_new:
                waiting.append(at)
    return Found(len(came_from), count)


def _successors(
    make: type[Model], size: Size, before: Snapshot, faults: int
) -> Iterator[tuple[Step, Snapshot]]:
    """Return each step, with the state after it, or after a part of it if it may be cut."""
    may_fail = before.faults < faults
    for step in steps(size, before):
        if step.event in FAULTS and not may_fail:
            continue
        model = make(size, before)
        step.change(model)
        yield step, model.snapshot()
        may_be_cut = step.is_script and may_fail and not before.is_cut
        for last_write in range(model.writes if may_be_cut else 0):
            cut = make(size, before, last_write)
            try:
                step.change(cut)
            except Cut:
                cut.is_cut = True
                yield step, cut.snapshot()


def _history(came_from: dict[Snapshot, tuple[Snapshot, Event] | None], at: Snapshot) -> list[str]:
    lines = [str(at)]
    while (origin := came_from[at]) is not None:
        at, event = origin
        lines += [f"after {event.value}:", str(at)]
    return lines[::-1]


def _canonical(size: Size, at: Snapshot) -> Snapshot:
    """Return the first of the snapshots that differ only in the numbers of the groups."""
    if size.groups == 1:
        return at
    return min(
        _renumbered(size, at, groups) for groups in itertools.permutations(range(size.groups))
    )


def _renumbered(size: Size, at: Snapshot, groups: tuple[int, ...]) -> Snapshot:
    """Return a snapshot whose groups are those with these numbers."""
    n = size.messages
    places = [m for group in groups for m in range(group * n, (group + 1) * n)]

    def bits(value: int) -> int:
        return sum(1 << place for place, m in enumerate(places) if value >> m & 1)

    return at._replace(
        states=tuple(at.states[m] for m in places),
        sent=tuple(at.sent[group] for group in groups),
        received=bits(at.received),
        admitted=bits(at.admitted),
        held=bits(at.held),
        keyed=bits(at.keyed),
        later=bits(at.later),
        outside=bits(at.outside),
        handlers=tuple(sorted((places.index(m), lease) for m, lease in at.handlers)),
    )
