"""
``examine``: the server, the namespace and every queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from redis.exceptions import ResponseError

from rsmq.client import RSMQ
from rsmq.doctor.finding import Finding, Report, finding
from rsmq.doctor.messages import Tally, look_at_fields, look_at_messages, looks_like_id
from rsmq.doctor.queues import facts_of, look_at_queue, names_found
from rsmq.doctor.server import rights_findings, server_findings
from rsmq.errors import QueueNotFound
from rsmq.operations.doctor import IndexFacts, QueueFacts, examine_index, examine_messages
from rsmq.operations.queues import list_queues
from rsmq.transport.retry import code_of
from rsmq.wire.keys import RESERVED_NAME, Namespace
from rsmq.wire.names import decode_name

#: Seconds until what may be half of another client's call is looked at again.
SECOND_LOOK = 0.25

#: What a client without transactions may be in the middle of.
_LOOKED_AT_AGAIN = {"orphan-body", "left-over-counter", "odd-field"}


def examine(
    rsmq: RSMQ,
    queues: Iterable[str] | None = None,
    *,
    progress: Callable[[str, int], None] | None = None,
) -> Report:
    """
    Look for faults of the server, of the namespace and of its queues. Nothing is changed.

    Other programs may go on meanwhile. It takes a round trip for a thousand keys of the database
    (only without ``queues``), and for each queue one, one for a thousand ids, and one for a
    thousand fields of its hash, fewer where bodies are large. What might be half of another
    client's call is looked at twice, a quarter of a second apart.

    Args:
        rsmq: a client of the namespace, whatever its strict_names.
        queues: names of queues; None is all, listed or not.
        progress: called with each queue's name and the number of its ids, before its messages are
            looked at.

    Raises:
        MissingParameter: a name is empty.
        InvalidFormat: a name can be none.
        QueueNotFound: of a queue that is named nothing is there, not even a name on the list.
        ResponseError: redis-py's, where this user may send no scripts at all.
    """
    return _Examination(rsmq, progress).report(None if queues is None else list(queues))


class _Examination:
    def __init__(self, rsmq: RSMQ, progress: Callable[[str, int], None] | None) -> None:
        self._rsmq = rsmq
        self._progress = progress
        # Names that other clients made are to be found too.
        self._namespace = Namespace(rsmq.namespace.name, strict_names=False)
        self._ns = self._namespace.name
        self._known: dict[str, QueueFacts | None] = {}
        self._messages = 0

    def report(self, queues: list[str] | None) -> Report:
        for name in queues or ():
            self._namespace.queue(name)
        index = self._rsmq.run(examine_index(self._namespace.queues))
        found = server_findings(self._rsmq, index)
        if any(each.code == "no-hash-tag" for each in found):
            return Report(self._ns, tuple(found), 0, 0)
        names = queues
        if names is None:
            found += self._index(index)
            names, aside = self._names(index)
            found += [finding("aside", self._ns, detail=source) for source in aside]
            if index.kind == "set":
                found += self._unusable_names()
        for name in queues or ():
            if not self._is_there(name):
                raise QueueNotFound(name)
        found += self._queues(names)
        if names:
            found += rights_findings(self._rsmq, self._namespace, names[0])
        return Report(self._ns, tuple(found), len(names), self._messages)

    def _names(self, index: IndexFacts) -> tuple[list[str], list[str]]:
        found, aside = names_found(self._rsmq, self._namespace)
        if index.kind == "set":
            found |= set(self._listed())
        found.discard(RESERVED_NAME)
        return sorted(name for name in found if self._is_there(name)), sorted(aside)

    def _unusable_names(self) -> list[Finding]:
        """Of names on the list that can be no queue's."""
        return [
            finding("unusable-name", self._ns, detail=name)
            for name in sorted(self._listed())
            if name not in {"", RESERVED_NAME} and self._facts(name) is None
        ]

    def _listed(self) -> list[str]:
        return self._rsmq.run(list_queues(self._namespace))

    def _is_there(self, name: str) -> bool:
        """Whether there is anything of a queue, and not only a key whose name begins alike."""
        facts = self._facts(name)
        return facts is not None and (
            facts.listed
            or facts.hash_kind != "none"
            or bool(facts.extensions)
            or (facts.zset_kind == "zset" and self._has_ids(facts))
        )

    def _has_ids(self, facts: QueueFacts) -> bool:
        """Whether a sorted set without a hash is one of ids, and not somebody else's."""
        first = examine_messages(facts.keys, (b"-inf", b"0"))
        _, _, rows = self._rsmq.run(first)
        return any(looks_like_id(row.id) for row in rows)

    def _facts(self, name: str) -> QueueFacts | None:
        if name not in self._known:
            self._known[name] = facts_of(self._rsmq, self._namespace, name)
        return self._known[name]

    def _index(self, index: IndexFacts) -> list[Finding]:
        """Faults of the index of queues, and of an index beside it."""
        found: list[Finding] = []
        if index.kind not in {"set", "none"}:
            text = f"{decode_name(self._namespace.queues)} is a {index.kind}"
            found.append(finding("wrong-type", self._ns, detail=text))
        if index.left_ms >= 0:
            seconds = index.left_ms // 1000
            text = decode_name(self._namespace.queues)
            found.append(finding("expiring", self._ns, number=seconds, detail=text))
        reserved = self._namespace.hash_of_reserved_name
        if self._kind(reserved) == "hash":
            found.append(finding("reserved-name", self._ns, examples=[reserved]))
        old = self._namespace.index_without_colon
        try:
            facts = self._rsmq.run(examine_index(old))
        except ResponseError as error:  # a user who may see the keys of the namespace only
            if code_of(error) != "NOPERM":
                raise
            return found
        if facts.kind == "set":
            text = old.decode("utf-8", "replace")
            found.append(finding("old-rust-keys", self._ns, number=facts.names, detail=text))
        return found

    def _kind(self, key: bytes) -> str:
        return self._rsmq.run(examine_index(key)).kind

    def _queues(self, names: list[str]) -> list[Finding]:
        looks = [look for name in names if (look := self._look(name)) is not None]
        again = [look for look in looks if look.whole or look.loose]
        if again:
            time.sleep(SECOND_LOOK)
            self._known.clear()
            for look in again:
                self._look_again(look)
        return [each for look in looks for each in look.findings(self._ns)]

    def _look(self, name: str) -> _Look | None:
        facts = self._facts(name)
        if facts is None:
            return None
        whole = look_at_queue(self._ns, facts, self._facts)
        look = _Look(facts, whole, {})
        # Of what is not a queue all fields are loose; they are told of as a whole.
        told = any(each.code == "messages-without-queue" for each in whole)
        if facts.hash_kind == "hash" and facts.zset_kind in {"zset", "none"} and not told:
            if self._progress:
                self._progress(name, facts.ids)
            number, look.tallies = look_at_messages(self._rsmq, facts)
            self._messages += number
        return look

    def _look_again(self, look: _Look) -> None:
        """Leave what is there still."""
        if look.loose:
            now = look_at_fields(self._rsmq, look.facts.keys)
            for code in look.loose:
                look.tallies[code].keep(now.get(code))
        facts = self._facts(look.facts.keys.name)
        seen = {each.code for each in look.whole}
        if facts is not None and seen:
            again = look_at_queue(self._ns, facts, self._facts)
            look.whole = [each for each in again if each.code in seen]


@dataclass(slots=True)
class _Look:
    """What a look at a queue found."""

    facts: QueueFacts
    whole: list[Finding]
    tallies: dict[str, Tally]

    @property
    def loose(self) -> set[str]:
        return self.tallies.keys() & _LOOKED_AT_AGAIN

    def findings(self, ns: str) -> list[Finding]:
        name = self.facts.keys.name
        tallies = self.tallies.items()
        return [*self.whole, *(t.finding(code, ns, name) for code, t in tallies if t.number)]
