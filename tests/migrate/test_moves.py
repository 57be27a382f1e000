"""Moves between two servers, where messages stand aside on their way; and ids that are taken."""

from __future__ import annotations

import json

import pytest

from rsmq.migrate import (
    Bridge,
    Inward,
    Lists,
    NotPossible,
    Queues,
    Server,
    SourceNotFound,
    copy,
    move,
)
from rsmq.transport.process_identity import describe_process
from tests.expect import refused
from tests.migrate.stored import bodies, numbers, stored


@pytest.fixture
def old(here, raw, ns):
    """Another namespace on the shared server, with a queue of three messages."""
    with Server.from_url(f"redis://127.0.0.1:{port_of(raw)}/0", ns=f"{ns}:old") as old:
        old.rsmq.create_queue("q")
        old.rsmq.send_messages("q", ["a", "b", "c"])
        yield old


def port_of(raw):
    return raw.connection_pool.connection_kwargs["port"]


@pytest.fixture
def ids(old, raw, ns):
    return [each.id for each in stored(raw, f"{ns}:old", "q")]


def test_what_stood_aside_comes_once_however_many_it_is(here, there, raw, ns):
    """A large hash is read in steps, while what has arrived is taken from it and consumed."""
    key = Lists(here).aside_key(f"{ns}-work")
    count = 5000
    raw.hset(key, mapping={
        f"k{number:09}".ljust(32, "a"): b"1700000000000   digest%06d  %d" % (number, number)
        for number in range(count)
    })  # fmt: skip
    there.rsmq.create_queue("to")
    consumed = []
    forget = Lists.forget

    def and_consume(source, queue, arrived):
        forget(source, queue, arrived)
        consumed.extend(each.raw for each in there.rsmq.pop_messages("to", 10_000))

    source = Lists(here)
    source.forget = lambda queue, arrived: and_consume(source, queue, arrived)
    report = move(source, f"{ns}-work", there, "to")

    assert sorted(consumed) == sorted(b" %d" % number for number in range(count))
    assert report.arrived == count
    assert not raw.exists(key)


def test_a_dry_run_counts_what_stands_aside(here, there, raw, ns):
    raw.hset(Lists(here).aside_key(f"{ns}-work"), "k" * 32, b"1   digest m")
    raw.lpush(f"{ns}-work", "n")
    dry = move(Lists(here), f"{ns}-work", there, "to", dry_run=True)
    real = move(Lists(here), f"{ns}-work", there, "to")

    assert numbers(dry) == numbers(real)
    assert real.arrived == 2


def test_another_body_under_an_id_stays_where_it_is_until_someone_decides(
    old, target, raw, ns, ids
):
    """On one server it stays in its queue, between two it stays aside; the others go."""
    target.rsmq.create_queue("q")
    target.raw.hset(f"{ns}:q:Q", ids[1], "other")
    target.raw.zadd(f"{ns}:q", {ids[1]: 1_700_000_000_000})
    for again in (False, True):
        report = move(Queues(old), "q", target, "q")

        assert bodies(target.raw, ns, "q") == [b"other", b"a", b"c"]
        assert (report.arrived, report.missing) == ((0, 1) if again else (2, 1))
        assert not report.verified
        (note,) = report.notes.values()
        assert note.text == "there is another body under its id: it stays"
        assert (note.number, note.examples) == (1, [ids[1]])
        at_source = [each.id for each in stored(raw, f"{ns}:old", "q")]
        aside = [id.decode() for id in raw.hkeys(f"{ns}:old:x:aside:rsmq:q")]
        assert at_source + aside == [ids[1]]

    target.rsmq.delete_message("q", ids[1])
    report = move(Queues(old), "q", target, "q")
    assert (report.arrived, report.missing, report.verified) == (1, 0, True)
    assert bodies(target.raw, ns, "q") == [b"a", b"b", b"c"]
    assert not raw.exists(f"{ns}:old:x:aside:rsmq:q", f"{ns}:old:q")


def test_the_same_message_on_both_sides_is_one(old, target, raw, ns, ids):
    target.rsmq.create_queue("q")
    target.raw.hset(f"{ns}:q:Q", ids[1], "b")
    target.raw.zadd(f"{ns}:q", {ids[1]: 1_700_000_000_000})
    report = move(Queues(old), "q", target, "q")

    assert bodies(target.raw, ns, "q") == [b"b", b"a", b"c"]
    assert (report.arrived + report.before, report.missing, report.verified) == (3, 0, True)
    assert stored(raw, f"{ns}:old", "q") == []


