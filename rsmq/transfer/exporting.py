"""
Export: queues into a file, as they are at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import BinaryIO

from redis.exceptions import ResponseError

from rsmq.client import RSMQ
from rsmq.errors import InvalidFormat, InvalidValue, QueueNotFound
from rsmq.model import QueueAttributes
from rsmq.operations.reading import LookedUp, get_messages, scan_ids
from rsmq.transfer import lines, records
from rsmq.transport.retry import is_of_these_keys
from rsmq.wire.keys import QueueKeys

#: Ids that are looked up at a time.
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class ExportedQueue:
    """
    What was written of a queue.

    Attributes:
        queue: its name.
        messages: how many of its messages.
        ghosts: ids without a body that it has; they are no messages, and not written.
        deleted: whether somebody deleted the queue meanwhile.
    """

    queue: str
    messages: int
    ghosts: int
    deleted: bool


@dataclass(frozen=True, slots=True)
class Exported:
    """
    What an export has written.

    Attributes:
        queues: each of the queues, in order.
        messages: how many messages, of all of them.
        left_out: listed queues that can't be read, each with the reason.
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
    Write queues with their attributes and all their messages; nothing in Redis is changed.

    Producers and consumers may go on. A message that is in its queue all the time is written, and
    none is twice, wherever its visibility timeout moves it meanwhile; one that comes or goes during
    the export may be written or not. Redis is asked in steps of about a thousand messages or 1 MiB.
    The ids of a queue are held in memory while it is written, some 200 bytes each.

    Args:
        rsmq: a client of the namespace.
        names: of the queues, in this order; None takes all that are listed.
        file: where to, as bytes.
        tell: is told how many more messages have been written.

    Raises:
        MissingParameter: a name is None or empty.
        InvalidFormat: a name has other characters.
        InvalidValue: another client stored a vt or delay that is not a number.
        QueueNotFound: there is no queue of a name; nothing has been written then.
    """
    found, left_out = _found(rsmq, names)
    writer = lines.Writer(file)
    now = None
    if found:
        keys = rsmq.namespace.queue(next(iter(found)))
        now = rsmq.run(get_messages(keys, ())).now_ms
    writer.write(
        {
            "type": lines.HEADER,
            "format": lines.FORMAT,
            "rsmq": version("rsmq"),
            "ns": rsmq.namespace.name,
            "exported_ms": now,
        }
    )
    for name, attributes in found.items():
        writer.write(records.of_queue(name, attributes))
    queues = [_write_messages(rsmq, name, writer, tell or (lambda _: None)) for name in found]
    messages = sum(each.messages for each in queues)
    writer.end(len(queues), messages)
    return Exported(tuple(queues), messages, left_out)


def _found(
    rsmq: RSMQ, names: Iterable[str] | None
) -> tuple[dict[str, QueueAttributes], dict[str, str]]:
    if names is not None:
        given = dict.fromkeys([names] if isinstance(names, str) else names)
        return {name: rsmq.get_queue_attributes(name) for name in given}, {}
    found, left_out = {}, {}
    for name in rsmq.list_queues():
        try:
            found[name] = rsmq.get_queue_attributes(name)
        except (InvalidFormat, InvalidValue, QueueNotFound) as error:
            left_out[name] = f"{error}. {error.hint}"
        except ResponseError as error:
            if not is_of_these_keys(error):
                raise
            left_out[name] = " ".join([f"{error}.", *getattr(error, "__notes__", ())])
    return found, left_out


def _write_messages(
    rsmq: RSMQ, name: str, writer: lines.Writer, tell: Callable[[int], None]
) -> ExportedQueue:
    keys = rsmq.namespace.queue(name)
    written = ghosts = 0
    try:
        for looked_up in look_up(rsmq, keys, _ids(rsmq, keys)):
            messages = [message for message in looked_up.messages if message is not None]
            for message in messages:
                writer.write(records.of_message(message))
            written += len(messages)
            ghosts += looked_up.ghosts
            tell(len(messages))
    except QueueNotFound:
        return ExportedQueue(name, written, ghosts, deleted=True)
    return ExportedQueue(name, written, ghosts, deleted=False)


def _ids(rsmq: RSMQ, keys: QueueKeys) -> list[bytes]:
    """All ids of a queue, in its order."""
    scores: dict[bytes, float] = {}
    cursor = b"0"
    while True:
        cursor, found = rsmq.run(scan_ids(keys, cursor))
        scores.update(zip(found[::2], map(float, found[1::2]), strict=True))
        if cursor == b"0":
            return sorted(scores, key=lambda id: (scores[id], id))


def look_up(rsmq: RSMQ, keys: QueueKeys, ids: list[bytes]) -> Iterator[LookedUp]:
    """Look up messages by their ids, page by page."""
    at = 0
    while at < len(ids):
        looked_up = rsmq.run(get_messages(keys, ids[at : at + _PAGE]))
        at += len(looked_up.messages)
        yield looked_up
