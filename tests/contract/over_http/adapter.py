"""
An object with the methods of the asyncio client, each of which sends requests to the HTTP API.

It changes values to JSON and back, and problems to errors. It checks no values itself.
"""

from __future__ import annotations

import base64
from dataclasses import fields
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

import redis

from rsmq import TEXT, errors
from rsmq.model import (
    DeadLetterReason,
    Message,
    MessageCounts,
    QueueAttributes,
    StoredMessage,
    make_received_message,
)
from rsmq.operations.arguments import encode_body
from rsmq.schedules.definition import ScheduleDefinition, StoredSchedule
from rsmq.vocabulary.sends import SCHEDULE
from rsmq.web import create_app
from rsmq.wire.limits import utf16_length
from tests.web.asgi import Http

_CLASSES = {
    each.code: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.RSMQError)
    if each not in (errors.InvalidCombination, errors.InvalidOption)
}
#: The arguments of the client, by the fields that have other names.
_ARGUMENTS = {
    "queue": "qname",
    "max": "max_messages",
    "the number of messages": "the number of bodies",
    "the bytes of messages": "the bytes of bodies",
}
#: The texts of Node's errors that name no argument.
_TEXTS = {
    "noAttributeSupplied": "No attribute was supplied",
    "messageNotString": "Message must be a string",
    "messageTooLong": "Message too long",
    "queueNotFound": "Queue not found",
    "queueExists": "Queue exists",
}
#: Answers about a single message that the client reports by its result.
_UNCHANGED = {"messageNotFound", "receiptExpired"}


class HttpError(Exception):
    """A problem that no error of the client stands for."""


def _error_of(reply):
    problem = reply.json
    assert reply.headers["content-type"] == "application/problem+json"
    assert problem["status"] == reply.status
    code, detail, hint = problem["code"], problem["detail"], problem.get("hint")
    if code == "redis-refused":
        return redis.ResponseError(detail)
    if code in {"redis-unavailable", "outcome-unknown"}:
        return redis.ConnectionError(detail)
    kind = _CLASSES.get(code)
    if kind is None:
        return HttpError(problem)
    value = problem.get("value")
    if "field" in problem:
        argument = _ARGUMENTS.get(problem["field"], problem["field"])
        return kind(argument, *problem.get("range", ()), value=value, hint=hint)
    error = kind.__new__(kind)
    text = _TEXTS.get(code, detail)
    errors.RSMQError.__init__(error, text, value=value, hint=hint, summary=detail)
    return error


