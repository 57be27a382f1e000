"""Migration from RSMQ: other namespaces, databases and servers, and queues of other clients."""

from __future__ import annotations

import re

import pytest

from compat import recordings
from rsmq import RSMQ
from rsmq.migrate import NotPossible, Queues, SourceNotFound, copy, move, verify
from tests.expect import refused
from tests.migrate.keyed_server import Server
from tests.migrate.stored import (
    StoredMessage,
    dump_keys,
    now_ms,
    predicted_figures,
    read_bodies,
    read_messages,
)

BINARY = bytes(range(256))


class OtherNamespace:
    """
    Another namespace on the shared server, or another database or server.

    Attributes:
        server: the server as a source of migrations takes it.
        rsmq: a client of its queues.
        raw: a client of its keys.
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
    old = OtherNamespace(url, f"{ns}:old")
    yield old
    if keys := old.raw.keys(f"{ns}:*"):
        old.raw.unlink(*keys)
    old.server.close()


@pytest.fixture
def other_namespace(server, ns):
    """Return another namespace on the shared server."""
    other_namespace = OtherNamespace(server.url, f"{ns}:old")
    yield other_namespace
    other_namespace.server.close()


@pytest.fixture
def filled(old):
    """Fill a queue with ready, received and delayed messages, and return them in order."""
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
    return read_messages(old.raw, old.ns, "q")


def select_in_flight(messages):
    return [each for each in messages if each.body == b"received once"]


def test_move_keeps_all_fields_of_each_message(old, local, filled, raw, ns):
    report = move(Queues(old.server), "q", local, "q", in_flight=True)

    assert len(filled) == 7
    assert [each.body for each in filled[:1]] == [b"front"]
    assert read_messages(raw, ns, "q") == filled
    assert not old.raw.exists(f"{old.ns}:q")
    assert read_messages(old.raw, old.ns, "q") == []
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


def test_move_leaves_messages_in_flight(old, local, filled, raw, ns):
    (message_in_flight,) = select_in_flight(filled)
    report = move(Queues(old.server), "q", local, "q")

    assert read_messages(raw, ns, "q") == [each for each in filled if each is not message_in_flight]
    assert read_messages(old.raw, old.ns, "q") == [message_in_flight]
    assert (report.arrived, report.left, report.verified) == (6, 1, True)
    assert report.found == {"ready": 4, "delayed": 2, "in_flight": 1}
    assert old.rsmq.delete_message("q", message_in_flight.id)


def test_copy_keeps_all_fields_and_does_not_change_the_source(old, local, filled, raw, ns):
    before = {key: each for key, each in dump_keys(old.raw).items() if b":old:" in key}
    report = copy(Queues(old.server), "q", local, "q", finish=True)

    assert read_messages(raw, ns, "q") == filled
    assert {key: each for key, each in dump_keys(old.raw).items() if b":old:" in key} == before
    assert (report.arrived, report.verified) == (7, True)
    assert sorted(key.decode() for key in raw.keys(f"{ns}:*") if b":old" not in key) == [
        f"{ns}:QUEUES", f"{ns}:q", f"{ns}:q:Q"
    ]  # fmt: skip


def test_dry_run_changes_nothing_and_predicts_the_figures(old, local, filled, raw, ns):
    old.raw.hdel(f"{old.ns}:q:Q", filled[2].id)  # a ghost id
    old.raw.zincrby(f"{old.ns}:q", -10_001, filled[2].id)
    for way, options in (
        (copy, {}), (copy, {}), (move, {}), (move, {"in_flight": True}), (move, {}),
    ):  # fmt: skip
        before = dump_keys(raw), dump_keys(old.raw)
        dry = predicted_figures(way(Queues(old.server), "q", local, "q", dry_run=True, **options))
        assert (dump_keys(raw), dump_keys(old.raw)) == before
        real = predicted_figures(way(Queues(old.server), "q", local, "q", **options))
        assert dry == real


def test_existing_queue_keeps_its_attributes_and_messages(old, local, filled, raw, ns):
    local.rsmq.create_queue("q", vt=99, delay=1, maxsize=1024)
    id = local.rsmq.send_message("q", "own", delay=0)
    report = move(Queues(old.server), "q", local, "q", in_flight=True)

    assert not report.created
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay", "maxsize") == [b"99", b"1", b"1024"]
    assert [each for each in read_messages(raw, ns, "q") if each.id != id] == filled
    # The moved messages are counted; the total of the source is not added.
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"8"


def test_body_larger_than_maxsize_is_moved_and_reported(other_namespace, local, raw, ns):
    local.rsmq.create_queue("q", maxsize=1024)
    other_namespace.rsmq.create_queue("q")
    id = other_namespace.rsmq.send_message("q", "x" * 1025)
    report = move(Queues(other_namespace.server), "q", local, "q")

    assert read_bodies(raw, ns, "q") == [b"x" * 1025]
    other, note = report.notes.values()
    assert other.text == "its maxsize of 65536: the queue has 1024"
    assert note.text == "larger than the queue's maxsize of 1024: kept"
    assert note.examples == [id]


def test_consumed_messages_of_an_old_queue_are_not_copied_again(old, filled, local, raw, ns):
    """The creation time is that of the source, and the record of the copy is still valid."""
    old.raw.hset(f"{old.ns}:q:Q", "created", 1_600_000_000)
    copied = copy(Queues(old.server), "q", local, "q")
    assert raw.hget(f"{ns}:q:Q", "created") == b"1600000000"
    for message in read_messages(raw, ns, "q"):
        assert local.rsmq.delete_message("q", message.id)
    report = copy(Queues(old.server), "q", local, "q")

    assert (report.arrived, report.consumed) == (0, copied.arrived)
    assert read_messages(raw, ns, "q") == []
    assert raw.hget(f"{ns}:q:Q", "created") == b"1600000000"


def test_existing_queue_keeps_its_creation_time(old, filled, local, raw, ns):
    local.rsmq.create_queue("q")
    created = raw.hget(f"{ns}:q:Q", "created")
    old.raw.hset(f"{old.ns}:q:Q", "created", 1_600_000_000)
    for _ in range(2):
        copy(Queues(old.server), "q", local, "q")
        assert raw.hget(f"{ns}:q:Q", "created") == created


def test_dead_letter_policy_is_copied_and_its_queue_created(other_namespace, local, raw, ns):
    other_namespace.rsmq.create_queue("q")
    other_namespace.rsmq.create_queue("dead", vt=7)
    other_namespace.rsmq.set_dead_letter_policy("q", "dead", 4)
    assert copy(Queues(other_namespace.server), "q", local, "q").notes == {}
    assert raw.hmget(f"{ns}:q:Q", "x:dlq", "x:max") == [b"dead", b"4"]
    assert raw.hget(f"{ns}:dead:Q", "vt") == b"7"

    local.rsmq.create_queue("other")
    local.rsmq.set_dead_letter_policy("q", "other", 2)
    report = copy(Queues(other_namespace.server), "q", local, "q")
    assert list(report.notes) == [
        "its policy, dead letters to dead after 4 receives: the queue keeps its own, or none"
    ]
    assert raw.hmget(f"{ns}:q:Q", "x:dlq", "x:max") == [b"other", b"2"]


def test_dead_letter_policy_without_a_queue_is_reported(other_namespace, local, raw, ns):
    for name in ("q", "dead"):
        other_namespace.rsmq.create_queue(name)
    other_namespace.rsmq.set_dead_letter_policy("q", "dead", 4)
    other_namespace.rsmq.delete_queue("dead")
    report = copy(Queues(other_namespace.server), "q", local, "q")

    assert list(report.notes) == [
        "its policy, dead letters to dead after 4 receives: there is no queue dead"
    ]
    assert raw.hmget(f"{ns}:q:Q", "x:dlq", "x:max") == [None, None]


def test_pause_is_carried_over_to_a_new_queue(other_namespace, local, raw, ns):
    other_namespace.rsmq.create_queue("q")
    other_namespace.raw.hset(f"{other_namespace.ns}:q:Q", "x:paused", "1")

    assert list(move(Queues(other_namespace.server), "q", local, "q").notes) == [
        "it is paused for workers: the queue is too"
    ]
    assert raw.hexists(f"{ns}:q:Q", "x:paused")


def test_limits_are_carried_over_to_a_new_queue(other_namespace, local, raw, ns):
    other_namespace.rsmq.create_queue("q")
    other_namespace.rsmq.set_queue_limits("q", max_running=5, rate="100/m")
    move(Queues(other_namespace.server), "q", local, "q")

    assert raw.hget(f"{ns}:q:Q", "x:throttle") == b"5:100/m"


def test_expiry_is_carried_over_to_a_new_queue(other_namespace, local, raw, ns):
    other_namespace.rsmq.create_queue("q", keep=3600)
    other_namespace.rsmq.create_queue("dead")
    other_namespace.rsmq.set_dead_letter_policy("q", "dead", 4)
    other_namespace.rsmq.set_queue_attributes("q", expired="dead-letter")
    report = move(Queues(other_namespace.server), "q", local, "q")

    assert (report.verified, report.notes) == (True, {})
    assert raw.hmget(f"{ns}:q:Q", "x:keep", "x:expired") == [b"3600", b"dead-letter"]


@pytest.mark.parametrize("way", [copy, move, verify])
def test_a_queue_that_lacks_the_expiry_is_not_verified(other_namespace, local, way):
    other_namespace.rsmq.create_queue("q", keep=3600)
    other_namespace.rsmq.create_queue("dead")
    other_namespace.rsmq.set_dead_letter_policy("q", "dead", 4)
    other_namespace.rsmq.set_queue_attributes("q", expired="dead-letter")
    local.rsmq.create_queue("q")
    report = way(Queues(other_namespace.server), "q", local, "q")

    assert not report.verified
    assert "its keep of 3600: the queue has 0" in report.notes
    assert "its expired of dead-letter: the queue has drop" in report.notes


@pytest.mark.parametrize("kind", ["local", "remote"])
@pytest.mark.parametrize("way", [copy, move])
def test_messages_keep_their_limits(request, old, kind, way):
    target = request.getfixturevalue(kind)
    old.rsmq.create_queue("q")
    old.rsmq.send_message("q", "plain")
    ids = [
        old.rsmq.send_message("q", "both", expires=900, max_retries=0),
        old.rsmq.send_message("q", "retries", max_retries=7),
        old.rsmq.send_message("q", "grouped", expires=900, group="a"),
    ]
    records = old.raw.hmget(f"{old.ns}:q:x:limits", ids)
    report = way(Queues(old.server), "q", target, "q")

    assert (report.arrived, report.verified, report.notes) == (4, True, {})
    name = target.rsmq.namespace.name
    stored = target.call("HGETALL", f"{name}:q:x:limits")
    assert dict(zip(stored[::2], stored[1::2], strict=True)) == dict(
        zip([id.encode() for id in ids], records, strict=True)
    )
    assert target.call("HGET", f"{name}:q:Q", "x:limited") == b"1"


def test_a_copy_without_the_limits_of_its_messages_is_not_verified(other_namespace, local, raw, ns):
    other_namespace.rsmq.create_queue("q")
    id = other_namespace.rsmq.send_message("q", "m", max_retries=7)
    copy(Queues(other_namespace.server), "q", local, "q")
    raw.unlink(f"{ns}:q:x:limits")
    for way in (copy, verify):
        report = way(Queues(other_namespace.server), "q", local, "q")
        assert not report.verified
        (note,) = report.notes.values()
        assert note.text == "its expires and max_retries are not those of the source"
        assert note.examples == [id]


def test_a_copy_without_the_groups_of_its_messages_is_not_verified(other_namespace, local, raw, ns):
    other_namespace.rsmq.create_queue("q")
    id, other, _ = other_namespace.rsmq.send_messages("q", ["a", "b", "c"], groups=["g", "h", None])
    assert copy(Queues(other_namespace.server), "q", local, "q").verified
    raw.hset(f"{ns}:q:x:group_of", id, "0:other")
    raw.hdel(f"{ns}:q:x:group_of", other)
    for way in (copy, verify):
        report = way(Queues(other_namespace.server), "q", local, "q")
        assert not report.verified
        (note,) = report.notes.values()
        assert note.text == "its group and limit_key are not those of the source"
        assert sorted(note.examples) == sorted([id, other])


@pytest.mark.parametrize("in_flight", [False, True])
def test_recent_id_without_a_body_is_left(other_namespace, local, raw, ns, in_flight):
    """Clients such as the Go client store the id first, in a separate step."""
    other_namespace.rsmq.create_queue("q")
    incomplete, id = other_namespace.rsmq.send_messages("q", ["half", "m"])
    other_namespace.raw.hdel(f"{other_namespace.ns}:q:Q", incomplete)
    report = move(Queues(other_namespace.server), "q", local, "q", in_flight=in_flight)
    assert [each.id for each in read_messages(raw, ns, "q")] == [id]
    assert (report.arrived, report.left_out) == (1, 0)
    assert other_namespace.raw.zrange(f"{other_namespace.ns}:q", 0, -1) == [incomplete.encode()]

    other_namespace.raw.hset(f"{other_namespace.ns}:q:Q", incomplete, "half")
    assert move(Queues(other_namespace.server), "q", local, "q").arrived == 1
    assert [each.body for each in read_messages(raw, ns, "q")] == [b"half", b"m"]


def test_ghost_ids_are_left_out_and_removed(other_namespace, local, raw, ns):
    other_namespace.rsmq.create_queue("q")
    ghost, id = other_namespace.rsmq.send_messages("q", ["ghost", "m"])
    other_namespace.raw.hdel(f"{other_namespace.ns}:q:Q", ghost)
    other_namespace.raw.zincrby(f"{other_namespace.ns}:q", -10_001, ghost)
    copied = copy(Queues(other_namespace.server), "q", local, "copy")
    moved = move(Queues(other_namespace.server), "q", local, "q")

    for name, report in (("copy", copied), ("q", moved)):
        (note,) = report.notes.values()
        assert (note.text, note.examples) == ("a ghost: an id without a body", [ghost])
        assert (report.arrived, report.left_out, report.verified) == (1, 1, True)
        assert [each.id for each in read_messages(raw, ns, name)] == [id]
    assert read_messages(other_namespace.raw, other_namespace.ns, "q") == []


@pytest.mark.parametrize("where", ["local", "other"])
def test_ids_that_are_attribute_names_are_left_out(other_namespace, local, raw, ns, where):
    """On one server and between two servers."""
    target, target_ns = (
        (local, ns) if where == "local" else (other_namespace.server, other_namespace.ns)
    )
    other_namespace.rsmq.create_queue("q", vt=77)
    id = other_namespace.rsmq.send_message("q", "m")
    other_namespace.raw.zadd(
        f"{other_namespace.ns}:q", {"vt": 1, "x:max": other_namespace.raw.time()[0] * 1000}
    )
    before = {
        name: value
        for name, value in other_namespace.raw.hgetall(f"{other_namespace.ns}:q:Q").items()
        if not name.startswith(id.encode())
    }  # fmt: skip
    report = move(Queues(other_namespace.server), "q", target, "target")

    (note,) = report.notes.values()
    assert note.text == "an id that is the name of an attribute: no message"
    assert (report.arrived, report.left_out, report.verified) == (1, 2, True)
    target_raw = raw if where == "local" else other_namespace.raw
    assert [each.id for each in read_messages(target_raw, target_ns, "target")] == [id]
    assert read_messages(other_namespace.raw, other_namespace.ns, "q") == []
    assert other_namespace.raw.hgetall(f"{other_namespace.ns}:q:Q").items() >= before.items()


@pytest.mark.parametrize("in_flight", [False, True])
def test_apalis_meta_field_is_reported_and_removed(other_namespace, local, raw, ns, in_flight):
    other_namespace.rsmq.create_queue("q")
    id = other_namespace.rsmq.send_message("q", "m")
    other_namespace.raw.hset(f"{other_namespace.ns}:q:Q", f"{id}:meta", "{}")
    report = move(Queues(other_namespace.server), "q", local, "q", in_flight=in_flight)

    assert [(note.text, note.examples) for note in report.notes.values()] == [
        ("apalis-rsmq's meta of it", [id])
    ]
    assert id not in str(other_namespace.raw.hkeys(f"{other_namespace.ns}:q:Q"))
    assert read_bodies(raw, ns, "q") == [b"m"]


# Queues as other clients write them.


def raw_queue(other, prefix, name, messages, **attributes):
    """Write a queue as another client does: id, body, score, receive count and first receive."""
    fields = {"vt": 30, "delay": 0, "maxsize": 65536, **attributes}
    key = f"{prefix}{name}"
    other.raw.hset(f"{key}:Q", mapping=fields)
    other.raw.sadd(f"{prefix}QUEUES", name)
    for id, body, score, *more in messages:
        other.raw.zadd(key, {id: score})
        other.raw.hset(f"{key}:Q", id, body)
        for end, value in zip((":rc", ":fr"), more, strict=False):
            other.raw.hset(f"{key}:Q", id + end, value)


def test_fractional_seconds_of_pyrsmq_are_rounded_and_reported(other_namespace, local, raw, ns):
    raw_queue(
        other_namespace, f"{other_namespace.ns}:", "q", [], vt="0.5", delay="-0.5", maxsize="65565"
    )
    report = move(Queues(other_namespace.server), "q", local, "q")

    assert raw.hmget(f"{ns}:q:Q", "vt", "delay", "maxsize") == [b"1", b"0", b"65536"]
    assert list(report.notes) == [
        "its vt of 0.5 is not a value of RSMQ: 1",
        "its maxsize of 65565 is not a value of RSMQ: 65536",
    ]


def test_pyrsmq_uuids_are_kept_and_longer_ids_are_replaced(other_namespace, local, raw, ns):
    now = now_ms(other_namespace.raw)
    uuid = "00112233445566778899aabbccddeeff"
    long_id = "1" * 12 + "x" * 22
    raw_queue(
        other_namespace,
        f"{other_namespace.ns}:",
        "q",
        [(uuid, "a", now - 5000), (long_id, "b", now - 4000, 2, now)],
    )
    report = move(Queues(other_namespace.server), "q", local, "q")
    kept, message = read_messages(raw, ns, "q")

    assert kept == StoredMessage(uuid, b"a", now - 5000)
    assert (message.body, message.score, message.count, message.first) == (b"b", now - 4000, 2, now)
    assert re.fullmatch("[0-9a-z]{10}[A-Za-z0-9]{22}", message.id)
    assert message.sent_us == (now - 4000) * 1000
    assert [(note.text, note.examples) for note in report.notes.values()] == [
        ("an id that Node can't delete: it got a new one", [long_id])
    ]
    assert local.rsmq.receive_message("q").id == uuid


def test_go_ids_of_22_characters_are_replaced_by_ids_from_scores(other_namespace, local, raw, ns):
    now = now_ms(other_namespace.raw)
    source_messages = [("g" * 21 + str(n), f"{n}", now - 5000 + n) for n in range(3)]
    raw_queue(
        other_namespace,
        f"{other_namespace.ns}:",
        "q",
        source_messages,
        created="2020-01-01T00:00:00Z",
        createdby="ebuckley",
    )
    for way, name in ((copy, "copy"), (move, "q")):
        report = way(Queues(other_namespace.server), "q", local, name)
        messages = read_messages(raw, ns, name)

        assert [each.body for each in messages] == [b"0", b"1", b"2"]
        assert [each.score for each in messages] == [score for _, _, score in source_messages]
        assert [each.sent_us for each in messages] == [
            score * 1000 for _, _, score in source_messages
        ]
        assert report.verified


def test_old_rust_keys_without_colon_and_millisecond_ids_are_moved(other_namespace, local, raw, ns):
    """rsmq_async before 10.0 has keys {ns}{queue}, and ids of 8 digits and 22 characters."""
    now = now_ms(other_namespace.raw)
    id = "k0000000" + "r" * 22
    raw_queue(other_namespace, other_namespace.ns, "q", [(id, "m", now - 1000, 1, now - 2000)])
    source = Queues(other_namespace.server, colon=False)
    assert source.queues() == ["q"]
    with refused(
        SourceNotFound, f"There is no RSMQ queue 'q' in the namespace {other_namespace.ns!r}"
    ):
        move(Queues(other_namespace.server), "q", local, "q")
    move(source, "q", local, "q")
    (message,) = read_messages(raw, ns, "q")

    assert (message.body, message.score, message.count, message.first) == (
        b"m",
        now - 1000,
        1,
        now - 2000,
    )
    assert message.sent_us == int(id[:8], 36) * 1000
    assert other_namespace.raw.zcard(f"{other_namespace.ns}q") == 0


def test_milliseconds_of_newer_rust_become_seconds(other_namespace, local, raw, ns):
    raw_queue(other_namespace, f"{other_namespace.ns}:", "q", [], vt=30000, delay=1500)
    move(Queues(other_namespace.server, milliseconds=True), "q", local, "q")
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay") == [b"30", b"2"]

    move(Queues(other_namespace.server), "q", local, "as-it-stands")
    assert raw.hmget(f"{ns}:as-it-stands:Q", "vt", "delay") == [b"30000", b"1500"]


@pytest.mark.parametrize("way", [copy, move])
@pytest.mark.parametrize(("times", "note"), [
    (0.001, "a score in seconds, as of rsmq_async 7 and rsmq-rb"),
    (1000, "a score in microseconds, as of rsmq_async's break-js-comp"),
])  # fmt: skip
def test_scores_of_other_units_become_milliseconds(
    other_namespace, local, raw, ns, times, note, way
):
    now = now_ms(other_namespace.raw) // 1000 * 1000
    ids = [f"k00000000{n}{'a' * 22}" for n in range(3)]
    source_messages = [(id, id[9:10], (now - 3000 + 1000 * n) * times) for n, id in enumerate(ids)]
    source_messages[2] = (*source_messages[2], 2, int((now - 9000) * times))
    raw_queue(other_namespace, f"{other_namespace.ns}:", "q", source_messages)
    report = way(Queues(other_namespace.server), "q", local, "q")

    assert read_messages(raw, ns, "q") == [
        StoredMessage(ids[0], b"0", now - 3000),
        StoredMessage(ids[1], b"1", now - 2000),
        StoredMessage(ids[2], b"2", now - 1000, 2, now - 9000),
    ]
    assert [(note.text, note.number) for note in report.notes.values()] == [(note, 3)]


@pytest.mark.parametrize("way", [copy, move])
def test_unusual_scores_and_counters_are_migrated(other_namespace, local, raw, ns, way):
    """A message sent to the front has a small score; some clients write worse."""
    now = now_ms(other_namespace.raw)
    ids = [f"k00000000{n}{'a' * 22}" for n in range(6)]
    raw_queue(
        other_namespace, f"{other_namespace.ns}:", "q",
        [(ids[0], "0", "-inf"), (ids[1], "1", -7), (ids[2], "2", 7), (ids[3], "3", now - 0.5, 1),
         (ids[4], "4", now, "many", "never"), (ids[5], "5", "inf")],
    )  # fmt: skip
    way(Queues(other_namespace.server), "q", local, "q")
    messages = read_messages(raw, ns, "q")

    assert [each.id for each in messages] == ids
    assert [each.score for each in messages][1:5] == [-7, 7, now - 1, now]
    assert [(each.count, each.first) for each in messages][3:5] == [(1, None), (None, None)]
    assert messages[0].score < -7
    assert messages[5].score > now


def test_listed_and_unlisted_queues_are_found(other_namespace):
    for name in ("listed", "unlisted", "half", "a.b/c"):
        raw_queue(other_namespace, f"{other_namespace.ns}:", name, [])
    other_namespace.raw.srem(f"{other_namespace.ns}:QUEUES", "unlisted")
    other_namespace.raw.hdel(f"{other_namespace.ns}:half:Q", "vt")
    other_namespace.raw.sadd(f"{other_namespace.ns}:QUEUES", "none")
    # galadd/rsmq-go has a hash where a queue has a sorted set, and a list where it has a hash.
    other_namespace.raw.hset(f"{other_namespace.ns}:other", "a", "b")
    other_namespace.raw.lpush(f"{other_namespace.ns}:other:Q", "x")
    other_namespace.raw.sadd(f"{other_namespace.ns}:QUEUES", "other")

    assert Queues(other_namespace.server).queues() == ["a.b/c", "listed", "unlisted"]


def test_namespace_is_not_treated_as_a_pattern(server, ns):
    pattern_like = OtherNamespace(server.url, f"{ns}:[a]*")
    raw_queue(pattern_like, f"{ns}:[a]*:", "q", [])
    raw_queue(pattern_like, f"{ns}:a*:", "p", [])
    try:
        assert Queues(pattern_like.server).queues() == ["q"]
    finally:
        pattern_like.server.close()


def test_queue_can_not_be_its_own_source(local, raw, ns):
    local.rsmq.create_queue("q")
    local.rsmq.send_message("q", "m")
    before = dump_keys(raw)
    for way in (copy, move):
        with refused(NotPossible, "The queue 'q' is the source and the target"):
            way(Queues(local), "q", local, "q")
    assert dump_keys(raw) == before
    assert move(Queues(local), "q", local, "other").arrived == 1
    assert read_bodies(raw, ns, "other") == [b"m"]


def test_message_can_be_moved_back(other_namespace, local, raw, ns):
    other_namespace.rsmq.create_queue("q")
    id = other_namespace.rsmq.send_message("q", "m")
    before = read_messages(other_namespace.raw, other_namespace.ns, "q")
    for _ in range(2):
        move(Queues(other_namespace.server), "q", local, "q")
        assert [each.id for each in read_messages(raw, ns, "q")] == [id]
        assert read_messages(other_namespace.raw, other_namespace.ns, "q") == []
        move(Queues(local), "q", other_namespace.server, "q")
        assert read_messages(other_namespace.raw, other_namespace.ns, "q") == before


@pytest.mark.parametrize("way", [copy, move])
def test_messages_moved_back_can_be_migrated_again(old, local, raw, ns, way):
    """A migration can be undone and repeated: no message that left the queue counts as consumed."""
    old.rsmq.create_queue("q")
    ids = old.rsmq.send_messages("q", ["a", "b", "c"])
    copy(Queues(old.server), "q", local, "q")
    consumed = local.rsmq.pop_message("q").id
    old.rsmq.pop_messages("q", 10)
    assert move(Queues(local), "q", old.server, "q").arrived == 2
    assert [each.id for each in read_messages(old.raw, old.ns, "q")] == ids[1:]
    report = way(Queues(old.server), "q", local, "q")

    assert consumed == ids[0]
    assert [each.id for each in read_messages(raw, ns, "q")] == ids[1:]
    assert (report.arrived, report.consumed, report.verified) == (2, 0, True)


def test_messages_that_shift_forward_during_a_move_are_not_missed(other_namespace, local, raw, ns):
    """Consumers at the source delete messages that the move has passed; later messages move up."""
    other_namespace.rsmq.create_queue("q", vt=500)
    other_namespace.rsmq.send_messages("q", ["held"] * 1200)
    in_flight_messages = other_namespace.rsmq.receive_messages("q", 1200)
    other_namespace.rsmq.send_messages("q", ["ready"] * 3)
    other_namespace.rsmq.send_messages("q", ["later"] * 5, delay=900)

    def consume(progress):
        other_namespace.rsmq.delete_messages(in_flight_messages[:1000])

    report = move(Queues(other_namespace.server), "q", local, "q", tell=consume)

    assert sorted(read_bodies(raw, ns, "q")) == [b"later"] * 5 + [b"ready"] * 3
    assert read_bodies(other_namespace.raw, other_namespace.ns, "q") == [b"held"] * 200
    assert (report.arrived, report.left) == (8, 200)
    assert report.found == {"ready": 3, "delayed": 5, "in_flight": 200}


@pytest.mark.parametrize("name", recordings.names())
def test_recorded_states_of_other_clients_are_migrated(name, other_namespace, local, raw, ns):
    """For each recorded session, use the state with the most messages; most queues have one."""
    state = max(
        (step["state"] for step in recordings.load(name)["steps"] if "state" in step),
        key=lambda state: sum(
            len(entry["value"]) for entry in state.values() if entry["type"] == "zset"
        ),
    )
    recordings.restore(other_namespace.raw, {
        f"{other_namespace.ns}{key.removeprefix('rsmq')}": entry for key, entry in state.items()
    })  # fmt: skip
    source = Queues(other_namespace.server)
    assert source.queues()
    for queue in source.queues():
        before = read_bodies_by_id(other_namespace, queue)
        name = f"copy-{queue}".replace(" ", "_")
        copied = copy(source, queue, local, name)
        moved = move(source, queue, local, queue, in_flight=True)
        for report, to in ((copied, name), (moved, queue)):
            assert report.verified
            assert report.arrived + report.left_out == len(before)
            assert sorted(read_bodies(raw, ns, to)) == sorted(
                body for body in before.values() if body is not None
            )
        assert other_namespace.raw.zcard(f"{other_namespace.ns}:{queue}") == 0


def read_bodies_by_id(other, queue):
    fields = other.raw.hgetall(f"{other.ns}:{queue}:Q")
    return {id: fields.get(id) for id in other.raw.zrange(f"{other.ns}:{queue}", 0, -1)}


def test_client_with_any_settings_is_accepted(server, ns, other_namespace, raw):
    """A program's own client may decode texts, and have redis-py's retries."""
    import redis

    other_namespace.rsmq.create_queue("q")
    other_namespace.rsmq.send_message("q", "m")
    with redis.Redis(port=server.port, decode_responses=True) as client:
        target = Server(RSMQ(client, ns=ns))
        move(Queues(other_namespace.server), "q", target, "q")
        target.close()
    assert read_bodies(raw, ns, "q") == [b"m"]


def groups_of(raw, ns):
    """Return the messages of groups: those that are admitted, and those that are held back."""
    return [raw.zrange(f"{ns}:q:x:{name}", 0, -1) for name in ("admitted", "held_back")]


def send_groups(old):
    """Send messages of two groups, receive the first one, and return it and the lists of ids."""
    old.rsmq.create_queue("q")
    old.rsmq.send_messages("q", list("vwxyz"), groups=["a", "a", None, "b", "a"])
    old.rsmq.send_message("q", "late", group="b", delay=900)
    return old.rsmq.receive_message("q", vt=500), groups_of(old.raw, old.ns)


def test_a_copy_has_the_groups_and_not_the_scores_of_messages_that_are_held_back(
    old, local, raw, ns
):
    held, groups = send_groups(old)
    records = old.raw.hgetall(f"{old.ns}:q:x:group_of")
    report = copy(Queues(old.server), "q", local, "q", finish=True)

    assert (report.arrived, report.verified) == (6, True)
    assert groups_of(raw, ns) == groups
    stored = raw.hgetall(f"{ns}:q:x:group_of")
    assert {id: stored[id] for id in records if id != held.id.encode()} == {
        id: record for id, record in records.items() if id != held.id.encode()
    }
    assert local.rsmq.delete_message("q", held.id)
    (_, first), *_ = (each.split(b"\0") for each in groups[1])
    assert raw.zscore(f"{ns}:q", first) <= raw.time()[0] * 1000 + 1000
    again = copy(Queues(old.server), "q", local, "q", finish=True)
    assert again.verified


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_a_move_takes_the_groups_along(request, old, kind, raw, ns):
    target = request.getfixturevalue(kind)
    held, (admitted, held_back) = send_groups(old)
    report = move(Queues(old.server), "q", target, "q", in_flight=True)

    assert (report.arrived, report.left, report.verified) == (6, 0, True)
    assert groups_of(old.raw, old.ns) == [[], []]
    assert not old.raw.exists(f"{old.ns}:q:x:group_of")
    name = target.rsmq.namespace.name
    members = [
        set(target.call("ZRANGE", f"{name}:q:x:{part}", 0, -1))
        for part in ("admitted", "held_back")
    ]
    assert members[0] | members[1] == {*admitted, *held_back}
    assert held.id.encode() in {each.partition(b"\0")[2] for each in members[0]}
    assert target.rsmq.delete_message("q", held.id)
    order = []
    while message := target.rsmq.receive_message("q"):
        order.append(message.raw)
        target.rsmq.delete_message(message)
    assert sorted(order) == [b"w", b"x", b"y", b"z"]
    assert order.index(b"w") < order.index(b"z")
