"""Moving over from RSMQ: other namespaces, databases and servers, and other clients' queues."""

from __future__ import annotations

import re

import pytest

from compat import recordings
from rsmq import RSMQ
from rsmq.migrate import NotPossible, Queues, Server, SourceNotFound, copy, move
from tests.expect import refused
from tests.migrate.stored import Stored, bodies, dumped, now_ms, numbers, stored

BINARY = bytes(range(256))


class Elsewhere:
    """
    Another namespace on the shared server, or another database or server.

    Attributes:
        server: for a source.
        rsmq: its queues.
        raw: its keys.
        ns: its namespace.
    """

    def __init__(self, url, ns):
        self.server = Server.from_url(url, ns=ns)
        self.rsmq = self.server.rsmq
        self.raw = self.server.raw
        self.ns = ns


@pytest.fixture(params=["namespace", "database", "server"])
def old(request, server, ns):
    url = server.url
    if request.param == "database":
        url = f"redis://127.0.0.1:{server.port}/1"
    elif request.param == "server":
        url = request.getfixturevalue("other_server").url
    old = Elsewhere(url, f"{ns}:old")
    yield old
    if keys := old.raw.keys(f"{ns}:*"):
        old.raw.unlink(*keys)
    old.server.close()


@pytest.fixture
def beside(server, ns):
    """Another namespace on the shared server."""
    beside = Elsewhere(server.url, f"{ns}:old")
    yield beside
    beside.server.close()


@pytest.fixture
def filled(old):
    """What stands in the queue, in order: ready, received, delayed ones."""
    old.rsmq.create_queue("q", vt=7, delay=3, maxsize=2048)
    send = old.rsmq.send_message
    send("q", "received once", delay=0)
    old.rsmq.receive_message("q", vt=500)
    send("q", "again", delay=0)
    old.rsmq.receive_message("q", vt=0)
    old.rsmq.receive_message("q", vt=0)
    send("q", "ready", delay=0)
    old.rsmq.send_message("q", "front", front=True, delay=0)
    send("q", "later", delay=900)
    old.raw.hset(f"{old.ns}:q:Q", send("q", "x", delay=0), BINARY)
    send("q", "")
    return stored(old.raw, old.ns, "q")


def in_flight(messages):
    return [each for each in messages if each.body == b"received once"]


def test_a_move_keeps_everything_of_each_message(old, here, filled, raw, ns):
    report = move(Queues(old.server), "q", here, "q", in_flight=True)

    assert len(filled) == 7
    assert [each.body for each in filled[:1]] == [b"front"]
    assert stored(raw, ns, "q") == filled
    assert not old.raw.exists(f"{old.ns}:q")
    assert stored(old.raw, old.ns, "q") == []
    assert old.raw.hmget(f"{old.ns}:q:Q", "vt", "totalsent") == [b"7", b"7"]
    assert old.raw.keys(f"{old.ns}:x:*") == []
    assert not raw.exists(f"{ns}:q:x:copied")
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay", "maxsize", "totalsent", "totalrecv") == [
        b"7", b"3", b"2048", b"7", b"3"
    ]  # fmt: skip
    assert raw.hget(f"{ns}:q:Q", "created") == old.raw.hget(f"{old.ns}:q:Q", "created")
    assert report.found == {"ready": 4, "delayed": 2, "in_flight": 1}
    assert (report.arrived, report.left, report.notes) == (7, 0, {})
    assert report.verified


def test_a_move_leaves_what_someone_handles(old, here, filled, raw, ns):
    (held,) = in_flight(filled)
    report = move(Queues(old.server), "q", here, "q")

    assert stored(raw, ns, "q") == [each for each in filled if each is not held]
    assert stored(old.raw, old.ns, "q") == [held]
    assert (report.arrived, report.left, report.verified) == (6, 1, True)
    assert report.found == {"ready": 4, "delayed": 2, "in_flight": 1}
    assert old.rsmq.delete_message("q", held.id)


