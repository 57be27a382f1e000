"""
The actions on exactly the messages of a selection, each only if it is still as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rsmq.errors import InvalidFormat
from rsmq.search.redaction import Redaction
from rsmq.trash.deletion import Deletion, DeletionKind, make_deletion_id
from rsmq.trash.operations import delete_step
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.web.selection.operations import (
    STEP,
    Row,
    count_changed,
    delete_rows,
    move_rows,
    release_rows,
)
from rsmq.web.selection.previews import MAX_MESSAGES, preview_again
from rsmq.web.selection.selection import Selection


class SelectionAction(Enum):
    """The action on the messages."""

    DELETE = "delete"
    MOVE = "move"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class SelectionResult:
    """
    The result of an action.

    Attributes:
        done: the number of messages that were changed.
        left: those that were received or changed while it ran, after they were checked, or since
            they were shown, if such are skipped; they are as they were. Else 0 for up to 150
            messages, unless they are deleted with undo and their bodies have more than 1 MiB: then
            it takes several steps.
        undo: of a deletion that can be undone.
    """

    done: int
    left: int
    undo: Deletion | None = None


class SelectionChanged(Refused):
    """
    Messages of a selection are gone or not as they were. Nothing was changed.

    Attributes:
        selection: the new one, with the same filter or those of the ids that are left.
    """

    def __init__(self, changed: int, selection: Selection) -> None:
        super().__init__(
            "selectionChanged",
            f"{changed:,} of the messages are gone or were received since; nothing was changed",
            status=409,
            hint="Look at the new selection, and confirm it.",
            extra={
                "count": selection.count,
                "selection": selection.token if selection.is_complete else None,
            },
        )
        self.selection = selection


async def execute(
    queues: Client,
    selection: Selection,
    action: SelectionAction,
    *,
    destination: str | None = None,
    redaction: Redaction,
    undo: bool = False,
    by: str = "",
    skip_changed: bool = False,
) -> SelectionResult:
    """
    Do something with exactly the messages of a selection.

    All of them are checked first. Up to 150 are checked and changed in one atomic script; more, or
    a deletion with undo of more than 1 MiB of bodies, in steps, which leave what has changed since
    the check.

    Args:
        destination: of a move.
        redaction: of the caller, for the new selection if this one has changed.
        undo: whether deleted messages are kept for ten minutes.
        by: who does it, for the undo.
        skip_changed: whether messages that are not as they were are left, and the others changed.

    Raises:
        SelectionChanged: messages are gone or not as they were. Nothing was changed.
        Refused: the selection is not complete.
        InvalidFormat: the destination is the queue.
        QueueNotFound: the queue or the destination does not exist.
        NotPossible: it could not be undone. Nothing was changed.
    """
    if not selection.is_complete:
        raise Refused(
            "selectionTooLarge",
            f"It has more than {MAX_MESSAGES:,} messages, or its search takes too long",
            status=409,
            hint="Pass filter and before_ms instead: then a stored operation does it.",
        )
    if action is SelectionAction.MOVE and destination in {None, selection.queue}:
        raise InvalidFormat("destination", value=destination, hint="Pass another queue.")
    rows, changed = selection.rows, 0
    steps = [rows[at : at + STEP] for at in range(0, len(rows), STEP)]
    strict = len(steps) == 1 and not skip_changed
    run = _Run(queues, selection, action, destination, by, undo=undo, strict=strict)
    if len(steps) > 1 and not skip_changed:
        for step in steps:
            changed += await run.count_changed(step)
    if not changed:
        for step in steps:
            if not await run.step(step):
                changed = max(await run.count_changed(step), 1)
    if changed:
        again = await preview_again(queues, selection, redaction, by)
        raise SelectionChanged(changed, again)
    return run.result()


class _Run:
    """The steps of an action."""

    def __init__(
        self,
        queues: Client,
        selection: Selection,
        action: SelectionAction,
        destination: str | None,
        by: str,
        *,
        undo: bool,
        strict: bool,
    ) -> None:
        self._queues = queues
        self._keys = queues.namespace.queue(selection.queue)
        self._selection = selection
        self._action = action
        self._destination = destination
        self._by = by
        self._strict = strict
        self._deletion_id = make_deletion_id() if undo else ""
        self._deleted_ms = 0
        self._done = 0

    async def step(self, rows: list[Row]) -> bool:
        """Run a step, and return whether it was done: not if all must be as they were."""
        keys = self._keys
        if self._action is SelectionAction.DELETE and self._deletion_id:
            return await self._delete_with_undo(rows)
        if self._action is SelectionAction.DELETE:
            operation = delete_rows(keys, rows, strict=self._strict)
        elif self._action is SelectionAction.RELEASE:
            operation = release_rows(keys, rows, strict=self._strict)
        else:
            to = self._queues.namespace.queue(self._destination or "")
            operation = move_rows(keys, to, rows, strict=self._strict)
        done = await self._queues.run(operation)
        self._done += max(done, 0)
        return done >= 0

    async def _delete_with_undo(self, rows: list[Row]) -> bool:
        at = 0
        while at < len(rows):
            # Large bodies end a step early: what is left was checked together with the rest.
            ms, looked, answers = await self._queues.run(
                delete_step(
                    self._queues.namespace, self._deletion_id, self._selection.queue, self._by,
                    rows[at:], strict=self._strict and not at,
                )
            )  # fmt: skip
            if looked < 0:
                return False
            self._deleted_ms = self._deleted_ms or ms
            self._done += answers.count(b"1")
            at += looked
        return True

    async def count_changed(self, rows: list[Row]) -> int:
        """Return how many messages of a step are not as they were."""
        return await self._queues.run(count_changed(self._keys, rows))

    def result(self) -> SelectionResult:
        """Return what was done."""
        undo = None
        if self._deletion_id and self._done:
            undo = Deletion(
                self._deletion_id, DeletionKind.DELETE_MESSAGES, self._selection.queue, self._by,
                self._done, self._deleted_ms,
            )  # fmt: skip
        return SelectionResult(self._done, self._selection.count - self._done, undo)
