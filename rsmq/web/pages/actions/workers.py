"""
Actions on workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.web.fields import Refused
from rsmq.web.pages.actions.form import Done, Effect, Fields, Input, PageAction, one
from rsmq.web.pages.formats import plural, show_name, show_time, were_released
from rsmq.web.pages.held import hidden_of, suspect_of, visible_at
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.workers import HeldMessagesJson, WorkersJson

#: The name is typed for more messages than these.
_MANY = 100


def _worker(fields: Fields) -> str:
    return one(fields, "worker")


async def _effect_of_release(call: PageCall, fields: Fields) -> Effect:
    name = _worker(fields)
    held = (await call.read(HeldMessagesJson, {"worker": name}))["messages"]
    hidden = hidden_of(held)
    if not hidden:
        raise Refused(
            "nothingHidden", "The worker has no message that is still hidden", status=409,
            value=name, hint="They are visible, or were received by others or settled, already.",
        )  # fmt: skip
    last = show_time(max(map(visible_at, hidden)))
    otherwise = (
        f"Otherwise it is visible again at {last}, when its visibility timeout ends."
        if len(hidden) == 1
        else f"Otherwise all are visible again by {last}, when their visibility timeouts end."
    )
    queues = ", ".join(show_name(each) for each in sorted({each["queue"] for each in hidden}))
    return Effect(
        f"Makes {plural(len(hidden), 'message')} that {show_name(name)} had in flight visible at "
        f"once{' in ' if queues else ''}{queues}. {otherwise} A worker that is "
        "alive keeps its messages: then this is refused.",
        name_to_type=name if len(hidden) > _MANY else None,
        suspect=suspect_of(hidden),
    )


def _released(fields: Fields, answer: Mapping[str, Any]) -> Done:
    text = were_released(answer["released"], show_name(_worker(fields)))
    taken = " Other consumers may have received them since." if answer["released"] else ""
    return Done(text + taken)


async def _effect_of_concurrency(call: PageCall, fields: Fields) -> Effect:
    workers = (await call.read(WorkersJson))["workers"]
    slots = next((each["slots"] for each in workers if each["name"] == _worker(fields)), 0)
    return Effect(
        f"It runs at most {plural(slots, 'call')} at once now. Calls that run end as usual. "
        "It is its own number again after a day, at its next start, or without a number here."
    )


_BACK = "workers/{worker}"

ACTIONS = (
    PageAction(
        "pause-worker", "POST /workers/{worker}:pause", "Pause", "worker {worker}",
        "{worker} is paused for a day, or until it is resumed or started again.",
        command="worker {worker} pause", back=_BACK,
    ),
    PageAction(
        "resume-worker", "POST /workers/{worker}:resume", "Resume", "worker {worker}",
        "{worker} is resumed, within about a second.", command="worker {worker} resume", back=_BACK,
    ),
    PageAction(
        "worker-concurrency", "PUT /workers/{worker}/concurrency", "Change",
        "the concurrency of worker {worker}",
        "The concurrency of {worker} is changed within about a second.", _effect_of_concurrency,
        lambda f: ["worker", _worker(f), "concurrency", *f.get("concurrency", ())], back=_BACK,
        inputs=(Input("concurrency", "Calls at once"),), button="Change the concurrency",
    ),
    PageAction(
        "stop-worker", "POST /workers/{worker}:stop", "Stop", "worker {worker}",
        "{worker} is stopped: its calls have its grace period to end.",
        "{worker} stops as by SIGTERM: calls have its grace period to end. If it has a supervisor, "
        "that starts it again, with the version that is installed then. To keep it stopped, end "
        "the supervisor; to replace a version, install another one first.",
        "worker {worker} stop", back=_BACK,
    ),
    PageAction(
        "ask-worker", "POST /workers/{worker}:running", "Show", "what worker {worker} runs",
        "What {worker} runs is shown each second, for a minute.",
        command="worker {worker} running", back=_BACK, button="Show what it runs",
    ),
    PageAction(
        "release-held", "POST /workers/{worker}:release", "Release",
        "the messages of worker {worker}", _released, _effect_of_release,
        why_not="rsmq recover receives messages that no worker extends", back=_BACK,
    ),
)  # fmt: skip
