"""
Import: the queues of an export file into Redis.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from redis.exceptions import RedisError

from rsmq.client import RSMQ
from rsmq.errors import InvalidExport, QueueNotFound, RSMQError, show
from rsmq.model import QueueAttributes
from rsmq.operations.restored import Restored, restore_messages, restore_totals
from rsmq.operations.sending import send_raws
from rsmq.transfer import lines, records
from rsmq.transfer.exporting import look_up
from rsmq.wire.fields import MESSAGE_SUFFIXES
from rsmq.wire.ids import check_id
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import MAX_MAXSIZE, MIN_MAXSIZE, UNLIMITED
from rsmq.wire.names import encode_name

#: Messages, and bytes of bodies but for a single one, that are added at a time.
_PAGE = 1000
_ROOM = 1024 * 1024

#: Redis counts higher, but clients in JavaScript and scores don't.
_LARGEST = 2**53

#: What an existing queue keeps, and what is told if the export has another.
_ATTRIBUTES = ("vt", "delay", "maxsize", "dead_letter_queue", "max_receives", "paused")


@dataclass(frozen=True, slots=True)
class ImportedQueue:
    """
    What became of a queue of the export.

    Attributes:
        source: its name in the export.
        queue: its name here.
        created: whether it was made, with its attributes; else there was one, which has kept its
            own.
        messages: how many of its messages the file has.
        added: how many were added.
        present: how many were there already, by their ids, and have stayed as they are.
        left_out: how many can't be added, since no client could name them, or Redis could not
            count their receives on.
        without_policy: whether the dead-letter policy of the export could not be set.
        notes: what is otherwise than in the export.
    """

    source: str
    queue: str
    created: bool
    messages: int
    added: int
    present: int
    left_out: int
    without_policy: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """
    What an import has done, or would do.

    Attributes:
        queues: each of the queues that were taken, in order.
        added: how many messages were added, to all of them.
        fault: why the file is not what was exported; None if it is. What it has was added.
        missing: names that were asked for and are not in the file.
    """

    queues: tuple[ImportedQueue, ...]
    added: int
    fault: str | None
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is there now."""
        lacking = any(each.left_out or each.without_policy for each in self.queues)
        return not (self.fault or self.missing or lacking)


@dataclass(slots=True)
class _Target:
    """A queue that is being filled."""

    source: str
    keys: QueueKeys
    exported: QueueAttributes
    created: bool = False
    messages: int = 0
    added: int = 0
    present: int = 0
    unfit: dict[str, list[str]] = field(default_factory=dict)
    without_policy: bool = False
    cut: int = 0
    reasons: int = 0
    notes: list[str] = field(default_factory=list)
    waiting: dict[str, Restored] = field(default_factory=dict)
    size: int = 0

    def result(self) -> ImportedQueue:
        notes = list(self.notes)
        for why, ids in self.unfit.items():
            notes.append(f"left out: {why}, {show(ids[0])} first")
        if self.cut:
            notes.append(f"messages whose times were cut to whole milliseconds: {self.cut}")
        if self.reasons:
            notes.append(f"dead letters of which it is not kept why they died: {self.reasons}")
        return ImportedQueue(
            source=self.source,
            queue=self.keys.name,
            created=self.created,
            messages=self.messages,
            added=self.added,
            present=self.present,
            left_out=sum(map(len, self.unfit.values())),
            without_policy=self.without_policy,
            notes=tuple(notes),
        )