def test_a_copy_keeps_everything_and_leaves_the_source(old, here, filled, raw, ns):
    before = {key: each for key, each in dumped(old.raw).items() if b":old:" in key}
    report = copy(Queues(old.server), "q", here, "q", finish=True)

    assert stored(raw, ns, "q") == filled
    assert {key: each for key, each in dumped(old.raw).items() if b":old:" in key} == before
    assert (report.arrived, report.verified) == (7, True)
    assert sorted(key.decode() for key in raw.keys(f"{ns}:*") if b":old" not in key) == [
        f"{ns}:QUEUES", f"{ns}:q", f"{ns}:q:Q"
    ]  # fmt: skip


def test_dry_runs_change_nothing_and_tell_the_numbers_of_the_runs(old, here, filled, raw, ns):
    old.raw.hdel(f"{old.ns}:q:Q", filled[2].id)  # a ghost
    old.raw.zincrby(f"{old.ns}:q", -10_001, filled[2].id)
    for way, options in (
        (copy, {}), (copy, {}), (move, {}), (move, {"in_flight": True}), (move, {}),
    ):  # fmt: skip
        before = dumped(raw), dumped(old.raw)
        dry = numbers(way(Queues(old.server), "q", here, "q", dry_run=True, **options))
        assert (dumped(raw), dumped(old.raw)) == before
        real = numbers(way(Queues(old.server), "q", here, "q", **options))
        assert dry == real


def test_an_existing_queue_keeps_its_attributes_and_its_messages(old, here, filled, raw, ns):
    here.rsmq.create_queue("q", vt=99, delay=1, maxsize=1024)
    id = here.rsmq.send_message("q", "own", delay=0)
    report = move(Queues(old.server), "q", here, "q", in_flight=True)

    assert not report.created
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay", "maxsize") == [b"99", b"1", b"1024"]
    assert [each for each in stored(raw, ns, "q") if each.id != id] == filled
    # Those that came are counted, and the total of the source is not added again.
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"8"


def test_what_is_larger_than_the_queue_takes_is_kept_and_told(beside, here, raw, ns):
    here.rsmq.create_queue("q", maxsize=1024)
    beside.rsmq.create_queue("q")
    id = beside.rsmq.send_message("q", "x" * 1025)
    report = move(Queues(beside.server), "q", here, "q")

    assert bodies(raw, ns, "q") == [b"x" * 1025]
    other, note = report.notes.values()
    assert other.text == "its maxsize of 65536: the queue has 1024"
    assert note.text == "larger than the queue's maxsize of 1024: kept"
    assert note.examples == [id]


def test_a_dead_letter_policy_comes_along_and_its_queue_is_made(beside, here, raw, ns):
    beside.rsmq.create_queue("q")
    beside.rsmq.create_queue("dead", vt=7)
    beside.rsmq.set_dead_letter_policy("q", "dead", 4)
    assert copy(Queues(beside.server), "q", here, "q").notes == {}
    assert raw.hmget(f"{ns}:q:Q", "x:dlq", "x:max") == [b"dead", b"4"]
    assert raw.hget(f"{ns}:dead:Q", "vt") == b"7"

    here.rsmq.create_queue("other")
    here.rsmq.set_dead_letter_policy("q", "other", 2)
    told = copy(Queues(beside.server), "q", here, "q")
    assert list(told.notes) == [
        "its policy, dead letters to dead after 4 receives: the queue keeps its own, or none"
    ]
    assert raw.hmget(f"{ns}:q:Q", "x:dlq", "x:max") == [b"other", b"2"]


def test_a_dead_letter_policy_whose_queue_is_nowhere_is_told(beside, here, raw, ns):
    for name in ("q", "dead"):
        beside.rsmq.create_queue(name)
    beside.rsmq.set_dead_letter_policy("q", "dead", 4)
    beside.rsmq.delete_queue("dead")
    told = copy(Queues(beside.server), "q", here, "q")

    assert list(told.notes) == [
        "its policy, dead letters to dead after 4 receives: there is no queue dead"
    ]
    assert raw.hmget(f"{ns}:q:Q", "x:dlq", "x:max") == [None, None]


def test_a_paused_queue_is_told(beside, here):
    beside.rsmq.create_queue("q")
    beside.raw.hset(f"{beside.ns}:q:Q", "x:paused", "1")

    assert list(move(Queues(beside.server), "q", here, "q").notes) == [
        "it is paused for workers: pause it there too"
    ]


