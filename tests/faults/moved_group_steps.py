"""Calls that move messages of groups between queues, while the slot of their keys moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rsmq.operations.restore import RestoredMessage, restore_messages
from rsmq.trash.operations import delete_messages_to_trash, undo
from rsmq.wire.keys import Namespace
from tests.faults.slot_steps import Step


@dataclass
class Moved:
    """Two messages of one group, and the queue in which they are after the call."""

    namespace: Namespace
    name: str
    target: str
    ids: list[str]
    deletion: Any = None


def prepare(name, target):
    def prepare(client, stored):
        for each in {name, target}:
            client.create_queue(each)
        ids = client.send_messages(name, ["a", "a"], groups=["a", "a"])
        return Moved(Namespace(stored.ns), name, target, ids)

    return prepare


def prepare_dead(name, target):
    """Prepare two dead letters of one group."""

    def prepare_dead(client, stored):
        moved = prepare(name, target)(client, stored)
        client.set_dead_letter_policy(target, name, 1)
        groups = dict.fromkeys(moved.ids, "1:a")
        members = [f"a\0{id}" for id in moved.ids]
        stored.raw.zadd(f"{stored.ns}:{name}", dict.fromkeys(moved.ids, 1))
        stored.raw.hset(f"{stored.ns}:{name}:x:group_of", mapping=groups)
        stored.raw.zrem(f"{stored.ns}:{name}:x:admitted", *members)
        stored.raw.zrem(f"{stored.ns}:{name}:x:held_back", *members)
        return moved

    return prepare_dead


def prepare_dying(name, target):
    """Prepare a message that is a dead letter, with its visibility timeout over."""

    def prepare_dying(client, stored):
        moved = prepare(name, target)(client, stored)
        client.set_dead_letter_policy(name, target, 1)
        client.receive_message(name, vt=0)
        return moved

    return prepare_dying


def prepare_deleted(name):
    def prepare_deleted(client, stored):
        moved = prepare(name, name)(client, stored)
        steps = delete_messages_to_trash(moved.namespace, name, name, "", moved.ids)
        moved.deletion = client.run_steps(steps)
        return moved

    return prepare_deleted


def restore(client, moved):
    rows = [RestoredMessage(id, b"a", 1, 0, None, {"group_of": b"a"}) for id in moved.ids]
    keys = moved.namespace.queue(moved.target)
    return client.run(restore_messages(keys, rows, largest=0, realtime=False))


def check_groups(moved, result, stored):
    """The first message of the target is due, and the second one waits for it."""
    first, second = stored.ids(moved.target)
    key = f"{stored.ns}:{moved.target}:x:"
    assert stored.is_visible(moved.target, first)
    assert not stored.is_visible(moved.target, second)
    assert stored.raw.zrange(f"{key}admitted", 0, -1) == [f"a\0{first}".encode()]
    assert stored.raw.zrange(f"{key}held_back", 0, -1) == [f"a\0{second}".encode()]
    assert stored.raw.hlen(f"{key}group_of") == 2


def check_dead(moved, result, stored):
    assert result == moved.ids[:1]
    assert stored.ids(moved.target) == moved.ids[:1]
    (group,) = stored.beside(moved.target, "group_of").values()
    assert group.endswith(b":a")


STEPS = [
    Step(
        "moved groups: move",
        prepare("mg-from", "mg-to"),
        lambda client, of: client.move_messages(of.name, of.target, of.ids),
        check_groups,
    ),
    Step(
        "moved groups: redrive",
        prepare_dead("mg-dead", "mg-again"),
        lambda client, of: client.redrive_messages(of.name, of.target),
        check_groups,
    ),
    Step(
        "moved groups: dead letter",
        prepare_dying("mg-dying", "mg-graves"),
        lambda client, of: client.sweep_dead_letters(of.name),
        check_dead,
    ),
    Step(
        "moved groups: undo",
        prepare_deleted("mg-undone"),
        lambda client, of: client.run_steps(undo(of.namespace, of.deletion)),
        check_groups,
    ),
    Step("moved groups: restore", prepare("mg-source", "mg-restored"), restore, check_groups),
]
