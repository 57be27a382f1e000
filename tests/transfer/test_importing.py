"""Imports of complete and incomplete files, and into existing queues."""

from __future__ import annotations

import json
import re

import pytest
import redis

from rsmq import RSMQ, InvalidFormat
from rsmq.errors import InvalidExport
from rsmq.transfer import importing
from tests.expect import refused


@pytest.fixture
def data(rsmq, export_bytes):
    """Return an export of a queue with three messages."""
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b", "c"])
    return export_bytes()


def bodies(client, queue="q"):
    return [message.body for message in client.peek_messages(queue, 0, 100)]


def with_line(data, index, **changes):
    lines = data.splitlines(keepends=True)
    record = json.loads(lines[index]) | changes
    lines[index] = json.dumps({name: value for name, value in record.items() if value != "gone"})
    lines[index] = lines[index].encode() + b"\n"
    return b"".join(lines)


# Files that are incomplete, or not an export.


def test_truncated_file_is_imported_up_to_its_end(data, import_bytes, other):
    truncated = data[: data.index(b'"body":"c"')]
    result = import_bytes(truncated)

    assert (result.fault, result.added, result.complete) == ("it has no end", 2, False)
    assert bodies(other) == ["a", "b"]
    assert import_bytes(data).added == 1
    assert bodies(other) == ["a", "b", "c"]


def test_file_truncated_between_lines_is_detected(data, import_bytes):
    result = import_bytes(b"".join(data.splitlines(keepends=True)[:-1]))

    assert (result.fault, result.added) == ("it has no end", 3)


def test_changed_file_is_detected(data, import_bytes, other):
    result = import_bytes(data.replace(b'"body":"b"', b'"body":"B"'))

    assert result.fault == "it was changed: its checksum does not match"
    assert bodies(other) == ["a", "B", "c"]


def test_missing_line_or_line_after_the_end_is_detected(data, import_bytes):
    lines = data.splitlines(keepends=True)
    result = import_bytes(b"".join(lines[:2] + lines[3:]))
    assert result.fault == "its end line says queues: 1, messages: 3, but it has 1 and 2"

    result = import_bytes(data + lines[2])
    assert result.fault == "it continues after its end line, line 6"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"{no JSON\n", "is not JSON"),
        (b"\xff\xfe\n", "is not JSON"),
        (b"\n", "is not JSON"),
        (b"[" * 100_000 + b"\n", "is not JSON"),
        (b"[1]\n", "is not a JSON object"),
        (b'{"type":"massage"}\n', "has the type 'massage'"),
        (b"{}\n", "has the type None"),
        (b'{"type":"export","format":1}\n', "has the type 'export'"),
        (b'{"type":"message"}\n', "has no queue"),
        (b'{"type":"message","queue":"p"}\n', "has a message of queue 'p', which no line"),
        (b'{"type":"message","queue":"q","id":"i"}\n', "has no body"),
        (b'{"type":"message","queue":"q","id":"i","body":"a","body_base64":""}\n', "has no body"),
        (b'{"type":"message","queue":"q","id":"i","body_base64":"a"}\n', "has no body"),
        (b'{"type":"message","queue":"q","id":"i","body":"\\ud800"}\n', "has no body"),
        (b'{"type":"message","queue":"q","body":"a"}\n', "has no id"),
        (
            b'{"type":"message","queue":"q","id":"i","body":"a","visible_at_ms":"1"}\n',
            "has visible_at_ms '1'",
        ),
        (
            b'{"type":"message","queue":"q","id":"i","body":"a","visible_at_ms":1e999}\n',
            "has visible_at_ms inf",
        ),
        (
            b'{"type":"message","queue":"q","id":"i","body":"a","receive_count":-1}\n',
            "has receive_count -1",
        ),
        (b'{"type":"queue","queue":"q"}\n', "has queue 'q' a second time"),
        (b'{"type":"queue","queue":"p","vt":true}\n', "has vt True"),
        (b'{"type":"queue","queue":"p","dead_letter_queue":7}\n', "has dead_letter_queue 7"),
    ],
)
def test_invalid_line_is_reported_with_its_number(data, import_bytes, other, line, fault):
    lines = data.splitlines(keepends=True)
    with pytest.raises(InvalidExport, match=rf"^Line 5 of the export {re.escape(fault)}") as caught:
        import_bytes(b"".join([*lines[:4], line, *lines[4:]]))

    assert caught.value.value == 5
    assert caught.value.hint.endswith("Messages that were added before: 2.")
    assert bodies(other) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"type":"queue","queue":"q"}', "has the type 'queue'"),
        (b'{"type":"export","format":2}', "has the format 2"),
        (b"hello", "is not JSON"),
    ],
)
def test_file_that_is_not_an_export_changes_nothing(import_bytes, target, line, fault):
    with refused(InvalidExport, f"Line 1 of the export {fault}"):
        import_bytes(line)
    assert target.dump() == {}


