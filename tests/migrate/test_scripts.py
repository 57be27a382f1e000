"""Scripts that move messages from and to other systems: keys before and after."""

from __future__ import annotations

import pytest
import redis.exceptions as redis_errors

from rsmq import QueueNotFound
from rsmq.errors import RunReplaced
from rsmq.migrate.operations import (
    IncomingMessage,
    OutgoingMessage,
    RunClaim,
    ToAside,
    ToQueue,
    Watermark,
    add_copies,
    begin_move,
    forget_copies,
    forget_set_aside,
    forward_messages,
    move_from_list,
    move_from_queue,
    move_from_sorted_set,
    open_copy,
)
from rsmq.operations.restore import RestoredMessage
from tests.migrate.keyed_server import Server
from tests.migrate.stored import StoredMessage, dump_keys, now_ms, read_bodies, read_messages
from tests.servers import Server as RedisServer
from tests.servers import redis_7, redis_62

OUT_OF_MEMORY = "command not allowed when used memory"
NO_PERMISSION = "can't run this command"
WRONG_TYPE = "WRONGTYPE"


def arrival(number, *, digest=None, body=None, score=5000, count=0, first=None):
    """Return an arriving message whose id and body are made of a number."""
    id = f"{number:010d}{'x' * 22}"
    body = b"body %d" % number if body is None else body
    digest_or_default = b"digest %d" % number if digest is None else digest
    return IncomingMessage(digest_or_default, RestoredMessage(id, body, score, count, first))


def arrival_without_message(number):
    return IncomingMessage(b"digest %d" % number, None)


class SourceKind:
    """
    A source of messages: an end of a list, a sorted set, or a queue.

    Attributes:
        key: its key.
    """

    def __init__(self, kind, raw, ns):
        self.kind = kind
        self.raw = raw
        self.key = f"{ns}-source".encode()

    def make_ghost(self, number):
        self.raw.hdel(self.key + b":Q", b"element %d" % number)

    def fill(self, *numbers):
        for number in numbers:
            element = b"element %d" % number
            if self.kind == "right":
                self.raw.lpush(self.key, element)
            elif self.kind == "left":
                self.raw.rpush(self.key, element)
            else:
                self.raw.zadd(self.key, {element: number})
            if self.kind == "queue":
                self.raw.hset(
                    self.key + b":Q",
                    mapping={element + suffix: b"x" for suffix in (b"", b":rc", b":fr", b":meta")},
                )

    def remaining(self):
        """Return the numbers of the remaining messages, the next one first."""
        if self.kind in {"left", "right"}:
            elements = self.raw.lrange(self.key, 0, -1)[:: 1 if self.kind == "left" else -1]
        else:
            elements = self.raw.zrange(self.key, 0, -1)
        if self.kind == "queue":
            suffixes = (b"", b":rc", b":fr", b":meta")
            fields = {each + suffix for each in elements for suffix in suffixes}
            assert set(self.raw.hkeys(self.key + b":Q")) == fields
        return [int(each.split()[1]) for each in elements]

    def take(self, to, *arrivals, scores=None, other_keys=()):
        """
        Return the operation that takes these messages; their ids contain the elements' numbers.
        """
        rows = []
        for place, each in enumerate(arrivals):
            number = place + 1 if each.message is None else int(each.message.id[:10])
            rows.append((b"element %d" % number, each))
        if self.kind == "queue":
            rows_with_scores = [
                (element, float(element.split()[1]) if scores is None else scores[place], each)
                for place, (element, each) in enumerate(rows)
            ]
            return move_from_queue(
                to, self.key + b":Q", self.key, self.key + b":x:copied", rows_with_scores
            )
        if self.kind == "sorted":
            return move_from_sorted_set(to, self.key, rows)
        return move_from_list(to, self.key, self.kind, rows, other_keys)


@pytest.fixture(params=["left", "right", "sorted", "queue"])
def source(request, raw, ns):
    source = SourceKind(request.param, raw, ns)
    yield source
    raw.unlink(source.key, source.key + b":Q")


@pytest.fixture
def keys(rsmq):
    rsmq.create_queue("q")
    return rsmq.namespace.queue("q")


@pytest.fixture
def to(keys):
    return ToQueue(keys)


def aside_of(key):
    return ToAside(key.encode(), f"{key}:held".encode(), b"run", b"target")


@pytest.fixture
def aside(ns):
    return aside_of(f"{ns}:x:aside:test")


