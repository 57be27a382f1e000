"""
The offsets of a stream, as Spark stores them in a checkpoint.
"""

from __future__ import annotations

from typing import Any

from rsmq.errors import InvalidOption, NewerVersion
from rsmq.printable import format_count
from rsmq.spark.connection_options import ConnectionOptions

#: The version of the offsets that this library writes. An offset without a version, of an earlier
#: library, has the same form.
OFFSET_VERSION = 1


def make_offset(
    connection: ConnectionOptions, lease: str, query: str, number: int, queues: dict[str, int]
) -> dict[str, Any]:
    """
    Return the offset of a batch.

    Args:
        connection: the options of the connection. The offset has the namespace, which offsets of
            earlier libraries lack, and for a set of cells their number.
        query: the name of the query; only an offset whose lease has another name has it.
        number: the number of the batch.
        queues: how many messages it has, by the label of the queue.
    """
    offset: dict[str, Any] = {
        "version": OFFSET_VERSION,
        "lease": lease,
        "batch": number,
        "queues": queues,
        "ns": connection.namespace.name,
    }
    if connection.cells is not None:
        offset["cells"] = connection.cells
    return offset if query == lease else {**offset, "query": query}


def is_offset(offset: object) -> bool:
    """Return whether a value is an offset of ``format("rsmq")``."""
    return isinstance(offset, dict) and offset.keys() >= {"lease", "batch", "queues"}


def is_of(offset: dict[str, Any], connection: ConnectionOptions) -> bool:
    """Return whether the queues of an offset are those of a connection, as far as it shows."""
    ns = connection.namespace.name
    return offset.get("ns", ns) == ns and offset.get("cells") == connection.cells


def check_version(offset: dict[str, Any]) -> None:
    """
    Refuse an offset of a form that this library does not know.

    Raises:
        NewerVersion: a newer version of this library has written it.
    """
    version = offset.get("version", OFFSET_VERSION)
    if version != OFFSET_VERSION:
        raise NewerVersion("The checkpoint", version)


def check_offset(offset: dict[str, Any], cells: int | None) -> None:
    """
    Refuse an offset that this query can't continue from.

    Args:
        cells: the number of cells that the query reads.

    Raises:
        NewerVersion: a newer version of this library has written the checkpoint.
        InvalidOption: the checkpoint is of another number of cells.
    """
    check_version(offset)
    stored = offset.get("cells")
    if stored != cells:  # its batches are in other places
        raise InvalidOption(
            "cells",
            f"the checkpoint is of {describe_cells(stored)}, and this query reads "
            f"{describe_cells(cells)}. The number of cells never changes: pass the same as "
            "before, or start with a new checkpointLocation.",
            value=cells,
        )


def describe_cells(number: int | None) -> str:
    """Return a number of cells as a text; None is an ordinary namespace."""
    return "a namespace without cells" if number is None else format_count(number, "cell")
