"""
Checks of arguments, and the conversion of arguments to those of scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from rsmq.codecs import CannotEncode, Codec
from rsmq.errors import (
    BodyUnavailable,
    InvalidFormat,
    InvalidValue,
    MessageNotString,
    MissingParameter,
    show,
    show_type,
)
from rsmq.model import Message, StoredMessage
from rsmq.wire.ids import check_id, parse_sent_us
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH, Seconds, to_milliseconds, utf16_length
from rsmq.wire.names import NOT_ENCODABLE, encode_name, encode_names

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_ANY_COUNT: Any = object()  # in place of a receive count, for bare ids

# By the queue's name and the receive count: ids, each with its position in the argument.
_Groups: TypeAlias = dict[tuple[str, int], dict[str, int]]


def digits(number: int) -> bytes:
    """Return an integer as decimal digits."""
    return b"%d" % number


#: The delay of messages that are sent to the front, in the format of ``send_message.lua``.
FRONT = b"front"


def encode_time(deliver_at: object) -> bytes:
    """
    Return a time of delivery in the format of ``send_message.lua``.

    Raises:
        InvalidFormat: it is not an aware datetime.
    """
    if not isinstance(deliver_at, datetime):
        raise InvalidFormat(
            "deliver_at",
            value=show(deliver_at),
            hint="Pass an aware datetime. For seconds from now, use delay.",
        )
    if deliver_at.utcoffset() is None:
        raise InvalidFormat(
            "deliver_at",
            value=deliver_at,
            hint="Give the datetime a time zone, as in datetime.now(UTC), or as in "
            "deliver_at.astimezone() for local time.",
        )
    ms = -((_EPOCH - deliver_at) // _MILLISECOND)  # rounded up: never before that time
    return b"at %015d" % max(ms, 0)


def encode_vt(vt: Seconds | None) -> bytes:
    """
    Return the visibility timeout of a receive: ms, or "" for the queue's vt.

    Raises:
        InvalidValue: it is out of range.
    """
    return b"" if vt is None else digits(to_milliseconds("vt", vt))


def encode_body(body: object, codec: Codec) -> tuple[bytes, int]:
    """
    Return the body's bytes, and its size as maxsize counts it.

    The caller checks the number of bytes; a batch checks it once for all its bodies.

    Raises:
        MessageNotString: the codec can't encode the body, or does not return str or bytes.
        BodyUnavailable: the codec can't reach a key or the like now.
    """
    try:
        encoded = codec.encode(body)
        if isinstance(encoded, str):
            return encoded.encode("utf-8"), utf16_length(encoded)
        if isinstance(encoded, bytes):
            return encoded, len(encoded)
    except CannotEncode as error:
        raise MessageNotString(value=show(body), summary=str(error), hint=error.hint) from error
    except BodyUnavailable:
        raise
    except Exception as error:
        # Not the text of the error: it may contain the body.
        raise MessageNotString(
            value=show(body),
            summary=f"{show(codec)} can't encode {type(body).__name__} ({type(error).__name__})",
            hint=NOT_ENCODABLE if isinstance(error, UnicodeEncodeError) else None,
        ) from error
    raise MessageNotString(
        value=show(body),
        summary=f"{show(codec)} encoded the body to {type(encoded).__name__}",
        hint="A codec encodes to str or bytes.",
    )


def resolve_message(
    namespace: Namespace, message: Message | str, id: str | None
) -> tuple[QueueKeys, bytes, bytes]:
    """
    Return the queue's keys, the id and the receive count of the message to be changed.

    The count of a bare id is empty: the operation then ignores who received the message, as in
    Node.

    Raises:
        MissingParameter: the name or the id is None or empty.
        InvalidFormat: the name or the id has other characters, or an argument has the wrong type.
    """
    if isinstance(message, Message):
        if id is not None:
            raise InvalidFormat(
                "id", value=id, hint="Pass a Message, or a queue's name and an id, not both."
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
            hint="A StoredMessage was read, not received, so it is not a receipt. Pass its queue "
            "and id to act on it whichever consumer has received it.",
        )
    if message is None:
        raise MissingParameter(
            "qname",
            value=None,
            hint="A receive returns None if no message is due: check for None first.",
        )
    if isinstance(id, Message):
        raise InvalidFormat("id", value=id, hint="Pass the Message alone; it knows its queue.")
    keys = namespace.queue(message)
    if id is None:
        raise MissingParameter(
            "id",
            hint="Pass the Message that was received, or the name of the queue and the id: "
            "(qname, id).",
        )
    return keys, encode_name(check_id(id)), b""


class GroupedReceipts(dict[tuple[str, Any], dict[str, int]]):
    """The positions of received messages by id, and these by queue and receive count."""


class Receipts:
    """
    The messages of a batch, in groups with the same queue and receive count, or without a count.

    Attributes:
        keys: for each group the hash and the sorted set of its queue.
        args: the groups in the format of ``receipts.lua``.
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
        Group messages, or a queue's name and ids. Repeated messages count once.

        Args:
            messages: received messages of any queues; or the name of the queue, with ids.
            ids: bare ids.
            with_sent: if True, the ms of the send, taken from its id, follows each id.

        Raises:
            MissingParameter: a name or an id is None or empty.
            InvalidFormat: a name or an id has other characters, or an argument has the wrong type.
            InvalidValue: there are more messages than a batch may have.
        """
        if isinstance(messages, str):
            namespace.queue(messages)
            bare_ids = dict.fromkeys(map(check_id, check_batch("ids", ids)), 0)
            self._groups: _Groups = {(messages, _ANY_COUNT): bare_ids}
        elif isinstance(messages, GroupedReceipts):
            self._groups = messages
        elif ids is None:
            self._groups = _group_by_receipt(check_batch("messages", messages))
        else:
            raise InvalidFormat(
                "ids", value=show(ids), hint="Pass messages, or a queue's name and ids."
            )
        queues = [namespace.queue(qname) for qname, _ in self._groups]
        self.names = tuple(dict.fromkeys(keys.name for keys in queues))
        self.keys = tuple(key for keys in queues for key in (keys.hash, keys.zset))
        args: list[bytes] = []
        for (_, count), group in self._groups.items():
            args += digits(len(group)), b"" if count is _ANY_COUNT else b"%d" % count
            if with_sent:
                args += [arg for id in group for arg in (encode_name(id), encode_sent_ms(id))]
            else:
                args += encode_names(group)
        self.args = tuple(args)

    def select_ids(self, reply: bytes, accepted: bytes) -> list[str]:
        """
        Return the ids with an accepted answer, by queue in the order of the argument.

        Args:
            reply: the script's reply, a digit for each message.
            accepted: the accepted digits.
        """
        answers = iter(reply)
        by_queue: dict[str, list[tuple[int, str]]] = {}
        for (qname, _), group in self._groups.items():
            if len(self._groups) == 1:
                return [id for id, answer in zip(group, answers, strict=True) if answer in accepted]
            by_queue.setdefault(qname, []).extend(
                (position, id)
                for (id, position), answer in zip(group.items(), answers, strict=False)
                if answer in accepted
            )
        return [id for found in by_queue.values() for _, id in sorted(found)]


def _group_by_receipt(messages: Iterable[Message]) -> _Groups:
    groups: _Groups = {}
    group: dict[str, int] | None = None
    queue = count = None
    for position, message in enumerate(messages):
        if not isinstance(message, Message):
            raise InvalidFormat(
                "messages",
                value=show(message),
                hint="Pass messages that were received, or the name of the queue and the ids: "
                "(qname, ids).",
            )
        if group is None or message.receive_count != count or message.queue != queue:
            queue, count = message.queue, message.receive_count
            group = groups.setdefault((queue, count), {})
        group.setdefault(message.id, position)
    return groups


def encode_sent_ms(id: str) -> bytes:
    """Return the ms of the send; empty if the id contains no time."""
    us = parse_sent_us(id)
    return b"" if us is None else digits(us // 1000)


def check_batch(item: str, values: Iterable[T] | None) -> list[T]:
    """
    Return the values of a batch as a list.

    Raises:
        InvalidFormat: it is not an iterable, or it is a str, bytes or a mapping.
        InvalidValue: it has more values than a batch may have.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidFormat(item, value=show_type(values), hint="Pass a list.")
    found = list(values)
    if len(found) > MAX_BATCH:
        raise InvalidValue(
            f"the number of {item}",
            0,
            MAX_BATCH,
            value=len(found),
            hint="Make several calls.",
        )
    return found


def resolve_queues(namespace: Namespace, qnames: str | Iterable[str]) -> list[QueueKeys]:
    """
    Return the keys of one queue or several; repeated names count once.

    Raises:
        MissingParameter: a name is None or empty, or there are no names.
        InvalidFormat: a name has other characters.
        InvalidValue: there are more names than a batch may have.
    """
    if qnames is None or isinstance(qnames, str | bytes):
        return [namespace.queue(qnames)]
    found = list(dict.fromkeys(map(namespace.queue, check_batch("qnames", qnames))))
    if not found:
        raise MissingParameter("qname", value=[], hint="Pass the name of at least one queue.")
    return found