def test_take_moves_a_message_unchanged(source, rsmq, raw, ns, to):
    source.fill(1, 2, 3)
    body = bytes(range(256))
    arrivals = [
        arrival(1, body=body, score=7000, count=3, first=6000),
        arrival(2, score=None),
    ]
    before = now_ms(raw)

    assert rsmq.run(source.take(to, *arrivals)) == b"11"
    first, second = read_messages(raw, ns, "q")
    assert first == StoredMessage(arrivals[0].message.id, body, 7000, 3, 6000)
    # Its id contains a time long ago.
    assert second == StoredMessage(arrivals[1].message.id, b"body 2", second.score)
    assert before <= second.score <= now_ms(raw)
    assert source.remaining() == [3]
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"2"
    assert raw.hget(f"{ns}:q:Q", "totalrecv") is None
    assert not raw.exists(to.keys.copied)


def test_take_to_staging_keeps_all_fields(source, rsmq, raw, aside):
    source.fill(1, 2)
    arrivals = [arrival(1, body=b" a b\0 ", count=3, first=6000), arrival(2, score=None, body=b"")]

    assert rsmq.run(source.take(aside, *arrivals)) == b"11"
    assert raw.hgetall(aside.key) == {
        arrivals[0].message.id.encode(): b"5000 3 6000 digest 1  a b\0 ",
        arrivals[1].message.id.encode(): b"   digest 2 ",
        b"": b"target",
    }
    assert source.remaining() == []


def test_item_without_message_is_only_removed(source, rsmq, raw, ns, to, aside):
    source.fill(1, 2)

    if source.kind == "queue":  # an id whose body has been written meanwhile is not a ghost
        assert rsmq.run(source.take(to, arrival_without_message(1))) == b"0"
        source.make_ghost(1)
    assert rsmq.run(source.take(to, arrival_without_message(1))) == b"1"
    assert source.remaining() == [2]
    assert read_messages(raw, ns, "q") == []
    assert raw.hget(f"{ns}:q:Q", "totalsent") is None
    raw.unlink(source.key)
    source.fill(1)
    if source.kind == "queue":
        source.make_ghost(1)
    assert rsmq.run(source.take(aside, arrival_without_message(1))) == b"1"
    assert not raw.exists(aside.key)


def test_missing_element_is_not_taken(source, rsmq, raw, ns, to):
    """
    In a list only the next element can be taken: another consumer has taken the ones before it.
    """
    source.fill(2, 3)
    results = rsmq.run(source.take(to, arrival(1), arrival(2), arrival(3)))

    assert results == b"011"
    assert read_bodies(raw, ns, "q") == [b"body 2", b"body 3"]
    assert source.remaining() == []
    assert rsmq.run(source.take(to, arrival(1))) == b"0"


def test_repeated_take_after_a_lost_reply_takes_nothing(source, rsmq, raw, ns, to):
    source.fill(1, 2, 3)
    take = source.take(to, arrival(1), arrival(2))
    rsmq.run(take)
    before = dump_keys(raw)

    assert rsmq.run(take) == b"00"
    assert dump_keys(raw) == before


def test_take_keeps_an_existing_message_of_the_same_id(source, rsmq, raw, ns, to):
    source.fill(1)
    rsmq.run(source.take(to, arrival(1, body=b"first", score=4000)))
    source.fill(1)

    assert rsmq.run(source.take(to, arrival(1, body=b"first"))) == b"1"
    assert read_messages(raw, ns, "q") == [StoredMessage(arrival(1).message.id, b"first", 4000)]
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"1"


def test_take_does_not_add_a_copied_and_consumed_message_again(source, rsmq, raw, ns, to):
    source.fill(1, 2)
    created = raw.hget(to.keys.hash, "created")
    raw.hset(to.keys.copied, mapping={"created": created, "digest 1": b""})

    assert rsmq.run(source.take(to, arrival(1), arrival(2))) == b"21"
    assert read_bodies(raw, ns, "q") == [b"body 2"]
    assert source.remaining() == []


def test_take_of_more_elements_than_lua_unpacks(source, rsmq, raw, ns, to, aside):
    numbers = range(1, 4101)
    for where in (to, aside):
        source.fill(*numbers)
        results = rsmq.run(source.take(where, *map(arrival, numbers)))
        assert results == b"1" * 4100
    assert raw.zcard(f"{ns}:q") == raw.hlen(aside.key) - 1 == 4100
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"4100"
    assert not raw.exists(source.key)


def test_take_to_a_missing_queue_changes_nothing(source, rsmq, raw):
    source.fill(1)
    before = dump_keys(raw)

    with pytest.raises(QueueNotFound):
        rsmq.run(source.take(ToQueue(rsmq.namespace.queue("none")), arrival(1)))
    assert dump_keys(raw) == before


