"""
The command group schedule.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import Group, options
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_body, format_facts, format_text, format_time, to_json_value
from rsmq.cli.app.send_options import call_options, drop_unset, send_options
from rsmq.cli.commands.calls import one_call
from rsmq.codecs.body_fields import body_fields
from rsmq.vocabulary.sends import SCHEDULE, ValueKind

if TYPE_CHECKING:
    from rsmq.schedules.definition import StoredSchedule


schedule = Group(
    "schedule",
    help="""
Add, list, pause and run schedules.

A schedule sends a message to a queue at set times. Workers and rsmq scheduler send them; at least
one of these must run.
""",
    examples=[
        "rsmq schedule add report reports '{}' --cron '30 2 * * *' --timezone Europe/Berlin",
        "rsmq schedule list",
    ],
)


@schedule.subcommand(
    "add NAME QUEUE",
    "rsmq schedule add report reports '{}' --cron '30 2 * * *' --timezone Europe/Berlin",
    "rsmq schedule add ping monitor --every 30s --missed skip",
)
@click.argument("body", default="")
@call_options("schedules.add")
@send_options(SCHEDULE)
def add(call: Call, /, name: str, body: str, **definition: Any) -> None:
    """
    Add a schedule, or replace the one of this name.

    BODY is the text of each message; it is empty by default. --cron needs the extra schedules.
    """
    if (definition["cron"] is None) == (definition["every"] is None):
        raise click.UsageError("Give either --cron or --every.")
    with call.open() as rsmq:
        changed = rsmq.schedules.add(name, body=os.fsencode(body), **drop_unset(definition))
        found = rsmq.schedules.get(name)
    following = None if found is None or found.next_tick_at is None else found.next_tick_at
    call.out.result(
        {"name": name, "changed": changed, "next_tick_at": following},
        f"{name}: {'stored' if changed else 'is stored already'}, next at {format_time(following)}",
    )


@schedule.subcommand("list", "rsmq schedule list", "rsmq schedule list --json")
def list_(call: Call) -> None:
    """
    List the schedules.

    All times are in UTC. STATE has the reason if the last attempt has failed.
    """
    with call.open() as rsmq:
        found = rsmq.schedules.list()
    call.out.table(found, _COLUMNS, show=_to_json)


@schedule.subcommand("show NAME", "rsmq schedule show report --next 10")
@options(
    """
    --next, number N  Show the next N times.  [default: 5]
    """,
    number={"type": click.IntRange(1, 1000)},
)
def show(call: Call, name: str, number: int) -> Exit | None:
    """Show a schedule, its state and its next times."""
    with call.open() as rsmq:
        found = rsmq.schedules.get(name)
    if found is None:
        call.out.note(f"{format_text(name)}: no such schedule")
        return Exit.NOT_ALL
    upcoming = found.upcoming(number)
    call.out.result(
        {**_to_json(found), "upcoming": upcoming}, _describe(found, [*map(format_time, upcoming)])
    )
    return None


for _name in ("remove", "pause", "resume", "run_now"):
    schedule.add_command(one_call(f"schedules.{_name}"))


def _to_json(found: StoredSchedule) -> dict[str, Any]:
    """Return a schedule with the fields of its definition beside its state."""
    document: dict[str, Any] = to_json_value(found)
    definition = document.pop("definition") or {}
    if (body := definition.pop("body", None)) is not None:
        definition |= body_fields(body)
    return {**document, **definition, **definition.pop("options", {})}


def _when(found: StoredSchedule) -> str | None:
    definition = found.definition
    if definition is None:
        return None
    if definition.cron is None:
        return f"every {definition.every:g} s"
    zone = "" if definition.timezone == "UTC" else f" {definition.timezone}"
    return format_text(definition.cron + zone)


def _state(found: StoredSchedule) -> str:
    if found.failure is not None:
        return format_text(found.failure)
    return "paused" if found.paused_at is not None else "active"


def _describe(found: StoredSchedule, upcoming: Sequence[str | None]) -> list[str]:
    facts: dict[str, Any] = {"name": format_text(found.name), "state": _state(found)}
    if found.definition is not None:
        of = found.definition
        facts |= {
            "when": _when(found), "queue": format_text(of.queue), "body": format_body(of.body),
            "missed": of.missed, "jitter": f"{of.jitter:g} s",
            "version": f"{of.version}, by {of.source}",
        }  # fmt: skip
        shown = {name: _show_option(name, value) for name, value in of.options.items()}
        facts |= {name.replace("_", "-"): text for name, text in shown.items()}
    facts["last"] = format_time(found.last_tick_at)
    return format_facts(facts) + [f"next      {each}" for each in upcoming]


def _show_option(name: str, value: Any) -> str:
    unit = " s" if SCHEDULE.options[name].kind is ValueKind.SECONDS else ""
    return format_text(value) if isinstance(value, str) else f"{value:g}{unit}"


_COLUMNS: dict[str, str | Callable[[StoredSchedule], str | None]] = {
    "name": "name",
    "when": _when,
    "queue": lambda each: format_text(each.definition.queue) if each.definition else None,
    "next": "next_tick_at",
    "last": "last_tick_at",
    "state": _state,
}
