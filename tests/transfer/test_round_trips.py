"""Queues that are exported and imported again are unchanged, byte for byte in Redis."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq import BYTES, RSMQ
from rsmq.errors import InvalidExport
from rsmq.transfer.records import parse_attributes
from rsmq.worker import Worker
from tests.workers.polling import wait_until


def without(fields, *names):
    return {field: value for field, value in fields.items() if field.decode() not in names}


def records(data):
    return [json.loads(line) for line in data.splitlines()]


def test_attributes_totals_policy_and_messages_are_restored(
    rsmq, export_bytes, import_bytes, source, target
):
    rsmq.create_queue("dead", maxsize=-1)
    rsmq.create_queue("orders", vt=60, delay=5, maxsize=2048)
    rsmq.create_queue("empty", vt=0)
    rsmq.set_dead_letter_policy("orders", "dead", 3)
    rsmq.set_queue_attributes("orders", keep=86_400, expired="dead-letter")
    source.raw.hset(f"{source.ns}:orders:Q", mapping={"created": 1_600_000_000, "totalrecv": 99})
    rsmq.send_messages("orders", [f"grüße {n}" for n in range(5)], delay=0)
    rsmq.send_message("orders", b"\xff\x00", codec=BYTES, delay=3600)
    message = rsmq.receive_message("orders", vt=0)
    rsmq.delete_message(rsmq.receive_message("orders", vt=900))
    rsmq.receive_message("orders", vt=900)
    assert message is not None

    result = import_bytes(export_bytes())
    assert [(each.queue, each.created, each.added, each.notes) for each in result.queues] == [
        ("dead", True, 0, ()), ("empty", True, 0, ()), ("orders", True, 5, ())
    ]  # fmt: skip
    assert result.complete
    for queue in ("orders", "dead", "empty"):
        assert target.scores(queue) == source.scores(queue)
        assert without(target.fields(queue), "modified") == without(
            source.fields(queue), "modified"
        )
    assert target.raw.smembers(f"{target.ns}:QUEUES") == {b"orders", b"dead", b"empty"}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    messages=st.lists(
        st.tuples(
            st.text("abcXYZ019:_-", min_size=20, max_size=64) | st.just("h0pefu1000" + "A" * 22),
            st.binary(max_size=200) | st.text(max_size=100).map(str.encode),
            st.integers(-(10**6), 2 * 10**15),
            st.integers(1, 10**6) | st.none(),
            st.integers(0, 2 * 10**12) | st.none(),
        ),
        unique_by=lambda message: message[0],
        max_size=8,
    )
)
def test_every_body_counter_time_and_id_is_restored(
    rsmq, other, export_bytes, import_bytes, source, target, messages
):
    for client in (rsmq, other):
        client.create_queue("q", exist_ok=True)
        client.purge_queue("q")
        source.raw.hdel(f"{client.namespace.name}:q:Q", "totalsent", "totalrecv")
    for id, body, score, count, first in messages:
        counters = {"rc": count, "fr": first}
        source.add("q", id, body, score, **{n: v for n, v in counters.items() if v is not None})
    result = import_bytes(export_bytes("q"))

    assert (result.added, result.complete) == (len(messages), True)
    assert target.scores("q") == source.scores("q")
    assert without(target.fields("q"), "created", "modified", "totalsent") == without(
        source.fields("q"), "created", "modified", "totalsent"
    )


def test_a_second_import_changes_nothing(rsmq, export_bytes, import_bytes, target):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    data = export_bytes()
    import_bytes(data)
    before = target.dump()
    result = import_bytes(data)

    assert target.dump() == before
    (queue,) = result.queues
    assert (queue.created, queue.added, queue.present) == (False, 0, 2)
    assert result.complete


def test_second_import_restores_consumed_messages(rsmq, other, export_bytes, import_bytes):
    rsmq.create_queue("q")
    ids = rsmq.send_messages("q", ["a", "b"])
    data = export_bytes()
    import_bytes(data)
    message = other.pop_message("q")
    result = import_bytes(data)

    assert (message.id, result.added) == (ids[0], 1)
    assert other.get_message("q", ids[0]).receive_count == 0


def test_bodies_larger_than_maxsize_are_restored(rsmq, export_bytes, import_bytes, target, source):
    rsmq.create_queue("q", maxsize=-1)
    rsmq.send_message("q", "x" * 3_000_000)
    rsmq.send_messages("q", ["y" * 200_000] * 8)
    rsmq.set_queue_attributes("q", maxsize=1024)
    data = export_bytes()
    for options in ({}, {"new_ids": True}):
        result = import_bytes(data, **options)
        assert result.complete

    bodies = sorted(value for name, value in source.fields("q").items() if len(name) == 32)
    assert sorted(value for name, value in target.fields("q").items() if len(name) == 32) == sorted(
        bodies * 2
    )


def test_several_pages_keep_their_order(rsmq, export_bytes, import_bytes, source, target):
    rsmq.create_queue("q")
    for part in range(3):
        rsmq.send_messages("q", [f"{part}-{n}" for n in range(900)])
    data = export_bytes()

    assert import_bytes(data).added == 2700
    assert target.scores("q") == source.scores("q")
    ids = [record["id"] for record in records(data) if record["type"] == "message"]
    assert ids == [id.decode() for id, _ in source.scores("q")]


def test_export_of_embedded_redis_can_be_imported_into_redis_6_2(
    export_bytes, import_bytes, old_server, ns
):
    with RSMQ.from_url(f"memory://{ns}") as memory, RSMQ.from_url(old_server.url, ns=ns) as old:
        memory.create_queue("q")
        memory.send_messages("q", [str(n) for n in range(1500)])
        memory.receive_messages("q", 10, vt=100)
        result = import_bytes(export_bytes("q", client=memory), client=old)
        assert (result.added, result.complete) == (1500, True)

        def stored(client):
            return [
                dataclasses.replace(message, last_received_ms=None, state="visible")
                for message in client.peek_messages("q", 0, 2000)
            ]

        assert stored(memory) == stored(old)
        second = import_bytes(export_bytes("q", client=old), client=memory)
        assert (second.added, second.queues[0].present) == (0, 1500)


def test_reasons_of_dead_letters_are_exported(rsmq, export_bytes, import_bytes):
    for queue in ("q", "dead"):
        rsmq.create_queue(queue)
    rsmq.send_message("q", "a")
    worker = Worker(rsmq, name="w")

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    def handle(body):
        raise ValueError(body)

    with worker:
        wait_until(lambda: rsmq.get_queue_attributes("dead").messages)
    data = export_bytes("dead")

    (reason,) = (record["reason"] for record in records(data) if record["type"] == "message")
    assert (reason["queue"], reason["exception"], reason["attempts"]) == ("q", "ValueError: a", 1)
    result = import_bytes(data)
    assert result.queues[0].notes == ("dead letters whose reasons are not imported: 1",)
    assert result.complete


@pytest.mark.parametrize("paused", [False, True])
def test_paused_queue_is_paused_after_import(rsmq, other, export_bytes, import_bytes, paused):
    rsmq.create_queue("q")
    if paused:
        rsmq.pause_queue("q")
    import_bytes(export_bytes())

    assert other.get_queue_attributes("q").paused == paused


def test_limits_are_imported_and_wrong_ones_refused(rsmq, other, export_bytes, import_bytes):
    rsmq.create_queue("q")
    rsmq.set_queue_limits("q", max_running=5, rate="100/m")
    import_bytes(export_bytes())

    attributes = other.get_queue_attributes("q")
    assert (attributes.max_running, attributes.rate) == (5, "100/m")
    with pytest.raises(InvalidExport, match="limits"):
        parse_attributes(3, {"queue": "q", "max_running": 0})
    with pytest.raises(InvalidExport, match="limits"):
        parse_attributes(3, {"queue": "q", "rate": "often"})
