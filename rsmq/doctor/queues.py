"""
All queues of a namespace, listed or not, and the faults of a queue as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

from rsmq.client import RSMQ
from rsmq.doctor.attributes import attribute_findings, missing
from rsmq.doctor.finding import Finding, finding
from rsmq.errors import RSMQError
from rsmq.operations.doctor import QueueFacts, examine_keys, examine_queue
from rsmq.wire.fields import DEAD_LETTER_QUEUE, MAX_RECEIVES
from rsmq.wire.keys import KeyKind, Namespace, classify_key
from rsmq.wire.names import decode_name

_NEVER = 0  # ms to live are negative for keys that stay


def names_found(rsmq: RSMQ, namespace: Namespace) -> tuple[set[str], set[str]]:
    """
    The names that the keys of a namespace speak of, whether listed or not.

    SCAN goes through the whole database, a thousand keys a round trip.

    Returns:
        Those of queues; and of queues of other systems from which messages stand aside.
    """
    names: set[str] = set()
    aside: set[str] = set()
    # Namespaces of other programs that begin with this one and a colon.
    others: list[str] = []
    cursor = b"0"
    while True:
        cursor, keys = rsmq.run(examine_keys(namespace, cursor))
        for key in keys:
            kind, name = classify_key(namespace.name, key)
            if kind is KeyKind.OTHER_NAMESPACE:
                others.append(name)
            elif kind is KeyKind.ASIDE:
                aside.add(name)
            elif kind is KeyKind.QUEUE:
                names.add(name)
        if cursor == b"0":
            break
    return {name for name in names if not name.startswith(tuple(others))}, aside


def look_at_queue(
    ns: str, facts: QueueFacts, known: Callable[[str], QueueFacts | None]
) -> list[Finding]:
    """
    What is wrong with a queue as a whole.

    Args:
        ns: the namespace.
        facts: what there is of it.
        known: what there is of another queue; None if its name can be none.
    """

    def one(code: str, number: int = 1, detail: str = "") -> Finding:
        name = facts.keys.name
        return finding(code, ns, name, number=number, detail=detail)

    kinds = (facts.hash_kind, "hash"), (facts.zset_kind, "zset")
    wrong = [f"the {wanted} is a {kind}" for kind, wanted in kinds if kind not in {wanted, "none"}]
    if wrong:
        # A key that only begins as ours do is somebody else's.
        ours = facts.listed or facts.hash_kind != "none"
        return [one("wrong-type", len(wrong), ", ".join(wrong))] if ours else []
    if facts.hash_kind == "none":
        return _without_hash(facts, one)
    found = [
        one("expiring", left // 1000, f"the {kind}")
        for kind, left in (("hash", facts.hash_left_ms), ("sorted set", facts.zset_left_ms))
        if left >= _NEVER
    ]
    lacking = missing(facts)
    if len(lacking) == 3:  # noqa: PLR2004 - all of them
        return [*found, one("messages-without-queue", facts.length)]
    if lacking:
        found.append(one("half-queue", len(lacking), " and ".join(lacking)))
    elif not facts.listed:
        found.append(one("unlisted-queue"))
    return [*found, *attribute_findings(ns, facts), *_policy(facts, known, one)]


def _without_hash(facts: QueueFacts, one: Callable[..., Finding]) -> list[Finding]:
    if facts.ids:
        return [one("ids-without-queue", facts.ids)]
    found = [one("listed-without-queue")] if facts.listed else []
    left = [key for key in facts.extensions if key != facts.keys.staged]
    return [*found, one("left-over-extension", len(left))] if left else found


def _policy(
    facts: QueueFacts, known: Callable[[str], QueueFacts | None], one: Callable[..., Finding]
) -> list[Finding]:
    target, limit = facts.fields.get(DEAD_LETTER_QUEUE), facts.fields.get(MAX_RECEIVES)
    if target is None and limit is None:
        return []
    if target is None or not limit or not limit.isdigit() or not int(limit):
        shown = (target or b"none").decode("utf-8", "backslashreplace")
        most = "no limit" if limit is None else f"limit {limit.decode('utf-8', 'backslashreplace')}"
        return [one("bad-policy", 1, f"the policy has dead-letter queue {shown}, {most}")]
    name = decode_name(target)
    to = known(name)
    if to is None or missing(to):
        return [one("dead-letter-gone", 1, name)]
    route = [facts.keys.name]
    while to is not None and to.keys.name not in route:
        route.append(to.keys.name)
        further = to.fields.get(DEAD_LETTER_QUEUE)
        to = None if further is None else known(decode_name(further))
    if to is not None and to.keys.name == facts.keys.name:
        return [one("dead-letter-cycle", len(route), " -> ".join([*route, route[0]]))]
    return []


def facts_of(rsmq: RSMQ, namespace: Namespace, name: str) -> QueueFacts | None:
    """What there is of a queue; None if its name can be none."""
    try:
        operation = examine_queue(namespace, name)
    except RSMQError:
        return None
    return rsmq.run(operation)
