"""
The command undo.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.output import format_text

if TYPE_CHECKING:
    from rsmq.trash import Deletion

_COLUMNS = {
    "id": "id", "what": "kind", "queue": "queue", "messages": "messages", "until": "until_ms",
    "state": "state", "by": "by",
}  # fmt: skip


@command("undo [ID...]", "rsmq undo", "rsmq undo 5f2c09d1a7e3b846")
def undo(call: Call, ids: tuple[str, ...]) -> None:
    """
    Restore what was deleted, or list what can be restored.

    It can be restored for ten minutes after rsmq purge --undo, rsmq delete-queue --undo, or a
    deletion in the dashboard. Messages that have come since stay.
    """
    with call.open() as rsmq:
        if not ids:
            found = rsmq.trash.list()
            call.out.table(found, _COLUMNS, show=_to_json)
            return
        results = []
        for id in dict.fromkeys(ids):
            restored = rsmq.trash.undo(id)
            results.append({"id": id, **asdict(restored)})
            if not call.as_json:
                text = f"{format_text(restored.queue)}: {restored.messages:,} restored"
                call.out.result(None, text)
        if call.as_json:
            call.out.result(results, ())


def _to_json(deletion: Deletion) -> dict[str, Any]:
    fields = asdict(deletion)
    del fields["message_ids"]
    return {**fields, "until_ms": deletion.until_ms}