@pytest.mark.parametrize("wrong", ["source", "hash", "zset", "copied", "aside"])
def test_take_with_a_key_of_wrong_type_changes_nothing(source, rsmq, raw, ns, to, aside, wrong):
    """On either side; the lists, sorted sets and hashes are strings here."""
    source.fill(1, 2)
    rsmq.run(source.take(to, arrival(1)))
    key = {
        "source": source.key,
        "hash": to.keys.hash,
        "zset": to.keys.zset,
        "copied": to.keys.copied,
        "aside": aside.key,
    }[wrong]
    raw.unlink(key)
    raw.set(key, "text")
    before = dump_keys(raw)

    with pytest.raises(redis_errors.ResponseError, match=WRONG_TYPE):
        rsmq.run(source.take(aside if wrong == "aside" else to, arrival(2), arrival(3)))
    assert dump_keys(raw) == before


def test_invalid_totals_do_not_prevent_a_take(source, rsmq, raw, ns, to):
    source.fill(1)
    raw.hset(to.keys.hash, "totalsent", "NaN")
    rsmq.run(source.take(to, arrival(1)))

    assert raw.hget(to.keys.hash, "totalsent") == b"1"
    assert raw.zcard(to.keys.zset) == 1


def test_batch_is_published_once_with_the_number_of_messages(source, rsmq, raw, ns, keys):
    rsmq.send_message("q", "before")
    source.fill(1, 2, 3, 4)
    to = ToQueue(keys, realtime=True)
    with raw.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.subscribe(f"{ns}:rt:q")
        subscription.get_message(timeout=5)
        rsmq.run(source.take(to, arrival(1), arrival(2), arrival(3)))
        rsmq.run(source.take(to, arrival_without_message(1)))  # not stored any more
        rsmq.run(source.take(ToQueue(keys), arrival(4)))
        raw.publish(f"{ns}:rt:q", "end")
        published = []
        while published[-1:] != [b"end"]:
            if message := subscription.get_message(timeout=5):
                published.append(message["data"])

    assert published == [b"4", b"end"]


# Lists.


@pytest.mark.parametrize("side", ["left", "right"])
def test_equal_elements_of_a_list_are_identified_by_their_new_ids(rsmq, raw, ns, to, aside, side):
    """A take that is repeated because its reply was lost takes none of the other elements."""
    source = SourceKind(side, raw, ns)

    def take_equal(where, *numbers):
        rows = [(b"same", arrival(number, digest=b"", body=b"same")) for number in numbers]
        return move_from_list(where, source.key, side, rows)

    for where in (to, aside):
        raw.rpush(source.key, *[b"same"] * 5)
        assert rsmq.run(take_equal(where, 1, 2, 3)) == b"111"
        assert rsmq.run(take_equal(where, 1, 2, 3)) == b"000"
        assert raw.lrange(source.key, 0, -1) == [b"same"] * 2
        assert rsmq.run(take_equal(where, 4, 5, 6)) == b"110"
        assert not raw.exists(source.key)
    assert read_bodies(raw, ns, "q") == [b"same"] * 5
    assert raw.hlen(aside.key) == 5 + 1
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"5"


def test_element_in_the_middle_of_a_list_is_not_taken(rsmq, raw, ns, to):
    source = SourceKind("right", raw, ns)
    source.fill(1, 2, 3)

    assert rsmq.run(source.take(to, arrival(2), arrival(1), arrival(3))) == b"010"
    assert source.remaining() == [2, 3]
    assert read_bodies(raw, ns, "q") == [b"body 1"]
    raw.unlink(source.key)


def test_key_of_an_element_is_deleted_only_with_it(rsmq, raw, ns, to):
    source = SourceKind("right", raw, ns)
    source.fill(1, 2, 3)
    other_keys = [f"{ns}-other-{number}".encode() for number in (0, 1, 2)]
    for other in other_keys:
        raw.hset(other, "a", "b")
    take = source.take(to, arrival(9), arrival(1), arrival(2), other_keys=other_keys)

    assert rsmq.run(take) == b"011"
    assert [raw.exists(other) for other in other_keys] == [1, 0, 0]
    raw.unlink(source.key, *other_keys)


# Queues.


