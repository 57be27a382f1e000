"""
The command tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.output import format_text
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.cli.app.send_options import call_options

if TYPE_CHECKING:
    from rsmq.history import Percentiles


def _show(name: str) -> Callable[[Any], str | None]:
    def show(each: Any) -> str | None:
        found: Percentiles | None = getattr(each, name)
        return None if found is None else f"{found.p50:.3g} / {found.p95:.3g} / {found.p99:.3g}"

    return show


_COLUMNS: dict[str, str | Callable[[Any], Any]] = {
    "task": lambda each: format_text(each.task) or None,
    "queue": lambda each: format_text(each.queue),
    "calls/min": lambda each: f"{each.calls_per_minute:.3g}",
    "calls": "calls",
    "failed": "failed",
    "retried": "retried",
    "dead": "dead_letters",
    "running": "running",
    "waits s": _show("wait"),
    "takes s": _show("duration"),
}


@command("tasks [QUEUE]...", "rsmq tasks", "rsmq tasks reports --span 7d --json")
@call_options("task_figures")
def tasks(call: Call, queues: tuple[str, ...], span: str) -> None:
    """
    Show how the calls of each task went.

    Workers of this library have counted them, and write once a minute. Without a queue it shows the
    tasks of all listed queues. A dash as a task stands for messages without one. The last columns
    have the seconds from the send to the first call, and of the call: those of 50, 95 and 99 % of
    the messages.
    """
    with call.open() as rsmq:
        names = expand_patterns(rsmq, queues) if queues else None
        found = rsmq.task_figures(names, span=span)
    call.out.table(found, _COLUMNS, show=asdict, keep=32)