def test_empty_file_is_not_an_export(import_bytes):
    assert import_bytes(b"").fault == "it has no end"


@pytest.mark.parametrize("page_size", [1, 500])
@pytest.mark.parametrize("new_ids", [False, True])
def test_a_second_message_with_the_same_id_is_counted(
    data, import_bytes, other, monkeypatch, page_size, new_ids
):
    """The first one keeps the id, whatever the pages; with new ids both are added."""
    monkeypatch.setattr(importing, "_PAGE_SIZE", page_size)
    second = with_line(data, 2, body="second").splitlines(keepends=True)[2]
    lines = data.splitlines(keepends=True)
    twice = b"".join([*lines[:3], second, *lines[3:]])
    dry_run = import_bytes(twice, new_ids=new_ids, dry_run=True).queues[0]
    (queue,) = import_bytes(twice, new_ids=new_ids).queues

    assert (queue.messages, queue.added, queue.present) == (4, 3 + new_ids, 1 - new_ids)
    assert bodies(other) == ["a", *["second"] * new_ids, "b", "c"]
    if page_size > 1:
        assert (dry_run.added, dry_run.present) == (queue.added, queue.present)


# Queues.


def test_queues_are_chosen_and_renamed(rsmq, export_bytes, import_bytes, other):
    for name in ("a", "b", "c"):
        rsmq.create_queue(name)
        rsmq.send_message(name, name)
    rsmq.set_dead_letter_policy("a", "b", 5)
    rsmq.set_dead_letter_policy("c", "b", 5)
    result = import_bytes(export_bytes(), queues={"a": "x", "b": "y", "missing": "z"})

    assert [(each.source, each.queue, each.added) for each in result.queues] == [
        ("a", "x", 1), ("b", "y", 1)
    ]  # fmt: skip
    assert (result.missing, result.complete) == (("missing",), False)
    assert other.list_queues() == ["x", "y"]
    assert (bodies(other, "x"), bodies(other, "y")) == (["a"], ["b"])
    assert other.get_queue_attributes("x").dead_letter_queue == "y"


def test_new_name_is_checked_before_any_change(data, import_bytes, target):
    with pytest.raises(InvalidFormat):
        import_bytes(data, queues={"q": "a b"})
    assert target.dump() == {}


def test_policy_without_its_queue_is_reported(rsmq, export_bytes, import_bytes, other):
    for name in ("a", "dead"):
        rsmq.create_queue(name)
    rsmq.set_dead_letter_policy("a", "dead", 5)
    data = export_bytes("a")
    for dry_run in (True, False):
        (queue,) = import_bytes(data, dry_run=dry_run).queues
        assert queue.notes == ("no dead-letter policy: there is no queue 'dead'",)
        assert queue.without_policy
    other.delete_queue("a")
    other.create_queue("dead")

    assert import_bytes(data).queues[0].notes == ()
    assert other.get_queue_attributes("a").max_receives == 5


def test_an_export_without_the_field_of_sqs_is_imported(rsmq, export_bytes, import_bytes, target):
    """As versions before it have written them, also of queues with the field."""
    rsmq.create_queue("q")
    target.raw.hset(f"{rsmq.namespace.name}:q:Q", "x:sqs", "{}")
    older = with_line(export_bytes(), 1, **{"x:sqs": "gone"})
    (queue,) = import_bytes(older).queues

    assert (queue.created, queue.notes) == (True, ())
    assert b"x:sqs" not in target.fields("q")