def test_message_received_in_the_meantime_is_not_taken(rsmq, raw, ns, to):
    """Its score has changed then. Scores of other clients are fractions, or very large."""
    source = SourceKind("queue", raw, ns)
    scores = [1.5, 1_800_000_000_123.0, 1.8e15, 0.1, -3.0]
    for number, score in enumerate(scores, 1):
        source.fill(number)
        raw.zadd(source.key, {b"element %d" % number: score})
    arrivals = [arrival(number) for number in range(1, 6)]
    other_scores = [score + 1 for score in scores]

    assert rsmq.run(source.take(to, *arrivals, scores=other_scores)) == b"00000"
    assert sorted(source.remaining()) == [1, 2, 3, 4, 5]
    assert rsmq.run(source.take(to, *arrivals, scores=scores)) == b"11111"
    assert source.remaining() == []


def test_take_from_a_queue_keeps_its_attributes(rsmq, raw, ns, to):
    rsmq.create_queue("from", vt=7)
    id = rsmq.send_message("from", "m")
    source = rsmq.namespace.queue("from")
    before = raw.hgetall(source.hash)
    score = raw.zscore(source.zset, id)
    rows = [
        (id.encode(), score, IncomingMessage(b"d", RestoredMessage(id, b"m", int(score), 0, None)))
    ]

    assert rsmq.run(move_from_queue(to, source.hash, source.zset, source.copied, rows)) == b"1"
    del before[id.encode()]
    assert raw.hgetall(source.hash) == before
    assert not raw.exists(source.zset)
    assert read_messages(raw, ns, "q") == [StoredMessage(id, b"m", int(score))]


def test_take_from_a_queue_removes_the_message_from_its_copy_index(rsmq, raw, ns, to, aside):
    """It may be moved back, and must not count as consumed then."""
    source = SourceKind("queue", raw, ns)
    for where in (to, aside):
        source.fill(1, 2)
        raw.zadd(source.key, {b"element 2": 9})  # received in the meantime
        raw.hset(source.key + b":x:copied", mapping={b"digest 1": b"", b"digest 2": b""})

        assert rsmq.run(source.take(where, arrival(1), arrival(2))) == b"10"
        assert raw.hkeys(source.key + b":x:copied") == [b"digest 2"]
        raw.unlink(source.key, source.key + b":Q", source.key + b":x:copied")


@pytest.mark.parametrize("end", [":Q", ":x:copied"])
def test_take_with_queue_keys_of_wrong_type_changes_nothing(rsmq, raw, ns, to, end):
    source = SourceKind("queue", raw, ns)
    source.fill(1)
    raw.unlink(source.key + end.encode())
    raw.set(source.key + end.encode(), "text")
    before = dump_keys(raw)

    with pytest.raises(redis_errors.ResponseError, match=WRONG_TYPE):
        rsmq.run(source.take(to, arrival(1)))
    assert dump_keys(raw) == before
    raw.unlink(source.key, source.key + b":Q", source.key + b":x:copied")


# The watermark of a source, and the right of a run.

FIELD = b"order:test"


def with_watermark(keys, before, after):
    return ToQueue(keys, watermark=Watermark(FIELD, after, before), lifetime=60.0)


def test_move_stores_its_watermark_unless_another_run_has_changed_it(source, rsmq, raw, ns, keys):
    source.fill(1, 2, 3, 4)
    first = source.take(with_watermark(keys, b"", b"10 a"), arrival(1))
    assert rsmq.run(first) == b"1"
    assert raw.hgetall(keys.copied) == {b"created": raw.hget(keys.hash, "created"), FIELD: b"10 a"}
    assert 0 < raw.pttl(keys.copied) <= 60_000

    assert rsmq.run(source.take(with_watermark(keys, b"", b"9 b"), arrival(2), arrival(3))) == b"44"
    assert source.remaining() == [2, 3, 4]
    assert read_bodies(raw, ns, "q") == [b"body 1"]
    assert rsmq.run(first) == b"0"  # its own watermark: an earlier attempt has run

    assert rsmq.run(source.take(with_watermark(keys, b"10 a", b"20 c"), arrival(2))) == b"1"
    assert raw.hget(keys.copied, FIELD) == b"20 c"


def test_watermark_of_a_deleted_queue_is_void(source, rsmq, raw, keys):
    source.fill(1, 2)
    rsmq.run(source.take(with_watermark(keys, b"", b"10 a"), arrival(1)))
    raw.hset(keys.hash, "created", 5)

    assert rsmq.run(source.take(with_watermark(keys, b"", b"11 b"), arrival(2))) == b"1"
    assert raw.hgetall(keys.copied) == {b"created": b"5", FIELD: b"11 b"}


