"""
The cell of a send: by its key, by its groups, limit_keys, unique_keys and dedup_ids, or any.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rsmq.errors import InvalidFormat, show
from rsmq.printable import format_count
from rsmq.wire.cells import cell_of_key
from rsmq.wire.names import NOT_ENCODABLE, is_encodable


def choose_cell(
    number: int,
    key: object,
    *,
    dedup_ids: Sequence[object] | None = None,
    unique_keys: Sequence[object] | None = None,
    groups: Sequence[object] | None = None,
    limit_keys: Sequence[object] | None = None,
) -> int | None:
    """
    Return the cell of a send; None if any cell will do.

    Args:
        number: the number of cells.
        key: decides the cell; None leaves it to the other arguments.
        dedup_ids: the dedup_id of each message, or None for a message without one. It decides if
            the message has no unique_key: a call that is repeated has the same unique_key.
        unique_keys: the unique_key of each message, or None for a message without one.
        groups: the group of each message, or None; it decides before the other two, since the
            order of a group is that of its cell.
        limit_keys: the limit_key of each message, or None; it decides as its group does.

    Raises:
        InvalidFormat: key is not a str, or it has a lone surrogate; or without a key the messages
            belong to several cells.
    """
    if key is not None:
        if not isinstance(key, str):
            raise InvalidFormat("key", value=show(key), hint="A key is a str, such as a user's id.")
        if not is_encodable(key):
            raise InvalidFormat("key", value=show(key), hint=NOT_ENCODABLE)
        return cell_of_key(key, number)
    labels = (
        next((label for label in labels if label is not None), None)
        for labels in zip_longest(
            groups or (), limit_keys or (), unique_keys or (), dedup_ids or ()
        )
    )
    cells = {
        cell_of_key(each, number)
        for each in labels
        if isinstance(each, str) and is_encodable(each)  # the send refuses the others
    }
    if len(cells) > 1:
        lists = {
            "groups": groups,
            "limit_keys": limit_keys,
            "unique_keys": unique_keys,
            "dedup_ids": dedup_ids,
        }
        item = next(name for name, labels in lists.items() if labels)
        one = item.removesuffix("s")
        raise InvalidFormat(
            item,
            value=show(f"{item.rpartition('_')[2]} of {format_count(len(cells), 'cell')}"),
            hint="A batch goes whole into one cell. Pass key= to choose it, or send the messages "
            f"one by one: each goes to the cell of its {one}.",
        )
    return cells.pop() if cells else None
