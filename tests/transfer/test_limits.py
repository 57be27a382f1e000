"""The expiry and the retries of single messages, exported and imported: on raw keys."""

from __future__ import annotations

import json

import pytest

from rsmq.errors import InvalidExport


def limits_of(keys, queue="q"):
    return keys.raw.hgetall(f"{keys.ns}:{queue}:x:limits")


def send(rsmq):
    """Send messages with and without limits, and return the ids."""
    rsmq.create_queue("q")
    return [
        rsmq.send_message("q", "plain"),
        rsmq.send_message("q", "both", expires=900, max_retries=0),
        rsmq.send_message("q", "retries", max_retries=7),
        rsmq.send_message("q", "grouped", expires=900, group="a"),
    ]


def test_messages_keep_their_limits(rsmq, export_bytes, import_bytes, source, target):
    plain, both, retries, grouped = send(rsmq)
    data = export_bytes("q")
    records = {each["id"]: each for each in map(json.loads, data.splitlines()) if "id" in each}
    expires_at = records[both]["expires_at_ms"]
    assert expires_at == records[both]["visible_at_ms"] + 900_000
    assert [records[id].get("max_retries") for id in (plain, both, retries, grouped)] == [
        None, 0, 7, None,
    ]  # fmt: skip
    assert "expires_at_ms" not in records[plain]
    assert import_bytes(data).complete
    assert limits_of(target) == limits_of(source)
    assert len(limits_of(target)) == 3
    assert target.fields("q")[b"x:limited"] == b"1"
    before = target.dump()
    assert import_bytes(data).added == 0
    assert target.dump() == before


def test_messages_with_new_ids_have_the_limits_too(
    rsmq, export_bytes, import_bytes, source, target
):
    send(rsmq)
    assert import_bytes(export_bytes("q"), new_ids=True).complete
    assert sorted(limits_of(target).values()) == sorted(limits_of(source).values())
    bodies = {id: target.fields("q")[id] for id in limits_of(target)}
    assert sorted(bodies.values()) == [b"both", b"grouped", b"retries"]


def test_a_queue_without_limits_is_exported_without_a_look_at_their_key(rsmq, export_bytes, source):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    source.raw.set(f"{source.ns}:q:x:limits", "of another type")
    assert b"max_retries" not in export_bytes("q")


@pytest.mark.parametrize(
    ("field", "value"), [("max_retries", -1), ("max_retries", "2"), ("expires_at_ms", "soon")]
)
def test_limits_that_are_none_are_refused(rsmq, export_bytes, import_bytes, field, value):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    lines = export_bytes("q").splitlines()
    record = json.loads(lines[2])
    changed = [*lines[:2], json.dumps({**record, field: value}).encode(), *lines[3:]]
    with pytest.raises(InvalidExport, match=field):
        import_bytes(b"\n".join(changed) + b"\n")