@pytest.mark.parametrize("in_flight", [False, True])
def test_an_id_whose_body_may_come_yet_stays(beside, here, raw, ns, in_flight):
    """Go's and others' sends store the id first, in a step of its own."""
    beside.rsmq.create_queue("q")
    half, id = beside.rsmq.send_messages("q", ["half", "m"])
    beside.raw.hdel(f"{beside.ns}:q:Q", half)
    report = move(Queues(beside.server), "q", here, "q", in_flight=in_flight)
    assert [each.id for each in stored(raw, ns, "q")] == [id]
    assert (report.arrived, report.left_out) == (1, 0)
    assert beside.raw.zrange(f"{beside.ns}:q", 0, -1) == [half.encode()]

    beside.raw.hset(f"{beside.ns}:q:Q", half, "half")
    assert move(Queues(beside.server), "q", here, "q").arrived == 1
    assert [each.body for each in stored(raw, ns, "q")] == [b"half", b"m"]


def test_ghosts_are_left_out_and_taken_away(beside, here, raw, ns):
    beside.rsmq.create_queue("q")
    ghost, id = beside.rsmq.send_messages("q", ["ghost", "m"])
    beside.raw.hdel(f"{beside.ns}:q:Q", ghost)
    beside.raw.zincrby(f"{beside.ns}:q", -10_001, ghost)
    copied = copy(Queues(beside.server), "q", here, "copy")
    moved = move(Queues(beside.server), "q", here, "q")

    for name, report in (("copy", copied), ("q", moved)):
        (note,) = report.notes.values()
        assert (note.text, note.examples) == ("a ghost: an id without a body", [ghost])
        assert (report.arrived, report.left_out, report.verified) == (1, 1, True)
        assert [each.id for each in stored(raw, ns, name)] == [id]
    assert stored(beside.raw, beside.ns, "q") == []


@pytest.mark.parametrize("where", ["here", "beside"])
def test_ids_that_are_names_of_attributes_are_left_out_and_the_attributes_stay(
    beside, here, raw, ns, where
):
    """On one server and between two."""
    target, at = (here, ns) if where == "here" else (beside.server, beside.ns)
    beside.rsmq.create_queue("q", vt=77)
    id = beside.rsmq.send_message("q", "m")
    beside.raw.zadd(f"{beside.ns}:q", {"vt": 1, "x:max": beside.raw.time()[0] * 1000})
    before = {
        name: value for name, value in beside.raw.hgetall(f"{beside.ns}:q:Q").items()
        if not name.startswith(id.encode())
    }  # fmt: skip
    report = move(Queues(beside.server), "q", target, "target")

    (note,) = report.notes.values()
    assert note.text == "an id that is the name of an attribute: no message"
    assert (report.arrived, report.left_out, report.verified) == (1, 2, True)
    target_raw = raw if where == "here" else beside.raw
    assert [each.id for each in stored(target_raw, at, "target")] == [id]
    assert stored(beside.raw, beside.ns, "q") == []
    assert beside.raw.hgetall(f"{beside.ns}:q:Q").items() >= before.items()


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_message_with_the_meta_of_apalis_is_told_and_leaves_nothing(
    beside, here, raw, ns, in_flight
):
    beside.rsmq.create_queue("q")
    id = beside.rsmq.send_message("q", "m")
    beside.raw.hset(f"{beside.ns}:q:Q", f"{id}:meta", "{}")
    report = move(Queues(beside.server), "q", here, "q", in_flight=in_flight)

    assert [(note.text, note.examples) for note in report.notes.values()] == [
        ("apalis-rsmq's meta of it", [id])
    ]
    assert id not in str(beside.raw.hkeys(f"{beside.ns}:q:Q"))
    assert bodies(raw, ns, "q") == [b"m"]


# What others have made of queues.


def raw_queue(elsewhere, prefix, name, messages, **attributes):
    """Write a queue as another client does: id, body, score and more of each message."""
    fields = {"vt": 30, "delay": 0, "maxsize": 65536, **attributes}
    key = f"{prefix}{name}"
    elsewhere.raw.hset(f"{key}:Q", mapping=fields)
    elsewhere.raw.sadd(f"{prefix}QUEUES", name)
    for id, body, score, *more in messages:
        elsewhere.raw.zadd(key, {id: score})
        elsewhere.raw.hset(f"{key}:Q", id, body)
        for end, value in zip((":rc", ":fr"), more, strict=False):
            elsewhere.raw.hset(f"{key}:Q", id + end, value)


