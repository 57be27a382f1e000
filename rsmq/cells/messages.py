"""
Messages of cells, whose ids begin with the number of the cell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, cast

from rsmq.errors import InvalidFormat, show
from rsmq.model import STORED_ID, Message, StoredMessage, get_stored_id, to_stored
from rsmq.operations.arguments import GroupedReceipts, check_batch
from rsmq.type_variables import B_co
from rsmq.wire.cells import join_id, split_id
from rsmq.wire.ids import parse_sent_us

_set_class = object.__dict__["__class__"].__set__


class CellMessage(Message[B_co]):
    """
    A message that was received from a cell.

    There is a subclass for each cell, so that the number of the cell takes no time or memory for
    each message.

    Attributes:
        id: the number of the cell, a hyphen, and the id as the sending client created it.
    """

    __slots__ = ()
    cell: ClassVar[int]
    #: The id as it is stored: faster than get_stored_id() for many messages.
    _stored_id = STORED_ID

    @property
    def id(self) -> str:
        """See the attributes; the slot of ``Message`` keeps the id as it is stored."""
        return join_id(self.cell, get_stored_id(self))

    @property
    def sent_ms(self) -> float | None:
        """See ``Message.sent_ms``."""
        us = parse_sent_us(get_stored_id(self), self.first_received_ms)
        return None if us is None else us / 1000

    def __reduce__(self) -> tuple[Any, ...]:
        return add_cell, (self.cell, to_stored(self))


@cache
def class_of(cell: int) -> type[CellMessage[Any]]:
    """Return the class of the messages of a cell."""
    return type("CellMessage", (CellMessage,), {"__slots__": (), "cell": cell})


def add_cell(cell: int, message: Message) -> CellMessage[Any]:
    """Turn a message that was just received into one of a cell, and return it."""
    _set_class(message, class_of(cell))
    return cast("CellMessage[Any]", message)


def add_cell_to_stored(cell: int, message: StoredMessage) -> StoredMessage:
    """Return a stored message with the number of its cell in its id."""
    return replace(message, id=join_id(cell, message.id))


def remove_cell(message: object, number: int) -> tuple[int, Message]:
    """
    Return the cell of a received message, and the message as its cell has it.

    Args:
        number: the number of cells.

    Raises:
        InvalidFormat: it was not received from these cells.
    """
    if not isinstance(message, CellMessage) or message.cell >= number:
        raise _not_of_cells(message)
    return message.cell, to_stored(message)


def _not_of_cells(message: object) -> InvalidFormat:
    return InvalidFormat(
        "message",
        value=show(message),
        hint="Pass a message that was received from these cells, or a queue's name and an id.",
    )


def group_messages(messages: Iterable[Message], number: int) -> dict[int, GroupedReceipts]:
    """
    Return the receipts of received messages by cell.

    Args:
        number: the number of cells.

    Raises:
        InvalidFormat: one was not received from these cells, or it is not an iterable.
        InvalidValue: there are more messages than a batch may have.
    """
    of_cells: dict[int, GroupedReceipts] = {}
    of_cell, group = GroupedReceipts(), dict[str, int]()
    class_of_cell: type | None = None
    queue = count = None
    found: list[Any] = check_batch("messages", messages)
    for position, message in enumerate(found):
        if message.__class__ is not class_of_cell:
            if not isinstance(message, CellMessage) or message.cell >= number:
                raise _not_of_cells(message)
            class_of_cell, queue = message.__class__, None
            of_cell = of_cells.setdefault(message.cell, GroupedReceipts())
        if message.queue != queue or message.receive_count != count:
            queue, count = message.queue, message.receive_count
            group = of_cell.setdefault((queue, count), {})
        group.setdefault(message._stored_id, position)  # noqa: SLF001 - of this module
    return of_cells


def group_dead_letters(
    messages: Iterable[Message | StoredMessage], number: int
) -> dict[int, list[Message | StoredMessage]]:
    """
    Return dead letters by cell, each as its cell has it.

    Args:
        messages: received or stored messages.
        number: the number of cells.

    Raises:
        InvalidFormat: one is not a message of these cells, or it is not an iterable.
        InvalidValue: there are more messages than a batch may have.
    """
    of_cells: dict[int, list[Message | StoredMessage]] = {}
    found: list[Any] = check_batch("messages", messages)
    for message in found:
        if isinstance(message, StoredMessage):
            cell, id = split_id(message.id, number)
            if cell is None:
                raise _not_of_cells(message)
            of_cells.setdefault(cell, []).append(replace(message, id=id))
        else:
            cell, stored = remove_cell(message, number)
            of_cells.setdefault(cell, []).append(stored)
    return of_cells


def group_ids(ids: Iterable[str] | None, number: int) -> tuple[dict[int, list[str]], list[str]]:
    """
    Return ids by cell, and the bare ids, whose cells are not known.

    Args:
        ids: ids with or without the number of their cell.
        number: the number of cells.

    Raises:
        MissingParameter, InvalidFormat: one is not an id, or it is not an iterable.
        InvalidValue: there is no such cell, or there are more ids than a batch may have.
    """
    groups: dict[int, list[str]] = {}
    bare: list[str] = []
    for each in check_batch("ids", ids):
        cell, id = split_id(each, number)
        (bare if cell is None else groups.setdefault(cell, [])).append(id)
    return groups, bare