def test_run_sets_nothing_aside_while_another_has_the_lock(source, rsmq, raw, aside):
    source.fill(1, 2)
    raw.set(aside.lock_key, "other run")
    with pytest.raises(RunReplaced):
        rsmq.run(source.take(aside, arrival(1)))
    assert source.remaining() == [1, 2]
    assert not raw.exists(aside.key)

    for lock in ("run", None):  # its own, or one that has expired
        raw.delete(aside.lock_key)
        if lock:
            raw.set(aside.lock_key, lock)
        number = 1 if lock else 2
        assert rsmq.run(source.take(aside, arrival(number))) == b"1"
    raw.delete(aside.lock_key, aside.key)


def test_only_the_latest_run_adds_and_forgets(rsmq, raw, ns, keys):
    first, second = RunClaim(b"run:test", b"1"), RunClaim(b"run:test", b"2")
    with pytest.raises(RunReplaced):
        rsmq.run(land(keys, arrival(1), claim=first))
    assert not raw.exists(keys.copied)

    rsmq.run(begin_move(keys, first, lifetime=60))
    assert rsmq.run(land(keys, arrival(1), claim=first)) == b"1"
    rsmq.run(begin_move(keys, second, lifetime=60))
    before = dump_keys(raw)
    with pytest.raises(RunReplaced):
        rsmq.run(land(keys, arrival(2), claim=first))
    with pytest.raises(RunReplaced):
        rsmq.run(forget_copies(keys, [b"digest 1"], first))
    assert dump_keys(raw) == before

    watermark = Watermark(FIELD, b"10 a")
    assert rsmq.run(land(keys, arrival(2), claim=second, watermark=watermark)) == b"1"
    assert raw.hget(keys.copied, FIELD) == b"10 a"
    fields = [b"digest 1", b"digest 2", b"run:test", FIELD]
    assert rsmq.run(forget_copies(keys, fields, second)) == 0
    assert not raw.exists(keys.copied)
    assert read_bodies(raw, ns, "q") == [b"body 1", b"body 2"]


def test_run_has_no_right_to_a_queue_that_was_created_again(rsmq, raw, keys):
    claim = RunClaim(b"run:test", b"1")
    rsmq.run(begin_move(keys, claim, lifetime=60))
    raw.hset(keys.hash, "created", 5)

    with pytest.raises(RunReplaced):
        rsmq.run(land(keys, arrival(1), claim=claim))
    rsmq.run(begin_move(keys, claim, lifetime=60))
    assert rsmq.run(land(keys, arrival(1), claim=claim)) == b"1"


def test_set_aside_hash_is_deleted_with_its_last_message(rsmq, raw, aside):
    raw.hset(aside.key, mapping={"a": "1", "b": "2", "": "target"})

    assert rsmq.run(forget_set_aside(aside.key, ["a", "none"])) == 1
    assert raw.hgetall(aside.key) == {b"b": b"2", b"": b"target"}
    assert rsmq.run(forget_set_aside(aside.key, ["b"])) == 0
    assert not raw.exists(aside.key)
    assert rsmq.run(forget_set_aside(aside.key, ["b"])) == 0


# Copies.


def land(keys, *arrivals, lifetime=60.0, realtime=False, **options):
    return add_copies(keys, arrivals, realtime=realtime, lifetime=lifetime, **options)


def test_copy_is_added_once_even_if_consumed(rsmq, raw, ns, keys):
    copies = [arrival(1, count=2, first=4000), arrival(2)]
    assert rsmq.run(land(keys, *copies)) == b"11"
    assert read_messages(raw, ns, "q") == [
        StoredMessage(copies[0].message.id, b"body 1", 5000, 2, 4000),
        StoredMessage(copies[1].message.id, b"body 2", 5000),
    ]
    rsmq.delete_message("q", copies[0].message.id)

    assert rsmq.run(land(keys, *copies, arrival(3))) == b"201"
    assert read_bodies(raw, ns, "q") == [b"body 2", b"body 3"]
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"3"
    assert raw.hkeys(keys.copied) == [b"created", b"digest 1", b"digest 2", b"digest 3"]


def test_copy_index_of_a_deleted_queue_is_ignored(source, rsmq, raw, ns, keys, to):
    """Node deletes a queue and creates it again without the keys beside it."""
    rsmq.run(land(keys, arrival(1), arrival(2)))
    raw.unlink(keys.hash, keys.zset)
    raw.hset(keys.hash, mapping={"vt": 30, "delay": 0, "maxsize": 65536, "created": 5})
    source.fill(1)

    assert rsmq.run(source.take(to, arrival(1))) == b"1"
    assert read_bodies(raw, ns, "q") == [b"body 1"]
    assert rsmq.run(land(keys, arrival(2))) == b"1"
    assert raw.hgetall(keys.copied) == {b"created": b"5", b"digest 2": b""}


