"""
Operations of sets of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rsmq.lua.load import load
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name
from rsmq.wire.stored import parse_integer


@dataclass(frozen=True, slots=True)
class CellRecord:
    """
    The record that each cell has of its set.

    Attributes:
        set_id: the id of the set, which its first user made.
        index: the number of the cell, from 0; None if the stored value is not a number.
        cells: the number of cells of the set; None if the stored value is not a number.
    """

    set_id: str
    index: int | None
    cells: int | None


def claim_cell(
    namespace: Namespace, set_id: str, index: int, cells: int
) -> Operation[CellRecord | None]:
    """
    Return the record of a cell, and store it first if there is none.

    Args:
        set_id: the id of the set; empty stores nothing.
        cells: the number of cells of the set.
    """
    return Operation(
        load("claim_cell"),
        (namespace.cell,),
        (set_id.encode(), digits(index), digits(cells)),
        _parse_record,
        RetryClass.ALWAYS,
    )


def _parse_record(reply: Any) -> CellRecord | None:
    if reply is None:
        return None
    set_id, index, cells = reply
    return CellRecord(decode_name(set_id), parse_integer(index), parse_integer(cells))