def test_what_stands_aside_comes_though_its_queue_is_gone(old, there, raw, ns):
    raw.hset(f"{ns}:old:x:aside:rsmq:q", "k" * 32, b"1   digest m")
    old.rsmq.delete_queue("q")
    report = move(Queues(old), "q", there, "q")

    assert bodies(there.raw, ns, "q") == [b"m"]
    assert (report.arrived, report.verified) == (1, True)
    with pytest.raises(SourceNotFound):
        move(Queues(old), "q", there, "q")


def test_a_message_aside_keeps_all_that_it_was(old, there, raw, ns, ids):
    raw.hset(f"{ns}:old:q:Q", ids[0], bytes(range(256)))
    old.rsmq.receive_message("q", vt=500)
    before = stored(raw, f"{ns}:old", "q")
    old.raw.hset(f"{ns}:old:q:Q", ids[2], "")
    move(Queues(old), "q", there, "q", in_flight=True)

    assert [each for each in stored(there.raw, ns, "q") if each.id != ids[2]] == [
        each for each in before if each.id != ids[2]
    ]
    assert b"" in bodies(there.raw, ns, "q")


def test_two_servers_are_moved_between_by_one_run_at_a_time(here, there, raw, ns):
    """Another one would bring what stands aside a second time."""
    raw.lpush(f"{ns}-work", "a")
    held = Lists(here).aside_key(f"{ns}-work") + b":held"
    raw.set(held, json.dumps({**describe_process(), "place": "elsewhere", "pid": 5, "host": "h"}))
    with refused(NotPossible, f"Another run is moving list:{ns}-work, of process 5 on h"):
        move(Lists(here), f"{ns}-work", there, "to")
    assert raw.llen(f"{ns}-work") == 1

    raw.set(held, json.dumps({**describe_process(), "born": "1"}))  # a dead one
    assert move(Lists(here), f"{ns}-work", there, "to").arrived == 1
    assert not raw.exists(held)


def test_one_server_needs_no_such_thing(here, raw, ns):
    raw.lpush(f"{ns}-work", "a")
    raw.set(Lists(here).aside_key(f"{ns}-work") + b":held", "{}")

    assert move(Lists(here), f"{ns}-work", here, "to").arrived == 1


def test_large_bodies_go_a_few_at_a_time(here, there, raw, ns, monkeypatch):
    raw.lpush(f"{ns}-work", *(b"%d" % n + b"x" * 1_000_000 for n in range(40)))
    taken = []
    take = Lists.take

    def and_note(self, place, given, to):
        taken.append(sum(len(item.body) for item, _ in given))
        return take(self, place, given, to)

    monkeypatch.setattr(Lists, "take", and_note)
    report = move(Lists(here), f"{ns}-work", there, "to")

    assert (report.arrived, report.verified) == (40, True)
    assert max(taken) < 17_000_000
    assert max(taken[1:]) < 5_000_000


def test_a_list_of_which_a_copy_is_open_is_not_moved_there_too(here, raw, ns):
    raw.lpush(f"{ns}-work", "a", "b")
    raw.lpush(f"{ns}-other", "c")
    copy(Lists(here), f"{ns}-work", here, "to")
    copy(Lists(here), f"{ns}-other", here, "to")
    told = "is open: moved too, its elements would be there twice"
    with refused(NotPossible, f"A copy of the list '{ns}-work' to 'to' {told}"):
        move(Lists(here), f"{ns}-work", here, "to")
    with refused(NotPossible, f"A copy of the list '{ns}-work' to 'to' {told}"):
        Bridge(Inward(Lists(here), f"{ns}-work", here, "to")).run()
    assert raw.llen(f"{ns}-work") == 2

    copy(Lists(here), f"{ns}-work", here, "to", finish=True)
    assert move(Lists(here), f"{ns}-work", here, "to").arrived == 2
    assert sorted(bodies(raw, ns, "to")) == [b"a", b"a", b"b", b"b", b"c"]


def test_what_a_queue_keeps_of_its_own_is_told(old, here, raw, ns):
    here.rsmq.create_queue("q", vt=7)
    old.rsmq.set_queue_attributes("q", vt=60)
    old.rsmq.create_queue("dead")
    old.rsmq.set_dead_letter_policy("q", "dead", 4)
    report = move(Queues(old), "q", here, "q")

    assert list(report.notes) == [
        "its vt of 60: the queue has 7",
        "its policy, dead letters to dead after 4 receives: the queue keeps its own, or none",
    ]
    assert raw.hmget(f"{ns}:q:Q", "vt", "x:dlq") == [b"7", None]


def test_a_full_server_can_be_drained(here, raw, ns):
    raw.lpush(f"{ns}-work", "a", "b")
    here.rsmq.create_queue("to")
    raw.config_set("maxmemory", 1)
    try:
        assert move(Lists(here), f"{ns}-work", here, "to").arrived == 2
    finally:
        raw.config_set("maxmemory", 0)