def test_open_copy_keeps_its_time_until_the_queue_is_created_again(rsmq, raw, keys):
    opened_us, list_id = rsmq.run(open_copy(keys, lifetime=60, list_digest=b"this"))
    seconds, microseconds = raw.time()

    assert 0 <= seconds * 10**6 + microseconds - opened_us < 60 * 10**6
    assert list_id == b"this"
    assert rsmq.run(open_copy(keys, lifetime=60, list_digest=b"that")) == (opened_us, b"this")
    raw.hset(keys.hash, "created", 5)
    reopened_us, list_id = rsmq.run(open_copy(keys, lifetime=60))
    assert reopened_us > opened_us
    assert list_id == b""
    assert 0 < raw.pttl(keys.copied) <= 60_000


def test_forgotten_messages_can_be_copied_again(rsmq, raw, keys):
    rsmq.run(land(keys, arrival(1), arrival(2)))
    assert rsmq.run(forget_copies(keys, [b"digest 1"])) == 2
    assert rsmq.run(forget_copies(keys, [b"digest 2"])) == 0
    assert not raw.exists(keys.copied)

    rsmq.run(open_copy(keys, lifetime=60))
    rsmq.run(land(keys, arrival(3)))
    assert rsmq.run(forget_copies(keys, [b"digest 3"])) == 2
    assert raw.hkeys(keys.copied) == [b"created", b"begun"]


def test_copy_of_an_existing_message_keeps_it_and_adds_it_to_the_index(rsmq, raw, ns, keys):
    rsmq.run(land(keys, arrival(1)))
    raw.unlink(keys.copied)

    assert rsmq.run(land(keys, arrival(1))) == b"0"
    assert read_bodies(raw, ns, "q") == [b"body 1"]
    assert raw.hkeys(keys.copied) == [b"created", b"digest 1"]


def test_copy_with_a_taken_id_is_not_added_to_the_index(rsmq, raw, ns, keys):
    """It was not added: after the other message is deleted, it can be."""
    rsmq.run(land(keys, arrival(1, body=b"other")))
    raw.unlink(keys.copied)
    assert rsmq.run(land(keys, arrival(1))) == b"0"
    assert read_bodies(raw, ns, "q") == [b"other"]
    assert raw.hkeys(keys.copied) == [b"created"]

    rsmq.delete_message("q", arrival(1).message.id)
    assert rsmq.run(land(keys, arrival(1))) == b"1"
    assert read_bodies(raw, ns, "q") == [b"body 1"]


def test_copy_index_expires(rsmq, raw, keys):
    for lifetime in (5.0, 60.0):
        rsmq.run(land(keys, arrival(1), lifetime=lifetime))
        assert lifetime * 1000 - 4000 < raw.pttl(keys.copied) <= lifetime * 1000


def test_copy_that_adds_nothing_publishes_nothing(rsmq, raw, ns, keys):
    with raw.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.subscribe(f"{ns}:rt:q")
        subscription.get_message(timeout=5)
        for _ in range(2):
            rsmq.run(land(keys, arrival(1), arrival(2), realtime=True))
        raw.publish(f"{ns}:rt:q", "end")
        published = []
        while published[-1:] != [b"end"]:
            if message := subscription.get_message(timeout=5):
                published.append(message["data"])

    assert published == [b"2", b"end"]


@pytest.mark.parametrize("wrong", ["hash", "zset", "copied"])
def test_copy_to_a_key_of_wrong_type_changes_nothing(rsmq, raw, keys, wrong):
    key = getattr(keys, wrong)
    raw.unlink(key)
    raw.set(key, "text")
    before = dump_keys(raw)

    with pytest.raises(redis_errors.ResponseError, match=WRONG_TYPE):
        rsmq.run(land(keys, arrival(1)))
    assert dump_keys(raw) == before


def test_copy_to_a_missing_queue_changes_nothing(rsmq, raw):
    before = dump_keys(raw)

    with pytest.raises(QueueNotFound):
        rsmq.run(land(rsmq.namespace.queue("none"), arrival(1)))
    assert dump_keys(raw) == before


@pytest.mark.parametrize("call", ["delete_queue", "purge_queue"])
def test_copy_index_is_deleted_with_the_queue_or_its_messages(rsmq, raw, keys, call):
    rsmq.run(land(keys, arrival(1)))
    assert raw.hkeys(keys.copied) == [b"created", b"digest 1"]
    getattr(rsmq, call)("q")

    assert not raw.exists(keys.copied)
    rsmq.create_queue("q", exist_ok=True)
    assert rsmq.run(land(keys, arrival(1))) == b"1"


