"""
Actions on subscribers, and on the targets of webhooks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rsmq.errors import QueueNotFound
from rsmq.web.pages.actions.form import (
    Done,
    Effect,
    Fields,
    Input,
    PageAction,
    fill,
    one,
    options_of,
)
from rsmq.web.pages.formats import plural, show_name
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.forms import QueueJson
from rsmq.web.routes.subscribers import TargetsJson

_PATH = "/queues/{queue}/subscribers/{subscriber}"


_WHO = "{subscriber} of {queue}"


def _target(fields: Fields) -> str:
    url = one(fields, "url")
    return show_name(f"{one(fields, 'queue')} to {url}" if url else one(fields, "queue"))


async def _targets(call: PageCall, fields: Fields) -> str:
    listed = await call.read(TargetsJson)
    queue, url = one(fields, "queue"), one(fields, "url")
    chosen = [
        each for each in listed["webhooks"] if each["queue"] == queue and url in {"", each["url"]}
    ]
    return plural(len(chosen), "target")


async def _effect_of_forgetting(call: PageCall, fields: Fields) -> Effect:
    number = await _targets(call, fields)
    return Effect(
        f"Forgets the state of {number}: failures, pauses and a 410.",
        ("A process that pushes to it stores its state again.",),
    )


async def _effect_of_removal(call: PageCall, fields: Fields) -> Effect:
    names = {"queue": one(fields, "queue"), "subscriber": one(fields, "subscriber")}
    subscriber = await call.read(_PATH, names)
    try:
        own = await call.read(QueueJson, {"queue": subscriber["own_queue"]})
        number = own["messages"]
    except QueueNotFound:
        number = 0
    drop = Input(
        "drop", f"{plural(number, 'message')} that wait for it", "choice", "false",
        choices=(("false", "push them first"), ("true", "delete them now")),
    )  # fmt: skip
    return Effect(
        fill(f"Removes the subscriber {_WHO}: it gets no further messages.", fields),
        name_to_type=one(fields, "subscriber"),
        inputs=(drop,),
    )


def _command_of_add(fields: Fields) -> list[str]:
    names = ("secret_env", "content_type", "concurrency", "max_retries")
    values = (one(fields, "queue", "QUEUE"), one(fields, "subscriber", "NAME"))
    url = one(fields, "url", "URL")
    return ["subscribers", "add", "--replace", *options_of(fields, *names), "--", *values, url]


def _push(option: str) -> Callable[[Fields], list[str]]:
    def command(fields: Fields) -> list[str]:
        url = one(fields, "url")
        return ["push", option, "--", one(fields, "queue"), *([url] if url else [])]

    return command


def _changed(what: str) -> Callable[[Fields, Any], Done]:
    return lambda _, answer: Done(f"{plural(answer['changed'], 'target')} {what}.")


ACTIONS = (
    PageAction(
        "add-subscriber", f"PUT {_PATH}", "Add", "a subscriber",
        f"The subscriber {_WHO} was added.", command=_command_of_add, back="webhooks",
        inputs=(
            Input("queue", "Queue whose messages it gets"),
            Input("subscriber", "Name", hint="Letters, digits, _ and -. One of this name is "
                  "changed."),
            Input("url", "URL", hint="It gets each message as a POST."),
            Input("secret_env", "Variable with the secret", hint="The environment variable of the "
                  "pushing process that has the secret; empty for requests without a signature."),
            Input("content_type", "Media type of the bodies"),
            Input("concurrency", "Pushes at a time", value="8"),
            Input("max_retries", "Retries"),
        ),
        recorded=f"the subscriber {_WHO}",
    ),
    PageAction(
        "remove-subscriber", f"DELETE {_PATH}", "Remove", f"the subscriber {_WHO}", "",
        _effect_of_removal,
        lambda f: [
            "subscribers", "remove", *(["--drop"] if one(f, "drop") == "true" else []), "--",
            one(f, "queue"), one(f, "subscriber"),
        ],
        back="webhooks", form=("drop",),
    ),
    PageAction(
        "resume-webhook", "POST /webhooks:resume", "Resume", lambda f: f"pushes of {_target(f)}",
        _changed("resumed"), command=_push("--resume"), back="webhooks", address=("queue", "url"),
        recorded="pushes of {queue}",
    ),
    PageAction(
        "forget-webhook", "POST /webhooks:forget", "Forget", _target, _changed("forgotten"),
        _effect_of_forgetting, _push("--remove"), back="webhooks", address=("queue", "url"),
        recorded="push targets of {queue}",
    ),
)  # fmt: skip