def test_fractions_of_pyrsmq_become_whole_seconds_and_are_told(beside, here, raw, ns):
    raw_queue(beside, f"{beside.ns}:", "q", [], vt="0.5", delay="-0.5", maxsize="65565")
    report = move(Queues(beside.server), "q", here, "q")

    assert raw.hmget(f"{ns}:q:Q", "vt", "delay", "maxsize") == [b"1", b"0", b"65536"]
    assert list(report.notes) == [
        "its vt of 0.5 is no value of RSMQ: 1",
        "its maxsize of 65565 is no value of RSMQ: 65536",
    ]


def test_uuids_of_old_pyrsmq_stay_and_longer_ids_are_made_anew(beside, here, raw, ns):
    now = now_ms(beside.raw)
    uuid = "00112233445566778899aabbccddeeff"
    long = "1" * 12 + "x" * 22
    raw_queue(
        beside, f"{beside.ns}:", "q", [(uuid, "a", now - 5000), (long, "b", now - 4000, 2, now)]
    )
    report = move(Queues(beside.server), "q", here, "q")
    kept, made = stored(raw, ns, "q")

    assert kept == Stored(uuid, b"a", now - 5000)
    assert (made.body, made.score, made.count, made.first) == (b"b", now - 4000, 2, now)
    assert re.fullmatch("[0-9a-z]{10}[A-Za-z0-9]{22}", made.id)
    assert made.sent_us == (now - 4000) * 1000
    assert [(note.text, note.examples) for note in report.notes.values()] == [
        ("an id that Node can't delete: it got a new one", [long])
    ]
    assert here.rsmq.receive_message("q").id == uuid


def test_the_22_characters_of_go_get_ids_of_their_scores(beside, here, raw, ns):
    now = now_ms(beside.raw)
    given = [("g" * 21 + str(n), f"{n}", now - 5000 + n) for n in range(3)]
    raw_queue(
        beside, f"{beside.ns}:", "q", given, created="2020-01-01T00:00:00Z", createdby="ebuckley"
    )
    for way, name in ((copy, "copy"), (move, "q")):
        report = way(Queues(beside.server), "q", here, name)
        found = stored(raw, ns, name)

        assert [each.body for each in found] == [b"0", b"1", b"2"]
        assert [each.score for each in found] == [score for _, _, score in given]
        assert [each.sent_us for each in found] == [score * 1000 for _, _, score in given]
        assert report.verified


def test_old_rust_has_no_colon_and_ids_of_milliseconds(beside, here, raw, ns):
    """rsmq_async before 10.0: {ns}{queue}, 8 digits and 22 characters."""
    now = now_ms(beside.raw)
    id = "k0000000" + "r" * 22
    raw_queue(beside, beside.ns, "q", [(id, "m", now - 1000, 1, now - 2000)])
    source = Queues(beside.server, colon=False)
    assert source.queues() == ["q"]
    with refused(SourceNotFound, f"There is no RSMQ queue 'q' in the namespace {beside.ns!r}"):
        move(Queues(beside.server), "q", here, "q")
    move(source, "q", here, "q")
    (made,) = stored(raw, ns, "q")

    assert (made.body, made.score, made.count, made.first) == (b"m", now - 1000, 1, now - 2000)
    assert made.sent_us == int(id[:8], 36) * 1000
    assert beside.raw.zcard(f"{beside.ns}q") == 0


def test_milliseconds_of_newer_rust_become_seconds(beside, here, raw, ns):
    raw_queue(beside, f"{beside.ns}:", "q", [], vt=30000, delay=1500)
    move(Queues(beside.server, milliseconds=True), "q", here, "q")
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay") == [b"30", b"2"]

    move(Queues(beside.server), "q", here, "as-it-stands")
    assert raw.hmget(f"{ns}:as-it-stands:Q", "vt", "delay") == [b"30000", b"1500"]