@pytest.mark.parametrize("value", [1, {"tags": {}}, ["a"], True, "\ud800"])
def test_a_field_of_sqs_that_can_not_be_stored_is_refused(data, import_bytes, other, value):
    with pytest.raises(InvalidExport, match="Line 2 of the export has x:sqs"):
        import_bytes(with_line(data, 1, **{"x:sqs": value}))
    assert other.list_queues() == []


def test_existing_queue_keeps_its_attributes(data, import_bytes, other, target):
    other.create_queue("dead")
    other.create_queue("q", vt=7, maxsize=-1)
    other.set_dead_letter_policy("q", "dead", 2)
    other.pause_queue("q")
    before = target.fields("q")
    (queue,) = import_bytes(data).queues

    assert queue.notes == (
        "vt stays 7; the export has 30",
        "maxsize stays -1; the export has 65536",
        "dead_letter_queue stays dead; the export has none",
        "max_receives stays 2; the export has none",
        "paused stays yes; the export has no",
    )
    after = target.fields("q")
    assert {name: after[name] for name in before} == before
    assert after[b"totalsent"] == b"3"


def test_invalid_attributes_of_other_clients_are_corrected(
    rsmq, export_bytes, import_bytes, source, target
):
    rsmq.create_queue("q")
    changed = {"vt": "0.5", "delay": "1.2", "maxsize": 65565, "created": "2020-01-01T00:00:00Z"}
    source.raw.hset(f"{source.ns}:q:Q", mapping=changed)
    (queue,) = import_bytes(export_bytes()).queues

    assert queue.notes == (
        "vt is 1, for 0.5, which is not a value for it",
        "delay is 2, for 1.2, which is not a value for it",
        "maxsize is 65536, for 65565, which is not a value for it",
    )
    stored = target.fields("q")
    assert [stored[name] for name in (b"vt", b"delay", b"maxsize")] == [b"1", b"2", b"65536"]
    assert stored[b"created"].isdigit()


def test_queues_with_unusual_names_need_strict_names_false(
    server, source, export_bytes, import_bytes
):
    with (
        RSMQ.from_url(server.url, ns=source.ns, strict_names=False) as any_names,
        RSMQ.from_url(server.url, ns=f"{source.ns}:other", strict_names=False) as lenient,
    ):
        any_names.create_queue("odd näme\n")
        any_names.create_queue("\udcff")
        for name in any_names.list_queues():
            any_names.send_message(name, "a")
        data = export_bytes(client=any_names)
        with pytest.raises(InvalidFormat):
            import_bytes(data)
        result = import_bytes(data, client=lenient)

        assert result.complete
        assert lenient.list_queues() == any_names.list_queues()
        assert bodies(lenient, "\udcff") == ["a"]


# Messages.


def test_ids_that_no_client_accepts_are_left_out(data, import_bytes, other):
    changed = with_line(with_line(data, 2, id="short"), 3, id="i" * 20)
    (queue,) = import_bytes(changed).queues

    assert (queue.messages, queue.added, queue.left_out) == (3, 2, 1)
    assert queue.notes == ("left out: ids that no client can name, 'short' first",)
    assert sorted(bodies(other)) == ["b", "c"]
    assert other.get_message("q", "i" * 20).body == "b"


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"id": "{first}:rc"}, "names of what belongs to other messages"),
        ({"id": "{first}:fr"}, "names of what belongs to other messages"),
        ({"id": "{first}:meta"}, "names of what belongs to other messages"),
        ({"receive_count": 1e308}, "beyond 9007199254740992"),
        ({"receive_count": 2**53 + 2}, "beyond 9007199254740992"),
        ({"first_received_ms": 1e308}, "beyond 9007199254740992"),
        ({"visible_at_ms": -(10**16)}, "beyond 9007199254740992"),
    ],
)
def test_message_that_would_block_its_queue_is_left_out(data, import_bytes, other, changes, note):
    first = json.loads(data.splitlines()[2])["id"]
    if "id" in changes:
        changes = {"id": changes["id"].format(first=first)}
    changed = with_line(with_line(data, 2, receive_count=3, first_received_ms=5), 3, **changes)
    result = import_bytes(changed)
    (queue,) = result.queues

    assert (queue.added, queue.left_out, result.complete) == (2, 1, False)
    assert note in queue.notes[0]
    assert [other.receive_message("q").body for _ in range(2)] == ["a", "c"]
    assert other.receive_message("q") is None


