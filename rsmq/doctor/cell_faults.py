"""
Faults of a set of cells: cells that differ, and cells that belong to another set.

A cell that has far more messages than the others is not a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.cells.records import describe_record, find_mismatches, find_set_id
from rsmq.doctor.attribute_faults import REQUIRED_ATTRIBUTES, find_missing_attributes
from rsmq.doctor.finding import Finding, make_finding
from rsmq.doctor.operations import QueueFacts
from rsmq.operations.cells import CellRecord
from rsmq.wire.fields import DEAD_LETTER_QUEUE, MAX_RECEIVES, PAUSED

#: The errors of a cell that can't be reached.
UNREACHABLE = (RedisConnectionError, RedisTimeoutError, OSError)

#: The fields of a dead-letter policy.
POLICY_FIELDS = (DEAD_LETTER_QUEUE, MAX_RECEIVES)


def find_record_faults(
    ns: str, records: Mapping[int, CellRecord | None], number: int
) -> list[Finding]:
    """
    Return the faults of the cells' records.

    Args:
        ns: the name of the set.
        records: the record of each cell that was read; None if it has none.
        number: the number of cells of the set.
    """
    mismatches = find_mismatches(records, number)
    findings = [
        make_finding(
            "other-set", ns, cells=(cell,),
            detail=f"{describe_record(stored)}, and not {describe_record(expected)}",
        )
        for cell, (stored, expected) in sorted(mismatches.items())
    ]  # fmt: skip
    unused = tuple(cell for cell, record in sorted(records.items()) if record is None)
    if unused and not mismatches and find_set_id(records, number) is not None:
        findings.append(make_finding("no-cell-record", ns, number=len(unused), cells=unused))
    return findings


def _find_reference(facts: Mapping[int, QueueFacts]) -> int | None:
    """Return the first cell that has a queue; None if no cell has it."""
    return next((cell for cell in sorted(facts) if not find_missing_attributes(facts[cell])), None)


def find_differences(ns: str, queue: str, facts: Mapping[int, QueueFacts]) -> Iterator[Finding]:
    """
    Yield the faults of a queue that is not the same in all cells.

    Args:
        ns: the name of the set.
        facts: its keys and attributes in each cell that was read.
    """
    reference = _find_reference(facts)
    if reference is None:
        return
    missing = tuple(cell for cell in sorted(facts) if facts[cell].hash_kind == "none")
    if missing:
        yield make_finding(
            "missing-in-cells", ns, queue, number=len(missing), cells=missing,
            detail=f"cell {reference}",
        )  # fmt: skip
    existing = {
        cell: each.fields
        for cell, each in sorted(facts.items())
        if not find_missing_attributes(each)
    }
    for code, fields in (
        ("different-attributes", REQUIRED_ATTRIBUTES),
        ("different-policy", POLICY_FIELDS),
    ):
        expected = [existing[reference].get(name) for name in fields]
        differing = tuple(
            cell
            for cell, stored in existing.items()
            if [stored.get(name) for name in fields] != expected
        )
        if differing:
            shown = {reference: existing[reference], differing[0]: existing[differing[0]]}
            yield make_finding(
                code, ns, queue, number=len(differing), cells=differing,
                detail=", ".join(
                    f"cell {cell} has {_describe(stored, fields)}" for cell, stored in shown.items()
                ),
            )  # fmt: skip
    paused = tuple(cell for cell, stored in existing.items() if PAUSED in stored)
    if 0 < len(paused) < len(existing):
        yield make_finding("paused-in-some-cells", ns, queue, number=len(paused), cells=paused)


def _describe(stored: Mapping[str, bytes], fields: tuple[str, ...]) -> str:
    if fields == POLICY_FIELDS:
        target, limit = (stored.get(name) for name in fields)
        if target is None:
            return "no policy"
        return f"{_decode(target)} with max_receives {_decode(limit or b'none')}"
    return ", ".join(f"{name} {_decode(stored[name])}" for name in fields)


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
