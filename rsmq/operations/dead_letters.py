"""
Operations on dead letters: policies, sweep, redrive and move.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from rsmq.errors import (
    InvalidFormat,
    InvalidValue,
    MissingParameter,
    NotReplicated,
    RSMQError,
    add_remedy,
    show,
)
from rsmq.lua.load import load
from rsmq.model import Message, QueueAttributes
from rsmq.operations.arguments import Receipts, digits
from rsmq.operations.confirmation import Confirmation
from rsmq.operations.operation import Operation, Retry, Steps
from rsmq.operations.queues import get_queue_attributes, list_queues
from rsmq.operations.replies import parse_attributes
from rsmq.operations.walk import Position, parse_next_position, walk_step
from rsmq.wire.ids import make_id_suffixes
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH, MAX_RECEIVES, check_whole_number
from rsmq.wire.names import decode_name, encode_name

_MESSAGES_PER_STEP = 1000
_QUEUES_PER_STEP = 1000
_MAX_STEP_BYTES = digits(1024 * 1024)


def set_dead_letter_policy(
    namespace: Namespace, qname: str, dead_letter_queue: str | None, max_receives: int | None
) -> Operation[QueueAttributes]:
    """Set the dead-letter policy of a queue, or remove it."""
    keys = namespace.queue(qname)
    own = encode_name(keys.name)
    queues, args = [keys], (b"", b"", own)
    if dead_letter_queue is None:
        if max_receives is not None:
            raise InvalidFormat(
                "max_receives",
                value=max_receives,
                hint="dead_letter_queue=None removes the policy, which then has no limit.",
            )
    else:
        if max_receives is None:
            raise InvalidValue(
                "max_receives",
                1,
                MAX_RECEIVES,
                value=None,
                hint="Pass the number of receives after which a message is a dead letter, as in "
                "max_receives=3.",
            )
        target = _check_other_queue(namespace, "dead_letter_queue", dead_letter_queue, keys)
        limit = check_whole_number("max_receives", max_receives, 1, MAX_RECEIVES)
        queues, args = [keys, target], (encode_name(target.name), digits(limit), own)
    return Operation(
        load("set_dead_letter_policy"),
        (keys.hash, keys.zset, *(each.hash for each in queues[1:])),
        args,
        parse_attributes,
        Retry.ALWAYS,
        tuple(each.name for each in queues),
    )


def _check_other_queue(namespace: Namespace, item: str, qname: str, keys: QueueKeys) -> QueueKeys:
    other = namespace.queue(qname)
    if other == keys:
        raise InvalidFormat(item, value=qname, hint="Pass another queue.")
    return other


def sweep_dead_letters(namespace: Namespace, qname: str, max_messages: int) -> Steps[list[str]]:
    """Move messages received as often as the policy allows; the result is the ids moved."""
    keys = namespace.queue(qname)
    return _sweep(keys, check_whole_number("max_messages", max_messages, 1, MAX_BATCH))


def _sweep(keys: QueueKeys, max_messages: int) -> Steps[list[str]]:
    moved: list[str] = []
    position: Position | None = (b"-inf", b"0")
    while position and len(moved) < max_messages:
        reply = yield walk_step(
            "sweep_dead_letters",
            keys,
            position,
            digits(max_messages - len(moved)),
            keys.namespace,
            retry=Retry.ALWAYS,
        )
        moved += map(decode_name, reply[2])
        position = parse_next_position(reply)
    return moved


def redrive_messages(
    namespace: Namespace,
    dead_letter_queue: str,
    destination: str | None,
    max_messages: int | None,
    confirmation: Confirmation | None = None,
) -> Steps[list[tuple[str, str]]]:
    """Send dead letters as new messages; the result is for each its old and its new id."""
    source = namespace.queue(dead_letter_queue)
    target = destination and _check_other_queue(namespace, "destination", destination, source)
    limit = None
    if max_messages is not None:
        limit = check_whole_number("max_messages", max_messages, 1, 10**9)
    return _redrive(namespace, source, target or None, limit, confirmation)


def _redrive(
    namespace: Namespace,
    source: QueueKeys,
    target: QueueKeys | None,
    limit: int | None,
    confirmation: Confirmation | None,
) -> Steps[list[tuple[str, str]]]:
    if target is None:
        target = yield from _find_source(namespace, source)
    redriven: list[tuple[str, str]] = []
    max_score = b""
    try:
        while limit is None or len(redriven) < limit:
            number = (
                _MESSAGES_PER_STEP
                if limit is None
                else min(_MESSAGES_PER_STEP, limit - len(redriven))
            )
            suffixes = make_id_suffixes(number)
            now, pairs = yield Operation(
                load("redrive_messages"),
                (source.hash, source.zset, target.hash, target.zset),
                (max_score, b"".join(suffixes), _MAX_STEP_BYTES),
                partial(_parse_redriven, suffixes),
                Retry.NEVER,
                (source.name, target.name),
                confirmation=confirmation,
            )
            max_score = max_score or now
            if not pairs:
                break
            redriven += pairs
    except NotReplicated as error:
        error.result = [*redriven, *error.result[1]]
        number = len(error.result)
        add_remedy(
            error, f"{number} messages were redriven; redrive again for those that are left."
        )
        raise
    except Exception as error:
        if redriven:
            error.add_note(f"{len(redriven)} messages had been redriven before this.")
        raise
    return redriven


def _parse_redriven(suffixes: list[bytes], reply: Any) -> tuple[bytes, list[tuple[str, str]]]:
    """Return the time of the step, and for each message its old and its new id."""
    now, time, ids = reply
    return now, [
        (decode_name(old), (time + suffix).decode("ascii"))
        for old, suffix in zip(ids, suffixes, strict=False)
    ]


def _find_source(namespace: Namespace, target: QueueKeys) -> Steps[QueueKeys]:
    """
    Return the only queue whose policy names this dead-letter queue.

    Raises:
        MissingParameter: there is none, or more than one.
        QueueNotFound: the dead-letter queue does not exist.
    """
    sources: list[QueueKeys] = []
    yield get_queue_attributes(namespace, target.name)  # raises QueueNotFound
    queues = _listed_queue_keys(namespace, (yield list_queues(namespace)))
    for at in range(0, len(queues), _QUEUES_PER_STEP):
        chunk = queues[at : at + _QUEUES_PER_STEP]
        indexes = yield Operation(
            load("dead_letter_sources"),
            tuple(keys.hash for keys in chunk),
            (encode_name(target.name),),
            lambda reply: reply,
            Retry.ALWAYS,
            (target.name,),
        )
        sources += [chunk[index] for index in indexes]
    if len(sources) == 1:
        return sources[0]
    names = ", ".join(show(keys.name) for keys in sources) or "No queue"
    missing = MissingParameter(
        "destination",
        hint=f"{names} of this namespace has {show(target.name)} as its dead-letter queue. Pass "
        "the queue for the messages, as in destination='orders'.",
    )
    missing.value = [keys.name for keys in sources]
    raise missing


def _listed_queue_keys(namespace: Namespace, names: Iterable[str]) -> list[QueueKeys]:
    """Return the keys of listed queues, without names that can't be those of queues."""
    lenient = Namespace(namespace.name, strict_names=False)
    queues = []
    for name in names:
        try:
            queues.append(lenient.queue(name))
        except RSMQError:
            continue
    return queues


def move_messages(
    namespace: Namespace,
    messages: Iterable[Message] | str,
    destination: str,
    ids: Any,
    confirmation: Confirmation | None = None,
) -> Operation[list[str]]:
    """Move messages to another queue by receipts or bare ids; the result is the ids moved."""
    receipts = Receipts(namespace, messages, ids)
    target = namespace.queue(destination)
    for name in receipts.names:
        _check_other_queue(namespace, "destination", destination, namespace.queue(name))
    return Operation(
        load("move_messages"),
        (target.hash, target.zset, *receipts.keys),
        receipts.args,
        lambda reply: receipts.select_ids(reply, b"1"),
        Retry.NEVER,
        (*receipts.names, target.name),
        confirmation=confirmation,
    )
