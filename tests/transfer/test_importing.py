"""What an import makes of files, whole or not, and of queues that are there already."""

from __future__ import annotations

import json
import re

import pytest
import redis

from rsmq import RSMQ, InvalidFormat
from rsmq.errors import InvalidExport
from tests.expect import refused


@pytest.fixture
def data(rsmq, exported):
    """An export of a queue with three messages."""
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b", "c"])
    return exported()


def bodies(client, queue="q"):
    return [message.body for message in client.peek_messages(queue, 0, 100)]


def with_line(data, at, **changes):
    lines = data.splitlines(keepends=True)
    record = json.loads(lines[at]) | changes
    lines[at] = json.dumps({name: value for name, value in record.items() if value != "gone"})
    lines[at] = lines[at].encode() + b"\n"
    return b"".join(lines)


# Files that are not whole, or no exports.


def test_a_file_that_was_cut_off_gives_what_it_has(data, imported, other):
    cut = data[: data.index(b'"body":"c"')]
    found = imported(cut)

    assert (found.fault, found.added, found.complete) == ("it has no end", 2, False)
    assert bodies(other) == ["a", "b"]
    assert imported(data).added == 1
    assert bodies(other) == ["a", "b", "c"]


def test_a_file_that_was_cut_off_between_lines_is_known(data, imported):
    found = imported(b"".join(data.splitlines(keepends=True)[:-1]))

    assert (found.fault, found.added) == ("it has no end", 3)


def test_a_file_that_was_changed_is_known(data, imported, other):
    found = imported(data.replace(b'"body":"b"', b'"body":"B"'))

    assert found.fault == "it was changed: its checksum is another"
    assert bodies(other) == ["a", "B", "c"]


def test_a_line_too_few_or_behind_the_end_is_known(data, imported):
    lines = data.splitlines(keepends=True)
    found = imported(b"".join(lines[:2] + lines[3:]))
    assert found.fault == "its end tells of 1 queues and 3 messages; 1 and 2 are there"

    found = imported(data + lines[2])
    assert found.fault == "it goes on behind its end, line 6"


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"{no JSON\n", "is no JSON"),
        (b"\xff\xfe\n", "is no JSON"),
        (b"\n", "is no JSON"),
        (b"[" * 100_000 + b"\n", "is no JSON"),
        (b"[1]\n", "is no JSON object"),
        (b'{"type":"massage"}\n', "has the type 'massage'"),
        (b"{}\n", "has the type None"),
        (b'{"type":"export","format":1}\n', "has the type 'export'"),
        (b'{"type":"message"}\n', "has no queue"),
        (b'{"type":"message","queue":"p"}\n', "has a message of queue 'p', of which no line"),
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
        (b'{"type":"queue","queue":"q"}\n', "tells of queue 'q' a second time"),
        (b'{"type":"queue","queue":"p","vt":true}\n', "has vt True"),
        (b'{"type":"queue","queue":"p","dead_letter_queue":7}\n', "has dead_letter_queue 7"),
    ],
)
def test_a_line_that_is_none_is_told_by_its_number(data, imported, other, line, wrong):
    lines = data.splitlines(keepends=True)
    with pytest.raises(InvalidExport, match=rf"^Line 5 of the export {re.escape(wrong)}") as caught:
        imported(b"".join([*lines[:4], line, *lines[4:]]))

    assert caught.value.value == 5
    assert caught.value.hint.endswith("Messages that were added before: 2.")
    assert bodies(other) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b'{"type":"queue","queue":"q"}', "has the type 'queue'"),
        (b'{"type":"export","format":2}', "tells of the format 2"),
        (b"hello", "is no JSON"),
    ],
)
def test_a_file_that_is_no_export_changes_nothing(imported, target, line, wrong):
    with refused(InvalidExport, f"Line 1 of the export {wrong}"):
        imported(line)
    assert target.all() == {}


def test_an_empty_file_is_no_export(imported):
    assert imported(b"").fault == "it has no end"


# Queues.


