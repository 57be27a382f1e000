"""
``examine``: the server, the namespace and every queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from rsmq._sync.client import RSMQ
from rsmq.doctor.finding import Finding, Report, make_finding
from rsmq.doctor.message_faults import (
    FaultCount,
    find_ungrouped,
    looks_like_id,
    tally_field_faults,
    tally_message_faults,
)
from rsmq.doctor.operations import (
    FIRST_STEP,
    IndexFacts,
    QueueFacts,
    examine_index,
    examine_messages,
)
from rsmq.doctor.queue_faults import (
    find_far_turns,
    find_lost_group_records,
    find_queue_faults,
    find_waiting_groups,
    find_wrong_group_keys,
    read_queue_facts,
    scan_names,
)
from rsmq.doctor.server_faults import find_missing_rights, find_server_faults, make_unexamined
from rsmq.errors import QueueNotFound
from rsmq.operations.plain import parse_fields, plain_command
from rsmq.operations.queues import list_queues_in_steps
from rsmq.schedules.operations import read_schedules
from rsmq.transport.retry import code_of
from rsmq.wire.keys import RESERVED_NAME, Namespace
from rsmq.wire.names import decode_name
from rsmq.wire.workers import read_worker

#: Seconds until a second check of faults that may be a call in progress of another client.
RECHECK_SECONDS = 0.25

#: Faults of fields that a client without transactions causes for a moment in each send or delete.
_RECHECKED_CODES = {"orphan-body", "left-over-counter", "odd-field"}


def examine(
    rsmq: RSMQ[Any],
    queues: Iterable[str] | None = None,
    *,
    progress: Callable[[str, int], None] | None = None,
    tries_commands: bool = True,
) -> Report:
    """
    Find faults of the server, of the namespace and of its queues. Nothing is changed.

    Other programs may use the queues at the same time. A fault that may be a call in progress of
    another client is reported only if a second check, a quarter of a second later, finds it again.

    Cost, in round trips: one for each 1,000 keys of the database and two for schedules (only
    without ``queues``), and for each queue one, one for each 100 ids, and one for each 100 fields
    of its hash (for fewer fields if bodies are large), one if it has rates, and one for each 100
    messages that are held back, or at most two if no worker sweeps its groups. Other clients wait
    for one step at most.

    Args:
        rsmq: a client of the namespace, with or without strict_names.
        queues: names of queues; None is all queues, listed or not.
        progress: called with a queue's name and the number of its ids, before its messages are
            examined.
        tries_commands: whether commands that would write are tried, in forms that change nothing,
            to find missing rights. Without it no such command is sent, and the rights stay unknown.

    Raises:
        MissingParameter: a name is empty.
        InvalidFormat: a queue can't have this name.
        QueueNotFound: nothing of a named queue exists, not even its name in the list of queues.
        RedisError, OSError: Redis can't be reached.
        ResponseError: redis-py's, if this user may not run scripts.
    """
    return _Examination(rsmq, progress, tries_commands=tries_commands).run(
        None if queues is None else list(queues)
    )


class _Examination:
    """One run of ``examine``."""

    def __init__(
        self,
        rsmq: RSMQ[Any],
        progress: Callable[[str, int], None] | None,
        *,
        tries_commands: bool,
    ) -> None:
        self._rsmq = rsmq
        self._progress = progress
        self._tries_commands = tries_commands
        # Other clients may have created queues whose names this library would refuse to create.
        self._namespace = Namespace(rsmq.namespace.name, strict_names=False)
        self._ns = self._namespace.name
        self._findings: list[Finding] = []
        self._message_count = 0
        self._cached_facts: dict[str, QueueFacts | None] = {}

    def run(self, queues: list[str] | None) -> Report:
        """Return the report on these queues; None is all queues."""
        for name in queues or ():
            self._namespace.queue(name)
        index = self._rsmq.run(examine_index(self._namespace.queues))
        self._findings += find_server_faults(self._rsmq, index)
        names: list[str] = []
        if not any(finding.code == "no-hash-tag" for finding in self._findings):
            names = self._find_names(queues, index)
            self._examine_queues(names, index)
        return Report(self._ns, tuple(self._findings), len(names), self._message_count)

    def _find_names(self, queues: list[str] | None, index: IndexFacts) -> list[str]:
        """Return the names of the queues, and find the faults of the namespace."""
        if queues is not None:
            for name in queues:
                if not self._exists(name):
                    raise QueueNotFound(name, self._ns)
            return list(dict.fromkeys(queues))
        self._findings += self._find_index_faults(index)
        self._findings += self._find_worker_faults()
        self._findings += self._find_schedule_faults()
        names, aside = self._find_all_names(index)
        self._findings += [make_finding("aside", self._ns, detail=source) for source in aside]
        if index.kind == "set":
            self._findings += self._find_unusable_names()
        return names

    def _examine_queues(self, names: list[str], index: IndexFacts) -> None:
        """Find the faults of the queues, and the rights that are missing."""
        if not names:
            return
        results = [result for name in names if (result := self._examine_queue(name)) is not None]
        unconfirmed = [
            result for result in results if result.queue_findings or result.rechecked_codes
        ]
        if unconfirmed:
            time.sleep(RECHECK_SECONDS)
            self._cached_facts.clear()
            for result in unconfirmed:
                self._recheck(result)
        for result in results:
            self._findings += result.make_findings(self._ns)
        if self._tries_commands:
            self._findings += find_missing_rights(self._rsmq, self._namespace, names[0], index)
        else:
            subject = "which commands this user may send: they were not tried"
            self._findings.append(make_unexamined(self._ns, subject))

    def _read_facts(self, name: str) -> QueueFacts | None:
        """Return the keys and attributes of a queue; None if a queue can't have this name."""
        if name not in self._cached_facts:
            self._cached_facts[name] = read_queue_facts(self._rsmq, self._namespace, name)
        return self._cached_facts[name]

    def _find_worker_faults(self) -> list[Finding]:
        """Return the faults of the registry; none if this user may not read it."""
        try:
            reply: Any = self._rsmq.run(plain_command("HGETALL", self._namespace.workers))
        except ResponseError:
            return []
        entries = {decode_name(name): entry for name, entry in parse_fields(reply).items()}
        names = [each for each in sorted(entries) if read_worker(0, each, entries[each]) is None]
        return [make_finding("unreadable-worker", self._ns, detail=name) for name in names]

    def _find_schedule_faults(self) -> list[Finding]:
        """Return the faults of schedules; none if this user may not read them."""
        try:
            _, records = self._rsmq.run(read_schedules(self._namespace))
            fields: list[bytes] = self._rsmq.run(plain_command("HKEYS", self._namespace.schedules))
        except ResponseError:
            return []
        faults: list[tuple[str, str]] = []
        for record in records:
            schedule = record.to_schedule()
            if not record.definition:
                faults.append(("lost-schedule", f"{record.name} has a time, and no definition"))
            elif schedule.definition is None:
                reason = str(schedule.failure).partition(": ")[2]
                faults.append(("broken-schedule", f"{record.name} can't be read: {reason}"))
            elif schedule.failure is not None:
                faults.append(("failing-schedule", f"{record.name} fails: {schedule.failure}"))
        names = {decode_name(field) for field in fields if b":" not in field}
        faults += [
            ("lost-schedule", f"{name} has a definition, and no time")
            for name in sorted(names - {record.name for record in records})
        ]
        return [make_finding(code, self._ns, detail=detail) for code, detail in faults]

    def _find_all_names(self, index: IndexFacts) -> tuple[list[str], list[str]]:
        """Return the names of all queues, and of sources whose messages are set aside."""
        names, aside = scan_names(self._rsmq, self._namespace)
        if index.kind == "set":
            names |= set(self._list_queues())
        names.discard(RESERVED_NAME)
        return sorted(name for name in names if self._exists(name)), sorted(aside)

    def _find_unusable_names(self) -> list[Finding]:
        """Return a finding for each listed name that a queue can't have."""
        findings = []
        for name in sorted(self._list_queues()):
            if name != RESERVED_NAME and self._read_facts(name) is None:
                is_empty = not name and not self._has_nameless_queue()
                code = "empty-name" if is_empty else "unusable-name"
                findings.append(make_finding(code, self._ns, detail=name))
        return findings

    def _has_nameless_queue(self) -> bool:
        """Return whether there are keys of a queue whose name is the empty text."""
        keys = self._namespace.nameless_queue
        return any(self._read_kind(key) != "none" for key in keys)

    def _list_queues(self) -> list[str]:
        return self._rsmq.run_steps(list_queues_in_steps(self._namespace))

    def _exists(self, name: str) -> bool:
        """Return whether anything of a queue exists, other than a key of another program."""
        facts = self._read_facts(name)
        return facts is not None and (
            facts.is_listed
            or facts.hash_kind != "none"
            or bool(facts.extensions)
            or (facts.zset_kind == "zset" and self._has_ids(facts))
        )

    def _has_ids(self, facts: QueueFacts) -> bool:
        """
        Return whether a sorted set without a hash has ids of messages.

        If none of its first 100 members looks like an id, it belongs to another program.
        """
        _, _, entries = self._rsmq.run(examine_messages(facts.keys, FIRST_STEP))
        return any(looks_like_id(entry.id) for entry in entries)

    def _find_index_faults(self, index: IndexFacts) -> list[Finding]:
        """Return the faults of the index of queues, and an index that an old Rust client left."""
        findings: list[Finding] = []
        if index.kind not in {"set", "none"}:
            text = f"{decode_name(self._namespace.queues)} is a {index.kind}"
            findings.append(make_finding("wrong-type", self._ns, detail=text))
        if index.ttl_ms >= 0:
            seconds = index.ttl_ms // 1000
            text = decode_name(self._namespace.queues)
            findings.append(make_finding("expiring", self._ns, number=seconds, detail=text))
        reserved = self._namespace.hash_of_reserved_name
        if self._read_kind(reserved) == "hash":
            findings.append(make_finding("reserved-name", self._ns, examples=[reserved]))
        old_index = self._namespace.index_without_colon
        try:
            facts = self._rsmq.run(examine_index(old_index))
        except ResponseError as error:
            # This key is outside of the namespace: ACL rules may not permit it.
            if code_of(error) != "NOPERM":
                raise
            return findings
        if facts.kind == "set":
            text = old_index.decode("utf-8", "replace")
            findings.append(
                make_finding("old-rust-keys", self._ns, number=facts.name_count, detail=text)
            )
        return findings

    def _read_kind(self, key: bytes) -> str:
        return self._rsmq.run(examine_index(key)).kind

    def _examine_queue(self, name: str) -> _QueueResult | None:
        facts = self._read_facts(name)
        if facts is None:
            return None
        queue_findings = find_queue_faults(self._ns, facts, self._read_facts)
        result = _QueueResult(facts, queue_findings, {})
        # A hash without attributes is one finding, which counts all of its fields.
        is_queue = all(finding.code != "messages-without-queue" for finding in queue_findings)
        if facts.hash_kind == "hash" and facts.zset_kind in {"zset", "none"} and is_queue:
            if self._progress:
                self._progress(name, facts.id_count)
            number, result.tallies = tally_message_faults(self._rsmq, facts)
            self._message_count += number
            self._examine_groups(result)
        return result

    def _examine_groups(self, result: _QueueResult) -> None:
        held_back = result.tallies.pop("lost-group", None)
        if find_wrong_group_keys(result.facts):
            return
        try:
            if held_back is not None:
                ungrouped = find_ungrouped(self._rsmq, result.facts.keys, held_back.ids)
                result.tallies["lost-group"] = ungrouped
            lost = find_lost_group_records(self._rsmq, result.facts)
            result.tallies["lost-group-record"] = lost
            result.tallies["waiting-group"] = find_waiting_groups(self._rsmq, result.facts)
            result.tallies["far-turn"] = find_far_turns(self._rsmq, result.facts)
        except ResponseError:  # this user may not read them
            subject = f"the groups of queue {result.facts.keys.name}"
            self._findings.append(make_unexamined(self._ns, subject))

    def _recheck(self, result: _QueueResult) -> None:
        """Check again, and keep the faults that still exist."""
        if result.rechecked_codes:
            tallies = tally_field_faults(self._rsmq, result.facts.keys)
            for code in result.rechecked_codes:
                result.tallies[code].keep_confirmed(tallies.get(code))
        facts = self._read_facts(result.facts.keys.name)
        codes = {finding.code for finding in result.queue_findings}
        if facts is not None and codes:
            findings = find_queue_faults(self._ns, facts, self._read_facts)
            result.queue_findings = [finding for finding in findings if finding.code in codes]


@dataclass(slots=True)
class _QueueResult:
    """
    The faults of one queue.

    Attributes:
        facts: the queue's keys and attributes.
        queue_findings: the faults of the queue as a whole.
        tallies: the faults of its messages, by code.
    """

    facts: QueueFacts
    queue_findings: list[Finding]
    tallies: dict[str, FaultCount]

    @property
    def rechecked_codes(self) -> set[str]:
        """The codes of its messages' faults that must be checked twice."""
        return self.tallies.keys() & _RECHECKED_CODES

    def make_findings(self, ns: str) -> list[Finding]:
        """Return the findings of the queue as a whole, and of its messages."""
        name = self.facts.keys.name
        return [
            *self.queue_findings,
            *(
                tally.make_finding(code, ns, name)
                for code, tally in self.tallies.items()
                if tally.number
            ),
        ]
