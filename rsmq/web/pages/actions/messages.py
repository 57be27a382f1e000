"""
Actions on chosen messages, on their jobs, and sends.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rsmq.vocabulary.sends import SEND
from rsmq.web.fields import Refused
from rsmq.web.pages.actions.form import (
    Done,
    Effect,
    Fields,
    FollowUp,
    Input,
    PageAction,
    one,
    options_of,
    positional,
)
from rsmq.web.pages.actions.queues import undo_of
from rsmq.web.pages.actions.sends import inputs_of, options_of_call
from rsmq.web.pages.crash_evidence import UNKNOWN_ENDS
from rsmq.web.pages.formats import plural, show_bytes, show_name
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.explanations import MessageWhyJson
from rsmq.web.routes.forms import QueueJson, StoredJson
from rsmq.web.routes.jobs import JobJson
from rsmq.web.routes.queue_list import QueuesJson
from rsmq.web.table import Scope

#: More messages ask for the name of the queue.
MAX_UNTYPED = 100
#: Queues that are offered in a list; of more queues the name is written.
_MAX_CHOICES = 200
#: A longer body is not edited in a browser.
_MAX_EDITED_BYTES = 512 * 1024
_DELETE_OLD = "delete"
#: The field of a move with the name of a queue that is created for it.
NEW_QUEUE = "new-queue"
STAYS = "Those that are received meanwhile stay."
#: Messages of which it is read whether they may crash their workers: two commands each.
_MAX_LOOKED_AT = 5


def _queue(fields: Fields) -> str:
    return one(fields, "queue")


def _ids(fields: Fields) -> Sequence[str]:
    return fields.get("ids", ())


def _counted(fields: Fields) -> str:
    return plural(len(_ids(fields)), "message")


def _named(fields: Fields) -> str:
    """Return the only message by its id, several by their number."""
    ids = _ids(fields)
    return f"the message {show_name(ids[0])}" if len(ids) == 1 else _counted(fields)


def _named_now(fields: Fields) -> str:
    node = one(fields, "node")
    return f"{f'node {show_name(node)}' if node else _named(fields)} now"


def _of(fields: Fields) -> str:
    return f"{_named(fields)} of {show_name(_queue(fields))}"


def _to_list(links: Links, fields: Fields) -> str:
    return _origin(links, fields) or links.queue(_queue(fields), "messages")


def _to_message(links: Links, fields: Fields) -> str:
    ids = _ids(fields)
    if len(ids) != 1:
        return _to_list(links, fields)
    return _origin(links, fields) or links.message(_queue(fields), ids[0])


def _origin(links: Links, fields: Fields) -> str | None:
    """Return the page of a worker or a flow from which its message is changed; None without one."""
    worker, flow = one(fields, "worker"), one(fields, "flow")
    return links.worker(worker) if worker else links.flow(flow) if flow else None


def _effect(fields: Fields, text: str, *warnings: str) -> Effect:
    if not _ids(fields):
        raise Refused("missingParameter", "No message is chosen", hint="Check its box in the list.")
    is_many = len(_ids(fields)) > MAX_UNTYPED
    return Effect(text, warnings, _queue(fields) if is_many else None)


async def _as_shown(call: PageCall, fields: Fields, effect: Effect) -> Effect:
    """Return an effect whose form leaves chosen messages that are received meanwhile."""

    async def read(id: str) -> str:
        names, count = {"queue": _queue(fields), "id": id}, 0
        with suppress(Refused):  # it has left the queue
            count = (await call.read(StoredJson, names, max_bytes=1))["receive_count"]
        return f"{id}.{count}"

    shown = await asyncio.gather(*map(read, _ids(fields)))
    text = effect.text if len(shown) == 1 else f"{effect.text} {STAYS}"
    return replace(effect, text=text, hidden={**effect.hidden, "shown": shown})


async def _held(call: PageCall, fields: Fields) -> tuple[str, ...]:
    """Return the warning that a consumer has the only message that was chosen."""
    if len(_ids(fields)) != 1:
        return ("Consumers that have received some of them are not stopped.",)
    names = {"queue": _queue(fields), "id": _ids(fields)[0]}
    message = await call.read(StoredJson, names, max_bytes=1)
    if message["state"] != "in_flight":
        return ()
    holder = (await call.read(MessageWhyJson, names))["holder"]
    if holder and not holder["is_alive"]:
        return (f"Worker {show_name(holder['name'])}, which had received it, is dead.",)
    return ("A consumer has received it and may be at work on it; that is not stopped.",)


async def _effect_of_deletion(call: PageCall, fields: Fields) -> Effect:
    hidden, warnings, text = await undo_of(call)
    held = await _held(call, fields)
    effect = _effect(fields, f"Deletes {_of(fields)}.{text}", *held, *warnings)
    return await _as_shown(call, fields, replace(effect, hidden=hidden))


async def _effect_of_release(
    call: PageCall, fields: Fields, deed: str = "Makes {} visible now"
) -> Effect:
    place = "each in its" if len(_ids(fields)) > 1 else "in its"
    text = f"{deed.format(_of(fields))}, {place} old place."
    return await _as_shown(call, fields, _effect(fields, text, *await _held(call, fields)))


async def _effect_of_run(call: PageCall, fields: Fields) -> Effect:
    return await _effect_of_release(call, fields, "Releases {} to run now")


async def _effect_of_hiding(call: PageCall, fields: Fields) -> Effect:
    text = f"Hides {_of(fields)} for a time from now on."
    return _effect(fields, text, *await _held(call, fields))


async def _effect_of_move(call: PageCall, fields: Fields) -> Effect:
    text = f"Moves {_of(fields)} to another queue."
    effect = _effect(fields, text, *await _held(call, fields))
    return await _as_shown(call, fields, await with_target(call, fields, effect))


async def _effect_of_redrive(call: PageCall, fields: Fields) -> Effect:
    return _effect(
        fields,
        f"Redrives {_of(fields)}: sends each to the queue that it came from, as a new message, and "
        "deletes it here.",
        *await _held(call, fields),
        *await _may_crash(call, fields),
    )


async def _may_crash(call: PageCall, fields: Fields) -> tuple[str, ...]:
    """Return the warning that of one of the first messages it is not known how receives ended."""
    for id in _ids(fields)[:_MAX_LOOKED_AT]:
        names = {"queue": _queue(fields), "id": id}
        message = await call.read(StoredJson, names, max_bytes=1)
        if message["reason"] is None and message["receive_count"] > 1:
            return (UNKNOWN_ENDS,)
    return ()


async def _effect_of_cancelling(call: PageCall, fields: Fields) -> Effect:
    names = {"queue": _queue(fields), "id": one(fields, "id")}
    job = await call.read(JobJson, names)
    if job["is_ended"]:
        return Effect(f"The job has ended: {job['state']}. Nothing is changed.")
    if job["worker"]:
        return Effect(
            "A consumer has the job: it is asked to cancel it, at its next look. A plain handler "
            "in a thread that does not look runs to its end; one with process=True is interrupted."
        )
    return Effect("The job waits: its message is deleted, and it counts as cancelled.")


async def input_of_queue(call: PageCall, name: str, label: str, *, but: str = "") -> Input:
    """Return the field of a queue: a list, unless there are too many."""
    page = await call.read(QueuesJson, sort="name", limit=_MAX_CHOICES)
    if page["cursor"] is not None:
        return Input(name, label, required=True)
    names = [each["name"] for each in page["queues"]]
    choices = tuple(
        (each, show_name(each)) for each in names if each != but and call.may(Scope.SEND, each)
    )
    return Input(name, label, "choice", choices=choices, required=True)


async def with_target(call: PageCall, fields: Fields, effect: Effect) -> Effect:
    """Return the effect of a move with the fields of its target, which may be a new queue."""
    queue, new = _queue(fields), one(fields, NEW_QUEUE)
    found = await input_of_queue(call, "destination", "To the queue", but=queue)
    target = (await call.read(QueueJson, {"queue": queue}))["dead_letter_queue"]
    offered = {each for each, _ in found.choices}
    is_offered = target is not None and target in (offered or {target})
    found = replace(found, value=target or "") if is_offered else _unchosen(found)
    if not (call.may(Scope.MANAGE, queue) and call.may(Scope.MANAGE, None)):
        return replace(effect, inputs=(found,))
    hint = f"It is created with the attributes of {show_name(queue)}, if it does not exist."
    inputs: tuple[Input, ...] = (Input(NEW_QUEUE, "Or to a new queue", hint=hint),)
    if found.kind == "text" or found.choices:
        inputs = (replace(found, required=False), *inputs)
    entry = {"destination": new, "create_destination": "true"} if new else {}
    return replace(effect, inputs=inputs, entry={**effect.entry, **entry})


def target_of(fields: Fields) -> str:
    """Return the queue to which messages are moved."""
    return one(fields, NEW_QUEUE) or one(fields, "destination")


async def _input_of_receiver(call: PageCall, fields: Fields) -> Input:
    queues = await input_of_queue(call, "queue", "To the queue")
    return queues if one(fields, "queue") in dict(queues.choices) else _unchosen(queues)


def _unchosen(queues: Input) -> Input:
    """Return the field without a queue that is chosen beforehand."""
    choices = queues.choices and (("", "Choose a queue"), *queues.choices)
    return replace(queues, choices=choices)


async def _effect_of_send(call: PageCall, fields: Fields) -> Effect:
    target = await _input_of_receiver(call, fields)
    return Effect("", inputs=(target, Input("body", "Body", "area")))


async def _effect_of_resend(call: PageCall, fields: Fields) -> Effect:
    source, id = one(fields, "from"), one(fields, "id")
    text = (
        f"Sends the body of {show_name(id)} as a new message, with a receive count of 0. The old "
        "one stays, unless you let it be deleted."
    )
    inputs = [
        await _input_of_receiver(call, fields), *await _inputs_of_message(call, fields, source, id)
    ]  # fmt: skip
    if call.may(Scope.RECEIVE, source) and call.may(Scope.MANAGE, source):
        choices = (("", "It stays"), (_DELETE_OLD, "It is deleted when the new one was sent"))
        inputs.append(Input("old", "The old message", "choice", choices=choices))
    return Effect(text, inputs=tuple(inputs))


async def _inputs_of_message(call: PageCall, fields: Fields, queue: str, id: str) -> list[Input]:
    """Return the fields with the body and the group of a message, or of the form if it was sent."""
    for name in ("body", "body_base64"):
        if name in fields:
            return [_body_input(name, one(fields, name))]
    call.check(Scope.PEEK, queue)
    message = await call.read(StoredJson, {"queue": queue, "id": id}, max_bytes=_MAX_EDITED_BYTES)
    if message["redacted"]:
        raise Refused(
            "redacted", "The body is redacted for you, so it can't be sent again", status=403,
            hint="A user without redaction can.",
        )  # fmt: skip
    if message["truncated"]:
        raise Refused(
            "messageTooLong", "The body is too long to be edited here",
            value=show_bytes(message["size"]),
            hint=f"A browser edits bodies of at most {show_bytes(_MAX_EDITED_BYTES)}. Download it, "
            "and send it by rsmq send --file FILE --whole.",
        )  # fmt: skip
    group = replace(_GROUP, value=message["group"] or "")
    text = message.get("body")
    # A form keeps neither carriage returns nor characters that HTML can't have.
    if text is not None and all(each.isprintable() or each in "\n\t" for each in text):
        return [_body_input("body", text), group]
    encoded = message.get("body_base64")
    encoded = encoded if encoded is not None else _encode(text or "")
    return [_body_input("body_base64", encoded), group]


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _body_input(name: str, value: str) -> Input:
    if name == "body":
        return Input(name, "Body", "area", value)
    hint = "It has bytes or characters that a form does not keep."
    return Input(name, "Body, as base64", "area", value, hint)


def _delete_old(fields: Fields) -> FollowUp | None:
    if one(fields, "old") != _DELETE_OLD:
        return None
    names = {"queue": one(fields, "from"), "id": one(fields, "id")}
    return FollowUp("DELETE", "/queues/{queue}/messages/{id}", names, "the old one was deleted")


def _send_command(fields: Fields) -> list[str]:
    body = one(fields, "body")
    options = options_of_call(fields, SEND)
    if body:
        return ["send", *options, *positional(_queue(fields), body)]
    # With the body of its standard input.
    return ["send", *options, "--whole", "--file=-", *positional(_queue(fields))]


def changed(verb: str, key: str = "ids") -> Callable[[Fields, Any], Done]:
    """
    Return what is said of messages that were changed, and of those that were not.

    Args:
        key: the field of the answer with the changed ones, if it has not their number.
    """

    def done(fields: Fields, content: Any) -> Done:
        if content.get("operation"):
            return Done(f"The operation {content['operation']} has begun.")
        since = "done" in content  # some may have been received since they were shown
        number = content["done"] if since else len(content[key])
        left = len(_ids(fields)) - number if _ids(fields) else content["left"]
        target = target_of(fields) or None
        to = "" if target is None else f" to {show_name(target)}"
        text = f"{plural(number, 'message')} of {show_name(_queue(fields))} {verb}{to}."
        if left:
            text += (
                f" {plural(left, 'message')} had {'been received since or ' * since}left the queue."
            )
        return Done(text, (content.get("undo") or {}).get("id"), target)

    return done


_VT = Input("vt", "Seconds", value="600")
_SEND_INPUTS = inputs_of(SEND, "group", "delay")
_GROUP = _SEND_INPUTS[0]
_MESSAGES = "/queues/{queue}/messages"
_BODY = ("body", "body_base64")

#: The address of an action on messages: they, and the worker or flow whose page offers it, with the
#: number of the node.
_IDS = ("ids", "shown", "worker", "flow", "node")

ACTIONS = (
    PageAction(
        "delete-messages", f"POST {_MESSAGES}:delete", "Delete", _named, changed("deleted"),
        _effect_of_deletion, back=_to_list, address=_IDS, form=("undo",),
        recorded="messages of {queue}",
    ),
    PageAction(
        "release-messages", f"POST {_MESSAGES}:release", "Release", _named, changed("released"),
        _effect_of_release, back=_to_message, address=_IDS, recorded="messages of {queue}",
    ),
    PageAction(
        "run-messages", f"POST {_MESSAGES}:release", "Run", _named_now,
        changed("released to run now"), _effect_of_run, back=_to_message, address=_IDS,
        button="Run now",
    ),
    PageAction(
        "hide-messages", f"POST {_MESSAGES}:visibility", "Hide", _named, changed("hidden"),
        _effect_of_hiding,
        lambda f: ["visibility", *options_of(f, "vt"), *positional(_queue(f), *_ids(f))],
        back=_to_message, inputs=(_VT,), address=_IDS, recorded="messages of {queue}",
    ),
    PageAction(
        "move-messages", f"POST {_MESSAGES}:move", "Move", _named, changed("moved"),
        _effect_of_move,
        lambda f: ["move", f"--to={target_of(f) or 'QUEUE'}", *positional(_queue(f), *_ids(f))],
        back=_to_list, address=_IDS, form=("destination", NEW_QUEUE),
        recorded="messages of {queue} to {destination}",
    ),
    PageAction(
        "redrive-messages", "POST /queues/{queue}:redrive", "Redrive", _named,
        changed("redriven", "messages"), _effect_of_redrive, back=_to_list, address=_IDS,
    ),
    PageAction(
        "send-message", f"POST {_MESSAGES}", "Send", "a message", "Sent to {queue} as {id}.",
        _effect_of_send, _send_command, back=_to_list, inputs=_SEND_INPUTS, form=_BODY,
    ),
    PageAction(
        "resend-message", f"POST {_MESSAGES}", "Edit and resend", "the message {id}",
        "Resent to {queue} as {id}.",
        _effect_of_resend, _send_command, back=_to_list, inputs=_SEND_INPUTS, then=_delete_old,
        address=("from", "id"), form=(*_BODY, "old"),
    ),
    PageAction(
        "cancel-job", "POST /queues/{queue}/jobs/{id}:cancel", "Cancel", "the job {id}",
        "The job {id}: {result}.",
        _effect_of_cancelling, lambda f: ["cancel", *positional(_queue(f), one(f, "id"))],
        back="queues/{queue}/messages/{id}", recorded="job {id} of {queue}",
    ),
)  # fmt: skip