def test_queues_are_chosen_and_renamed(rsmq, exported, imported, other):
    for name in ("a", "b", "c"):
        rsmq.create_queue(name)
        rsmq.send_message(name, name)
    rsmq.set_dead_letter_policy("a", "b", 5)
    rsmq.set_dead_letter_policy("c", "b", 5)
    found = imported(exported(), queues={"a": "x", "b": "y", "missing": "z"})

    assert [(each.source, each.queue, each.added) for each in found.queues] == [
        ("a", "x", 1), ("b", "y", 1)
    ]  # fmt: skip
    assert (found.missing, found.complete) == (("missing",), False)
    assert other.list_queues() == ["x", "y"]
    assert (bodies(other, "x"), bodies(other, "y")) == (["a"], ["b"])
    assert other.get_queue_attributes("x").dead_letter_queue == "y"


def test_a_new_name_is_checked_before_anything_is_changed(data, imported, target):
    with pytest.raises(InvalidFormat):
        imported(data, queues={"q": "a b"})
    assert target.all() == {}


def test_a_policy_whose_queue_is_missing_is_told(rsmq, exported, imported, other):
    for name in ("a", "dead"):
        rsmq.create_queue(name)
    rsmq.set_dead_letter_policy("a", "dead", 5)
    data = exported("a")
    for dry_run in (True, False):
        (queue,) = imported(data, dry_run=dry_run).queues
        assert queue.notes == ("no dead-letter policy: there is no queue 'dead'",)
        assert queue.without_policy
    other.delete_queue("a")
    other.create_queue("dead")

    assert imported(data).queues[0].notes == ()
    assert other.get_queue_attributes("a").max_receives == 5


def test_a_queue_that_exists_keeps_its_attributes(data, imported, other, target):
    other.create_queue("dead")
    other.create_queue("q", vt=7, maxsize=-1)
    other.set_dead_letter_policy("q", "dead", 2)
    other.pause_queue("q")
    before = target.fields("q")
    (queue,) = imported(data).queues

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


def test_attributes_of_other_clients_are_made_fit(rsmq, exported, imported, source, target):
    rsmq.create_queue("q")
    changed = {"vt": "0.5", "delay": "1.2", "maxsize": 65565, "created": "2020-01-01T00:00:00Z"}
    source.raw.hset(f"{source.ns}:q:Q", mapping=changed)
    (queue,) = imported(exported()).queues

    assert queue.notes == (
        "vt is 1, for 0.5, which is no value for it",
        "delay is 2, for 1.2, which is no value for it",
        "maxsize is 65536, for 65565, which is no value for it",
    )
    stored = target.fields("q")
    assert [stored[name] for name in (b"vt", b"delay", b"maxsize")] == [b"1", b"2", b"65536"]
    assert stored[b"created"].isdigit()


def test_queues_of_odd_names_need_a_client_that_takes_them(server, source, exported, imported):
    with (
        RSMQ.from_url(server.url, ns=source.ns, strict_names=False) as any_names,
        RSMQ.from_url(server.url, ns=f"{source.ns}:other", strict_names=False) as lenient,
    ):
        any_names.create_queue("odd näme\n")
        any_names.create_queue("\udcff")
        for name in any_names.list_queues():
            any_names.send_message(name, "a")
        data = exported(of=any_names)
        with pytest.raises(InvalidFormat):
            imported(data)
        found = imported(data, to=lenient)

        assert found.complete
        assert lenient.list_queues() == any_names.list_queues()
        assert bodies(lenient, "\udcff") == ["a"]


# Messages.


def test_ids_that_no_client_can_name_are_left_out(data, imported, other):
    changed = with_line(with_line(data, 2, id="short"), 3, id="i" * 20)
    (queue,) = imported(changed).queues

    assert (queue.messages, queue.added, queue.left_out) == (3, 2, 1)
    assert queue.notes == ("left out: ids that no client can name, 'short' first",)
    assert sorted(bodies(other)) == ["b", "c"]
    assert other.get_message("q", "i" * 20).body == "b"


