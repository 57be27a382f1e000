"""
The command undo.
"""

from __future__ import annotations

from dataclasses import asdict

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.output import format_table, format_text, format_time

_HEADINGS = ("id", "what", "queue", "messages", "until", "state", "by")


@command("undo", "rsmq undo", "rsmq undo 5f2c09d1a7e3b846")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.pass_obj
def undo(call: Call, ids: tuple[str, ...]) -> None:
    """
    Restore what was deleted, or list what can be restored.

    It can be restored for ten minutes after rsmq purge --undo, rsmq delete-queue --undo, or a
    deletion in the dashboard. Messages that have come since stay.
    """
    with call.open() as rsmq:
        if not ids:
            found = rsmq.trash.list()
            rows = [
                (
                    each.id, each.kind, format_text(each.queue), each.messages,
                    format_time(each.until_ms), each.state, format_text(each.by) or None,
                )
                for each in found
            ]  # fmt: skip
            shown = [{**asdict(each), "until_ms": each.until_ms} for each in found]
            for each in shown:
                del each["message_ids"]
            call.out.result(shown, format_table(_HEADINGS, rows))
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
