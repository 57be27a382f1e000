"""Calls on records of the namespace, while the slot of its keys moves: schedules, subscribers."""

from __future__ import annotations

from rsmq.codecs import BYTES
from rsmq.push.operations import add_subscriber, fan_out, list_subscribers, remove_subscriber
from rsmq.schedules.definition import make_definition
from rsmq.schedules.operations import fire_due_schedules, remove_schedule, store_definition
from rsmq.wire.keys import Namespace
from tests.faults.slot_steps import Step

RECORD = b'{"url":"https://example.org/"}'


def define(namespace, name, queue, **options):
    """Return the steps that store a schedule of every hour."""
    arguments = {"every": 3600, "queue": queue, "body": b"m", **options}
    definition = make_definition(
        namespace, name, arguments, codec=BYTES, realtime=False, source="call"
    )
    return store_definition(namespace, definition, keeps_version=True)


def prepare_schedule(name, *, is_due, **options):
    """Prepare a schedule and its queue; a due one has missed many ticks."""

    def prepare(client, stored):
        namespace = Namespace(stored.ns)
        client.create_queue(name)
        client.run_steps(define(namespace, name, name, **options))
        if is_due:
            stored.raw.hset(f"{stored.ns}:x:schedules", f"{name}:tick", 3_600_000)
            stored.raw.zadd(f"{stored.ns}:x:due", {name: 3_600_000})
        return namespace

    return prepare


def check_fired(namespace, result, stored):
    assert stored.bodies("tick") == [b"m"]
    (id,) = stored.ids("tick")
    assert stored.fields("x:schedules")[b"tick:last"].endswith(b" " + id.encode())
    assert stored.raw.zscore(f"{stored.ns}:x:due", "tick") > 3_600_000


def check_fired_with_options(namespace, result, stored):
    (id,) = stored.ids("limited")
    assert stored.fields("x:schedules")[b"limited:last"].endswith(b" " + id.encode())
    assert stored.fields("limited:x:unique") == {b"one": id.encode()}
    assert stored.fields("limited:x:limits")[id.encode()].startswith(b"2:")


def check_changed(namespace, result, stored):
    assert result is True
    assert b'"queue": "other"' in stored.fields("x:schedules")[b"changed"]


def check_removed(namespace, result, stored):
    assert result is True
    assert not [name for name in stored.fields("x:schedules") if name.startswith(b"removed")]
    assert stored.raw.zscore(f"{stored.ns}:x:due", "removed") is None


def prepare_subscriber(queue, *, name="a"):
    """Prepare a queue with two messages, and a subscriber of it."""

    def prepare(client, stored):
        namespace = Namespace(stored.ns)
        client.create_queue(queue)
        client.send_messages(queue, ["1", "2"])
        if name:
            add = add_subscriber(namespace, queue, name, RECORD, f"{queue}-{name} t", replace=False)
            assert client.run(add)[0] == "added"
        return namespace

    return prepare


async def copy(client, namespace):
    """Copy the messages for the subscriber, as a pusher does that reads a changed list again."""
    for _ in range(100):
        version = (await client.run(list_subscribers(namespace, b"")))[""]
        moved = await client.run(fan_out(namespace, "copied", ["copied-a"], version))
        if moved >= 0:
            return moved
    raise AssertionError("the list changes all the time")


def check_copied(namespace, result, stored):
    assert stored.bodies("copied-a") == [b"1", b"2"]
    assert stored.bodies("copied") == []


def check_added(namespace, result, stored):
    assert result[0] == "added"
    assert b"added/a" in stored.fields("x:subscribers")
    assert stored.is_listed("added-a")
    assert stored.bodies("added") == [b"1", b"2"]


def check_dropped(namespace, result, stored):
    assert b"dropped/a" not in stored.fields("x:subscribers")
    assert not stored.is_listed("dropped-a")
    assert stored.bodies("dropped") == [b"1", b"2"]


STEPS = [
    Step(
        "schedule: fire",
        prepare_schedule("tick", is_due=True),
        lambda c, namespace: c.run_steps(fire_due_schedules(namespace)),
        check_fired,
    ),
    Step(
        "schedule: fire with options",
        prepare_schedule("limited", is_due=True, unique_key="one", expires=9, max_retries=2),
        lambda c, namespace: c.run_steps(fire_due_schedules(namespace)),
        check_fired_with_options,
    ),
    Step(
        "schedule: change",
        prepare_schedule("changed", is_due=False),
        lambda c, namespace: c.run_steps(define(namespace, "changed", "other")),
        check_changed,
    ),
    Step(
        "schedule: remove",
        prepare_schedule("removed", is_due=False),
        lambda c, namespace: c.run(remove_schedule(namespace, "removed")),
        check_removed,
    ),
    Step("subscribers: copy", prepare_subscriber("copied"), copy, check_copied),
    Step(
        "subscribers: add",
        prepare_subscriber("added", name=None),
        lambda c, namespace: c.run(
            add_subscriber(namespace, "added", "a", RECORD, "added-a t", replace=False)
        ),
        check_added,
    ),
    Step(
        "subscribers: remove",
        prepare_subscriber("dropped"),
        lambda c, namespace: c.run(remove_subscriber(namespace, "dropped/a", "dropped-a", "drop")),
        check_dropped,
    ),
]
