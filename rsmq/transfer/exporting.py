"""
Export: writes queues and their messages to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from redis.exceptions import ResponseError

from rsmq import __version__
from rsmq._sync.client import RSMQ
from rsmq.codecs.stored import leave_namespace
from rsmq.errors import InvalidFormat, InvalidValue, QueueNotFound
from rsmq.errors.hints import Hint
from rsmq.figures.left_behind import LeftBehind
from rsmq.model import QueueAttributes, StoredMessage
from rsmq.operations.copying import read_fields
from rsmq.operations.plain import plain_command
from rsmq.operations.reading import LookupResult, get_messages, read_records, scan_ids
from rsmq.transfer import lines, records
from rsmq.transport.retry import is_limited_to_keys
from rsmq.vocabulary.stored import MESSAGE_RECORDS, Carrier, FoundRecord
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import decode_name, encode_name

#: The number of ids that are looked up at a time.
_PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class ExportedQueue:
    """
    The result of the export of one queue.

    Attributes:
        queue: the name of the queue.
        messages: the number of messages that were written.
        ghosts: the number of ids without a body in the queue; they are not written.
        deleted: whether the queue was deleted during the export.
        left_behind: the facts beside messages that are not in the file, by their names in
            ``rsmq.vocabulary.stored``, such as ``unique_key``.
    """

    queue: str
    messages: int
    ghosts: int
    deleted: bool
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exported:
    """
    The result of an export.

    Attributes:
        queues: the queues, in the order in which they were written.
        messages: the number of messages that were written, of all queues.
        left_out: the listed queues that can't be read, each with the reason.
    """

    queues: tuple[ExportedQueue, ...]
    messages: int
    left_out: dict[str, str]


def export_queues(
    rsmq: RSMQ,
    names: Iterable[str] | None,
    file: BinaryIO,
    *,
    tell: Callable[[int], None] | None = None,
) -> Exported:
    """
    Write queues with their attributes and all their messages. Nothing in Redis changes.

    Producers and consumers may run during the export. A message that is in its queue during the
    whole export is written once, also if its visibility timeout changes meanwhile. A message that
    is added or removed during the export may be written or not. Redis is read in steps of about a
    thousand messages or 1 MiB. The ids of one queue are held in memory, about 200 bytes each.

    Args:
        rsmq: a client of the namespace.
        names: the names of the queues, which are written in this order; None writes all that are
            listed.
        file: the binary file to write to.
        tell: is called after each step with the number of messages that it has written.

    Returns:
        The result.

    Raises:
        MissingParameter: a name is None or empty.
        InvalidFormat: a name has characters that are not allowed.
        InvalidValue: another client stored a vt or delay that is not a number.
        QueueNotFound: a queue does not exist; nothing has been written then.
        NotPossible: the body of a message is stored elsewhere, and the codec of the client is not
            the ``Stored`` that loads it.
        BodyUnavailable: its store does not answer.
    """
    found, left_out = _read_queues(rsmq, names)
    writer = lines.Writer(file)
    now = None
    if found:
        keys = rsmq.namespace.queue(next(iter(found)))
        now = rsmq.run(get_messages(keys, ())).now_ms
    writer.write(
        {
            "type": lines.HEADER,
            "format": lines.FORMAT,
            "rsmq": __version__,
            "ns": rsmq.namespace.name,
            "exported_ms": now,
        }
    )
    for name, attributes in found.items():
        fields = rsmq.run(read_fields(rsmq.namespace.queue(name).hash))
        writer.write(records.make_queue_record(name, attributes, fields))
    queues = [_write_messages(rsmq, name, writer, tell or (lambda _: None)) for name in found]
    messages = sum(each.messages for each in queues)
    writer.end(len(queues), messages)
    return Exported(tuple(queues), messages, left_out)


def _read_queues(
    rsmq: RSMQ, names: Iterable[str] | None
) -> tuple[dict[str, QueueAttributes], dict[str, str]]:
    if names is not None:
        distinct = dict.fromkeys([names] if isinstance(names, str) else names)
        return {name: rsmq.get_queue_attributes(name) for name in distinct}, {}
    found: dict[str, QueueAttributes] = {}
    left_out: dict[str, str] = {}
    for name in rsmq.list_queues():
        try:
            found[name] = rsmq.get_queue_attributes(name)
        except (InvalidFormat, InvalidValue, QueueNotFound) as error:
            left_out[name] = Hint(error)
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            left_out[name] = str(error)
    return found, left_out


def _write_messages(
    rsmq: RSMQ, name: str, writer: lines.Writer, report_progress: Callable[[int], None]
) -> ExportedQueue:
    keys = rsmq.namespace.queue(name)
    written = ghosts = 0
    left = LeftBehind(rsmq, Carrier.EXPORT, keys.zset, keys.hash)
    try:
        for looked_up in look_up(rsmq, keys, _read_ids(rsmq, keys)):
            messages = [message for message in looked_up.messages if message is not None]
            left.look_at([encode_name(message.id) for message in messages])
            found = _read_records(rsmq, keys, messages)
            for message in messages:
                raw = leave_namespace(message.raw, keys.zset, rsmq.codec)
                record = records.make_message_record(message, raw, found.get(message.id, {}))
                writer.write(record)
            written += len(messages)
            ghosts += looked_up.ghosts
            report_progress(len(messages))
    except QueueNotFound:
        return ExportedQueue(name, written, ghosts, deleted=True)
    names = tuple(left.reasons)
    return ExportedQueue(name, written, ghosts, deleted=False, left_behind=names)


def _read_records(
    rsmq: RSMQ, keys: QueueKeys, messages: list[StoredMessage]
) -> dict[str, dict[str, FoundRecord]]:
    """Return the records of each message that has some, by its id and by their keys."""

    def hmget(key: bytes, fields: Sequence[bytes]) -> Sequence[bytes | None]:
        found: Sequence[bytes | None] = rsmq.run(plain_command("HMGET", key, *fields))
        return found

    ids = [encode_name(each.id) for each in messages]
    found: dict[str, dict[str, FoundRecord]] = {}
    for record in MESSAGE_RECORDS:
        try:
            of_messages = read_records(record, hmget, keys.zset, keys.hash, ids)
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            continue  # without the right to the key of the records, messages have none
        for id, each in of_messages.items():
            found.setdefault(decode_name(id), {})[record.key] = each
    return found


def _read_ids(rsmq: RSMQ, keys: QueueKeys) -> list[bytes]:
    """Return all ids of a queue, sorted by score and id."""
    scores: dict[bytes, float] = {}
    cursor = b"0"
    while True:
        cursor, found = rsmq.run(scan_ids(keys, cursor))
        scores.update(zip(found[::2], map(float, found[1::2]), strict=True))
        if cursor == b"0":
            return sorted(scores, key=lambda id: (scores[id], id))


def look_up(rsmq: RSMQ, keys: QueueKeys, ids: list[bytes]) -> Iterator[LookupResult]:
    """Look up messages by their ids, and yield them in pages."""
    start = 0
    while start < len(ids):
        looked_up = rsmq.run(get_messages(keys, ids[start : start + _PAGE_SIZE]))
        start += len(looked_up.messages)
        yield looked_up
