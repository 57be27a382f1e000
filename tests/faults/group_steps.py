"""Calls on queues whose messages have groups, while the slot of their keys moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.worker.operations import SweepStep, sweep_groups_in_turn
from tests.faults.slot_steps import Step

#: The endings of the keys of groups.
ENDINGS = (":x:admitted", ":x:group_of", ":x:held_back")


@dataclass
class Groups:
    """A queue with two messages of group ``a``: the first is admitted, the second is held back."""

    client: Any
    keys: QueueKeys
    name: str
    first: str
    second: str


def prepare_groups(name, *, is_deleted_by_node=False):
    def prepare(client, stored):
        client.create_queue(name)
        first = client.send_message(name, "first", group="a")
        second = client.send_message(name, "second", group="a")
        if is_deleted_by_node:
            stored.raw.zrem(f"{stored.ns}:{name}", first)
            stored.raw.hdel(f"{stored.ns}:{name}:Q", first)
        return Groups(client, Namespace(stored.ns).queue(name), name, first, second)

    return prepare


def check_sent(groups, result, stored):
    ids = result if isinstance(result, list) else [result]
    assert stored.ids(groups.name)[0] == groups.first
    assert not any(stored.is_visible(groups.name, id) for id in (groups.second, ids[0]))
    assert all(stored.is_visible(groups.name, id) for id in ids[1:])
    assert groups.client.sweep_groups(groups.name) == 0


def check_admitted(groups, result, stored):
    """The call has made room, or a sweep does: a delete may leave that to it."""
    groups.client.sweep_groups(groups.name)
    assert stored.ids(groups.name) == [groups.second]
    assert stored.is_visible(groups.name, groups.second)


def check_swept(groups, result, stored):
    assert result in (1, SweepStep(45.0, b"", 1))
    assert stored.is_visible(groups.name, groups.second)


def check_held_back(groups, result, stored):
    assert result in ([], False) or [each.id for each in result] == [groups.second]
    assert not stored.is_visible(groups.name, groups.second)


def sweep_in_turn(client, groups):
    return client.run(sweep_groups_in_turn(groups.keys, b""))


STEPS = [
    Step(
        "groups: send",
        prepare_groups("g-send"),
        lambda client, of: client.send_message(of.name, "third", group="a"),
        check_sent,
    ),
    Step(
        "groups: send several",
        prepare_groups("g-several"),
        lambda client, of: client.send_messages(of.name, ["third", "other"], groups=["a", "b"]),
        check_sent,
    ),
    Step(
        "groups: send with options",
        prepare_groups("g-options"),
        lambda client, of: client.send_message(of.name, "third", group="a", unique_key="k"),
        check_sent,
    ),
    Step(
        "groups: delete",
        prepare_groups("g-delete"),
        lambda client, of: client.delete_message(of.name, of.first),
        check_admitted,
    ),
    Step(
        "groups: pop",
        prepare_groups("g-pop"),
        lambda client, of: client.pop_message(of.name),
        check_admitted,
    ),
    Step(
        "groups: sweep",
        prepare_groups("g-sweep", is_deleted_by_node=True),
        lambda client, of: client.sweep_groups(of.name),
        check_swept,
    ),
    Step(
        "groups: sweep in turn",
        prepare_groups("g-turn", is_deleted_by_node=True),
        sweep_in_turn,
        check_swept,
    ),
    Step(
        "groups: release",
        prepare_groups("g-release"),
        lambda client, of: client.release_messages(of.name, [of.second]),
        check_held_back,
    ),
    Step(
        "groups: change visibility",
        prepare_groups("g-visibility"),
        lambda client, of: client.change_message_visibility(of.name, of.second, 0),
        check_held_back,
    ),
    Step(
        "groups: peek",
        prepare_groups("g-peek"),
        lambda client, of: client.peek_messages(of.name, state="held_back"),
        check_held_back,
    ),
]