@pytest.mark.parametrize("way", [copy, move])
@pytest.mark.parametrize(("times", "note"), [
    (0.001, "a score in seconds, as of rsmq_async 7 and rsmq-rb"),
    (1000, "a score in microseconds, as of rsmq_async's break-js-comp"),
])  # fmt: skip
def test_scores_of_other_units_become_milliseconds(beside, here, raw, ns, times, note, way):
    now = now_ms(beside.raw) // 1000 * 1000
    ids = [f"k00000000{n}{'a' * 22}" for n in range(3)]
    given = [(id, id[9:10], (now - 3000 + 1000 * n) * times) for n, id in enumerate(ids)]
    given[2] = (*given[2], 2, int((now - 9000) * times))
    raw_queue(beside, f"{beside.ns}:", "q", given)
    report = way(Queues(beside.server), "q", here, "q")

    assert stored(raw, ns, "q") == [
        Stored(ids[0], b"0", now - 3000),
        Stored(ids[1], b"1", now - 2000),
        Stored(ids[2], b"2", now - 1000, 2, now - 9000),
    ]
    assert [(note.text, note.number) for note in report.notes.values()] == [(note, 3)]


@pytest.mark.parametrize("way", [copy, move])
def test_strange_scores_and_counters_come_over(beside, here, raw, ns, way):
    """What was put at the front has a small score; some clients write worse."""
    now = now_ms(beside.raw)
    ids = [f"k00000000{n}{'a' * 22}" for n in range(6)]
    raw_queue(
        beside, f"{beside.ns}:", "q",
        [(ids[0], "0", "-inf"), (ids[1], "1", -7), (ids[2], "2", 7), (ids[3], "3", now - 0.5, 1),
         (ids[4], "4", now, "many", "never"), (ids[5], "5", "inf")],
    )  # fmt: skip
    way(Queues(beside.server), "q", here, "q")
    found = stored(raw, ns, "q")

    assert [each.id for each in found] == ids
    assert [each.score for each in found][1:5] == [-7, 7, now - 1, now]
    assert [(each.count, each.first) for each in found][3:5] == [(1, None), (None, None)]
    assert found[0].score < -7
    assert found[5].score > now


def test_all_queues_are_found_listed_or_not(beside):
    for name in ("listed", "unlisted", "half", "a.b/c"):
        raw_queue(beside, f"{beside.ns}:", name, [])
    beside.raw.srem(f"{beside.ns}:QUEUES", "unlisted")
    beside.raw.hdel(f"{beside.ns}:half:Q", "vt")
    beside.raw.sadd(f"{beside.ns}:QUEUES", "none")
    # galadd/rsmq-go has a hash where a queue has a sorted set, and a list where it has a hash.
    beside.raw.hset(f"{beside.ns}:other", "a", "b")
    beside.raw.lpush(f"{beside.ns}:other:Q", "x")
    beside.raw.sadd(f"{beside.ns}:QUEUES", "other")

    assert Queues(beside.server).queues() == ["a.b/c", "listed", "unlisted"]


def test_a_namespace_is_no_pattern(server, ns):
    strange = Elsewhere(server.url, f"{ns}:[a]*")
    raw_queue(strange, f"{ns}:[a]*:", "q", [])
    raw_queue(strange, f"{ns}:a*:", "p", [])
    try:
        assert Queues(strange.server).queues() == ["q"]
    finally:
        strange.server.close()


def test_a_queue_is_not_its_own_source(here, raw, ns):
    here.rsmq.create_queue("q")
    here.rsmq.send_message("q", "m")
    before = dumped(raw)
    for way in (copy, move):
        with refused(NotPossible, "The queue 'q' is the source and the target"):
            way(Queues(here), "q", here, "q")
    assert dumped(raw) == before
    assert move(Queues(here), "q", here, "other").arrived == 1
    assert bodies(raw, ns, "other") == [b"m"]


