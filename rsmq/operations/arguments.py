"""
Checks of arguments, and their form in scripts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, InvalidValue, MessageNotString, MissingParameter, show
from rsmq.model import Message, StoredMessage
from rsmq.wire.ids import check_id, parse_sent_us
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH, MAX_SECONDS, to_milliseconds, utf16_length
from rsmq.wire.names import encode_name, encode_names

T = TypeVar("T")

_ANY: Any = object()  # for ids that come without a receive count

# By a queue's name and a receive count: ids, each with its place among what was given.
_Groups: TypeAlias = dict[tuple[str, int], dict[str, int]]


def digits(number: int) -> bytes:
    """A number as it is written."""
    return b"%d" % number


def waiting(delay: float | None, *, front: bool) -> bytes:
    """
    How long a new message waits: ms, nothing for the queue's delay, or a word for the front.

    Raises:
        InvalidValue: delay is out of range.
        InvalidFormat: there is a delay for the front.
    """
    wait = b"" if delay is None else digits(to_milliseconds("delay", delay))
    if not front:
        return wait
    if wait.strip(b"0"):
        raise InvalidFormat(
            "delay",
            value=delay,
            hint=f"front=True means before all that wait now; delay={show(delay)} means later. "
            "Give one of them.",
        )
    return b"front"


def dedup_ms(window: float) -> bytes:
    """
    The window of a dedup_id, as ms.

    Raises:
        InvalidValue: it is not from 1 to 9,999,999 s.
    """
    ms = to_milliseconds("dedup_window", window)
    if ms < 1000:  # noqa: PLR2004 - a second, as the next line says
        raise InvalidValue(
            "dedup_window",
            1,
            MAX_SECONDS,
            value=window,
            hint=f"It is a number of seconds from 1; got {show(window)}.",
        )
    return digits(ms)


def encode_body(body: object, codec: Codec) -> tuple[bytes, int]:
    """
    Return the body's bytes, and its size as maxsize counts it.

    The caller checks the number of bytes, a batch once for all its bodies.
    """
    try:
        encoded = codec.encode(body)
        if isinstance(encoded, str):
            return encoded.encode("utf-8"), utf16_length(encoded)
        if isinstance(encoded, bytes):
            return encoded, len(encoded)
    except Exception as error:
        raise MessageNotString(
            value=show(body), hint=f"{show(codec)} can't encode {type(body).__name__}: {error}."
        ) from error
    raise MessageNotString(
        value=show(body),
        hint=f"{show(codec)} must encode to str or bytes, not {type(encoded).__name__}.",
    )


def target(
    namespace: Namespace, message: Message | str, id: str | None
) -> tuple[QueueKeys, bytes, bytes]:
    """
    Queue, id and receive count of what is to be changed.

    A bare id has no count: it acts whoever holds the message, as Node does.
    """
    if isinstance(message, Message):
        if id is not None:
            raise InvalidFormat(
                "id", value=id, hint="Give a Message, or a queue's name and an id, not both."
            )
        keys = namespace.queue(message.queue)
        return (
            keys,
            message.id.encode("utf-8", "surrogateescape"),
            b"%d" % message.receive_count,
        )
    if isinstance(message, StoredMessage):
        raise InvalidFormat(
            "id",
            value=message,
            hint="A StoredMessage was looked up, not received, and is no receipt. "
            "Give its queue and id to act whoever holds it.",
        )
    if message is None:
        raise MissingParameter(
            "qname",
            hint="Got None, which a receive returns when no message is due: test it before.",
        )
    if isinstance(id, Message):
        raise InvalidFormat("id", value=id, hint="Give the Message alone; it knows its queue.")
    keys = namespace.queue(message)
    return keys, encode_name(check_id(id)), b""


class Receipts:
    """
    Messages of a batch, in groups of one queue and one receive count, or without a count.

    Attributes:
        names: the queues' names.
        keys: of each group hash and sorted set of its queue.
        args: the groups, as ``receipts.lua`` has them.
    """

    def __init__(
        self,
        namespace: Namespace,
        messages: Iterable[Message] | str,
        ids: Iterable[str] | None,
        *,
        with_sent: bool = False,
    ) -> None:
        """
        Take messages, or a queue's name and ids; each is taken once.

        Args:
            namespace: whose queues they are.
            messages: received messages, of any queues; or the name of the queue, with ids.
            ids: bare ids.
            with_sent: True adds to each the ms when it was sent, as its id tells.

        Raises:
            MissingParameter, InvalidFormat: name, id or message is not what it must be.
            InvalidValue: there are too many.
        """
        if isinstance(messages, str):
            namespace.queue(messages)
            bare = dict.fromkeys(map(check_id, listed("ids", ids)), 0)
            self._groups: _Groups = {(messages, _ANY): bare}
        elif ids is None:
            self._groups = _grouped(listed("messages", messages))
        else:
            raise InvalidFormat(
                "ids", value=show(ids), hint="Give messages, or a queue's name and ids."
            )
        queues = [namespace.queue(qname) for qname, _ in self._groups]
        self.names = tuple(dict.fromkeys(keys.name for keys in queues))
        self.keys = tuple(key for keys in queues for key in (keys.hash, keys.zset))
        args: list[bytes] = []
        for (_, count), group in self._groups.items():
            args += digits(len(group)), b"" if count is _ANY else b"%d" % count
            if with_sent:
                args += [arg for id in group for arg in (encode_name(id), sent_ms(id))]
            else:
                args += encode_names(group)
        self.args = tuple(args)

    def told(self, reply: bytes, answers: bytes) -> list[str]:
        """The ids for which the script told one of these answers, by queue in the order given."""
        answered = iter(reply)
        by_queue: dict[str, list[tuple[int, str]]] = {}
        for (qname, _), group in self._groups.items():
            if len(self._groups) == 1:
                return [id for id, answer in zip(group, answered, strict=True) if answer in answers]
            by_queue.setdefault(qname, []).extend(
                (place, id)
                for (id, place), answer in zip(group.items(), answered, strict=False)
                if answer in answers
            )
        return [id for of_queue in by_queue.values() for _, id in sorted(of_queue)]


def _grouped(messages: Iterable[Message]) -> _Groups:
    groups: _Groups = {}
    group: dict[str, int] | None = None
    queue = count = None
    for place, message in enumerate(messages):
        if not isinstance(message, Message):
            raise InvalidFormat(
                "messages",
                value=message,
                hint="These are received messages; ids go with the name of their queue: "
                f"(qname, ids). Got {show(message)}.",
            )
        if group is None or message.receive_count != count or message.queue != queue:
            queue, count = message.queue, message.receive_count  # seldom, within a batch
            group = groups.setdefault((queue, count), {})
        group.setdefault(message.id, place)
    return groups


def sent_ms(id: str) -> bytes:
    """The ms when a message was sent; empty if its id does not tell."""
    us = parse_sent_us(id)
    return b"" if us is None else digits(us // 1000)


def listed(item: str, values: Iterable[T] | None) -> list[T]:
    """
    The values of a batch.

    Raises:
        InvalidFormat: it is not an iterable, or one of characters.
        InvalidValue: they are more than a batch may have.
    """
    if values is None or isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidFormat(item, value=show(values), hint=f"{item} is a list; got {show(values)}.")
    found = list(values)
    if len(found) > MAX_BATCH:
        raise InvalidValue(
            f"the number of {item}",
            0,
            MAX_BATCH,
            value=len(found),
            hint=f"A batch has at most {MAX_BATCH} messages; got {len(found)}. Make several calls.",
        )
    return found


def queues_of(namespace: Namespace, qnames: str | Iterable[str]) -> list[QueueKeys]:
    """
    One queue or several, each once.

    Raises:
        MissingParameter: a name is None or empty, or there is none.
        InvalidFormat: a name has other characters.
        InvalidValue: they are too many.
    """
    if qnames is None or isinstance(qnames, str | bytes):
        return [namespace.queue(qnames)]
    found = list(dict.fromkeys(map(namespace.queue, listed("qnames", qnames))))
    if not found:
        raise MissingParameter("qname", value=[], hint="Give at least one queue's name.")
    return found
