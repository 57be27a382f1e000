"""Messages of groups that are exported and imported: their groups and times, on raw keys."""

from __future__ import annotations

import json

import pytest

from rsmq.errors import InvalidExport


def groups_of(keys, queue="q"):
    """Return the messages of the groups: those that are admitted, and those that are held back."""
    return [
        [
            tuple(member.decode().split("\0"))
            for member in keys.raw.zrange(f"{keys.ns}:{queue}:x:{name}", 0, -1)
        ]
        for name in ("admitted", "held_back")
    ]


def messages_of(data):
    records = [json.loads(line) for line in data.splitlines()]
    return [each for each in records if each["type"] == "message"]


def test_groups_and_times_are_restored(rsmq, other, export_bytes, import_bytes, source, target):
    rsmq.create_queue("q")
    a1, a2, none, b1, a3 = rsmq.send_messages("q", list("vwxyz"), groups=["a", "a", None, "b", "a"])
    late = rsmq.send_message("q", "late", group="b", delay=900)
    records = source.raw.hgetall(f"{source.ns}:q:x:group_of")
    due = {id.decode(): int(text.partition(b":")[0]) for id, text in records.items()}
    held = rsmq.receive_message("q", vt=600)
    data = export_bytes("q")
    exported = {each["id"]: each for each in messages_of(data)}

    assert {id: each.get("group") for id, each in exported.items()} == {
        a1: "a", a2: "a", none: None, b1: "b", a3: "a", late: "b",
    }  # fmt: skip
    assert {id: exported[id]["visible_at_ms"] for id in (a2, a3, late)} == {
        id: due[id] for id in (a2, a3, late)
    }
    assert import_bytes(data).complete
    assert groups_of(target) == groups_of(source)
    assert groups_of(target) == [[("a", a1), ("b", b1)], [("a", a2), ("a", a3), ("b", late)]]
    assert target.fields("q")[b"x:groups"] == b"1"
    scores, now = dict(target.scores("q")), int(target.raw.time()[0]) * 1000
    assert [id for id, score in scores.items() if score > now + 80_000_000] == [
        id for id, _ in target.scores("q") if id.decode() in (a2, a3, late)
    ]
    before = target.dump()
    assert import_bytes(data).added == 0
    assert target.dump() == before
    other.delete_message("q", held.id)
    assert due[a2] <= dict(target.scores("q"))[a2.encode()] < now + 80_000_000


def test_messages_with_new_ids_are_sent_to_their_groups(rsmq, export_bytes, import_bytes, target):
    rsmq.create_queue("q")
    rsmq.send_messages("q", list("xyz"), groups=["a", "a", None])
    import_bytes(export_bytes("q"), new_ids=True)

    bodies = {
        id: body
        for id, body in target.fields("q").items()
        if body in (b"x", b"y", b"z") and len(id) == 32
    }
    assert [[(group, bodies[id.encode()]) for group, id in part] for part in groups_of(target)] == [
        [("a", b"x")],
        [("a", b"y")],
    ]
    assert len(bodies) == 3


def test_the_group_of_an_id_without_the_mark_is_not_restored(
    rsmq, export_bytes, import_bytes, target
):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    lines = export_bytes("q").decode().splitlines()
    message = json.loads(lines[2])
    message["id"] = message["id"][:-2] + "xx"
    import_bytes("\n".join([*lines[:2], json.dumps({**message, "group": "a"})]).encode() + b"\n")

    assert len(target.scores("q")) == 1
    assert groups_of(target) == [[], []]


@pytest.mark.parametrize("group", ["", "a\0b", "x" * 129, 5])
def test_a_group_that_no_send_accepts_is_refused(rsmq, export_bytes, import_bytes, group):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m", group="a")
    lines = export_bytes("q").decode().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), "group": group})

    with pytest.raises(InvalidExport, match="group"):
        import_bytes("\n".join(lines).encode() + b"\n")


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"group": "g", "limit_key": "k", "max_running": 2}, "not both"),
        ({"limit_key": "k"}, "max_running is 1 to 1000"),
        ({"limit_key": "k", "max_running": 1001}, "max_running is 1 to 1000"),
    ],
)
def test_a_group_that_is_not_whole_is_refused(rsmq, export_bytes, import_bytes, fields, hint):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    lines = export_bytes("q").decode().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), **fields})

    with pytest.raises(InvalidExport, match=hint):
        import_bytes("\n".join(lines).encode() + b"\n")
