"""
The sweep of stored bodies: deletes the objects that no message has.

A sweep lists the objects, then reads the hashes, lists and sets of the namespace: queues, dead
letters, what undo can restore, schedules, and whatever else has a body. It notes since when an
object is in none of them. The object is deleted when it has been so for the grace, and a second
reading confirms it. So an object that is written before its message is sent needs no lock.

A reading misses a message that leaves a queue before that is read, for one that has been read. So
scripts that take a stored body to another queue remove its note (``lua/fragments/origin.lua``), and
an object is deleted only if its note is still there after the second reading. Undo moves whole
keys: if something was deleted or restored during that reading, nothing is deleted this time. An
undo that a crash has interrupted counts as one that runs, for as long as its keys are kept.

The first sweep writes the same random bytes into the namespace and into the store. Later ones
compare them, so that a Redis can't delete the bodies of another one with the same namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from os import urandom
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.body_stores.walk import read_keys, read_parameters
from rsmq.codecs import BodyStore
from rsmq.codecs.stored import DEFAULT_GRACE_SECONDS, check_grace
from rsmq.errors import NotPossible, show
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, on_keys
from rsmq.operations.plain import parse_fields, parse_time_us, plain_command
from rsmq.operations.scripts import loader_of
from rsmq.trash.deletion import UNDO_MS, DeletionState
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name, encode_name

load = loader_of("body_stores")

_DAY_SECONDS = 86_400
_HOUR_MS = 3_600_000
#: Names in a call.
_BATCH = 1000
#: The name of the object with the bytes of the owner; its place has no queue.
_OWNER = "0" * 32
_OWNER_BYTES = 32


@dataclass(frozen=True, slots=True)
class SweptBodies:
    """
    The result of a sweep.

    Attributes:
        objects: how many objects the store has for the namespace.
        unused: how many of them are in no message, those that were deleted included.
        deleted: how many were deleted; in a dry run, how many would be.
    """

    objects: int
    unused: int
    deleted: int

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The three numbers."""
        return self.objects, self.unused, self.deleted


def sweep_bodies(
    queues: RSMQ[Any],
    store: BodyStore,
    *,
    grace: float | timedelta = DEFAULT_GRACE_SECONDS,
    dry_run: bool = False,
    tell: Callable[[int], object] = lambda _: None,
) -> SweptBodies:
    """
    Delete the objects of a namespace that have been in no message for the grace.

    Call it once an hour or a day, with all queues in use: a single call deletes nothing, but notes
    what it finds. It reads all keys of the namespace in steps of about 100 values, and has the
    names of the objects in memory. Several may run at the same time; one that was interrupted is
    simply repeated. Queues with a colon in their names are left out, as they could be those of
    another namespace.

    Args:
        queues: a client of the namespace.
        store: the store of the ``Stored`` codec.
        grace: seconds, 60 to a year; a day by default. It must be longer than a send may take, and
            than messages wait outside of this Redis, such as in a transaction's outbox.
        dry_run: delete and note nothing.
        tell: is called after each step with the number of keys that it has finished.

    Returns:
        The result.

    Raises:
        InvalidValue: grace is out of range.
        NotPossible: another Redis has swept this namespace of the store; nothing is deleted.
        The errors of the store, and of redis-py.
    """
    seconds = check_grace(grace)
    namespace = queues.namespace
    prefix = encode_name(namespace.name) + b":"
    _check_owner(queues, store, prefix, dry_run=dry_run)
    found = {
        name: place
        for place, name in store.list(encode_name(namespace.name))
        if place != prefix and b":" not in place[len(prefix) :]
    }
    listed = frozenset(found)
    _leave_out_used(queues, found, tell)
    keep_ms = 0 if dry_run else int(seconds * 1000) * 2 + 7 * _DAY_SECONDS * 1000
    due: dict[str, bytes] = {}
    for names in _in_batches(found):
        ages = queues.run(_note_unused(namespace, keep_ms, names))
        due |= {
            name: found[name]
            for name, age in zip(names, ages, strict=True)
            if age >= seconds * 1000
        }
    if due and not _confirm(queues, due, tell):
        due = {}
    if not dry_run:
        due = _claim(queues, due, int(seconds * 1000))
        for name, place in due.items():
            store.delete(place, name)
        _clear_notes(queues, listed, found, keep_ms)
    return SweptBodies(len(listed), len(found), len(due))


