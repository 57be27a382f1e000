"""
The content of an export, while other clients change the queues, and of queues of other clients.
"""

from __future__ import annotations

import io
import json
import threading

import pytest

from rsmq import RSMQ, InvalidFormat, QueueNotFound
from rsmq.transfer import export_queues
from rsmq.vocabulary.queues import QUEUE_ATTRIBUTES


def records(data):
    return [json.loads(line) for line in data.splitlines()]


def ids_of(data):
    return [record["id"] for record in records(data) if record["type"] == "message"]


def test_lines_describe_the_export_its_queues_and_messages(rsmq, export_bytes, source):
    rsmq.create_queue("q", vt=60, delay=1)
    id = rsmq.send_message("q", "a\nb \N{GRINNING FACE}", delay=0)
    source.raw.zadd(f"{source.ns}:q", {id: 1_700_000_000_000})
    before = source.dump()
    data = export_bytes()
    header, queue, message, end = records(data)
    attributes = rsmq.get_queue_attributes("q")

    assert source.dump() == before
    assert (header["type"], header["format"], header["ns"]) == ("export", 1, source.ns)
    assert header["exported_ms"] > 1_700_000_000_000
    assert queue == {
        **{each.name: each.default for each in QUEUE_ATTRIBUTES},
        "type": "queue", "queue": "q", "vt": 60, "delay": 1, "maxsize": 65536,
        "created": int(attributes.created.timestamp()),
        "modified": int(attributes.modified.timestamp()), "total_sent": 1, "total_received": 0,
        "dead_letter_queue": None, "max_receives": None, "paused": False, "keep": None,
        "expired": "drop", "max_running": None, "rate": None, "messages": 1,
    }  # fmt: skip
    assert message == {
        "type": "message", "queue": "q", "id": id, "body": "a\nb \N{GRINNING FACE}",
        "visible_at_ms": 1_700_000_000_000, "receive_count": 0,
        "sent_ms": int(id[:10], 36) / 1000,
    }  # fmt: skip
    assert (end["type"], end["queues"], end["messages"]) == ("end", 1, 1)
    assert "\N{GRINNING FACE}".encode() in data


def test_body_that_is_not_text_is_base64(rsmq, export_bytes, source):
    rsmq.create_queue("q")
    source.add("q", "i" * 32, b"\xff\x00", 1, rc=2)

    assert {"body_base64": "/wA=", "receive_count": 2}.items() <= records(export_bytes())[2].items()


def test_named_queues_are_exported_in_the_given_order(rsmq, export_bytes):
    for name in "abc":
        rsmq.create_queue(name)

    queue_order = [record["queue"] for record in records(export_bytes("c", "a", "c"))[1:-1]]
    assert queue_order == ["c", "a"]


def test_missing_queue_ends_the_export_before_any_write(rsmq):
    rsmq.create_queue("q")
    file = io.BytesIO()
    with pytest.raises(QueueNotFound):
        export_queues(rsmq, ["q", "missing"], file)

    assert file.getvalue() == b""


def test_ghost_ids_are_counted_and_not_exported(rsmq, source):
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "a")
    source.raw.zadd(f"{source.ns}:q", {"g" * 32: 1})
    file = io.BytesIO()
    report = export_queues(rsmq, None, file)

    assert (report.messages, report.queues[0].ghosts) == (1, 1)
    assert ids_of(file.getvalue()) == [id]


def test_ids_that_are_attribute_names_are_not_exported(rsmq, source):
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "a")
    source.raw.zadd(f"{source.ns}:q", {"vt": 1, "x:max": 2})
    file = io.BytesIO()
    report = export_queues(rsmq, None, file)

    assert report.messages == 1
    assert ids_of(file.getvalue()) == [id]


