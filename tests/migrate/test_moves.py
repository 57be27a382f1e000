"""Moves between two servers, with messages staged on the way; and ids that are already taken."""

from __future__ import annotations

import json

import pytest

from rsmq.migrate import Bridge, Inward, Lists, NotPossible, Queues, SourceNotFound, copy, move
from rsmq.transport.process_identity import describe_process
from tests.expect import refused
from tests.migrate.keyed_server import Server
from tests.migrate.stored import predicted_figures, read_bodies, read_messages


@pytest.fixture
def old(local, raw, ns):
    """Return another namespace on the shared server, with a queue of three messages."""
    with Server.from_url(f"redis://127.0.0.1:{port_of(raw)}/0", ns=f"{ns}:old") as old:
        old.rsmq.create_queue("q")
        old.rsmq.send_messages("q", ["a", "b", "c"])
        yield old


def port_of(raw):
    return raw.connection_pool.connection_kwargs["port"]


@pytest.fixture
def ids(old, raw, ns):
    return [each.id for each in read_messages(raw, f"{ns}:old", "q")]


def test_staged_messages_arrive_once_however_many(local, remote, raw, ns):
    """A large staging hash is read in steps, while arrived messages are removed and consumed."""
    key = Lists(local).aside_key(f"{ns}-work")
    count = 5000
    raw.hset(key, mapping={
        f"k{number:09}".ljust(32, "a"): b"1700000000000   digest%06d  %d" % (number, number)
        for number in range(count)
    })  # fmt: skip
    remote.rsmq.create_queue("to")
    consumed = []
    forget = Lists.forget

    def forget_and_consume(source, queue, arrived):
        forget(source, queue, arrived)
        consumed.extend(each.raw for each in remote.rsmq.pop_messages("to", 10_000))

    source = Lists(local)
    source.forget = lambda queue, arrived: forget_and_consume(source, queue, arrived)
    report = move(source, f"{ns}-work", remote, "to")

    assert sorted(consumed) == sorted(b" %d" % number for number in range(count))
    assert report.arrived == count
    assert not raw.exists(key)


def test_dry_run_counts_staged_messages(local, remote, raw, ns):
    raw.hset(Lists(local).aside_key(f"{ns}-work"), "k" * 32, b"1   digest m")
    raw.lpush(f"{ns}-work", "n")
    dry = move(Lists(local), f"{ns}-work", remote, "to", dry_run=True)
    real = move(Lists(local), f"{ns}-work", remote, "to")

    assert predicted_figures(dry) == predicted_figures(real)
    assert real.arrived == 2


def test_different_body_under_a_taken_id_is_not_moved(old, target, raw, ns, ids):
    """On one server it stays in its queue, between two servers in staging; the others are moved."""
    target.rsmq.create_queue("q")
    target.raw.hset(f"{ns}:q:Q", ids[1], "other")
    target.raw.zadd(f"{ns}:q", {ids[1]: 1_700_000_000_000})
    for is_second_run in (False, True):
        report = move(Queues(old), "q", target, "q")

        assert read_bodies(target.raw, ns, "q") == [b"other", b"a", b"c"]
        assert (report.arrived, report.missing) == ((0, 1) if is_second_run else (2, 1))
        assert not report.verified
        (note,) = report.notes.values()
        assert note.text == "there is another body under its id: it stays"
        assert (note.number, note.examples) == (1, [ids[1]])
        source_ids = [each.id for each in read_messages(raw, f"{ns}:old", "q")]
        staged = [id.decode() for id in raw.hkeys(f"{ns}:old:x:aside:rsmq:q") if id]
        assert source_ids + staged == [ids[1]]

    target.rsmq.delete_message("q", ids[1])
    report = move(Queues(old), "q", target, "q")
    assert (report.arrived, report.missing, report.verified) == (1, 0, True)
    assert read_bodies(target.raw, ns, "q") == [b"a", b"b", b"c"]
    assert not raw.exists(f"{ns}:old:x:aside:rsmq:q", f"{ns}:old:q")


def test_same_message_on_both_sides_is_merged(old, target, raw, ns, ids):
    target.rsmq.create_queue("q")
    target.raw.hset(f"{ns}:q:Q", ids[1], "b")
    target.raw.zadd(f"{ns}:q", {ids[1]: 1_700_000_000_000})
    report = move(Queues(old), "q", target, "q")

    assert read_bodies(target.raw, ns, "q") == [b"b", b"a", b"c"]
    assert (report.arrived + report.before, report.missing, report.verified) == (3, 0, True)
    assert read_messages(raw, f"{ns}:old", "q") == []


def test_staged_messages_are_moved_without_their_queue(old, remote, raw, ns):
    raw.hset(f"{ns}:old:x:aside:rsmq:q", "k" * 32, b"1   digest m")
    old.rsmq.delete_queue("q")
    report = move(Queues(old), "q", remote, "q")

    assert read_bodies(remote.raw, ns, "q") == [b"m"]
    assert (report.arrived, report.verified) == (1, True)
    with pytest.raises(SourceNotFound):
        move(Queues(old), "q", remote, "q")