def claim_sweep(queues: RSMQ[Any]) -> bool:
    """Return True once an hour, for one of all programs that ask: it is to sweep."""
    claim: Operation[Any] = plain_command(
        "SET", queues.namespace.swept_bodies, b"1", b"NX", b"PX", digits(_HOUR_MS)
    )
    return queues.run(claim) is not None


def _check_owner(queues: RSMQ[Any], store: BodyStore, place: bytes, *, dry_run: bool) -> None:
    """Raise NotPossible if the objects belong to another Redis; make them those of this one."""
    key = queues.namespace.owner_of_bodies
    if not dry_run:
        queues.run(plain_command("SETNX", key, urandom(_OWNER_BYTES)))
    own: bytes | None = queues.run(plain_command("GET", key))
    try:
        owner = store.read(place, _OWNER, _OWNER_BYTES)
    except FileNotFoundError:
        if not dry_run:
            store.write(place, _OWNER, own or b"")
        return
    if owner != own:
        raise NotPossible(
            f"The bodies in {store!r} belong to another Redis with the namespace "
            f"{show(queues.namespace.name)}",
            hint="Give each Redis a prefix or bucket of its own. If this Redis has taken the place "
            f"of the other, delete the object {_OWNER} of the place {show(place)}.",
        )


def _leave_out_used(
    queues: RSMQ[Any], found: dict[str, bytes], tell: Callable[[int], object]
) -> None:
    """Remove the objects that a value of the namespace names."""
    for key in read_keys(queues):
        if not found:
            return
        for name in read_parameters(queues, key, b"stored"):
            found.pop(name, None)
        tell(1)


def _confirm(queues: RSMQ[Any], due: dict[str, bytes], tell: Callable[[int], object]) -> bool:
    """Leave out the objects that a second reading finds. Return False if it may miss some."""
    before = queues.trash.list()
    _leave_out_used(queues, due, tell)
    after = queues.trash.list()
    now_us = queues.run(
        plain_command("TIME", key=queues.namespace.unused_bodies, parse=parse_time_us)
    )
    return set(after) <= set(before) and not any(
        each.state == DeletionState.UNDOING and each.deleted_ms + 2 * UNDO_MS > now_us // 1000
        for each in (*before, *after)
    )


def _claim(queues: RSMQ[Any], due: dict[str, bytes], grace_ms: int) -> dict[str, bytes]:
    """Return the objects that are to be deleted now: no move has removed their notes."""
    claimed: dict[str, bytes] = {}
    for names in _in_batches(due):
        found = queues.run(
            on_keys(
                load("claim_unused_bodies"),
                (queues.namespace.unused_bodies,),
                (digits(grace_ms), *map(encode_name, names)),
                list,
            )
        )
        claimed |= {name: due[name] for name in map(decode_name, found)}
    return claimed


def _clear_notes(
    queues: RSMQ[Any], listed: Collection[str], unused: Container[str], keep_ms: int
) -> None:
    """Remove the notes of objects that are in a message again, and of those that are long gone."""
    key = queues.namespace.unused_bodies
    now_us = queues.run(plain_command("TIME", key=key, parse=parse_time_us))
    notes = queues.run(plain_command("HGETALL", key, parse=parse_fields))
    oldest = now_us // 1000 - keep_ms
    gone = (
        name
        for name, since in ((decode_name(each), since) for each, since in notes.items())
        if (name in listed and name not in unused) or (name not in listed and int(since) < oldest)
    )
    for batch in _in_batches(gone):
        queues.run(plain_command("HDEL", key, *batch))


def _in_batches(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    remaining = iter(names)
    while batch := tuple(islice(remaining, _BATCH)):
        yield batch


def _note_unused(namespace: Namespace, keep_ms: int, names: Iterable[str]) -> Operation[list[int]]:
    return on_keys(
        load("note_unused_bodies"),
        (namespace.unused_bodies,),
        (digits(keep_ms), *map(encode_name, names)),
        list,
    )