@pytest.mark.parametrize(
    ("changes", "why"),
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
def test_a_message_that_would_block_its_queue_is_left_out(data, imported, other, changes, why):
    first = json.loads(data.splitlines()[2])["id"]
    if "id" in changes:
        changes = {"id": changes["id"].format(first=first)}
    changed = with_line(with_line(data, 2, receive_count=3, first_received_ms=5), 3, **changes)
    found = imported(changed)
    (queue,) = found.queues

    assert (queue.added, queue.left_out, found.complete) == (2, 1, False)
    assert why in queue.notes[0]
    assert [other.receive_message("q").body for _ in range(2)] == ["a", "c"]
    assert other.receive_message("q") is None


def test_a_message_with_the_largest_numbers_is_received(data, imported, other, target):
    largest = with_line(data, 2, receive_count=2**53, first_received_ms=2**53, visible_at_ms=1)
    assert imported(largest).added == 3

    message = other.receive_message("q")
    assert message.body == "a"
    assert int(target.fields("q")[f"{message.id}:rc".encode()]) == 2**53 + 1


@pytest.mark.parametrize("item", ["total_sent", "total_received", "created", "max_receives"])
def test_a_queue_that_could_not_count_on_is_refused(data, imported, item, other):
    with pytest.raises(InvalidExport, match=r"^Line 2 ") as caught:
        imported(with_line(data, 1, **{item: 1e308}))

    assert f"{item} is a number" in caught.value.hint
    assert other.list_queues() == []


def test_times_are_whole_milliseconds_and_may_be_unknown(data, imported, target):
    changed = with_line(with_line(data, 2, visible_at_ms=1.7), 3, visible_at_ms="gone")
    (queue,) = imported(changed).queues

    assert queue.notes == ("messages whose times were cut to whole milliseconds: 1",)
    scores = dict(target.scores("q"))
    ids = [json.loads(line)["id"] for line in data.splitlines()[2:4]]
    assert scores[ids[0].encode()] == 1
    assert scores[ids[1].encode()] == int(ids[1][:10], 36) // 1000


def test_new_ids_are_sends(rsmq, exported, imported, other, target):
    rsmq.create_queue("q", delay=100)
    ids = rsmq.send_messages("q", ["a", "b"], delay=0)
    rsmq.receive_message("q", vt=1000)
    rsmq.get_queue_attributes("q")
    data = exported()
    assert imported(data, new_ids=True).added == 2
    assert imported(data, new_ids=True).added == 2

    assert bodies(other) == ["b", "a", "b", "a"]
    found = other.peek_messages("q", 0, 10)
    assert not {message.id for message in found} & set(ids)
    assert {(message.receive_count, message.state) for message in found} == {(0, "delayed")}
    assert target.fields("q")[b"totalsent"] == b"4"


def test_a_dry_run_tells_what_would_happen(rsmq, exported, imported, other, target):
    for name in ("old", "new"):
        rsmq.create_queue(name, vt=9)
        rsmq.send_messages(name, ["a", "b"])
    data = exported()
    imported(data, queues={"old": "old"})
    other.pop_message("old")
    other.set_queue_attributes("old", vt=3)
    before = target.all()
    found = imported(data, dry_run=True)

    assert target.all() == before
    assert [(each.queue, each.created, each.added, each.present) for each in found.queues] == [
        ("new", True, 2, 0), ("old", False, 1, 1)
    ]  # fmt: skip
    assert found.queues[1].notes == ("vt stays 3; the export has 9",)
    done = imported(data)
    assert [(each.created, each.added, each.present) for each in done.queues] == [
        (True, 2, 0), (False, 1, 1)
    ]  # fmt: skip


def test_an_error_tells_how_far_it_came(rsmq, exported, imported, other):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x"] * 2500)
    data = exported()
    run, done = other.run, []

    def failing(operation):
        if operation.script.name == "restore_messages":
            done.append(operation)
            if len(done) == 3:
                raise redis.ConnectionError("gone")
        return run(operation)

    other.run = failing
    with pytest.raises(redis.ConnectionError) as caught:
        imported(data)
    other.run = run

    assert caught.value.__notes__ == ["Messages that were added before: 2000."]
    assert imported(data).added == 500