def _plain(value):
    """Return an argument as a value of JSON."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, datetime) else value


def _fields(**options):
    return {name: _plain(value) for name, value in options.items() if value is not None}


def _wait(wait):
    return 60 if wait is None else wait


def _quote(name):
    return quote(name.encode(errors="surrogateescape"), safe="")


def _queue(name):
    if name == "":
        raise errors.MissingParameter("qname")  # a path has no empty part
    return f"/queues/{_quote(name)}"


def _receipt(message):
    return f"{message.id}.{message.receive_count}"


def _time(text):
    return None if text is None else datetime.fromisoformat(text)


def _raw(shown):
    if "body" in shown:
        return shown["body"].encode()
    return base64.b64decode(shown["body_base64"])


class HttpClient:
    """
    The client of an application.

    Attributes:
        requests: how many it has sent.
    """

    def __init__(self, queues, codec=None):
        self._queues = queues
        self._codec = codec or TEXT
        self._http = Http(create_app(queues, auth=False))
        self.requests = 0
        # For the operations of workers, with which tests prepare messages.
        self.namespace = queues.namespace
        self.schedules = HttpSchedules(self)

    async def run(self, operation):
        return await self._queues.run(operation)

    async def run_steps(self, steps):
        return await self._queues.run_steps(steps)

    async def close(self):
        await self._queues.close()

    async def call(self, method, path, content=None, unchanged=False):
        """Return the content of an answer; with ``unchanged`` None if the message is gone."""
        self.requests += 1
        reply = await self._http(method, path, content)
        if reply.status < 400:
            return reply.json if reply.content else True
        if unchanged and reply.json["code"] in _UNCHANGED:
            return None
        raise _error_of(reply)

    def body(self, body, codec=None):
        """Return the field with a body."""
        raw, _ = encode_body(body, codec or self._codec)
        try:
            return {"body": raw.decode()}
        except UnicodeDecodeError:
            return {"body_base64": base64.b64encode(raw).decode()}

    async def create_queue(self, qname, *, exist_ok=False, **options):
        self.requests += 1
        reply = await self._http("PUT", _queue(qname), _fields(**options))
        if reply.status == 201:
            return True
        if reply.status != 200 and reply.json["code"] != "queueExists":
            raise _error_of(reply)
        if not exist_ok:
            raise errors.QueueExists(qname, self.namespace.name)
        return False

    async def delete_queue(self, qname):
        await self.call("DELETE", _queue(qname))

    async def list_queues(self):
        names, cursor, query = [], "", ""
        while cursor is not None:
            page = await self.call("GET", f"/queues?limit=3{query}")
            names += [each["name"] for each in page["queues"]]
            cursor = page["cursor"]
            query = f"&cursor={_quote(cursor or '')}"
        return names

    async def get_queue_attributes(self, qname):
        return _attributes(await self.call("GET", _queue(qname)))

    async def set_queue_attributes(self, qname, **options):
        return _attributes(await self.call("PATCH", _queue(qname), _fields(**options)))

    async def set_dead_letter_policy(self, qname, dead_letter_queue, max_receives=None):
        path = f"{_queue(qname)}/dead-letter-policy"
        if dead_letter_queue is None and max_receives is None:
            return _attributes(await self.call("DELETE", path))
        options = _fields(dead_letter_queue=dead_letter_queue, max_receives=max_receives)
        return _attributes(await self.call("PUT", path, options))

    async def count_messages(self, qname):
        found = await self.call("GET", f"{_queue(qname)}/counts")
        return MessageCounts(**{each.name: found[each.name] for each in fields(MessageCounts)})

    async def set_queue_limits(self, qname, *, max_running=None, rate=None):
        path = f"{_queue(qname)}/limits"
        if max_running is None and rate is None:
            return _attributes(await self.call("DELETE", path))
        options = _fields(max_running=max_running, rate=rate)
        return _attributes(await self.call("PUT", path, options))

    async def pause_queue(self, qname):
        return (await self.call("POST", f"{_queue(qname)}:pause"))["changed"]

    async def resume_queue(self, qname):
        return (await self.call("POST", f"{_queue(qname)}:resume"))["changed"]

    async def purge_queue(self, qname):
        return (await self.call("POST", f"{_queue(qname)}:purge"))["removed"]

    async def release_all_messages(self, qname):
        return (await self.call("POST", f"{_queue(qname)}:release-all"))["released"]

    async def send_message(self, qname, body, *, codec=None, **options):
        content = {**self.body(body, codec), **_fields(**options)}
        return (await self.call("POST", f"{_queue(qname)}/messages", content))["id"]

    async def send_messages(
        self, qname, bodies, *, dedup_ids=None, unique_keys=None, groups=None, limit_keys=None,
        codec=None, **options,
    ):  # fmt: skip
        messages = [self.body(each, codec) for each in bodies]
        for name, values in (
            ("dedup_id", dedup_ids),
            ("unique_key", unique_keys),
            ("group", groups),
            ("limit_key", limit_keys),
        ):
            for message, value in zip(messages, values or (), strict=False):
                message[name] = value
        content = {"messages": messages, **_fields(**options)}
        return (await self.call("POST", f"{_queue(qname)}/messages:batch", content))["ids"]

    async def publish(self, qnames, body, *, codec=None, **options):
        content = {"queues": list(qnames), **self.body(body, codec), **_fields(**options)}
        return (await self.call("POST", "/publish", content))["ids"]

    async def receive_message(self, qname, *, vt=None, wait=0, codec=None):
        found = await self.receive_messages([qname], 1, vt=vt, wait=wait, codec=codec)
        return found[0] if found else None

    async def receive_messages(
        self, qnames, max_messages, *, vt=None, wait=0, codec=None, extend_groups=None
    ):
        names = [qnames] if isinstance(qnames, str) else list(qnames)
        content = _fields(
            queues=names, max=max_messages, vt=vt, wait=_wait(wait), extend_groups=extend_groups
        )
        return self._received(await self.call("POST", "/receive", content), codec)

    async def pop_message(self, qname, *, wait=0, codec=None):
        found = await self.pop_messages([qname], 1, wait=wait, codec=codec)
        return found[0] if found else None

    async def pop_messages(self, qnames, max_messages, *, wait=0, codec=None):
        names = [qnames] if isinstance(qnames, str) else list(qnames)
        content = _fields(queues=names, max=max_messages, wait=_wait(wait))
        return self._received(await self.call("POST", "/pop", content), codec)

    async def recover_messages(self, qname, max_messages, *, idle, vt=None, codec=None):
        content = _fields(max=max_messages, idle=idle, vt=vt)
        shown = await self.call("POST", f"{_queue(qname)}/messages:recover", content)
        return self._received(shown, codec)

    def _received(self, shown, codec):
        messages = []
        for each in shown["messages"]:
            message = make_received_message(
                each["queue"], each["id"], _raw(each), each["receive_count"],
                each["first_received_ms"], codec or self._codec,
            )  # fmt: skip
            sent_ms = message.sent_ms and int(message.sent_ms)  # whole numbers in all answers
            assert (each["sent_ms"], each["receipt"]) == (sent_ms, _receipt(message))
            messages.append(message)
        return messages

    async def get_message(self, qname, id, *, codec=None):
        shown = await self.call("GET", f"{_queue(qname)}/messages/{_quote(id)}", unchanged=True)
        return shown and self._stored(shown, codec)

    async def peek_messages(self, qname, start=0, count=10, *, state=None, codec=None):
        found, fields = [], _fields(start=start, state=state)
        while True:
            query = urlencode({**fields, "limit": count - len(found)})
            shown = await self.call("GET", f"{_queue(qname)}/messages?{query}")
            for each in shown["messages"]:
                if each["truncated"]:
                    id = _quote(each["id"])
                    each.update(await self.call("GET", f"{_queue(qname)}/messages/{id}"))
                found.append(self._stored(each, codec))
            fields["cursor"] = shown["cursor"]
            if len(found) >= count or shown["cursor"] is None:
                return found

    def _stored(self, shown, codec):
        raw = _raw(shown)
        values = {
            name: value
            for name, value in shown.items()
            if name
            not in {"body", "body_base64", "size", "steps", "reason", "redacted", "truncated"}
        }
        assert shown["size"] == len(raw)
        reason = shown["reason"] and DeadLetterReason(**shown["reason"])
        return StoredMessage(**values, raw=raw, reason=reason, _codec=codec or self._codec)

    async def delete_message(self, message, id=None):
        return await self._change_one("DELETE", message, id)

    async def change_message_visibility(self, message, id=None, vt=None):
        if isinstance(message, Message):
            id, vt = None, id if vt is None else vt
        return await self._change_one("PATCH", message, id, _fields(vt=vt))

    async def _change_one(self, method, message, id, content=None):
        query = ""
        if isinstance(message, Message):
            query = f"?receipt={_quote(_receipt(message))}"
            message, id = message.queue, message.id
        path = f"{_queue(message)}/messages/{_quote(id)}{query}"
        try:
            return bool(await self.call(method, path, content, unchanged=True))
        except errors.QueueNotFound:
            if method == "DELETE":  # as Node, the client does not look for the queue
                return False
            raise

    async def delete_messages(self, messages, ids=None):
        return await self._change_many("delete", messages, ids)

    async def change_messages_visibility(self, messages, ids=None, vt=None):
        if not isinstance(messages, str):
            ids, vt = None, ids if vt is None else vt
        return await self._change_many("visibility", messages, ids, vt=vt)

    async def release_messages(self, messages, ids=None):
        return await self._change_many("release", messages, ids)

    async def move_messages(self, messages, destination, ids=None, **options):
        return await self._change_many("move", messages, ids, destination=destination, **options)

    async def _change_many(self, action, messages, ids, **options):
        if isinstance(messages, str):
            choice = {"ids": list(ids)}
            path = f"{_queue(messages)}/messages:{action}"
            return (await self.call("POST", path, {**choice, **_fields(**options)}))["ids"]
        by_queue = {}
        for each in (messages := list(messages)):
            by_queue.setdefault(each.queue, []).append(each)
        changed = set()
        for queue, group in by_queue.items():
            content = {"receipts": [_receipt(each) for each in group], **_fields(**options)}
            shown = await self.call("POST", f"{_queue(queue)}/messages:{action}", content)
            changed |= {(queue, id) for id in shown["ids"]}
        in_order = dict.fromkeys((each.queue, each.id) for each in messages)
        return [id for queue, id in in_order if (queue, id) in changed]

    async def redrive_messages(
        self, dead_letter_queue, destination=None, ids=None, *, max_messages=None
    ):
        if isinstance(dead_letter_queue, str):
            choice = _fields(
                ids=None if ids is None else list(ids),
                max=10_000 if ids is max_messages is None else max_messages,
            )
            return await self._redrive(dead_letter_queue, destination, choice)
        by_queue, pairs = {}, []
        for each in dead_letter_queue:
            name = "receipts" if isinstance(each, Message) else "ids"
            text = _receipt(each) if name == "receipts" else each.id
            by_queue.setdefault((each.queue, name), []).append(text)
        for (queue, name), texts in by_queue.items():
            pairs += await self._redrive(queue, destination, {name: texts})
        return pairs

    async def _redrive(self, queue, destination, choice):
        content = {**_fields(destination=destination), **choice}
        shown = await self.call("POST", f"{_queue(queue)}:redrive", content)
        return [(each["old_id"], each["id"]) for each in shown["messages"]]

    async def sweep_dead_letters(self, qname, max_messages=None):
        return await self._sweep("sweep", qname, max_messages)

    async def sweep_expired(self, qname, max_messages=None):
        return await self._sweep("sweep-expired", qname, max_messages)

    async def sweep_groups(self, qname):
        return (await self.call("POST", f"{_queue(qname)}:sweep-groups"))["admitted"]

    async def _sweep(self, action, qname, max_messages):
        shown = await self.call("POST", f"{_queue(qname)}:{action}", _fields(max=max_messages))
        return shown["ids"]


class HttpSchedules:
    def __init__(self, client):
        self._client = client

    async def add(self, name, *, body=None, codec=None, **options):
        content = _fields(**options)
        if body is not None:
            content |= self._client.body(body, codec)
        return (await self._client.call("PUT", f"/schedules/{_quote(name)}", content))["changed"]

    async def get(self, name):
        try:
            return _schedule(await self._client.call("GET", f"/schedules/{_quote(name)}"))
        except HttpError as error:
            return _none_if_gone(error)

    async def list(self):
        return [
            _schedule(each) for each in (await self._client.call("GET", "/schedules"))["schedules"]
        ]

    async def remove(self, name):
        try:
            return await self._client.call("DELETE", f"/schedules/{_quote(name)}")
        except HttpError as error:
            return bool(_none_if_gone(error))

    async def pause(self, name):
        return (await self._act("POST", name, ":pause"))["changed"]

    async def resume(self, name):
        return (await self._act("POST", name, ":resume"))["changed"]

    async def run_now(self, name):
        return (await self._act("POST", name, ":run"))["id"]

    async def _act(self, method, name, action):
        try:
            return await self._client.call(method, f"/schedules/{_quote(name)}{action}")
        except HttpError as error:
            _none_if_gone(error)
            raise errors.NotPossible(f"There is no schedule {name!r}", value=name) from None


def _none_if_gone(error):
    if error.args[0]["code"] != "scheduleNotFound":
        raise error


def _attributes(shown):
    values = {name: value for name, value in shown.items() if name != "name"}
    for name in ("created", "modified"):
        values[name] = _time(values[name])
    return QueueAttributes(**values)


_DEFINITION = (
    "name", "queue", "cron", "every", "timezone", "missed", "jitter", "tick_field", "version",
    "source", "realtime",
)  # fmt: skip


def _schedule(shown):
    definition = None
    if shown["queue"] is not None:
        raw = _raw(shown)
        size = utf16_length(shown["body"]) if "body" in shown else len(raw)
        values = {name: shown[name] for name in _DEFINITION}
        options = {name: shown[name] for name in SCHEDULE.options if shown[name] is not None}
        definition = ScheduleDefinition(**values, body=raw, size=size, options=options)
    state = {
        name: _time(shown[name]) if name.endswith("_at") else shown[name]
        for name in StoredSchedule.__dataclass_fields__
        if name != "definition"
    }
    return StoredSchedule(**state, definition=definition)
