"""
Results of all cells as one result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rsmq.model import MessageCounts, QueueAttributes


def add_attributes(of_cells: Sequence[QueueAttributes]) -> QueueAttributes:
    """
    Return the attributes of a queue in all cells.

    Counters and numbers of messages are sums. ``created`` is the earliest, ``modified`` the latest
    and ``next_due_ms`` the earliest of all. The queue counts as paused if one cell is. The other
    attributes are those of the first cell.

    Args:
        of_cells: the attributes in each cell, at least one.
    """
    created = [each.created for each in of_cells if each.created is not None]
    modified = [each.modified for each in of_cells if each.modified is not None]
    due = [each.next_due_ms for each in of_cells if each.next_due_ms is not None]
    return replace(
        of_cells[0],
        total_received=sum(each.total_received for each in of_cells),
        total_sent=sum(each.total_sent for each in of_cells),
        messages=sum(each.messages for each in of_cells),
        hidden_messages=sum(each.hidden_messages for each in of_cells),
        visible_messages=sum(each.visible_messages for each in of_cells),
        created=min(created, default=None),
        modified=max(modified, default=None),
        next_due_ms=min(due, default=None),
        paused=any(each.paused for each in of_cells),
    )


def add_counts(of_cells: Sequence[MessageCounts]) -> MessageCounts:
    """Return the sums of the counts of all cells, and the earliest of their times."""
    oldest = [each.oldest_sent_ms for each in of_cells if each.oldest_sent_ms is not None]
    due_since = [each.due_since_ms for each in of_cells if each.due_since_ms is not None]
    return MessageCounts(
        visible=sum(each.visible for each in of_cells),
        in_flight=sum(each.in_flight for each in of_cells),
        delayed=sum(each.delayed for each in of_cells),
        oldest_sent_ms=min(oldest, default=None),
        due_since_ms=min(due_since, default=None),
        retrying=sum(each.retrying for each in of_cells),
        held_back=sum(each.held_back for each in of_cells),
    )