def test_message_with_the_largest_numbers_can_be_received(data, import_bytes, other, target):
    largest = with_line(data, 2, receive_count=2**53, first_received_ms=2**53, visible_at_ms=1)
    assert import_bytes(largest).added == 3

    message = other.receive_message("q")
    assert message.body == "a"
    assert int(target.fields("q")[f"{message.id}:rc".encode()]) == 2**53 + 1


@pytest.mark.parametrize("item", ["total_sent", "total_received", "created", "max_receives"])
def test_queue_with_counters_out_of_range_is_refused(data, import_bytes, item, other):
    with pytest.raises(InvalidExport, match=r"^Line 2 ") as caught:
        import_bytes(with_line(data, 1, **{item: 1e308}))

    assert f"{item} is a number" in caught.value.hint
    assert other.list_queues() == []


def test_times_are_whole_milliseconds_and_can_be_missing(data, import_bytes, target):
    changed = with_line(with_line(data, 2, visible_at_ms=1.7), 3, visible_at_ms="gone")
    (queue,) = import_bytes(changed).queues

    assert queue.notes == ("messages whose times were cut to whole milliseconds: 1",)
    scores = dict(target.scores("q"))
    ids = [json.loads(line)["id"] for line in data.splitlines()[2:4]]
    assert scores[ids[0].encode()] == 1
    assert scores[ids[1].encode()] == int(ids[1][:10], 36) // 1000


def test_new_ids_are_sends(rsmq, export_bytes, import_bytes, other, target):
    rsmq.create_queue("q", delay=100)
    ids = rsmq.send_messages("q", ["a", "b"], delay=0)
    rsmq.receive_message("q", vt=1000)
    rsmq.get_queue_attributes("q")
    data = export_bytes()
    assert import_bytes(data, new_ids=True).added == 2
    assert import_bytes(data, new_ids=True).added == 2

    assert bodies(other) == ["b", "a", "b", "a"]
    result = other.peek_messages("q", 0, 10)
    assert not {message.id for message in result} & set(ids)
    assert {(message.receive_count, message.state) for message in result} == {(0, "delayed")}
    assert target.fields("q")[b"totalsent"] == b"4"


def test_dry_run_predicts_the_result(rsmq, export_bytes, import_bytes, other, target):
    for name in ("old", "new"):
        rsmq.create_queue(name, vt=9)
        rsmq.send_messages(name, ["a", "b"])
    data = export_bytes()
    import_bytes(data, queues={"old": "old"})
    other.pop_message("old")
    other.set_queue_attributes("old", vt=3)
    before = target.dump()
    result = import_bytes(data, dry_run=True)

    assert target.dump() == before
    assert [(each.queue, each.created, each.added, each.present) for each in result.queues] == [
        ("new", True, 2, 0), ("old", False, 1, 1)
    ]  # fmt: skip
    assert result.queues[1].notes == ("vt stays 3; the export has 9",)
    real = import_bytes(data)
    assert [(each.created, each.added, each.present) for each in real.queues] == [
        (True, 2, 0), (False, 1, 1)
    ]  # fmt: skip


def test_error_reports_the_number_of_imported_messages(rsmq, export_bytes, import_bytes, other):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x"] * 2500)
    data = export_bytes()
    run, restore_calls = other.run, []

    def failing(operation):
        if operation.script.name == "restore_messages":
            restore_calls.append(operation)
            if len(restore_calls) == 3:
                raise redis.ConnectionError("gone")
        return run(operation)

    other.run = failing
    with pytest.raises(redis.ConnectionError) as caught:
        import_bytes(data)
    other.run = run

    assert caught.value.__notes__ == [
        "Messages that were added before: 2000. Run it again: it adds those that are missing."
    ]
    assert import_bytes(data).added == 500
