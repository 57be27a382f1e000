"""
Import: adds the queues and messages of an export file to Redis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from redis.exceptions import RedisError

from rsmq._sync.client import RSMQ
from rsmq.errors import InvalidExport, QueueNotFound, RSMQError, add_remedy, show
from rsmq.errors.hints import Hint
from rsmq.model import QueueAttributes
from rsmq.operations.copying import (
    compare_fields,
    compare_settings,
    copy_policy,
    copy_queue,
    find_unfit,
    fit_fields,
    read_fields,
    read_settings,
)
from rsmq.operations.restore import (
    RestoredMessage,
    restore_messages,
    restore_records,
    restore_totals,
)
from rsmq.operations.send_options import SendOptions
from rsmq.operations.sending import send_raws
from rsmq.transfer import lines, records
from rsmq.transfer.exporting import look_up
from rsmq.wire.fields import MESSAGE_SUFFIXES
from rsmq.wire.ids import check_id
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import encode_name

#: The number of messages that are added at a time, and the bytes of their bodies after which a page
#: is full.
_PAGE_SIZE = 1000
_PAGE_BYTES = 1024 * 1024

#: The largest number that is imported. Redis counts higher, but scores and JavaScript clients have
#: no exact larger integers.
_LARGEST_NUMBER = 2**53


@dataclass(frozen=True, slots=True)
class ImportedQueue:
    """
    The result of the import of one queue.

    Attributes:
        source: the name of the queue in the export.
        queue: its name in Redis.
        created: whether the queue was created, with the attributes of the export; if not, it
            existed and has kept its own.
        messages: the number of its messages in the file.
        added: the number of messages that were added.
        present: the number of messages whose ids were in the queue already; those stay unchanged.
        left_out: the number of messages that can't be added: clients can't name their ids, their
            ids are names of other fields, or their counts or times are too large.
        without_policy: whether the dead-letter policy of the export could not be set.
        notes: the differences from the export.
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
    The result of an import, or the expected result after a dry run.

    Attributes:
        queues: the queues that were imported, in the order of the file.
        added: the number of messages that were added, to all queues.
        fault: why the file is not what was exported; None if it is. Its messages were added all the
            same.
        missing: the names that were requested and are not in the file.
    """

    queues: tuple[ImportedQueue, ...]
    added: int
    fault: str | None
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Return whether all requested queues and messages are in Redis now."""
        has_gaps = any(each.left_out or each.without_policy for each in self.queues)
        return not (self.fault or self.missing or has_gaps)


