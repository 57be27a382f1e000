"""
Actions on whole queues.
"""

from __future__ import annotations

from rsmq.web.pages.actions.form import Done, Effect, Fields, PageAction, one
from rsmq.web.pages.formats import plural, show_name
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall


def _queue(fields: Fields) -> str:
    return one(fields, "queue")


def _name(fields: Fields) -> str:
    return show_name(_queue(fields))


def _to_queue(links: Links, fields: Fields) -> str:
    return links.queue(_queue(fields))


async def _effect_of_purge(call: PageCall, fields: Fields) -> Effect:
    queue = await call.read("/queues/{queue}", {"queue": _queue(fields)})
    return Effect(
        f"Removes {plural(queue['messages'], 'message')} from {_name(fields)}, of which "
        f"{plural(queue['hidden_messages'], 'message')} are hidden: received, delayed, or waiting "
        "for a retry.",
        name_to_type=_queue(fields),
    )


async def _effect_of_deletion(call: PageCall, fields: Fields) -> Effect:
    queue = await call.read("/queues/{queue}", {"queue": _queue(fields)})
    return Effect(
        f"Removes the queue {_name(fields)} with {plural(queue['messages'], 'message')}, its "
        "attributes and its counters. Its producers and consumers get queueNotFound.",
        name_to_type=_queue(fields),
    )


ACTIONS = (
    PageAction(
        "pause", "POST", "/queues/{queue}:pause",
        lambda f: f"Pause {_name(f)}", "Pause",
        lambda f, _: Done(f"{_name(f)} is paused: workers receive nothing from it."),
        _to_queue,
        command=lambda f: ["pause", _queue(f)],
    ),
    PageAction(
        "resume", "POST", "/queues/{queue}:resume",
        lambda f: f"Resume {_name(f)}", "Resume",
        lambda f, _: Done(f"{_name(f)} is active again."),
        _to_queue,
        command=lambda f: ["resume", _queue(f)],
    ),
    PageAction(
        "purge", "POST", "/queues/{queue}:purge",
        lambda f: f"Purge {_name(f)}", "Purge",
        lambda f, _: Done(f"{_name(f)} was purged."),
        _to_queue, _effect_of_purge,
        lambda f: ["purge", _queue(f)],
    ),
    PageAction(
        "delete-queue", "DELETE", "/queues/{queue}",
        lambda f: f"Delete the queue {_name(f)}", "Delete the queue",
        lambda f, _: Done(f"The queue {_name(f)} was deleted."),
        lambda links, _: links.url("queues"), _effect_of_deletion,
        lambda f: ["delete-queue", _queue(f)],
    ),
)  # fmt: skip
