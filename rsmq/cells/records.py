"""
The records that cells have of their set, and whether they agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rsmq.errors import CellsMismatch
from rsmq.operations.cells import CellRecord


def find_set_id(records: Mapping[int, CellRecord | None], number: int) -> str | None:
    """
    Return the id of a set: the one that most of its cells have. None if no cell has a record.

    Args:
        records: the record of each cell that was read; None if it has none.
        number: the number of cells of the set.
    """
    fitting = Counter(
        record.set_id
        for cell, record in sorted(records.items())
        if record is not None and (record.index, record.cells) == (cell, number)
    )
    others = Counter(record.set_id for record in records.values() if record is not None)
    found = (fitting or others).most_common(1)
    return found[0][0] if found else None


def find_mismatches(
    records: Mapping[int, CellRecord | None], number: int
) -> dict[int, tuple[CellRecord, CellRecord]]:
    """
    Return the stored and the expected record of each cell that belongs to another set.

    Args:
        records: the record of each cell that was read; None if it has none.
        number: the number of cells of the set.
    """
    set_id = find_set_id(records, number)
    if set_id is None:
        return {}
    expected = {cell: CellRecord(set_id, cell, number) for cell in records}
    return {
        cell: (record, expected[cell])
        for cell, record in records.items()
        if record is not None and record != expected[cell]
    }


def check_records(
    records: Mapping[int, CellRecord | None], number: int, namespaces: Mapping[int, str]
) -> None:
    """
    Check that cells belong to one set. A cell without a record has not been used yet.

    Args:
        records: the record of each cell that was read; None if it has none.
        number: the number of cells of the set.
        namespaces: the namespace of each cell that was read.

    Raises:
        CellsMismatch: a cell belongs to another set.
    """
    for cell, (stored, expected) in find_mismatches(records, number).items():
        raise CellsMismatch(namespaces[cell], describe_record(stored), describe_record(expected))


def describe_record(record: CellRecord) -> str:
    """Return a record as text."""
    return f"cell {record.index} of {record.cells} of the set {record.set_id}"
