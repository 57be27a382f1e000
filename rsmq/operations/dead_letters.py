"""
Operations on dead letters: policies, sweep, redrive and move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from rsmq.errors import (
    InvalidFormat,
    InvalidValue,
    MissingParameter,
    NotReplicated,
    QueueNotFound,
    RSMQError,
    add_remedy,
    show,
)
from rsmq.errors.hints import Argument, Hint, Passed
from rsmq.errors.printable import format_count
from rsmq.model import Message, QueueAttributes, StoredMessage
from rsmq.operations.arguments import Receipts, check_batch, digits
from rsmq.operations.confirmation import Confirm
from rsmq.operations.operation import Operation, RetryClass, Steps, on_queue
from rsmq.operations.queues import get_queue_attributes, list_queues
from rsmq.operations.replies import parse_attributes
from rsmq.operations.scripts import load
from rsmq.operations.walk import Position, parse_next_position, walk_step
from rsmq.wire.ids import check_id, make_redrive_suffixes, mark_if_grouped
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
                hint=Hint(
                    "Pass the number of receives after which a message is a dead letter, as in ",
                    Passed("max_receives", 3),
                    ".",
                ),
            )
        target = _check_other_queue(namespace, "dead_letter_queue", dead_letter_queue, keys)
        limit = check_whole_number("max_receives", max_receives, 1, MAX_RECEIVES)
        queues, args = [keys, target], (encode_name(target.name), digits(limit), own)
    return Operation(
        load("set_dead_letter_policy"),
        (keys.hash, keys.zset, *(each.hash for each in queues[1:])),
        args,
        parse_attributes,
        RetryClass.ALWAYS,
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
    number = check_whole_number("max_messages", max_messages, 1, MAX_BATCH)
    return _sweep("sweep_dead_letters", keys, number)


def sweep_expired(namespace: Namespace, qname: str, max_messages: int) -> Steps[list[str]]:
    """Remove expired messages, or move them to the dead-letter queue; the result is their ids."""
    keys = namespace.queue(qname)
    number = check_whole_number("max_messages", max_messages, 1, MAX_BATCH)
    return _sweep("sweep_expired", keys, number)


def _sweep(script: str, keys: QueueKeys, max_messages: int) -> Steps[list[str]]:
    moved: list[str] = []
    position: Position | None = (b"-inf", b"0")
    while position and len(moved) < max_messages:
        reply = yield walk_step(
            script,
            keys,
            position,
            digits(max_messages - len(moved)),
            keys.namespace,
            retry=RetryClass.ALWAYS,
        )
        moved += map(decode_name, reply[2])
        position = parse_next_position(reply)
    return moved


def redrive_messages(
    namespace: Namespace,
    dead_letters: str | Iterable[Message | StoredMessage],
    destination: str | None,
    ids: Iterable[str] | None = None,
    *,
    max_messages: int | None = None,
    confirmation: Confirm | None = None,
) -> Steps[list[tuple[str, str]]]:
    """Send dead letters as new messages; the result is for each its old and its new id."""
    limit = None
    if max_messages is not None:
        limit = check_whole_number("max_messages", max_messages, 1, 10**9)
    if isinstance(dead_letters, str) and ids is None:
        sources: dict[str, list[_Chosen] | None] = {dead_letters: None}
    else:
        sources = _group_dead_letters(dead_letters, ids)
        if limit is not None:
            raise InvalidFormat(
                "max_messages", value=max_messages, hint="Pass it without messages or ids."
            )
    redrives = []
    for name, chosen in sources.items():
        source = namespace.queue(name)
        target = destination and _check_other_queue(namespace, "destination", destination, source)
        redrives.append(_Redrive(namespace, source, target or None, chosen, limit, confirmation))
    return _redrive(redrives)


def redrive_step(
    namespace: Namespace,
    qname: str,
    destination: str | None,
    *,
    last_ms: int,
    skip: int = 0,
    max_messages: int = _MESSAGES_PER_STEP,
    receipts: Sequence[tuple[str, int]] | None = None,
) -> Steps[tuple[int, int, int]]:
    """
    Redrive some of the dead letters that were visible at a time.

    Args:
        skip: the first ones to leave.
        max_messages: the dead letters to look at, at most 1,000.
        receipts: instead, the ids and receive counts of dead letters.

    Returns:
        How many were looked at, none if it was the last step; how many of them were redriven; and
        how many stay because the queue that they came from is gone. The next step skips those that
        were not redriven.

    Raises:
        MissingParameter: no record says where a message came from, and there is not one source.
    """
    source = namespace.queue(qname)
    target = destination and _check_other_queue(namespace, "destination", destination, source)
    chosen = [(encode_name(id), digits(count)) for id, count in receipts or ()]
    one = _Redrive(namespace, source, target or None, chosen or None, None, None)
    return one.run_step(digits(last_ms), skip, max_messages)


def _group_dead_letters(
    dead_letters: str | Iterable[Message | StoredMessage], ids: Iterable[str] | None
) -> dict[str, list[_Chosen] | None]:
    """Return by queue the ids and receive counts of chosen dead letters, without repetitions."""
    if isinstance(dead_letters, str):
        found = dict.fromkeys(map(check_id, check_batch("ids", ids)))
        return {dead_letters: [(encode_name(id), b"") for id in found]}
    if ids is not None:
        raise InvalidFormat(
            "ids", value=show(ids), hint="Pass messages, or a dead-letter queue's name and ids."
        )
    groups: dict[str, dict[_Chosen, None]] = {}
    for message in check_batch("messages", dead_letters):
        if not isinstance(message, Message | StoredMessage):
            raise InvalidFormat("messages", value=show(message), hint="Pass dead letters.")
        # A stored message was not received, so it has no receipt.
        count = digits(message.receive_count) if isinstance(message, Message) else b""
        groups.setdefault(message.queue, {})[encode_name(message.id), count] = None
    return {queue: list(chosen) for queue, chosen in groups.items()}


#: The id and the receive count of a dead letter to redrive; an empty count is any.
_Chosen: TypeAlias = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class _Redrive:
    """
    A redrive of one dead-letter queue.

    Attributes:
        target: the queue that receives the messages; None is for each the one that it came from.
        chosen: the messages; None are those that are visible.
        limit: the maximum number of visible messages; None is all.
        confirmation: the copies to wait for after each step.
    """

    namespace: Namespace
    source: QueueKeys
    target: QueueKeys | None
    chosen: list[_Chosen] | None
    limit: int | None
    confirmation: Confirm | None

    def run_step(self, last: bytes, skip: int, number: int) -> Steps[tuple[int, int, int]]:
        """Run a step of ``redrive_step``."""
        redriven: list[tuple[str, str]] = []
        if self.target is not None and self.chosen is not None:
            yield from self._redrive_chosen(self.target, self.chosen, redriven)
            return len(self.chosen), len(redriven), 0
        if self.target is not None:
            _, redriven, _ = yield self._step(self.target, number, last)
            return len(redriven), len(redriven), 0
        sources = yield from _find_sources(self.namespace, self.source)
        if self.chosen is None:
            _, origins = yield self._origins(last, skip, number)
        else:
            origins = yield from self._origins_of(self.chosen)
        _, left = yield from self._return(origins, sources, redriven)
        return len(origins), len(redriven), left

    def run(self, redriven: list[tuple[str, str]]) -> Steps[None]:
        """Redrive the messages, and add the old and the new id of each."""
        if self.target is None:
            if self.chosen is None:
                yield from self._return_visible(redriven)
            else:
                yield from self._return_chosen(self.chosen, redriven)
        elif self.chosen is None:
            yield from self._redrive_visible(self.target, redriven)
        else:
            yield from self._redrive_chosen(self.target, self.chosen, redriven)

    def _redrive_visible(self, target: QueueKeys, redriven: list[tuple[str, str]]) -> Steps[None]:
        max_score = b""
        while number := self._number_of_step(redriven):
            now, pairs, _ = yield self._step(target, number, max_score)
            max_score = max_score or now
            if not pairs:
                break
            redriven += pairs

    def _redrive_chosen(
        self, target: QueueKeys, chosen: list[_Chosen], redriven: list[tuple[str, str]]
    ) -> Steps[None]:
        while chosen:
            step = chosen[:_MESSAGES_PER_STEP]
            _, pairs, examined = yield self._step(target, len(step), b"", step)
            redriven += pairs
            chosen = chosen[examined:]

    def _return_visible(self, redriven: list[tuple[str, str]]) -> Steps[None]:
        """Redrive visible messages, each to the queue that it came from."""
        sources = yield from _find_sources(self.namespace, self.source)
        max_score, skip = b"", 0
        missing: QueueNotFound | None = None
        while number := self._number_of_step(redriven):
            now, origins = yield self._origins(max_score, skip, number)
            max_score = max_score or now
            if not origins:
                break
            before = len(redriven)
            new, _ = yield from self._return(origins, sources, redriven)
            missing = new or missing
            skip += len(origins) - len(redriven) + before
        if missing is not None:
            raise missing

    def _return_chosen(self, chosen: list[_Chosen], redriven: list[tuple[str, str]]) -> Steps[None]:
        sources = yield from _find_sources(self.namespace, self.source)
        found = yield from self._origins_of(chosen)
        missing, _ = yield from self._return(found, sources, redriven)
        if missing is not None:
            raise missing

    def _origins_of(self, chosen: list[_Chosen]) -> Steps[list[_Origin]]:
        """Return the chosen messages that are there, and the queues that they came from."""
        found: list[_Origin] = []
        for at in range(0, len(chosen), _MESSAGES_PER_STEP):
            step = chosen[at : at + _MESSAGES_PER_STEP]
            _, origins = yield self._origins(b"", 0, 0, [id for id, _ in step])
            names = {id: name for (id, _), name in origins}
            found += [(each, names[each[0]]) for each in step if each[0] in names]
        return found

    def _return(
        self, origins: list[_Origin], sources: list[QueueKeys], redriven: list[tuple[str, str]]
    ) -> Steps[tuple[QueueNotFound | None, int]]:
        """
        Redrive messages, each to the queue that it came from; else to the only source.

        Returns:
            The error of a queue that does not exist, and the number of messages that stay for it;
            the others are redriven.

        Raises:
            MissingParameter: no record says where a message came from, and there is not one source.
        """
        by_target: dict[str, list[_Chosen]] = {}
        for chosen, name in origins:
            if not name or name == self.source.name:
                if len(sources) != 1:
                    raise _missing_destination(self.source, sources, decode_name(chosen[0]))
                name = sources[0].name  # noqa: PLW2901 - the name that it has now
            by_target.setdefault(name, []).append(chosen)
        lenient = Namespace(self.namespace.name, strict_names=False)
        missing: QueueNotFound | None = None
        left = 0
        for name, chosen_of_target in by_target.items():
            try:
                yield from self._redrive_chosen(lenient.queue(name), chosen_of_target, redriven)
            except QueueNotFound as error:
                if error.value == self.source.name:
                    raise
                if len(sources) == 1 and sources[0].name != name:  # the queue has a new name
                    yield from self._redrive_chosen(sources[0], chosen_of_target, redriven)
                    continue
                missing = error
                left += len(chosen_of_target)
                error.hint = Hint(
                    error.hint or "",
                    ", or pass another queue for its messages as ",
                    Argument("destination"),
                )
        return missing, left

    def _number_of_step(self, redriven: list[tuple[str, str]]) -> int:
        if self.limit is None:
            return _MESSAGES_PER_STEP
        return min(_MESSAGES_PER_STEP, self.limit - len(redriven))

    def _step(
        self, target: QueueKeys, number: int, max_score: bytes, chosen: Sequence[_Chosen] = ()
    ) -> Operation[tuple[bytes, list[tuple[str, str]], int]]:
        suffixes = make_redrive_suffixes(number)
        return Operation(
            load("redrive_messages"),
            (self.source.hash, self.source.zset, target.hash, target.zset),
            (
                max_score,
                b"".join(suffixes),
                _MAX_STEP_BYTES,
                *(value for each in chosen for value in each),
            ),
            partial(_parse_redriven, suffixes),
            RetryClass.NEVER,
            (self.source.name, target.name),
            confirmation=self.confirmation,
        )

    def _origins(
        self, max_score: bytes, skip: int, number: int, ids: Sequence[bytes] = ()
    ) -> Operation[tuple[bytes, list[_Origin]]]:
        return on_queue(
            self.source,
            load("dead_letter_origins"),
            (self.source.hash, self.source.zset),
            (max_score, digits(skip), digits(number), *ids),
            _parse_origins,
        )


#: A dead letter, and the name of the queue that it came from; empty if that is not known.
_Origin: TypeAlias = tuple[_Chosen, str]


def _redrive(redrives: list[_Redrive]) -> Steps[list[tuple[str, str]]]:
    redriven: list[tuple[str, str]] = []
    try:
        for each in redrives:
            yield from each.run(redriven)
    except NotReplicated as error:
        error.result = [*redriven, *error.result[1]]
        number = len(error.result)
        add_remedy(
            error, f"{format_count(number)} redriven; redrive again for those that are left."
        )
        raise
    except Exception as error:
        if redriven:
            error.add_note(f"{format_count(len(redriven))} redriven before this.")
        raise
    return redriven


def _parse_redriven(suffixes: list[bytes], reply: Any) -> tuple[bytes, list[tuple[str, str]], int]:
    """
    Return the time of the step, for each message its old and its new id, and how many of the chosen
    messages were examined.
    """
    now, time, ids, examined = reply
    pairs = [
        (decode_name(old), (time + mark_if_grouped(suffix, old)).decode("ascii"))
        for old, suffix in zip(ids, suffixes, strict=False)
    ]
    return now, pairs, examined


def _parse_origins(reply: Any) -> tuple[bytes, list[_Origin]]:
    now, values = reply
    return now, [
        ((id, count), decode_name(name))
        for id, count, name in zip(values[::3], values[1::3], values[2::3], strict=True)
    ]


def _find_sources(namespace: Namespace, target: QueueKeys) -> Steps[list[QueueKeys]]:
    """
    Return the queues whose policies name this dead-letter queue.

    Raises:
        QueueNotFound: the dead-letter queue does not exist.
    """
    sources: list[QueueKeys] = []
    yield get_queue_attributes(namespace, target.name)  # raises QueueNotFound
    queues = _listed_queue_keys(namespace, (yield list_queues(namespace)))
    for at in range(0, len(queues), _QUEUES_PER_STEP):
        chunk = queues[at : at + _QUEUES_PER_STEP]
        indexes = yield on_queue(
            target,
            load("dead_letter_sources"),
            tuple(keys.hash for keys in chunk),
            (encode_name(target.name),),
            lambda reply: reply,
        )
        sources += [chunk[index] for index in indexes]
    return sources


def _missing_destination(target: QueueKeys, sources: list[QueueKeys], id: str) -> MissingParameter:
    names = ", ".join(show(keys.name) for keys in sources) or "No queue"
    missing = MissingParameter(
        "destination",
        hint=Hint(
            f"{names} of this namespace has {show(target.name)} as its dead-letter queue, and no "
            f"record says from which queue message {show(id)} came. Pass the queue for the "
            "messages, as in ",
            Passed("destination", "orders"),
            ".",
        ),
    )
    missing.value = [keys.name for keys in sources]
    return missing


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
    confirmation: Confirm | None = None,
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
        RetryClass.NEVER,
        (*receipts.names, target.name),
        confirmation=confirmation,
    )
