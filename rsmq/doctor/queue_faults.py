"""
All queues of a namespace, listed or not, and the faults of a queue as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from rsmq._sync.client import RSMQ
from rsmq.doctor.attribute_faults import find_missing_attributes, make_attribute_findings
from rsmq.doctor.finding import MAX_EXAMPLES, Finding, make_finding
from rsmq.doctor.message_faults import FaultCount
from rsmq.doctor.operations import (
    QueueFacts,
    examine_group_records,
    examine_groups,
    examine_queue,
    examine_turns,
)
from rsmq.errors import RSMQError
from rsmq.operations.walk import scan_keys
from rsmq.vocabulary.queues import REQUIRED_ATTRIBUTES
from rsmq.wire.fields import DEAD_LETTER_QUEUE, GROUPED, MAX_RECEIVES
from rsmq.wire.keys import KeyKind, Namespace, QueueKeys, classify_key
from rsmq.wire.names import decode_name

#: Returns the facts of a queue by its name; None if a queue can't have this name.
ReadFacts: TypeAlias = Callable[[str], QueueFacts | None]

#: Ms within which workers that sweep the groups of a queue make the next step.
_SWEEP_MS = 60_000


class _MakeFinding(Protocol):
    """Makes findings for one queue."""

    def __call__(self, code: str, number: int = 1, detail: str = "") -> Finding: ...


def scan_names(rsmq: RSMQ, namespace: Namespace) -> tuple[set[str], set[str]]:
    """
    Find the names of queues in the keys of a namespace, listed or not.

    SCAN reads the whole database, 1,000 keys in each round trip.

    Returns:
        The names of queues, and the names of queues of other systems whose messages a migration
        has set aside.
    """
    names: set[str] = set()
    aside: set[str] = set()
    # Other namespaces whose names begin with this one and a colon.
    other_namespaces: list[str] = []
    cursor = b"0"
    while True:
        cursor, keys = rsmq.run(scan_keys(namespace, cursor))
        for key in keys:
            kind, name = classify_key(namespace.name, key)
            if kind is KeyKind.OTHER_NAMESPACE:
                other_namespaces.append(name)
            elif kind is KeyKind.ASIDE:
                aside.add(name)
            elif kind is KeyKind.QUEUE:
                names.add(name)
        if cursor == b"0":
            break
    return {name for name in names if not name.startswith(tuple(other_namespaces))}, aside


def find_queue_faults(ns: str, facts: QueueFacts, read_facts: ReadFacts) -> list[Finding]:
    """
    Return the faults of a queue's keys, attributes and dead-letter policy.

    Args:
        read_facts: returns those of another queue.
    """

    def make(code: str, number: int = 1, detail: str = "") -> Finding:
        return make_finding(code, ns, facts.keys.name, number=number, detail=detail)

    kinds = (facts.hash_kind, "hash"), (facts.zset_kind, "zset")
    wrong = [
        f"the {expected} is a {kind}" for kind, expected in kinds if kind not in {expected, "none"}
    ]
    if wrong:
        # A sorted set's key can belong to another program, whose keys begin as the namespace does.
        is_queue = facts.is_listed or facts.hash_kind != "none"
        return [make("wrong-type", len(wrong), ", ".join(wrong))] if is_queue else []
    if facts.hash_kind == "none":
        return _find_faults_without_hash(facts, make)
    ttls = ("hash", facts.hash_ttl_ms), ("sorted set", facts.zset_ttl_ms)
    findings = [make("expiring", ttl // 1000, f"the {key}") for key, ttl in ttls if ttl >= 0]
    if wrong_keys := find_wrong_group_keys(facts):
        kinds_found = [f"{decode_name(key)} is a {facts.extensions[key]}" for key in wrong_keys]
        findings.append(make("wrong-group-key", len(wrong_keys), ", ".join(kinds_found)))
    missing = find_missing_attributes(facts)
    if len(missing) == len(REQUIRED_ATTRIBUTES):
        return [*findings, make("messages-without-queue", facts.field_count)]
    if missing:
        findings.append(make("half-queue", len(missing), " and ".join(missing)))
    elif not facts.is_listed:
        findings.append(make("unlisted-queue"))
    findings += make_attribute_findings(ns, facts)
    return [*findings, *_find_policy_faults(facts, read_facts, make)]


def _find_faults_without_hash(facts: QueueFacts, make: _MakeFinding) -> list[Finding]:
    if facts.id_count:
        return [make("ids-without-queue", facts.id_count)]
    findings = [make("listed-without-queue")] if facts.is_listed else []
    left_over = [key for key in facts.extensions if key != facts.keys.staged]
    return [*findings, make("left-over-extension", len(left_over))] if left_over else findings


def _find_policy_faults(
    facts: QueueFacts, read_facts: ReadFacts, make: _MakeFinding
) -> list[Finding]:
    target, limit = facts.fields.get(DEAD_LETTER_QUEUE), facts.fields.get(MAX_RECEIVES)
    if target is None and limit is None:
        return []
    if target is None or not limit or not limit.isdigit() or not int(limit):
        target_text = (target or b"none").decode("utf-8", "backslashreplace")
        limit_text = (
            "no limit" if limit is None else f"limit {limit.decode('utf-8', 'backslashreplace')}"
        )
        detail = f"the policy has dead-letter queue {target_text}, {limit_text}"
        return [make("bad-policy", 1, detail)]
    name = decode_name(target)
    queue = read_facts(name)
    if queue is None or find_missing_attributes(queue):
        return [make("dead-letter-gone", 1, name)]
    route = [facts.keys.name]
    while queue is not None and queue.keys.name not in route:
        route.append(queue.keys.name)
        next_target = queue.fields.get(DEAD_LETTER_QUEUE)
        queue = None if next_target is None else read_facts(decode_name(next_target))
    if queue is not None and queue.keys.name == facts.keys.name:
        return [make("dead-letter-cycle", len(route), " -> ".join([*route, route[0]]))]
    return []


def get_group_kinds(keys: QueueKeys) -> dict[bytes, str]:
    """Return the type of each key of groups, as Redis names it."""
    return {keys.admitted: "zset", keys.held_back: "zset", keys.group_of: "hash"}


def find_wrong_group_keys(facts: QueueFacts) -> list[bytes]:
    """Return the keys of groups that have another type."""
    kinds = get_group_kinds(facts.keys)
    return [key for key, kind in kinds.items() if facts.extensions.get(key, kind) != kind]


def find_lost_group_records(rsmq: RSMQ, facts: QueueFacts) -> FaultCount:
    """
    Return the messages that are held back, and of which a record is lost.

    Workers find these too, within nine minutes, so there are none while workers sweep the queue.
    """
    found = FaultCount()
    position = b""
    if GROUPED not in facts.fields or _is_swept(facts):
        return found
    while position != b"0":
        position, ids = rsmq.run(examine_group_records(facts.keys, position or b"0"))
        for id in ids:
            found.add(id)
    return found


def find_waiting_groups(rsmq: RSMQ, facts: QueueFacts) -> FaultCount:
    """
    Return the first messages of groups that wait without need; none while workers sweep the queue.

    Workers find such a group within a minute. A step reads at most 100 messages, and no more of a
    group that it has examined.
    """
    found = FaultCount()
    if GROUPED not in facts.fields or _is_swept(facts):
        return found
    position: bytes | None = b""
    while position is not None:
        position, ids = rsmq.run(examine_groups(facts.keys, position))
        for id in ids:
            found.add(id)
    return found


def find_far_turns(rsmq: RSMQ, facts: QueueFacts) -> FaultCount:
    """Return the groups and limit keys whose turns of a rate no message of the queue explains."""
    found = FaultCount()
    if facts.keys.rates in facts.extensions:
        found.number, names = rsmq.run(examine_turns(facts.keys, MAX_EXAMPLES))
        found.ids = {name.removeprefix(b"\1:"): None for name in names}
    return found


def _is_swept(facts: QueueFacts) -> bool:
    """Return whether workers sweep the queue: the next step is due, or was due a moment ago."""
    due_ms, blank, _ = facts.fields[GROUPED].partition(b" ")
    return bool(blank) and due_ms.isdigit() and abs(facts.now_ms - int(due_ms)) <= _SWEEP_MS


def read_queue_facts(rsmq: RSMQ, namespace: Namespace, name: str) -> QueueFacts | None:
    """Read a queue's keys and attributes; None if a queue can't have this name."""
    try:
        operation = examine_queue(namespace, name)
    except RSMQError:
        return None
    return rsmq.run(operation)
