"""
Actions on schedules.
"""

from __future__ import annotations

from rsmq.vocabulary.sends import SCHEDULE
from rsmq.web.pages.actions.form import Done, Effect, Fields, Input, PageAction, one, options_of
from rsmq.web.pages.actions.sends import inputs_of, options_of_call
from rsmq.web.pages.formats import show_name
from rsmq.web.pages.table import PageCall

_PATH, _BACK = "/schedules/{schedule}", "schedules/{schedule}"


def _schedule(fields: Fields) -> str:
    return one(fields, "schedule")


def _name(fields: Fields) -> str:
    return show_name(_schedule(fields))


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


ACTIONS = (
    PageAction(
        "add-schedule", f"PUT {_PATH}", "Add", "a schedule",
        lambda f, a: Done(
            f"The schedule {_name(f)} was {'added' if a['changed'] else 'there already'}."
        ),
        command=_command_of_add, back=_BACK, cancel="delayed",
        inputs=(
            Input("schedule", "Name", hint="Letters, digits, . _ and -. An existing one is "
                  "replaced."),
            Input("queue", "Queue that gets the messages"),
            Input("cron", "Times, as a cron expression", hint="Minute, hour, day, month, weekday: "
                  "30 2 * * * is each day at 02:30. Leave it empty for an interval."),
            Input("timezone", "Time zone of the expression, as Europe/Berlin"),
            Input("every", "Or an interval, in seconds"),
            Input("missed", "Times at which no process ran", value="once", choices=(
                ("once", "send one message for all of them"),
                ("skip", "send none"),
                ("all", "send a message for each"),
            )),
            Input("body", "Body of each message", "area"),
            *inputs_of(SCHEDULE, "unique_key"),
        ),
        recorded="the schedule {schedule}",
    ),
    PageAction(
        "pause-schedule", f"POST {_PATH}:pause", "Pause", "the schedule {schedule}",
        "The schedule {schedule} is paused: its times pass without a message.", back=_BACK,
        address=("queue",),
    ),
    PageAction(
        "resume-schedule", f"POST {_PATH}:resume", "Resume", "the schedule {schedule}", back=_BACK,
        address=("queue",),
    ),
    PageAction(
        "run-schedule", f"POST {_PATH}:run", "Run", "the schedule {schedule} now",
        "The schedule {schedule} was run: it has sent message {id}.",
        _effect_of_run, back=_BACK, address=("queue",), button="Run now",
        recorded="the schedule {schedule}",
    ),
    PageAction(
        "delete-schedule", f"DELETE {_PATH}", "Delete", "the schedule {schedule}", "",
        _effect_of_deletion, back="delayed", address=("queue",),
    ),
)  # fmt: skip
