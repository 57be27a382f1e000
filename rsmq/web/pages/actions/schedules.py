"""
Actions on schedules.
"""

from __future__ import annotations

from rsmq.vocabulary.sends import SCHEDULE
from rsmq.web.pages.actions.form import Done, Effect, Fields, Input, PageAction, one, options_of
from rsmq.web.pages.actions.sends import inputs_of, options_of_call
from rsmq.web.pages.formats import show_name
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall

_PATH = "/schedules/{schedule}"


def _schedule(fields: Fields) -> str:
    return one(fields, "schedule")


def _name(fields: Fields) -> str:
    return show_name(_schedule(fields))


def _to_list(links: Links, _: Fields) -> str:
    return f"{links.url('delayed')}#schedules"


def _to_schedule(links: Links, fields: Fields) -> str:
    return links.schedule(_schedule(fields)) if _schedule(fields) else _to_list(links, fields)


async def _effect_of_run(call: PageCall, fields: Fields) -> Effect:
    schedule = await call.read(_PATH, {"schedule": _schedule(fields)})
    return Effect(
        f"Sends 1 message to {show_name(schedule['queue'] or '')} now. The times of the schedule "
        "stay as they are.",
    )


async def _effect_of_deletion(call: PageCall, fields: Fields) -> Effect:
    await call.read(_PATH, {"schedule": _schedule(fields)})
    return Effect(
        f"Removes the schedule {_name(fields)}. Messages that it has sent stay.",
        ("A worker that declares it in its code adds it again when it starts.",),
        name_to_type=_schedule(fields),
    )


def _command_of_add(fields: Fields) -> list[str]:
    options = options_of(fields, "cron", "every", "timezone", "missed", "jitter")
    options += options_of_call(fields, SCHEDULE)
    values = (_schedule(fields) or "NAME", one(fields, "queue") or "QUEUE", one(fields, "body"))
    return ["schedule", "add", *options, "--", *values]


#: Whose rights are looked at first.
_QUEUE = frozenset({"queue"})

ACTIONS = (
    PageAction(
        "add-schedule", "PUT", _PATH, "Add a schedule", "Add",
        lambda f, a: Done(
            f"The schedule {_name(f)} was stored."
            if a["changed"] else f"The schedule {_name(f)} was there already."
        ),
        _to_schedule,
        command=_command_of_add,
        inputs=(
            Input("schedule", "Name", hint="Letters, digits, . _ and -. An existing one is "
                  "replaced.", required=True),
            Input("queue", "Queue that gets the messages", required=True),
            Input("cron", "Times, as a cron expression", hint="Minute, hour, day, month, weekday: "
                  "30 2 * * * is each day at 02:30. Leave it empty for an interval."),
            Input("timezone", "Time zone of the expression", hint="As Europe/Berlin; UTC by "
                  "default."),
            Input("every", "Or an interval, in seconds", "number"),
            Input("missed", "Times at which no process ran", "choice", "once", choices=(
                ("once", "send one message for all of them"),
                ("skip", "send none"),
                ("all", "send a message for each"),
            )),
            Input("body", "Body of each message", "area"),
            *inputs_of(SCHEDULE, "unique_key"),
        ),
    ),
    PageAction(
        "pause-schedule", "POST", f"{_PATH}:pause", "Pause the schedule {schedule}", "Pause",
        "{schedule} is paused: its times pass without a message.", _to_schedule,
        command="schedule pause {schedule}", address=_QUEUE,
    ),
    PageAction(
        "resume-schedule", "POST", f"{_PATH}:resume", "Resume the schedule {schedule}", "Resume",
        "{schedule} is active again.", _to_schedule, command="schedule resume {schedule}",
        address=_QUEUE,
    ),
    PageAction(
        "run-schedule", "POST", f"{_PATH}:run", "Run the schedule {schedule} now", "Run now",
        lambda f, a: Done(f"{_name(f)} has sent message {a['id']}."),
        _to_schedule, _effect_of_run, "schedule run {schedule}", address=_QUEUE,
    ),
    PageAction(
        "delete-schedule", "DELETE", _PATH, "Delete the schedule {schedule}",
        "Delete the schedule", "The schedule {schedule} was deleted.", _to_list,
        _effect_of_deletion, "schedule remove {schedule}", address=_QUEUE,
    ),
)  # fmt: skip
