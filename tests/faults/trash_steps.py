"""Deletions that can be undone, and actions on selections, while the slot of their keys moves."""

from __future__ import annotations

from rsmq.trash.operations import (
    delete_messages_to_trash,
    delete_queue_to_trash,
    purge_to_trash,
    undo,
)
from rsmq.web.selection.operations import move_rows
from rsmq.wire.keys import Namespace
from tests.faults.slot_steps import Step


def prepare_message(name):
    """Prepare a queue with a message that has limits."""

    def prepare(client, stored):
        client.create_queue(name)
        id = client.send_message(name, name, max_retries=3)
        return Namespace(stored.ns), id

    return prepare


def prepare_purged(client, stored):
    namespace, id = prepare_message("undone")(client, stored)
    return namespace, id, client.run(purge_to_trash(namespace, "2", "undone", ""))


def prepare_selected(client, stored):
    client.create_queue("chosen-for")
    return prepare_message("chosen")(client, stored)


def move(client, state):
    namespace, id = state
    to = namespace.queue("chosen-for")
    return client.run(move_rows(namespace.queue("chosen"), to, [(id, "0", "")], strict=True))


def check_kept(number, name):
    """Return a check that a message is only in the trash, with its limits."""

    def check(state, result, stored):
        assert result.messages == 1
        assert stored.ids(name) == []
        assert stored.bodies(name) == []
        trash = f"x:trash:{number}"
        assert stored.fields(f"{trash}:hash")[state[1].encode()] == name.encode()
        assert stored.fields(f"{trash}:limits") == {state[1].encode(): b"3:"}

    return check


def check_undone(state, result, stored):
    assert result.messages == 1
    assert stored.ids("undone") == [state[1]]
    assert stored.bodies("undone") == [b"undone"]
    assert stored.beside("undone", "limits") == {state[1]: b"3:"}


def check_moved(state, result, stored):
    assert result == 1
    assert stored.ids("chosen") == []
    assert stored.ids("chosen-for") == [state[1]]
    assert stored.bodies("chosen-for") == [b"chosen"]


STEPS = [
    Step(
        "trash: purge",
        prepare_message("kept"),
        lambda c, state: c.run(purge_to_trash(state[0], "1", "kept", "")),
        check_kept(1, "kept"),
    ),
    Step(
        "trash: undo",
        prepare_purged,
        lambda c, state: c.run_steps(undo(state[0], state[2])),
        check_undone,
    ),
    Step(
        "trash: delete",
        prepare_message("some"),
        lambda c, state: c.run_steps(
            delete_messages_to_trash(state[0], "3", "some", "", [state[1]])
        ),
        check_kept(3, "some"),
    ),
    Step(
        "trash: delete queue",
        prepare_message("away"),
        lambda c, state: c.run(delete_queue_to_trash(state[0], "4", "away", "")),
        check_kept(4, "away"),
    ),
    Step("selection: move", prepare_selected, move, check_moved),
]