def test_staged_message_keeps_all_fields(old, remote, raw, ns, ids):
    raw.hset(f"{ns}:old:q:Q", ids[0], bytes(range(256)))
    old.rsmq.receive_message("q", vt=500)
    before = read_messages(raw, f"{ns}:old", "q")
    old.raw.hset(f"{ns}:old:q:Q", ids[2], "")
    move(Queues(old), "q", remote, "q", in_flight=True)

    assert [each for each in read_messages(remote.raw, ns, "q") if each.id != ids[2]] == [
        each for each in before if each.id != ids[2]
    ]
    assert b"" in read_bodies(remote.raw, ns, "q")


def test_only_one_run_at_a_time_moves_between_two_servers(local, remote, raw, ns):
    """A second run would move staged messages twice."""
    raw.lpush(f"{ns}-work", "a")
    lock_key = Lists(local).aside_key(f"{ns}-work") + b":held"
    raw.set(
        lock_key, json.dumps({**describe_process(), "place": "elsewhere", "pid": 5, "host": "h"})
    )
    with refused(NotPossible, f"Another run is moving list:{ns}-work, of process 5 on h"):
        move(Lists(local), f"{ns}-work", remote, "to")
    assert raw.llen(f"{ns}-work") == 1

    raw.set(lock_key, json.dumps({**describe_process(), "born": "1"}))  # a dead run on this machine
    assert move(Lists(local), f"{ns}-work", remote, "to").arrived == 1
    assert not raw.exists(lock_key)


def test_move_on_one_server_needs_no_lock(local, raw, ns):
    raw.lpush(f"{ns}-work", "a")
    raw.set(Lists(local).aside_key(f"{ns}-work") + b":held", "{}")

    assert move(Lists(local), f"{ns}-work", local, "to").arrived == 1


def test_large_bodies_are_moved_in_small_batches(local, remote, raw, ns, monkeypatch):
    raw.lpush(f"{ns}-work", *(b"%d" % n + b"x" * 1_000_000 for n in range(40)))
    batch_bytes = []
    take = Lists.take

    def take_and_record(self, place, arrivals, to):
        batch_bytes.append(sum(len(item.body) for item, _ in arrivals))
        return take(self, place, arrivals, to)

    monkeypatch.setattr(Lists, "take", take_and_record)
    report = move(Lists(local), f"{ns}-work", remote, "to")

    assert (report.arrived, report.verified) == (40, True)
    assert max(batch_bytes) < 17_000_000
    assert max(batch_bytes[1:]) < 5_000_000


def test_list_with_an_open_copy_is_not_moved_to_the_same_queue(local, raw, ns):
    raw.lpush(f"{ns}-work", "a", "b")
    raw.lpush(f"{ns}-other", "c")
    copy(Lists(local), f"{ns}-work", local, "to")
    copy(Lists(local), f"{ns}-other", local, "to")
    reason = "is open: moved too, its elements would be there twice"
    with refused(NotPossible, f"A copy of the list '{ns}-work' to 'to' {reason}"):
        move(Lists(local), f"{ns}-work", local, "to")
    with refused(NotPossible, f"A copy of the list '{ns}-work' to 'to' {reason}"):
        Bridge(Inward(Lists(local), f"{ns}-work", local, "to")).run()
    assert raw.llen(f"{ns}-work") == 2

    copy(Lists(local), f"{ns}-work", local, "to", finish=True)
    assert move(Lists(local), f"{ns}-work", local, "to").arrived == 2
    assert sorted(read_bodies(raw, ns, "to")) == [b"a", b"a", b"b", b"b", b"c"]


def test_kept_attributes_of_the_target_are_reported(old, local, raw, ns):
    local.rsmq.create_queue("q", vt=7)
    old.rsmq.set_queue_attributes("q", vt=60)
    old.rsmq.create_queue("dead")
    old.rsmq.set_dead_letter_policy("q", "dead", 4)
    report = move(Queues(old), "q", local, "q")

    assert list(report.notes) == [
        "its vt of 60: the queue has 7",
        "its policy, dead letters to dead after 4 receives: the queue keeps its own, or none",
    ]
    assert raw.hmget(f"{ns}:q:Q", "vt", "x:dlq") == [b"7", None]


def test_full_server_can_be_drained(local, raw, ns):
    raw.lpush(f"{ns}-work", "a", "b")
    local.rsmq.create_queue("to")
    raw.config_set("maxmemory", 1)
    try:
        assert move(Lists(local), f"{ns}-work", local, "to").arrived == 2
    finally:
        raw.config_set("maxmemory", 0)


def test_a_memory_url_is_refused():
    with refused(NotPossible, "memory:// can't be the source or the target"):
        Server.from_url("memory://x")