def test_unreadable_queues_are_reported(rsmq, source, server):
    rsmq.create_queue("q")
    source.raw.sadd(f"{source.ns}:QUEUES", "half", "odd name", "bad")
    fields = {"vt": "x", "delay": 0, "maxsize": -1}
    source.raw.hset(f"{source.ns}:bad:Q", mapping=fields)
    source.raw.hset(f"{source.ns}:odd name:Q", mapping={**fields, "vt": "0.5"})
    file = io.BytesIO()
    report = export_queues(rsmq, None, file)

    assert [each.queue for each in report.queues] == ["q"]
    assert report.left_out.keys() == {"half", "odd name", "bad"}
    assert "strict_names=False" in report.left_out["odd name"]
    with RSMQ.from_url(server.url, ns=source.ns, strict_names=False) as any_names:
        report = export_queues(any_names, None, file)
    assert [each.queue for each in report.queues] == ["odd name", "q"]
    with pytest.raises(InvalidFormat):
        export_queues(rsmq, ["odd name"], file)


def test_export_without_queues_is_valid(rsmq, export_bytes, import_bytes):
    header, end = records(export_bytes())

    assert header["exported_ms"] is None
    assert (end["queues"], end["messages"]) == (0, 0)
    assert import_bytes(export_bytes()).complete


class WatchedFile(io.BytesIO):
    """A file that calls a function at each write."""

    def __init__(self, call):
        super().__init__()
        self._call = call

    def write(self, data):
        self._call(data)
        return super().write(data)


def test_remaining_messages_are_exported_once_while_consumers_move_them(rsmq, source):
    # Each receive moves a message to the end, each release moves it back to its position.
    rsmq.create_queue("q")
    ids = [id for _ in range(4) for id in rsmq.send_messages("q", ["x"] * 1000)]
    stop, rounds = threading.Event(), []

    def consume():
        while not stop.is_set():
            rsmq.release_messages(rsmq.receive_messages("q", 500, vt=1000))
            rsmq.receive_messages("q", 300, vt=2)
            rounds.append(1)

    consumers = [threading.Thread(target=consume) for _ in range(2)]
    for consumer in consumers:
        consumer.start()
    try:
        written = []
        for _ in range(5):
            file = io.BytesIO()
            export_queues(rsmq, ["q"], file)
            written.append(ids_of(file.getvalue()))
    finally:
        stop.set()
        for consumer in consumers:
            consumer.join()

    assert rounds
    for exported_ids in written:
        assert len(exported_ids) == len(set(exported_ids)) == len(ids)
        assert set(exported_ids) == set(ids)


def test_messages_deleted_during_an_export_are_left_out(rsmq):
    rsmq.create_queue("q")
    ids = [id for _ in range(3) for id in rsmq.send_messages("q", ["x"] * 1000)]
    popped = []

    def consume(_):
        if not popped:
            popped.extend(message.id for message in rsmq.pop_messages("q", 2000))
            rsmq.send_message("q", "new")

    file = WatchedFile(consume)
    report = export_queues(rsmq, ["q"], file)

    assert len(popped) == 2000
    assert report.messages == len(ids_of(file.getvalue()))
    assert set(ids) - set(popped) <= set(ids_of(file.getvalue()))


def test_queue_deleted_during_an_export_is_reported(rsmq, import_bytes):
    for name in "ab":
        rsmq.create_queue(name)
    rsmq.send_messages("a", ["x"] * 3000)
    id = rsmq.send_message("b", "y")

    def delete(data):
        if b'"message"' in data and rsmq.list_queues() == ["a", "b"]:
            rsmq.delete_queue("a")

    file = WatchedFile(delete)
    report = export_queues(rsmq, None, file)

    assert [each.deleted for each in report.queues] == [True, False]
    assert 0 < report.queues[0].messages < 3000
    assert ids_of(file.getvalue())[-1] == id
    assert import_bytes(file.getvalue()).complete


def test_export_reports_progress(rsmq):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x"] * 2500)
    progress = []
    export_queues(rsmq, None, io.BytesIO(), tell=progress.append)

    assert sum(progress) == 2500
    assert len(progress) >= 3