@dataclass(slots=True)
class _ImportTarget:
    """
    A queue that is being imported.

    Attributes:
        source: the name of the queue in the export.
        keys: the keys of the queue in Redis.
        exported: its attributes in the export.
        fields: its other fields in the export that a copy gets.
        created: whether the import has created it.
        messages: the number of its messages in the file so far.
        added: the number of messages added so far.
        present: the number of messages whose ids were in the queue, or in the file, already.
        unfit: the ids of messages that can't be added, by the reason.
        without_policy: whether its dead-letter policy could not be set.
        cut_times: the number of messages whose times were cut to whole milliseconds.
        lost_reasons: the number of dead letters whose reason is not imported.
        notes: differences from the export.
        pending: the messages of the next page, by their ids.
        pending_bytes: the bytes of their bodies.
    """

    source: str
    keys: QueueKeys
    exported: QueueAttributes
    fields: dict[str, bytes]
    created: bool = False
    messages: int = 0
    added: int = 0
    present: int = 0
    unfit: dict[str, list[str]] = field(default_factory=dict)
    without_policy: bool = False
    cut_times: int = 0
    lost_reasons: int = 0
    notes: list[str] = field(default_factory=list)
    pending: dict[str, RestoredMessage] = field(default_factory=dict)
    pending_bytes: int = 0

    def result(self) -> ImportedQueue:
        """Return the result for the caller."""
        notes = list(self.notes)
        for reason, ids in self.unfit.items():
            notes.append(f"left out: {reason}, {show(ids[0])} first")
        if self.cut_times:
            notes.append(f"messages whose times were cut to whole milliseconds: {self.cut_times}")
        if self.lost_reasons:
            notes.append(f"dead letters whose reasons are not imported: {self.lost_reasons}")
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

    A message keeps its id, its counters and the time when it is due, also if it is larger than the
    queue's maxsize. A message whose id is in the queue already is not changed. So an import may be
    run again: it adds missing messages, also those that consumers have deleted meanwhile.

    A queue that is created gets the attributes, totals and creation time of the export, and the
    attributes and tags that only SQS has, but those of a FIFO queue only if its name ends with
    ``_fifo``. It is paused if it was. It gets its dead-letter policy when the dead-letter queue
    exists. A queue that exists keeps its own attributes; the differences are noted. Up to a page of
    messages for each queue is held in memory: 1000 messages or about 1 MiB.

    Args:
        rsmq: a client of the namespace.
        file: the binary file to read from, not compressed or opened by ``files.reading``.
        queues: the names of the queues in the export, each with its name in Redis; None imports
            all.
        new_ids: True sends the messages again instead, in the order of the file: with new ids,
            without counters, each after the queue's delay. Another run sends them once more.
        dry_run: True changes nothing; the result says what an import would do.

    Returns:
        The result.

    Raises:
        InvalidExport: a line is not a record of an export, or the gzip data is broken. The messages
            before that line were added; the hint has their number.
        InvalidFormat: a name has characters that this client does not allow.
        InvalidValue: another client stored a vt or delay that is not a number.
        QueueNotFound: a queue was deleted during the import.
    """
    for name in (queues or {}).values():
        rsmq.namespace.queue(name)
    importer = _Importer(rsmq, queues, new_ids=new_ids, dry_run=dry_run)
    try:
        return importer.run(lines.Reader(file))
    except (RSMQError, RedisError) as error:
        can_continue = isinstance(error, RedisError) and not new_ids and not dry_run
        advice = " Run it again: it adds those that are missing." if can_continue else ""
        add_remedy(error, f"Messages that were added before: {importer.added}.{advice}")
        raise


class _Importer:
    """One run of an import."""

    def __init__(
        self, rsmq: RSMQ, queues: Mapping[str, str] | None, *, new_ids: bool, dry_run: bool
    ) -> None:
        self._rsmq = rsmq
        self._names = queues
        self._new_ids = new_ids
        self._dry_run = dry_run
        self._targets: dict[str, _ImportTarget | None] = {}  # None: not requested
        self._without_policy: list[_ImportTarget] = []

    @property
    def added(self) -> int:
        return sum(target.added for target in self._requested_targets())

    def _requested_targets(self) -> list[_ImportTarget]:
        return [target for target in self._targets.values() if target is not None]

    def run(self, reader: lines.Reader) -> Imported:
        try:
            for record in reader:
                if record["type"] == lines.QUEUE:
                    self._import_queue(reader.line, record)
                elif record["type"] == lines.MESSAGE:
                    self._import_message(reader.line, record)
        except InvalidExport:
            self._finish()
            raise
        self._finish()
        return Imported(
            queues=tuple(target.result() for target in self._requested_targets()),
            added=self.added,
            fault=reader.fault,
            missing=tuple(name for name in self._names or () if name not in self._targets),
        )

    def _finish(self) -> None:
        for target in self._requested_targets():
            self._add_pending(target)
            if target.created and not self._new_ids and not self._dry_run:
                # Last, since each message that is added raises the total.
                self._rsmq.run(restore_totals(target.keys, target.exported))
        self._set_policies()
        for target in self._without_policy:
            exported = target.exported
            target.without_policy = True
            target.notes.append(
                f"no dead-letter policy: there is no queue {show(exported.dead_letter_queue)}"
            )

    # Queues.

    def _import_queue(self, line: int, record: dict[str, Any]) -> None:
        name = records.parse_queue_name(line, record)
        if name in self._targets:
            raise InvalidExport(line, f"has queue {show(name)} a second time")
        if self._names is not None and name not in self._names:
            self._targets[name] = None
            return
        keys = self._rsmq.namespace.queue(self._target_name(name))
        exported = records.parse_attributes(line, record)
        if exported.dead_letter_queue is not None:
            dead_letter_queue = self._target_name(exported.dead_letter_queue)
            exported = dataclasses.replace(exported, dead_letter_queue=dead_letter_queue)
        fields = records.parse_fields(line, record)
        target = self._targets[name] = _ImportTarget(name, keys, exported, fields)
        if self._dry_run:
            target.created = self._read_attributes(target) is None
        else:
            target.created = self._create(target)
        if not target.created:
            self._note_differences(target)
        elif exported.dead_letter_queue is not None:
            self._without_policy.append(target)
        is_new = self._dry_run and target.created
        stored = fit_fields(keys.name, fields) if is_new else self._rsmq.run(read_fields(keys.hash))
        target.notes += dict(compare_fields(keys.name, fields, stored)).values()

    def _target_name(self, name: str) -> str:
        return (self._names or {}).get(name, name)

    def _create(self, target: _ImportTarget) -> bool:
        settings = read_settings(target.exported)
        namespace, name = self._rsmq.namespace, target.keys.name
        created = self._rsmq.run_steps(copy_queue(namespace, name, settings, target.fields))
        if created:
            for each in find_unfit(settings):
                target.notes.append(
                    f"{each.name} is {each.has}, for {each.wanted}, which is not a value for it"
                )
        return created

    def _read_attributes(self, target: _ImportTarget) -> QueueAttributes | None:
        try:
            return self._rsmq.get_queue_attributes(target.keys.name)
        except QueueNotFound:
            return None

    def _note_differences(self, target: _ImportTarget) -> None:
        stored = self._rsmq.get_queue_attributes(target.keys.name)
        for each in compare_settings(read_settings(target.exported), stored):
            target.notes.append(
                f"{each.name} stays {_format(each.has)}; the export has {_format(each.wanted)}"
            )

    def _set_policies(self) -> None:
        """Set the dead-letter policies whose dead-letter queue exists."""
        if self._dry_run:
            self._without_policy = [
                target
                for target in self._without_policy
                if not self._will_exist(str(target.exported.dead_letter_queue))
            ]
            return
        pending, self._without_policy = self._without_policy, []
        for target in pending:
            try:
                self._rsmq.run_steps(
                    copy_policy(
                        self._rsmq.namespace, target.keys.name, read_settings(target.exported)
                    )
                )
            except QueueNotFound:
                self._without_policy.append(target)
            except RSMQError as error:
                target.without_policy = True
                target.notes.append(Hint("no dead-letter policy: ", error))

    def _will_exist(self, name: str) -> bool:
        if any(target.keys.name == name for target in self._requested_targets()):
            return True
        try:
            self._rsmq.get_queue_attributes(name)
        except RSMQError:
            return False
        return True

    # Messages.

    def _import_message(self, line: int, record: dict[str, Any]) -> None:
        name = records.parse_queue_name(line, record)
        if name not in self._targets:
            raise InvalidExport(
                line, f"has a message of queue {show(name)}, which no line before has"
            )
        target = self._targets[name]
        if target is None:
            return
        # All queues exist now. Before the first message is added, as consumers may be running.
        if self._without_policy and not any(each.messages for each in self._requested_targets()):
            self._set_policies()
        message = records.parse_message(line, record)
        target.messages += 1
        reason = None if self._new_ids else _find_obstacle(message)
        if reason is not None:
            target.unfit.setdefault(reason, []).append(message.id)
            return
        target.lost_reasons += "reason" in record
        target.cut_times += not self._new_ids and message.visible_at_ms != record.get(
            "visible_at_ms"
        )
        if message.id in target.pending:
            if not self._new_ids:  # the first one has the id, as if it were in another page
                target.present += 1
                return
            self._add_pending(target)
        target.pending[message.id] = message
        target.pending_bytes += len(message.raw)
        if len(target.pending) >= _PAGE_SIZE or target.pending_bytes >= _PAGE_BYTES:
            self._add_pending(target)

    def _add_pending(self, target: _ImportTarget) -> None:
        messages = list(target.pending.values())
        target.pending.clear()
        target.pending_bytes = 0
        if not messages:
            return
        keys = target.keys
        if self._dry_run:
            added = len(messages) - (0 if self._new_ids else self._count_present(target, messages))
        elif self._new_ids:
            raws = [message.raw for message in messages]
            groups = [message.records.get("group_of", b"") for message in messages]
            options = SendOptions({"groups": groups}) if any(groups) else None
            ids = self._rsmq.run_steps(send_raws(keys, raws, largest=0, options=options))
            added = len(ids)
            others = {
                id: {key: text for key, text in message.records.items() if key != "group_of"}
                for id, message in zip(ids, messages, strict=True)
            }
            if any(others.values()):
                self._rsmq.run(restore_records(keys, others))
        else:
            added = self._rsmq.run(restore_messages(keys, messages, largest=0, realtime=False))
        target.added += added
        target.present += len(messages) - added

    def _count_present(self, target: _ImportTarget, messages: list[RestoredMessage]) -> int:
        if target.created:  # a dry run: it would be
            return 0
        ids = [encode_name(message.id) for message in messages]
        return sum(
            message is not None
            for looked_up in look_up(self._rsmq, target.keys, ids)
            for message in looked_up.messages
        )


def _find_obstacle(message: RestoredMessage) -> str | None:
    """Return the reason why a message can't be restored without harm; None if it can."""
    try:
        check_id(message.id)
    except RSMQError:
        return "ids that no client can name"
    if encode_name(message.id).endswith(MESSAGE_SUFFIXES):
        return "ids that are names of what belongs to other messages"
    times = (message.visible_at_ms or 0, message.first_received_ms or 0)
    if message.receive_count > _LARGEST_NUMBER or any(
        abs(time) > _LARGEST_NUMBER for time in times
    ):
        return f"receive counts and times beyond {_LARGEST_NUMBER}"
    return None


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
