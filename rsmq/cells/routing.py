"""
The cell of a send: by its key, by its deduplication ids, or any.
"""

from __future__ import annotations

from collections.abc import Iterable

from rsmq.errors import InvalidFormat, show
from rsmq.printable import format_count
from rsmq.wire.cells import cell_of_key
from rsmq.wire.names import NOT_ENCODABLE, is_encodable


def choose_cell(number: int, key: object, dedup_ids: Iterable[object] | None) -> int | None:
    """
    Return the cell of a send; None if any cell will do.

    Args:
        number: the number of cells.
        key: decides the cell; None leaves it to the deduplication ids.
        dedup_ids: the deduplication id of each message, or None for a message without one.

    Raises:
        InvalidFormat: key is not a str, or it has a lone surrogate; or without a key the
            deduplication ids belong to several cells.
    """
    if key is not None:
        if not isinstance(key, str):
            raise InvalidFormat("key", value=show(key), hint="A key is a str, such as a user's id.")
        if not is_encodable(key):
            raise InvalidFormat("key", value=show(key), hint=NOT_ENCODABLE)
        return cell_of_key(key, number)
    cells = {
        cell_of_key(each, number)
        for each in dedup_ids or ()
        if isinstance(each, str) and is_encodable(each)  # the send refuses the others
    }
    if len(cells) > 1:
        raise InvalidFormat(
            "dedup_ids",
            value=show(f"ids of {format_count(len(cells), 'cell')}"),
            hint="A batch goes whole into one cell. Pass key= to choose it, or send the messages "
            "one by one: each goes to the cell of its dedup_id.",
        )
    return cells.pop() if cells else None
