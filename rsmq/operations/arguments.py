"""
Arguments of calls, checked and made into what scripts take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from rsmq import protocol
from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, InvalidValue, MessageNotString, MissingParameter, show
from rsmq.model import Message, StoredMessage
from rsmq.protocol import Namespace, QueueKeys

T = TypeVar("T")


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
    wait = b"" if delay is None else digits(protocol.milliseconds("delay", delay))
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
    ms = protocol.milliseconds("dedup_window", window)
    if ms < 1000:  # noqa: PLR2004 - a second, as the next line says
        raise InvalidValue(
            "dedup_window",
            1,
            protocol.MAX_SECONDS,
            value=window,
            hint=f"It is a number of seconds from 1; got {show(window)}.",
        )
    return digits(ms)


def encode_body(body: object, codec: Codec) -> tuple[bytes, int]:
    """The body's bytes, and its size as maxsize counts it."""
    try:
        encoded = codec.encode(body)
        if isinstance(encoded, str):
            return encoded.encode("utf-8"), protocol.utf16_length(encoded)
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
        return keys, protocol.encode_name(message.id), digits(message.receive_count)
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
    return keys, protocol.encode_name(protocol.check_id(id)), b""


class Receipts:
    """
    Messages of a batch, by queue, each with its receive count or without one.

    Attributes:
        names: the queues' names.
        keys: of each queue hash and sorted set.
        args: of each queue how many messages, and of each id and count, and what else is asked.
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
        self._with_sent = with_sent
        self._given: list[str] = []
        queues: dict[QueueKeys, dict[tuple[bytes, bytes], str]] = {}
        if isinstance(messages, str):
            keys = namespace.queue(messages)
            given = queues.setdefault(keys, {})
            for bare in listed("ids", ids):
                given[protocol.encode_name(protocol.check_id(bare)), b""] = bare
        else:
            if ids is not None:
                raise InvalidFormat(
                    "ids", value=show(ids), hint="Give messages, or a queue's name and ids."
                )
            by_name: dict[str, dict[tuple[bytes, bytes], str]] = {}
            for message in listed("messages", messages):
                if not isinstance(message, Message):
                    raise InvalidFormat(
                        "messages",
                        value=message,
                        hint="These are received messages; ids go with the name of their queue: "
                        f"(qname, ids). Got {show(message)}.",
                    )
                of_queue = by_name.get(message.queue)
                if of_queue is None:
                    keys = namespace.queue(message.queue)
                    of_queue = by_name[message.queue] = queues.setdefault(keys, {})
                id = message.id
                of_queue[protocol.encode_name(id), b"%d" % message.receive_count] = id
        self.names = tuple(keys.name for keys in queues)
        self.keys = tuple(key for keys in queues for key in (keys.hash, keys.zset))
        self.args = tuple(self._args(queues))

    def _args(self, queues: Mapping[QueueKeys, Mapping[tuple[bytes, bytes], str]]) -> list[bytes]:
        args = []
        for receipts in queues.values():
            args.append(digits(len(receipts)))
            for (raw_id, count), id in receipts.items():
                self._given.append(id)
                args += raw_id, count
                if self._with_sent:
                    args.append(sent_ms(id))
        return args

    def told(self, reply: bytes, answers: bytes) -> list[str]:
        """The ids for which the script told one of these answers, in the order given."""
        return [id for id, answer in zip(self._given, reply, strict=True) if answer in answers]


def sent_ms(id: str) -> bytes:
    """The ms when a message was sent; empty if its id does not tell."""
    us = protocol.sent_us(id)
    return b"" if us is None else digits(us // 1000)


def listed(item: str, values: Iterable[T] | None) -> list[T]:
    """
    The values of a batch.

    Raises:
        InvalidFormat: it is no iterable, or one of characters.
        InvalidValue: they are more than a batch may have.
    """
    if values is None or isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidFormat(item, value=show(values), hint=f"{item} is a list; got {show(values)}.")
    found = list(values)
    if len(found) > protocol.MAX_BATCH:
        raise InvalidValue(
            f"the number of {item}",
            0,
            protocol.MAX_BATCH,
            value=len(found),
            hint=f"A batch has at most {protocol.MAX_BATCH} messages; got {len(found)}. "
            "Make several calls.",
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