# From a queue to another system.


def departures(messages, ns):
    return [
        OutgoingMessage(
            message, b"element " + message.raw, f"{ns}-hash-{message.body}".encode(),
            {b"body": message.raw, b"\0": b""},
        )
        for message in messages
    ]  # fmt: skip


@pytest.fixture
def list_key(raw, ns):
    yield f"{ns}-list".encode()
    if remaining := raw.keys(f"{ns}-*"):
        raw.unlink(*remaining)


def test_hand_over_pushes_elements_left_and_writes_their_hashes(rsmq, raw, ns, keys, list_key):
    rsmq.send_messages("q", ["a", "b", "stays"])
    raw.lpush(list_key, "before")
    messages = rsmq.receive_messages("q", 2)

    assert rsmq.run(forward_messages(keys, "list", list_key, departures(messages, ns))) == b"11"
    assert raw.lrange(list_key, 0, -1) == [b"element b", b"element a", b"before"]
    for body in (b"a", b"b"):
        assert raw.hgetall(f"{ns}-hash-{body.decode()}") == {b"body": body, b"\0": b""}
    assert read_bodies(raw, ns, "q") == [b"stays"]


def test_message_received_again_or_deleted_is_not_handed_over(rsmq, raw, ns, keys, list_key):
    rsmq.send_messages("q", ["late", "gone", "latest"])
    received_again, deleted, latest = rsmq.receive_messages("q", 3)
    rsmq.release_messages([received_again])
    rsmq.receive_message("q")
    rsmq.delete_message(deleted)
    results = rsmq.run(
        forward_messages(keys, "list", list_key, departures([received_again, deleted, latest], ns))
    )

    assert results == b"201"
    assert raw.lrange(list_key, 0, -1) == [b"element latest"]
    assert raw.keys(f"{ns}-hash-*") == [f"{ns}-hash-latest".encode()]
    assert read_bodies(raw, ns, "q") == [b"late"]


def test_repeated_hand_over_after_a_lost_reply_changes_nothing(rsmq, raw, ns, keys, list_key):
    rsmq.send_message("q", "a")
    operation = forward_messages(
        keys, "list", list_key, departures(rsmq.receive_messages("q", 1), ns)
    )
    assert rsmq.run(operation) == b"1"
    before = dump_keys(raw)

    assert rsmq.run(operation) == b"0"
    assert dump_keys(raw) == before


def test_hand_over_of_more_fields_than_lua_unpacks(rsmq, raw, ns, keys, list_key):
    rsmq.send_message("q", "a")
    (message,) = rsmq.receive_messages("q", 1)
    fields = {b"%d" % number: b"x" for number in range(9000)}
    departure = OutgoingMessage(message, b"id", f"{ns}-hash".encode(), fields)

    assert rsmq.run(forward_messages(keys, "list", list_key, [departure])) == b"1"
    assert raw.hgetall(f"{ns}-hash") == fields


@pytest.mark.parametrize("wrong", ["hash", "zset", "list"])
def test_hand_over_with_a_key_of_wrong_type_changes_nothing(rsmq, raw, ns, keys, list_key, wrong):
    rsmq.send_message("q", "a")
    departures_to_send = departures(rsmq.receive_messages("q", 1), ns)
    key = {"hash": keys.hash, "zset": keys.zset, "list": list_key}[wrong]
    raw.unlink(key)
    raw.set(key, "text")
    before = dump_keys(raw)

    with pytest.raises(redis_errors.ResponseError, match=WRONG_TYPE):
        rsmq.run(forward_messages(keys, "list", list_key, departures_to_send))
    assert dump_keys(raw) == before


# A server that refuses writes.


@pytest.fixture(scope="module", params=[redis_7, redis_62], ids=["redis-7", "redis-6.2"])
def full_server(request):
    """Start a server whose memory limit a test can set."""
    server = RedisServer(request.param(), "--maxmemory-policy", "noeviction")
    yield server
    server.stop()


@pytest.mark.parametrize("kind", ["left", "right", "sorted", "queue"])
def test_take_works_on_a_full_server(full_server, kind):
    """The memory that it frees at the source is as much as it needs in the target."""
    with Server.from_url(full_server.url, ns="full") as local:
        local.raw.flushdb()
        local.raw.config_set("maxmemory", 0)
        local.rsmq.create_queue("q")
        source = SourceKind(kind, local.raw, "full")
        source.fill(1, 2)
        to = ToQueue(local.rsmq.namespace.queue("q"))
        aside = aside_of("full:x:aside:test")
        local.raw.config_set("maxmemory", 1)

        assert local.rsmq.run(source.take(to, arrival(1))) == b"1"
        assert local.rsmq.run(source.take(aside, arrival(2))) == b"1"
        assert read_bodies(local.raw, "full", "q") == [b"body 1"]
        assert local.raw.hkeys(aside.key) == [arrival(2).message.id.encode(), b""]
        assert source.remaining() == []
        local.raw.config_set("maxmemory", 0)