def import_queues(
    rsmq: RSMQ,
    file: BinaryIO,
    *,
    queues: Mapping[str, str] | None = None,
    new_ids: bool = False,
    dry_run: bool = False,
) -> Imported:
    """
    Add the messages of an export to queues, which are created if they are missing.

    A message keeps its id, its counters and the time when it is due, whatever the queue's maxsize.
    One whose id is in the queue already stays as it is, so that an import may be run again: it adds
    what is missing, also what consumers have deleted meanwhile. A queue that is created gets the
    attributes and totals of the export, its date, its dead-letter policy once the target is there,
    and is paused if it was; one that exists keeps its own, and the differences are told. Some
    thousand messages are held in memory at most.

    Args:
        rsmq: a client of the namespace.
        file: what was exported, as bytes, not packed.
        queues: which ones, by their names in the export, and how they are called here; None takes
            all of them.
        new_ids: True sends the messages anew instead, in the order of the file: with new ids, no
            counters, each after the queue's delay. Run again, it sends them again.
        dry_run: True changes nothing, and tells what would happen.

    Raises:
        InvalidExport: a line is none of an export, or gzip is broken. What stands before it was
            added, as the hint tells.
        InvalidFormat: a name has characters that this client does not take.
        InvalidValue: another client stored a vt or delay that is not a number.
        QueueNotFound: somebody deleted a queue meanwhile.
    """
    for name in (queues or {}).values():
        rsmq.namespace.queue(name)
    run = _Import(rsmq, queues, new_ids=new_ids, dry_run=dry_run)
    try:
        return run.read(lines.Reader(file))
    except (RSMQError, RedisError) as error:
        before = f"Messages that were added before: {run.added}."
        if isinstance(error, InvalidExport):
            error.hint = f"{error.hint or ''} {before}".strip()
        error.add_note(before)
        raise


