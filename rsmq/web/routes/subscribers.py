"""
Operations on the subscribers of queues, and on the targets of webhooks.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypedDict

from rsmq.push.async_subscribers import AsyncSubscribers
from rsmq.push.subscriber import Subscriber
from rsmq.web.blocking import in_thread
from rsmq.web.fields import Field, Refused, Shape
from rsmq.web.routes.forms import QUEUE, may, show_as
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.web.wording import ForPrograms
from rsmq.webhooks.shared_breaker import PushTarget, list_targets, remove_target, resume_target
from rsmq.webhooks.targets import target_field


class SubscriberJson(TypedDict):
    """A subscriber of a queue."""

    queue: Annotated[str, "The queue."]
    name: Annotated[str, "Its name."]
    url: Annotated[str, "Its URL, without the text of its query."]
    secret_env: Annotated[str | None, "The environment variable with its secret."]
    content_type: Annotated[str | None, "The media type."]
    concurrency: Annotated[int, "Pushes at a time."]
    max_retries: Annotated[int | None, "Retries before a message is a dead letter."]
    created_ms: Annotated[int, "Unix ms."]
    removed_ms: Annotated[int | None, "Unix ms; null if it is not removed."]
    own_queue: Annotated[str, "The queue with the messages for it."]
    state: Annotated[str, "active, or draining if it is removed."]


class SubscribersJson(TypedDict):
    """The subscribers of queues."""

    subscribers: Annotated[list[SubscriberJson], "By queue and name."]


class TargetJson(TypedDict):
    """A target of webhooks, with its state."""

    queue: Annotated[str, "The queue that is pushed."]
    url: Annotated[str, "Its URL, without the text of its query."]
    state: Annotated[str, "closed, open, trial, paused or gone."]
    failures: Annotated[int, "Failures one after the other."]
    until_ms: Annotated[int | None, "Unix ms of the end of a pause."]
    answer: Annotated[str | None, "The last failure."]
    refusal: Annotated[str | None, "Why nothing is pushed to it."]


class TargetsJson(TypedDict):
    """The targets of webhooks."""

    webhooks: Annotated[list[TargetJson], "By queue and URL."]


def _show(subscriber: Subscriber) -> SubscriberJson:
    """Return a subscriber; its URL is without the text of its query, which may be a secret."""
    state = "active" if subscriber.removed_ms is None else "draining"
    return show_as(SubscriberJson, subscriber, url=subscriber.shown_url, state=state)


async def _list(call: ApiCall) -> ApiAnswer[SubscribersJson]:
    queue = call.values.get("queue")
    found = await AsyncSubscribers(call.queues).list(queue)
    if queue is not None:
        call.allow(Scope.STATS, queue)
        if not found:
            await call.queues.get_queue_attributes(queue)  # raises without a queue
    return ApiAnswer(
        {"subscribers": [_show(each) for each in found if may(call, Scope.STATS, each.queue)]}
    )


async def _get(call: ApiCall) -> ApiAnswer:
    found = await AsyncSubscribers(call.queues).list(call.names[QUEUE])
    for each in found:
        if each.name == call.names["subscriber"]:
            return ApiAnswer(_show(each))
    raise _not_found()


def _not_found() -> Refused:
    return Refused("subscriberNotFound", "There is no such subscriber", status=404)


async def _add(call: ApiCall) -> ApiAnswer:
    queue, name = call.names[QUEUE], call.names["subscriber"]
    # It makes a queue, and it gets the bodies.
    call.allow(Scope.MANAGE, f"{queue}-{name}")
    call.allow(Scope.RECEIVE, queue)
    subscribers = AsyncSubscribers(call.queues)
    is_new = all(each.name != name for each in await subscribers.list(queue))
    added = await subscribers.add(queue, name, **call.values, replace=True)
    return ApiAnswer(_show(added), 201 if is_new else 200)


async def _remove(call: ApiCall) -> ApiAnswer:
    queue, name = call.names[QUEUE], call.names["subscriber"]
    drop = call.values.get("drop", False)
    if drop:
        call.allow(Scope.DESTROY, f"{queue}-{name}")
    if not await AsyncSubscribers(call.queues).remove(queue, name, drop=drop):
        raise _not_found()
    return ApiAnswer(status=204)


async def _list_targets(call: ApiCall) -> ApiAnswer[TargetsJson]:
    shown = [
        show_as(TargetJson, target)
        for _, target in await in_thread(call.queues, list_targets)
        if may(call, Scope.STATS, target.queue)
    ]
    return ApiAnswer({"webhooks": shown})


async def _change(change: Any, call: ApiCall) -> ApiAnswer:
    queue, url = call.values["queue"], call.values.get("url")
    call.allow(Scope.MANAGE, queue)

    def is_chosen(field: str, target: PushTarget) -> bool:
        return target.queue == queue and (url is None or field == target_field(queue, url))

    def change_chosen(client: Any) -> list[bool]:
        return [
            change(client, field)
            for field, target in list_targets(client)
            if is_chosen(field, target)
        ]

    changed = await in_thread(call.queues, change_chosen)
    if not changed:
        raise Refused(
            "webhookNotFound",
            "There is no such target",
            status=404,
            hint=ForPrograms("GET /webhooks has all."),
        )
    return ApiAnswer({"changed": sum(changed)})


_TARGET = (
    Field("queue", Shape.TEXT, "The queue that is pushed.", required=True),
    Field("url", Shape.TEXT, "Only this target, by its whole URL; all by default."),
)
_CHANGED = (Field("changed", Shape.WHOLE, "The number of targets that were changed."),)

ROUTES = (
    Route(
        "GET", "/subscribers", Scope.STATS, "List the subscribers of queues.", _list,
        query=(Field("queue", Shape.TEXT, "Only those of this queue."),),
        result=SubscribersJson,
    ),
    Route(
        "PUT", "/queues/{queue}/subscribers/{subscriber}", Scope.MANAGE,
        "Add a subscriber of a queue, or change it.", _add,
        body=list_arguments("subscribers.add"),
        answers={201: "added", 200: "it was there"},
        result=SubscriberJson,
    ),
    Route(
        "GET", "/queues/{queue}/subscribers/{subscriber}", Scope.STATS, "Read a subscriber.", _get,
        result=SubscriberJson,
    ),
    Route(
        "DELETE", "/queues/{queue}/subscribers/{subscriber}", Scope.MANAGE,
        "Remove a subscriber, which gets no further messages.", _remove,
        query=(Field("drop", Shape.FLAG, "Delete the messages that wait for it, too."),),
        answers={204: "removed"},
    ),
    Route(
        "GET", "/webhooks", Scope.STATS, "List the targets of webhooks, with their states.",
        _list_targets, result=TargetsJson,
    ),
    Route(
        "POST", "/webhooks:resume", Scope.MANAGE, "Push again to targets that were stopped.",
        partial(_change, resume_target), body=_TARGET, result=_CHANGED,
    ),
    Route(
        "POST", "/webhooks:forget", Scope.MANAGE, "Forget targets and their states.",
        partial(_change, remove_target), body=_TARGET, result=_CHANGED,
    ),
)  # fmt: skip
