"""What can happen in a state of the model, and what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.admission.events import Event, Lease, State
from tests.admission.model import Model, Size, Snapshot

Change = Callable[[Model], None]


class Step(NamedTuple):
    """
    An event in a state.

    Attributes:
        change: makes it.
        groups: the groups that it is about.
        message: the message that it is about; None for other events.
        is_script: whether it consists of writes that can be cut.
    """

    event: Event
    change: Change
    groups: tuple[int, ...] = ()
    message: int | None = None
    is_script: bool = False


def steps(size: Size, at: Snapshot) -> Iterator[Step]:
    """Return what can happen in a state."""
    every = tuple(range(size.groups))
    for group in every:
        if at.sent[group] < size.messages:
            yield Step(Event.SEND, lambda m, g=group: m.send(g), (group,), is_script=True)
            yield Step(
                Event.SEND_DELAYED,
                lambda m, g=group: m.send(g, is_delayed=True),
                (group,),
                is_script=True,
            )
        yield Step(Event.SWEEP, lambda m, g=group: m.sweep(g), (group,), is_script=True)
    for message, state in enumerate(at.states):
        yield from _steps_of_message(size, at, message, state)
    for each, (message, lease) in enumerate(at.handlers):
        if at.handlers.index((message, lease)) == each:  # an equal one would do the same
            yield from _steps_of_handler(size, each, message, lease)
    if any(at.states):
        yield Step(Event.PURGE, _purge)
    yield Step(Event.DAY, lambda m: pass_day(m, is_swept=True), every)
    if State.HELD_BACK in at.states and not at.is_neglected:
        yield Step(Event.DAY_WITHOUT_SWEEP, lambda m: pass_day(m, is_swept=False))
    if not at.is_lost:
        for keys in (("admitted",), ("held",), ("keyed",), ("admitted", "held", "keyed")):
            if any(getattr(at, key) for key in keys):
                yield Step(Event.LOSE, lambda m, keys=keys: _lose(m, keys))


def _steps_of_message(size: Size, at: Snapshot, message: int, state: State) -> Iterator[Step]:
    groups = (message // size.messages,)
    if state == State.DUE:
        if len(at.handlers) < size.consumers:
            yield Step(Event.RECEIVE, lambda m: _receive(m, message), groups, message)
        yield Step(Event.POP, lambda m: _settle(m, message), groups, message, is_script=True)
        yield Step(Event.NODE_POP, lambda m: _remove(m, message), groups, message)
        yield Step(Event.EXPIRE, lambda m: _settle(m, message), groups, message, is_script=True)
    elif state == State.HIDDEN:
        yield Step(Event.LEASE_ENDS, lambda m: _end_lease(m, message), groups, message)
    elif state == State.HELD_BACK:
        yield Step(
            Event.DELETE_HELD, lambda m: _settle(m, message), groups, message, is_script=True
        )
        yield Step(Event.NODE_DELETE_HELD, lambda m: _remove(m, message), groups, message)
        yield Step(Event.RELEASE_HELD, lambda m: m.show_by_id(message), groups, message)
        for shown in (State.DUE, State.HIDDEN):
            yield Step(
                Event.NODE_SHOW_HELD,
                lambda m, shown=shown: _show(m, message, shown),
                groups,
                message,
            )
    elif at.sent[groups[0]] > message % size.messages and not at.outside >> message & 1:
        yield Step(Event.RETURN, lambda m: _return(m, message), groups, message)


def _steps_of_handler(size: Size, each: int, message: int, lease: Lease) -> Iterator[Step]:
    groups = (message // size.messages,)
    yield Step(Event.CRASH, lambda m: _stop(m, each), groups, message)
    yield Step(Event.NODE_DELETE, lambda m: (_stop(m, each), _remove(m, message)), groups, message)
    if lease == Lease.LOST:
        return  # the receipt is refused
    yield Step(
        Event.DELETE,
        lambda m: (_stop(m, each), _settle(m, message)),
        groups,
        message,
        is_script=True,
    )
    yield Step(
        Event.DEAD_LETTER,
        lambda m: (_stop(m, each), _settle(m, message)),
        groups,
        message,
        is_script=True,
    )
    yield Step(
        Event.RETRY, lambda m: (_stop(m, each), m.score(message, State.HIDDEN)), groups, message
    )
    yield Step(
        Event.RELEASE, lambda m: (_stop(m, each), m.score(message, State.DUE)), groups, message
    )
    if lease == Lease.ENDED:
        yield Step(Event.EXTEND, lambda m: _extend(m, each, message), groups, message)


def _receive(model: Model, message: int) -> None:
    model.score(message, State.HIDDEN)
    model.received |= 1 << message
    _lose_leases(model, message)
    model.handlers.append((message, Lease.VALID))


def _lose_leases(model: Model, message: int) -> None:
    for each, (other, _) in enumerate(model.handlers):
        if other == message:
            model.handlers[each] = (message, Lease.LOST)


def _stop(model: Model, each: int) -> None:
    del model.handlers[each]


def _extend(model: Model, each: int, message: int) -> None:
    model.score(message, State.HIDDEN)
    model.handlers[each] = (message, Lease.VALID)


def _settle(model: Model, message: int) -> None:
    _lose_leases(model, message)
    model.settle(message)


def _remove(model: Model, message: int) -> None:
    _lose_leases(model, message)
    model.remove(message)


def _end_lease(model: Model, message: int) -> None:
    model.score(message, State.DUE)
    for each, handler in enumerate(model.handlers):
        if handler == (message, Lease.VALID):
            model.handlers[each] = (message, Lease.ENDED)


def _show(model: Model, message: int, shown: State) -> None:
    model.score(message, shown)
    model.outside |= 1 << message


def _return(model: Model, message: int) -> None:
    model.restore(message)
    model.outside |= 1 << message


def _purge(model: Model) -> None:
    model.handlers = [(message, Lease.LOST) for message, _ in model.handlers]
    model.purge()


def pass_day(model: Model, *, is_swept: bool) -> None:
    renewed = 0
    if is_swept:
        for group in range(model.size.groups):
            model.sweep(group)
        renewed = model.renewed()
    else:
        model.is_neglected = True
    for message, state in enumerate(model.states):
        if state == State.HELD_BACK and not renewed >> message & 1:
            model.score(message, State.DUE)


def _lose(model: Model, keys: tuple[str, ...]) -> None:
    model.is_lost = True
    for message, state in enumerate(model.states):
        if state == State.HIDDEN and model.admitted & ~model.received & 1 << message:
            model.later |= 1 << message
    for key in keys:
        setattr(model, key, 0)