def test_a_message_comes_back_to_where_it_was(beside, here, raw, ns):
    beside.rsmq.create_queue("q")
    id = beside.rsmq.send_message("q", "m")
    before = stored(beside.raw, beside.ns, "q")
    for _ in range(2):
        move(Queues(beside.server), "q", here, "q")
        assert [each.id for each in stored(raw, ns, "q")] == [id]
        assert stored(beside.raw, beside.ns, "q") == []
        move(Queues(here), "q", beside.server, "q")
        assert stored(beside.raw, beside.ns, "q") == before


@pytest.mark.parametrize("way", [copy, move])
def test_what_was_copied_and_taken_back_may_come_again(old, here, raw, ns, way):
    """People go back and try again: nothing that left the queue counts as consumed there."""
    old.rsmq.create_queue("q")
    ids = old.rsmq.send_messages("q", ["a", "b", "c"])
    copy(Queues(old.server), "q", here, "q")
    consumed = here.rsmq.pop_message("q").id
    old.rsmq.pop_messages("q", 10)
    assert move(Queues(here), "q", old.server, "q").arrived == 2
    assert [each.id for each in stored(old.raw, old.ns, "q")] == ids[1:]
    report = way(Queues(old.server), "q", here, "q")

    assert consumed == ids[0]
    assert [each.id for each in stored(raw, ns, "q")] == ids[1:]
    assert (report.arrived, report.consumed, report.verified) == (2, 0, True)


def test_those_that_come_to_the_place_of_others_are_not_passed_over(beside, here, raw, ns):
    """Consumers at the source delete what a move has passed over; what stood behind moves up."""
    beside.rsmq.create_queue("q", vt=500)
    beside.rsmq.send_messages("q", ["held"] * 1200)
    held = beside.rsmq.receive_messages("q", 1200)
    beside.rsmq.send_messages("q", ["ready"] * 3)
    beside.rsmq.send_messages("q", ["later"] * 5, delay=900)

    def consume(progress):
        beside.rsmq.delete_messages(held[:1000])

    report = move(Queues(beside.server), "q", here, "q", tell=consume)

    assert sorted(bodies(raw, ns, "q")) == [b"later"] * 5 + [b"ready"] * 3
    assert bodies(beside.raw, beside.ns, "q") == [b"held"] * 200
    assert (report.arrived, report.left) == (8, 200)
    assert report.found == {"ready": 3, "delayed": 5, "in_flight": 200}


@pytest.mark.parametrize("name", recordings.names())
def test_what_other_clients_were_recorded_to_write_comes_over(name, beside, here, raw, ns):
    """Of each recorded session the state with the most messages; of most queues there is one."""
    state = max(
        (step["state"] for step in recordings.load(name)["steps"] if "state" in step),
        key=lambda state: sum(
            len(entry["value"]) for entry in state.values() if entry["type"] == "zset"
        ),
    )
    recordings.restore(beside.raw, {
        f"{beside.ns}{key.removeprefix('rsmq')}": entry for key, entry in state.items()
    })  # fmt: skip
    source = Queues(beside.server)
    assert source.queues()
    for queue in source.queues():
        before = stored_as_it_is(beside, queue)
        name = f"copy-{queue}".replace(" ", "_")
        copied = copy(source, queue, here, name)
        moved = move(source, queue, here, queue, in_flight=True)
        for report, to in ((copied, name), (moved, queue)):
            assert report.verified
            assert report.arrived + report.left_out == len(before)
            assert sorted(bodies(raw, ns, to)) == sorted(
                body for body in before.values() if body is not None
            )
        assert beside.raw.zcard(f"{beside.ns}:{queue}") == 0


def stored_as_it_is(elsewhere, queue):
    fields = elsewhere.raw.hgetall(f"{elsewhere.ns}:{queue}:Q")
    return {id: fields.get(id) for id in elsewhere.raw.zrange(f"{elsewhere.ns}:{queue}", 0, -1)}


def test_a_client_of_any_settings_may_be_given(server, ns, beside, raw):
    """As a program has them already: decoding texts, and with redis-py's own retries."""
    import redis

    beside.rsmq.create_queue("q")
    beside.rsmq.send_message("q", "m")
    with redis.Redis(port=server.port, decode_responses=True) as client:
        given = Server(RSMQ(client, ns=ns), server.raw())
        move(Queues(beside.server), "q", given, "q")
        given.close()
    assert bodies(raw, ns, "q") == [b"m"]