def test_full_server_refuses_a_copy_and_allows_a_hand_over(full_server):
    with Server.from_url(full_server.url, ns="full") as local:
        local.raw.flushdb()
        local.raw.config_set("maxmemory", 0)
        local.rsmq.create_queue("q")
        local.rsmq.send_message("q", "a")
        keys = local.rsmq.namespace.queue("q")
        messages = local.rsmq.receive_messages("q", 1)
        local.raw.config_set("maxmemory", 1)
        before = dump_keys(local.raw)

        with pytest.raises(redis_errors.ResponseError, match=OUT_OF_MEMORY):
            local.rsmq.run(land(keys, arrival(1)))
        assert dump_keys(local.raw) == before
        assert (
            local.rsmq.run(forward_messages(keys, "list", b"list", departures(messages, "full")))
            == b"1"
        )
        assert local.raw.lrange("list", 0, -1) == [b"element a"]
        local.raw.config_set("maxmemory", 0)


_ON_EITHER_SIDE = ["hmget", "hset", "hincrby", "hexists", "hdel", "zadd", "zrem", "zscore", "zcard",
                   "ltrim", "lrange", "publish", "unlink", "time"]  # fmt: skip


@pytest.mark.parametrize("missing", _ON_EITHER_SIDE)
def test_take_with_a_missing_right_loses_and_duplicates_nothing(
    source, server, rsmq, raw, ns, keys, missing
):
    """Whichever command is missing: the messages are in exactly one of the two."""
    source.fill(1, 2)
    other_keys = [f"{ns}-other-{number}".encode() for number in (1, 2)]
    for other in other_keys:
        raw.hset(other, "a", "b")
    user = f"{ns}-user"
    raw.execute_command("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", f"-{missing}")
    to = ToQueue(keys, realtime=True)
    take = source.take(to, arrival(1), arrival(2), other_keys=other_keys)
    aside = aside_of(f"{ns}:x:aside:test")
    url = f"redis://{user}:secret@127.0.0.1:{server.port}/0"
    with Server.from_url(url, ns=ns) as local:
        is_done = _run_if_allowed(local, take)
        target_bodies, remaining = read_bodies(raw, ns, "q"), source.remaining()
        assert (target_bodies, remaining) in (([b"body 1", b"body 2"], []), ([], [1, 2]))
        assert not (is_done and remaining)
        if not is_done and remaining:
            is_done = _run_if_allowed(
                local, source.take(aside, arrival(1), arrival(2), other_keys=other_keys)
            )
            assert (raw.hlen(aside.key), source.remaining()) in ((2 + 1, []), (0, [1, 2]))
            assert is_done or source.remaining()
        elif source.kind in {"left", "right"} and missing != "unlink":
            assert not raw.exists(*other_keys)
    raw.execute_command("ACL", "DELUSER", user)
    raw.unlink(*other_keys)


def _run_if_allowed(local, operation):
    """Return whether the operation succeeded; the only expected error is a missing right."""
    try:
        return local.rsmq.run(operation) == b"11"
    except redis_errors.ResponseError as error:
        if NO_PERMISSION not in str(error):
            raise
        return False


@pytest.mark.parametrize("missing", ["lpush", "hset", "zrem", "hdel", "ltrim", "hget", "zscore"])
def test_hand_over_with_a_missing_right_changes_nothing(
    server, rsmq, raw, ns, keys, list_key, missing
):
    rsmq.send_message("q", "a")
    departures_to_send = departures(rsmq.receive_messages("q", 1), ns)
    user = f"{ns}-user"
    raw.execute_command("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", f"-{missing}")
    url = f"redis://{user}:secret@127.0.0.1:{server.port}/0"
    with (
        Server.from_url(url, ns=ns) as local,
        pytest.raises(redis_errors.ResponseError, match=NO_PERMISSION),
    ):
        local.rsmq.run(forward_messages(keys, "list", list_key, departures_to_send))

    assert not raw.exists(list_key)
    assert read_bodies(raw, ns, "q") == [b"a"]
    raw.execute_command("ACL", "DELUSER", user)