class _Import:
    def __init__(
        self, rsmq: RSMQ, queues: Mapping[str, str] | None, *, new_ids: bool, dry_run: bool
    ) -> None:
        self._rsmq = rsmq
        self._names = queues
        self._new_ids = new_ids
        self._dry_run = dry_run
        self._targets: dict[str, _Target | None] = {}  # None is not asked for
        self._without_policy: list[_Target] = []

    @property
    def added(self) -> int:
        return sum(target.added for target in self._taken())

    def _taken(self) -> list[_Target]:
        return [target for target in self._targets.values() if target is not None]

    def read(self, reader: lines.Reader) -> Imported:
        try:
            for record in reader:
                if record["type"] == lines.QUEUE:
                    self._take_queue(reader.line, record)
                elif record["type"] == lines.MESSAGE:
                    self._take_message(reader.line, record)
        except InvalidExport:
            self._finish()
            raise
        self._finish()
        return Imported(
            queues=tuple(target.result() for target in self._taken()),
            added=self.added,
            fault=reader.fault,
            missing=tuple(name for name in self._names or () if name not in self._targets),
        )

    def _finish(self) -> None:
        for target in self._taken():
            self._add(target)
            if target.created and not self._new_ids and not self._dry_run:
                # Last: what was added has raised the total.
                self._rsmq.run(restore_totals(target.keys, target.exported))
        self._set_policies()
        for target in self._without_policy:
            exported = target.exported
            target.without_policy = True
            target.notes.append(
                f"no dead-letter policy: there is no queue {show(exported.dead_letter_queue)}"
            )

    # Queues.

    def _take_queue(self, line: int, record: dict[str, Any]) -> None:
        name = records.queue_name(line, record)
        if name in self._targets:
            raise InvalidExport(line, f"tells of queue {show(name)} a second time")
        if self._names is not None and name not in self._names:
            self._targets[name] = None
            return
        keys = self._rsmq.namespace.queue(self._name_here(name))
        exported = records.to_attributes(line, record)
        if exported.dead_letter_queue is not None:
            letters = self._name_here(exported.dead_letter_queue)
            exported = dataclasses.replace(exported, dead_letter_queue=letters)
        target = self._targets[name] = _Target(name, keys, exported)
        if self._dry_run:
            target.created = self._attributes_here(target) is None
        else:
            target.created = self._create(target)
        if not target.created:
            self._compare(target)
        elif exported.dead_letter_queue is not None:
            self._without_policy.append(target)

    def _name_here(self, name: str) -> str:
        return (self._names or {}).get(name, name)

    def _create(self, target: _Target) -> bool:
        exported, name = target.exported, target.keys.name
        # Rather longer than shorter: a queue's are whole seconds.
        vt, delay = math.ceil(exported.vt), math.ceil(exported.delay)
        maxsize = exported.maxsize
        if maxsize != UNLIMITED:
            maxsize = min(max(maxsize, MIN_MAXSIZE), MAX_MAXSIZE)
        created = self._rsmq.create_queue(name, vt=vt, delay=delay, maxsize=maxsize, exist_ok=True)
        if created:
            for item, is_now in (("vt", vt), ("delay", delay), ("maxsize", maxsize)):
                was = getattr(exported, item)
                if was != is_now:
                    target.notes.append(f"{item} is {is_now}, for {was}, which is no value for it")
            if exported.paused:
                self._rsmq.pause_queue(name)
        return created

    def _attributes_here(self, target: _Target) -> QueueAttributes | None:
        try:
            return self._rsmq.get_queue_attributes(target.keys.name)
        except QueueNotFound:
            return None

    def _compare(self, target: _Target) -> None:
        here = self._rsmq.get_queue_attributes(target.keys.name)
        for item in _ATTRIBUTES:
            was, is_now = getattr(target.exported, item), getattr(here, item)
            if was != is_now:
                target.notes.append(f"{item} stays {_told(is_now)}; the export has {_told(was)}")

    def _set_policies(self) -> None:
        """Set the dead-letter policies whose target is there."""
        if self._dry_run:
            self._without_policy = [
                target
                for target in self._without_policy
                if not self._will_be_there(str(target.exported.dead_letter_queue))
            ]
            return
        waiting, self._without_policy = self._without_policy, []
        for target in waiting:
            exported = target.exported
            try:
                self._rsmq.set_dead_letter_policy(
                    target.keys.name, exported.dead_letter_queue, exported.max_receives
                )
            except QueueNotFound:
                self._without_policy.append(target)
            except RSMQError as error:
                target.without_policy = True
                target.notes.append(f"no dead-letter policy: {error}. {error.hint}")

    def _will_be_there(self, name: str) -> bool:
        if any(target.keys.name == name for target in self._taken()):
            return True
        try:
            self._rsmq.get_queue_attributes(name)
        except RSMQError:
            return False
        return True

    # Messages.

    def _take_message(self, line: int, record: dict[str, Any]) -> None:
        name = records.queue_name(line, record)
        if name not in self._targets:
            raise InvalidExport(
                line, f"has a message of queue {show(name)}, of which no line before tells"
            )
        target = self._targets[name]
        if target is None:
            return
        if self._without_policy and not any(each.messages for each in self._taken()):
            self._set_policies()  # all queues are there by now, and consumers may be, too
        message = records.to_restored(line, record)
        target.messages += 1
        why = None if self._new_ids else _unfit(message)
        if why is not None:
            target.unfit.setdefault(why, []).append(message.id)
            return
        target.reasons += "reason" in record
        target.cut += not self._new_ids and message.visible_at_ms != record.get("visible_at_ms")
        target.waiting.setdefault(message.id, message)
        target.size += len(message.raw)
        if len(target.waiting) >= _PAGE or target.size >= _ROOM:
            self._add(target)

    def _add(self, target: _Target) -> None:
        messages = list(target.waiting.values())
        target.waiting.clear()
        target.size = 0
        if not messages:
            return
        keys = target.keys
        if self._dry_run:
            added = len(messages) - (0 if self._new_ids else self._present(target, messages))
        elif self._new_ids:
            raws = [message.raw for message in messages]
            steps = send_raws(keys, raws, largest=0, wait=b"", channel=b"")
            added = len(self._rsmq.run_steps(steps))
        else:
            added = self._rsmq.run(restore_messages(keys, messages, largest=0, realtime=False))
        target.added += added
        target.present += len(messages) - added

    def _present(self, target: _Target, messages: list[Restored]) -> int:
        if target.created:  # it would be
            return 0
        ids = [encode_name(message.id) for message in messages]
        return sum(
            message is not None
            for looked_up in look_up(self._rsmq, target.keys, ids)
            for message in looked_up.messages
        )


def _unfit(message: Restored) -> str | None:
    """Why a message would do harm where it is put back; None if it would not."""
    try:
        check_id(message.id)
    except RSMQError:
        return "ids that no client can name"
    if encode_name(message.id).endswith(MESSAGE_SUFFIXES):
        return "ids that are names of what belongs to other messages"
    times = (message.visible_at_ms or 0, message.first_received_ms or 0)
    if message.receive_count > _LARGEST or any(abs(time) > _LARGEST for time in times):
        return f"receive counts and times beyond {_LARGEST}"
    return None


def _told(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
