"""
The reader of many queues: one script for each step, with the facts that a caller wants.

A step takes Redis about half a millisecond. Between two steps Redis is free for others, while the
process converts what the last one has read. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from rsmq.errors import InvalidFormat, MissingParameter
from rsmq.figures.facts import NEW_SECONDS, RECEIPTS, QueueFact, T
from rsmq.figures.operations import load
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Steps, on_keys
from rsmq.transport.retry import is_limited_to_keys
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import encode_name

#: Hidden messages of a queue that are counted at most, and the next ones that are looked at.
_SAMPLE, _NEXT = 100, 50
#: Receipts that one script looks at.
_RECEIPTS_PER_STEP = 500

#: The id and the receive count of a message.
Receipt = tuple[str, int]


@dataclass(slots=True)  # not frozen: there is one for each of many queues
class ReadFacts:
    """The facts of a queue, as they were read at one time."""

    now_ms: int
    _values: dict[QueueFact[Any], Any]

    def __getitem__(self, fact: QueueFact[T]) -> T:
        """Return a fact; raises KeyError if it was not asked for, or if the queue lacks it."""
        value: T = self._values[fact]
        return value

    def __contains__(self, fact: QueueFact[Any]) -> bool:
        """Return whether a fact was read, and the queue has it."""
        return fact in self._values

    def get(self, fact: QueueFact[T]) -> T | None:
        """Return a fact, or None."""
        return self._values.get(fact)


def read_queues(
    namespace: Namespace,
    queues: Sequence[QueueKeys],
    facts: Sequence[QueueFact[Any]],
    receipts: Mapping[str, Sequence[Receipt]] | None = None,
) -> Operation[dict[str, ReadFacts]]:
    """
    Read facts of some queues at one moment.

    Args:
        queues: the queues, of this namespace.
        receipts: for the fact ``RECEIPTS``, those of each queue.

    Returns:
        The facts by the names of the queues, without queues that have none of them: those that do
        not exist, and those whose keys have another type.
    """
    has_history = any(each.has_history for each in facts)
    words: list[bytes] = []
    for of_queue in () if receipts is None else [receipts[keys.name] for keys in queues]:
        words.append(digits(2 * len(of_queue)))
        words += [word for id, count in of_queue for word in (encode_name(id), digits(count))]

    def parse(reply: Any) -> dict[str, ReadFacts]:
        now_ms = int(reply[0])
        found: dict[str, ReadFacts] = {}
        for keys, stored in zip(queues, reply[1:], strict=True):
            values = {}
            for fact, each in zip(facts, stored, strict=True):
                if each is not None:
                    values[fact] = fact.parse(each, keys.name, now_ms)
            if values:
                found[keys.name] = ReadFacts(now_ms, values)
        return found

    return on_keys(
        load("read_queues"),
        tuple(
            key
            for keys in queues
            for key in (keys.hash, keys.zset, *((keys.history,) if has_history else ()))
        ),
        (
            " ".join(each.name for each in facts).encode(),
            digits(3 if has_history else 2),
            encode_name(f"{namespace.name}:"),
            digits(NEW_SECONDS * 1000),
            digits(_SAMPLE),
            digits(_NEXT),
            *words,
        ),
        parse,
    )


def read_queues_in_steps(
    namespace: Namespace, qnames: Iterable[str], *facts: QueueFact[Any]
) -> Steps[dict[str, ReadFacts]]:
    """
    Read facts of many queues, of those that are there; see ``read_queues``.

    Other clients may have made queues with other names; those that no call accepts are left out.
    For a user who may not read histories, facts that need them are missing.
    """
    found: dict[str, ReadFacts] = {}
    queues = keys_of(namespace, qnames)
    step = int(1 / sum(1 / each.step for each in facts))
    for at in range(0, len(queues), step):
        try:
            found |= yield read_queues(namespace, queues[at : at + step], facts)
        except ResponseError as error:
            others = [each for each in facts if not each.has_history]
            if not is_limited_to_keys(error) or len(others) == len(facts):
                raise
            if others:
                names = [each.name for each in queues[at:]]
                found |= yield from read_queues_in_steps(namespace, names, *others)
            return found
    return found


def read_receipts_in_steps(
    namespace: Namespace, receipts: Iterable[tuple[str, Receipt]]
) -> Steps[dict[tuple[str, Receipt], tuple[int, float | None]]]:
    """
    Read when received messages are visible again.

    Args:
        receipts: each with its queue.

    Returns:
        By queue and receipt: the server's time, and when it is visible, in Unix ms; None if it was
        settled, or received again. Those of queues that can't be read are left out.
    """
    found: dict[tuple[str, Receipt], tuple[int, float | None]] = {}
    listed = list(receipts)
    queues = {each.name: each for each in keys_of(namespace, {queue for queue, _ in listed})}
    readable = [each for each in listed if each[0] in queues]
    for at in range(0, len(readable), _RECEIPTS_PER_STEP):
        by_queue: dict[str, list[Receipt]] = {}
        for queue, receipt in readable[at : at + _RECEIPTS_PER_STEP]:
            by_queue.setdefault(queue, []).append(receipt)
        keys = [queues[name] for name in by_queue]
        read = yield read_queues(namespace, keys, (RECEIPTS,), by_queue)
        for queue, facts in read.items():
            for receipt, score in zip(by_queue[queue], facts[RECEIPTS], strict=True):
                found[queue, receipt] = facts.now_ms, score
    return found


def keys_of(namespace: Namespace, qnames: Iterable[str]) -> list[QueueKeys]:
    """Return the keys of the queues whose names calls accept."""
    tolerant = Namespace(namespace.name, strict_names=False)
    found = (_find_keys(tolerant, name) for name in qnames)
    return [each for each in found if each is not None]


def _find_keys(namespace: Namespace, name: str) -> QueueKeys | None:
    try:
        return namespace.queue(name)
    except (InvalidFormat, MissingParameter):
        return None
