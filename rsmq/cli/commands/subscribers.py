"""
The command group subscribers: add, list and remove the subscribers of queues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import Group, argument, options
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_text
from rsmq.cli.app.send_options import call_options

if TYPE_CHECKING:
    from rsmq.push.subscriber import Subscriber
    from rsmq.push.subscribers import Subscribers

_COLUMNS: dict[str, str | Callable[[Subscriber], str]] = {
    "queue": "queue", "name": "name", "own queue": "own_queue", "url": "shown_url",
    "secret": "secret_env", "added": "created_ms",
    "state": lambda each: "active" if each.removed_ms is None else "draining",
}  # fmt: skip

_HELP = """
Add, list and remove the subscribers of queues.

Each message of a queue is pushed to all its subscribers by rsmq push --subscribers. Each subscriber
has a queue of its own, QUEUE-NAME, with its own attempts and dead letters. A running pusher notices
a change within seconds.
"""

subscribers = Group(
    "subscribers",
    help=_HELP,
    examples=[
        "rsmq subscribers add orders crm https://example.org/hooks --secret-env CRM_SECRET",
        "rsmq subscribers list",
        "rsmq subscribers remove orders crm",
    ],
)


@subscribers.subcommand(
    "add QUEUE NAME",
    "rsmq subscribers add orders crm https://example.org/hooks --secret-env CRM_SECRET",
)
@argument("URL", "target")
@call_options("subscribers.add")
@options("--replace  Change the settings of a subscriber of this name.")
def add(call: Call, /, queue: str, name: str, target: str, **settings: Any) -> None:
    """
    Add a subscriber of a queue.

    It gets the messages that wait in the queue, and all later ones. The URL is stored readable in
    Redis; the secret is not stored.
    """
    with call.open() as rsmq:
        subscriber = _open(rsmq).add(queue, name, target, **settings)
    call.out.result(
        _facts(subscriber),
        f"{format_text(queue)} -> {format_text(subscriber.shown_url)}: by way of the queue "
        f"{format_text(subscriber.own_queue)}",
    )


@subscribers.subcommand("list [QUEUE]", "rsmq subscribers list orders")
def list_(call: Call, queue: str | None) -> None:
    """Show the subscribers of a queue, or of all queues."""
    with call.open() as rsmq:
        found = _open(rsmq).list(queue)
    call.out.table(found, _COLUMNS, show=_facts)


@subscribers.subcommand(
    "remove QUEUE NAME",
    "rsmq subscribers remove orders crm",
    "rsmq subscribers remove orders crm --drop",
)
@options("--drop  Delete the messages that wait for it.")
def remove(call: Call, queue: str, name: str, *, drop: bool) -> Exit | None:
    """
    Remove a subscriber: it gets no further messages.

    The pushers push the messages that wait for it, and then delete its queue. With --drop both are
    deleted at once. Its dead letters stay. The exit code is 1 if there is no such subscriber.
    """
    with call.open() as rsmq:
        is_removed = _open(rsmq).remove(queue, name, drop=drop)
    text = "removed" if is_removed else "no such subscriber"
    call.out.result(
        {"queue": queue, "name": name, "removed": is_removed},
        f"{format_text(queue)} {format_text(name)}: {text}",
    )
    return None if is_removed else Exit.NOT_ALL


def _open(rsmq: Any) -> Subscribers:
    from rsmq.push.subscribers import Subscribers  # noqa: PLC0415 - takes time

    return Subscribers(rsmq)


def _facts(subscriber: Subscriber) -> dict[str, Any]:
    """Return a subscriber for JSON; its URL is without the text of its query."""
    return {
        **asdict(subscriber),
        "url": subscriber.shown_url,
        "own_queue": subscriber.own_queue,
    }
