"""Scripts that take messages from other systems, and that give them: keys before and after."""

from __future__ import annotations

import pytest
import redis.exceptions as redis_errors

from rsmq import QueueNotFound
from rsmq.migrate import Server
from rsmq.operations.migration import (
    Destination,
    IncomingMessage,
    OutgoingMessage,
    add_copies,
    forget_copies,
    forward_messages,
    move_from_list,
    move_from_queue,
    move_from_sorted_set,
    open_copy,
)
from rsmq.operations.restore import RestoredMessage
from tests.migrate.stored import Stored, bodies, dumped, now_ms, stored
from tests.servers import Server as RedisServer
from tests.servers import redis_7, redis_62

FULL = "command not allowed when used memory"
MAY_NOT = "can't run this command"
WRONG_TYPE = "WRONGTYPE"


def arrival(number, *, digest=None, body=None, score=5000, count=0, first=None):
    """A message that arrives, its id and body made of a number."""
    id = f"{number:010d}{'x' * 22}"
    body = b"body %d" % number if body is None else body
    known = b"digest %d" % number if digest is None else digest
    return IncomingMessage(known, RestoredMessage(id, body, score, count, first))


def nothing(number):
    return IncomingMessage(b"digest %d" % number, None)


class Shape:
    """
    One of the places that messages are taken from.

    Attributes:
        key: where they are.
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
                    mapping={element + end: b"x" for end in (b"", b":rc", b":fr", b":meta")},
                )

    def left(self):
        """The numbers of those that are here, the next one first."""
        if self.kind in {"left", "right"}:
            elements = self.raw.lrange(self.key, 0, -1)[:: 1 if self.kind == "left" else -1]
        else:
            elements = self.raw.zrange(self.key, 0, -1)
        if self.kind == "queue":
            ends = (b"", b":rc", b":fr", b":meta")
            fields = {each + end for each in elements for end in ends}
            assert set(self.raw.hkeys(self.key + b":Q")) == fields
        return [int(each.split()[1]) for each in elements]

    def take(self, to, *arrivals, scores=None, others=()):
        """Take these messages, whose bodies tell the numbers of their elements."""
        rows = []
        for place, each in enumerate(arrivals):
            number = place + 1 if each.message is None else int(each.message.id[:10])
            rows.append((b"element %d" % number, each))
        if self.kind == "queue":
            given = [
                (element, float(element.split()[1]) if scores is None else scores[place], each)
                for place, (element, each) in enumerate(rows)
            ]
            return move_from_queue(to, self.key + b":Q", self.key, self.key + b":x:copied", given)
        if self.kind == "sorted":
            return move_from_sorted_set(to, self.key, rows)
        return move_from_list(to, self.key, self.kind, rows, others)


@pytest.fixture(params=["left", "right", "sorted", "queue"])
def shape(request, raw, ns):
    shape = Shape(request.param, raw, ns)
    yield shape
    raw.unlink(shape.key, shape.key + b":Q")


@pytest.fixture
def keys(rsmq):
    rsmq.create_queue("q")
    return rsmq.namespace.queue("q")


@pytest.fixture
def to(keys):
    return Destination(keys)


@pytest.fixture
def aside(ns):
    return Destination(None, f"{ns}:x:aside:test".encode())


def test_a_take_writes_a_message_as_it_is_and_takes_it_away(shape, rsmq, raw, ns, to):
    shape.fill(1, 2, 3)
    body = bytes(range(256))
    given = [
        arrival(1, body=body, score=7000, count=3, first=6000),
        arrival(2, score=None),
    ]
    before = now_ms(raw)

    assert rsmq.run(shape.take(to, *given)) == b"11"
    first, second = stored(raw, ns, "q")
    assert first == Stored(given[0].message.id, body, 7000, 3, 6000)
    # Its id tells a time long ago.
    assert second == Stored(given[1].message.id, b"body 2", second.score)
    assert before <= second.score <= now_ms(raw)
    assert shape.left() == [3]
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"2"
    assert raw.hget(f"{ns}:q:Q", "totalrecv") is None
    assert not raw.exists(to.keys.copied)


def test_a_take_aside_keeps_all_that_a_message_is(shape, rsmq, raw, aside):
    shape.fill(1, 2)
    given = [arrival(1, body=b" a b\0 ", count=3, first=6000), arrival(2, score=None, body=b"")]

    assert rsmq.run(shape.take(aside, *given)) == b"11"
    assert raw.hgetall(aside.aside_key) == {
        given[0].message.id.encode(): b"5000 3 6000 digest 1  a b\0 ",
        given[1].message.id.encode(): b"   digest 2 ",
    }
    assert shape.left() == []


def test_what_goes_nowhere_is_only_taken(shape, rsmq, raw, ns, to, aside):
    shape.fill(1, 2)

    if shape.kind == "queue":  # what has a body meanwhile is not a ghost any more
        assert rsmq.run(shape.take(to, nothing(1))) == b"0"
        shape.make_ghost(1)
    assert rsmq.run(shape.take(to, nothing(1))) == b"1"
    assert shape.left() == [2]
    assert stored(raw, ns, "q") == []
    assert raw.hget(f"{ns}:q:Q", "totalsent") is None
    raw.unlink(shape.key)
    shape.fill(1)
    if shape.kind == "queue":
        shape.make_ghost(1)
    assert rsmq.run(shape.take(aside, nothing(1))) == b"1"
    assert not raw.exists(aside.aside_key)


def test_what_is_not_there_is_not_taken(shape, rsmq, raw, ns, to):
    """In a list only the next one is: another consumer has taken what stood before."""
    shape.fill(2, 3)
    told = rsmq.run(shape.take(to, arrival(1), arrival(2), arrival(3)))

    assert told == b"011"
    assert bodies(raw, ns, "q") == [b"body 2", b"body 3"]
    assert shape.left() == []
    assert rsmq.run(shape.take(to, arrival(1))) == b"0"


def test_a_take_whose_answer_was_lost_takes_nothing_again(shape, rsmq, raw, ns, to):
    shape.fill(1, 2, 3)
    take = shape.take(to, arrival(1), arrival(2))
    rsmq.run(take)
    before = dumped(raw)

    assert rsmq.run(take) == b"00"
    assert dumped(raw) == before


def test_a_take_leaves_what_the_queue_has_under_the_same_id(shape, rsmq, raw, ns, to):
    shape.fill(1)
    rsmq.run(shape.take(to, arrival(1, body=b"first", score=4000)))
    shape.fill(1)

    assert rsmq.run(shape.take(to, arrival(1, body=b"first"))) == b"1"
    assert stored(raw, ns, "q") == [Stored(arrival(1).message.id, b"first", 4000)]
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"1"


def test_a_take_does_not_bring_back_what_a_copy_brought_and_was_consumed(shape, rsmq, raw, ns, to):
    shape.fill(1, 2)
    created = raw.hget(to.keys.hash, "created")
    raw.hset(to.keys.copied, mapping={"created": created, "digest 1": b""})

    assert rsmq.run(shape.take(to, arrival(1), arrival(2))) == b"21"
    assert bodies(raw, ns, "q") == [b"body 2"]
    assert shape.left() == []


def test_a_take_of_many_more_than_lua_unpacks(shape, rsmq, raw, ns, to, aside):
    numbers = range(1, 4101)
    for where in (to, aside):
        shape.fill(*numbers)
        told = rsmq.run(shape.take(where, *map(arrival, numbers)))
        assert told == b"1" * 4100
    assert raw.zcard(f"{ns}:q") == raw.hlen(aside.aside_key) == 4100
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"4100"
    assert not raw.exists(shape.key)


def test_a_take_to_no_queue_changes_nothing(shape, rsmq, raw):
    shape.fill(1)
    before = dumped(raw)

    with pytest.raises(QueueNotFound):
        rsmq.run(shape.take(Destination(rsmq.namespace.queue("none")), arrival(1)))
    assert dumped(raw) == before


@pytest.mark.parametrize("wrong", ["source", "hash", "zset", "copied", "aside"])
def test_a_key_of_another_type_changes_nothing(shape, rsmq, raw, ns, to, aside, wrong):
    """On either side; the lists, sorted sets and hashes are texts here."""
    shape.fill(1, 2)
    rsmq.run(shape.take(to, arrival(1)))
    key = {
        "source": shape.key,
        "hash": to.keys.hash,
        "zset": to.keys.zset,
        "copied": to.keys.copied,
        "aside": aside.aside_key,
    }[wrong]
    raw.unlink(key)
    raw.set(key, "text")
    before = dumped(raw)

    with pytest.raises(redis_errors.ResponseError, match=WRONG_TYPE):
        rsmq.run(shape.take(aside if wrong == "aside" else to, arrival(2), arrival(3)))
    assert dumped(raw) == before


def test_totals_that_are_not_numbers_hold_up_nothing(shape, rsmq, raw, ns, to):
    shape.fill(1)
    raw.hset(to.keys.hash, "totalsent", "NaN")
    rsmq.run(shape.take(to, arrival(1)))

    assert raw.hget(to.keys.hash, "totalsent") == b"1"
    assert raw.zcard(to.keys.zset) == 1


def test_a_batch_is_published_once_with_the_number_of_messages(shape, rsmq, raw, ns, keys):
    rsmq.send_message("q", "before")
    shape.fill(1, 2, 3, 4)
    to = Destination(keys, realtime=True)
    with raw.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(f"{ns}:rt:q")
        heard.get_message(timeout=5)
        rsmq.run(shape.take(to, arrival(1), arrival(2), arrival(3)))
        rsmq.run(shape.take(to, nothing(1)))  # not there any more
        rsmq.run(shape.take(Destination(keys), arrival(4)))
        raw.publish(f"{ns}:rt:q", "end")
        said = []
        while said[-1:] != [b"end"]:
            if message := heard.get_message(timeout=5):
                said.append(message["data"])

    assert said == [b"4", b"end"]


# Lists.


@pytest.mark.parametrize("side", ["left", "right"])
def test_elements_of_a_list_that_are_alike_are_known_by_the_ids_they_got(
    rsmq, raw, ns, to, aside, side
):
    """A take that comes again because its answer was lost takes none of the others."""
    shape = Shape(side, raw, ns)

    def alike(where, *numbers):
        rows = [(b"same", arrival(number, digest=b"", body=b"same")) for number in numbers]
        return move_from_list(where, shape.key, side, rows)

    for where in (to, aside):
        raw.rpush(shape.key, *[b"same"] * 5)
        assert rsmq.run(alike(where, 1, 2, 3)) == b"111"
        assert rsmq.run(alike(where, 1, 2, 3)) == b"000"
        assert raw.lrange(shape.key, 0, -1) == [b"same"] * 2
        assert rsmq.run(alike(where, 4, 5, 6)) == b"110"
        assert not raw.exists(shape.key)
    assert bodies(raw, ns, "q") == [b"same"] * 5
    assert raw.hlen(aside.aside_key) == 5
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"5"


def test_an_element_in_the_middle_of_a_list_is_not_taken(rsmq, raw, ns, to):
    shape = Shape("right", raw, ns)
    shape.fill(1, 2, 3)

    assert rsmq.run(shape.take(to, arrival(2), arrival(1), arrival(3))) == b"010"
    assert shape.left() == [2, 3]
    assert bodies(raw, ns, "q") == [b"body 1"]
    raw.unlink(shape.key)


def test_a_key_that_goes_with_an_element_goes_with_it_only(rsmq, raw, ns, to):
    shape = Shape("right", raw, ns)
    shape.fill(1, 2, 3)
    others = [f"{ns}-other-{number}".encode() for number in (0, 1, 2)]
    for other in others:
        raw.hset(other, "a", "b")
    take = shape.take(to, arrival(9), arrival(1), arrival(2), others=others)

    assert rsmq.run(take) == b"011"
    assert [raw.exists(other) for other in others] == [1, 0, 0]
    raw.unlink(shape.key, *others)


# Queues.


def test_a_message_that_was_received_meanwhile_stays(rsmq, raw, ns, to):
    """Its score is another one then. Scores of other clients are fractions, or very large."""
    shape = Shape("queue", raw, ns)
    scores = [1.5, 1_800_000_000_123.0, 1.8e15, 0.1, -3.0]
    for number, score in enumerate(scores, 1):
        shape.fill(number)
        raw.zadd(shape.key, {b"element %d" % number: score})
    given = [arrival(number) for number in range(1, 6)]
    other = [score + 1 for score in scores]

    assert rsmq.run(shape.take(to, *given, scores=other)) == b"00000"
    assert sorted(shape.left()) == [1, 2, 3, 4, 5]
    assert rsmq.run(shape.take(to, *given, scores=scores)) == b"11111"
    assert shape.left() == []


def test_the_attributes_of_a_queue_that_is_taken_from_stay(rsmq, raw, ns, to):
    rsmq.create_queue("from", vt=7)
    id = rsmq.send_message("from", "m")
    source = rsmq.namespace.queue("from")
    before = raw.hgetall(source.hash)
    score = raw.zscore(source.zset, id)
    given = [
        (id.encode(), score, IncomingMessage(b"d", RestoredMessage(id, b"m", int(score), 0, None)))
    ]

    assert rsmq.run(move_from_queue(to, source.hash, source.zset, source.copied, given)) == b"1"
    del before[id.encode()]
    assert raw.hgetall(source.hash) == before
    assert not raw.exists(source.zset)
    assert stored(raw, ns, "q") == [Stored(id, b"m", int(score))]


def test_what_is_taken_from_a_queue_is_not_known_there_any_more(rsmq, raw, ns, to, aside):
    """It may come back, and must not count as consumed then."""
    shape = Shape("queue", raw, ns)
    for where in (to, aside):
        shape.fill(1, 2)
        raw.zadd(shape.key, {b"element 2": 9})  # received meanwhile
        raw.hset(shape.key + b":x:copied", mapping={b"digest 1": b"", b"digest 2": b""})

        assert rsmq.run(shape.take(where, arrival(1), arrival(2))) == b"10"
        assert raw.hkeys(shape.key + b":x:copied") == [b"digest 2"]
        raw.unlink(shape.key, shape.key + b":Q", shape.key + b":x:copied")


@pytest.mark.parametrize("end", [":Q", ":x:copied"])
def test_keys_beside_a_queue_of_another_type_change_nothing(rsmq, raw, ns, to, end):
    shape = Shape("queue", raw, ns)
    shape.fill(1)
    raw.unlink(shape.key + end.encode())
    raw.set(shape.key + end.encode(), "text")
    before = dumped(raw)

    with pytest.raises(redis_errors.ResponseError, match=WRONG_TYPE):
        rsmq.run(shape.take(to, arrival(1)))
    assert dumped(raw) == before
    raw.unlink(shape.key, shape.key + b":Q", shape.key + b":x:copied")


# Copies.


def landed(keys, *arrivals, lifetime=60.0, realtime=False):
    return add_copies(keys, arrivals, realtime=realtime, lifetime=lifetime)


def test_a_copy_is_added_once_even_if_it_was_consumed(rsmq, raw, ns, keys):
    given = [arrival(1, count=2, first=4000), arrival(2)]
    assert rsmq.run(landed(keys, *given)) == b"11"
    assert stored(raw, ns, "q") == [
        Stored(given[0].message.id, b"body 1", 5000, 2, 4000),
        Stored(given[1].message.id, b"body 2", 5000),
    ]
    rsmq.delete_message("q", given[0].message.id)

    assert rsmq.run(landed(keys, *given, arrival(3))) == b"201"
    assert bodies(raw, ns, "q") == [b"body 2", b"body 3"]
    assert raw.hget(f"{ns}:q:Q", "totalsent") == b"3"
    assert raw.hkeys(keys.copied) == [b"created", b"digest 1", b"digest 2", b"digest 3"]


def test_what_was_copied_to_a_queue_that_was_deleted_counts_for_nothing(
    shape, rsmq, raw, ns, keys, to
):
    """Node deletes a queue and creates it anew: it knows nothing of what stands beside it."""
    rsmq.run(landed(keys, arrival(1), arrival(2)))
    raw.unlink(keys.hash, keys.zset)
    raw.hset(keys.hash, mapping={"vt": 30, "delay": 0, "maxsize": 65536, "created": 5})
    shape.fill(1)

    assert rsmq.run(shape.take(to, arrival(1))) == b"1"
    assert bodies(raw, ns, "q") == [b"body 1"]
    assert rsmq.run(landed(keys, arrival(2))) == b"1"
    assert raw.hgetall(keys.copied) == {b"created": b"5", b"digest 2": b""}


def test_an_open_copy_tells_when_it_was_opened_until_the_queue_is_another(rsmq, raw, keys):
    begun, of = rsmq.run(open_copy(keys, lifetime=60, list_digest=b"this"))
    seconds, microseconds = raw.time()

    assert 0 <= seconds * 10**6 + microseconds - begun < 60 * 10**6
    assert of == b"this"
    assert rsmq.run(open_copy(keys, lifetime=60, list_digest=b"that")) == (begun, b"this")
    raw.hset(keys.hash, "created", 5)
    again, of = rsmq.run(open_copy(keys, lifetime=60))
    assert again > begun
    assert of == b""
    assert 0 < raw.pttl(keys.copied) <= 60_000


def test_what_is_forgotten_may_be_copied_again(rsmq, raw, keys):
    rsmq.run(landed(keys, arrival(1), arrival(2)))
    assert rsmq.run(forget_copies(keys, [b"digest 1"])) == 2
    assert rsmq.run(forget_copies(keys, [b"digest 2"])) == 0
    assert not raw.exists(keys.copied)

    rsmq.run(open_copy(keys, lifetime=60))
    rsmq.run(landed(keys, arrival(3)))
    assert rsmq.run(forget_copies(keys, [b"digest 3"])) == 2
    assert raw.hkeys(keys.copied) == [b"created", b"begun"]


def test_a_copy_of_what_is_there_already_leaves_it_and_is_known(rsmq, raw, ns, keys):
    rsmq.run(landed(keys, arrival(1)))
    raw.unlink(keys.copied)

    assert rsmq.run(landed(keys, arrival(1))) == b"0"
    assert bodies(raw, ns, "q") == [b"body 1"]
    assert raw.hkeys(keys.copied) == [b"created", b"digest 1"]


def test_a_copy_under_whose_id_there_is_another_message_is_not_known(rsmq, raw, ns, keys):
    """It was not added: when the other one is gone, it may be."""
    rsmq.run(landed(keys, arrival(1, body=b"other")))
    raw.unlink(keys.copied)
    assert rsmq.run(landed(keys, arrival(1))) == b"0"
    assert bodies(raw, ns, "q") == [b"other"]
    assert raw.hkeys(keys.copied) == [b"created"]

    rsmq.delete_message("q", arrival(1).message.id)
    assert rsmq.run(landed(keys, arrival(1))) == b"1"
    assert bodies(raw, ns, "q") == [b"body 1"]


def test_a_copy_is_forgotten_after_its_time(rsmq, raw, keys):
    for lifetime in (5.0, 60.0):
        rsmq.run(landed(keys, arrival(1), lifetime=lifetime))
        assert lifetime * 1000 - 4000 < raw.pttl(keys.copied) <= lifetime * 1000


def test_a_copy_of_nothing_to_add_publishes_nothing(rsmq, raw, ns, keys):
    with raw.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(f"{ns}:rt:q")
        heard.get_message(timeout=5)
        for _ in range(2):
            rsmq.run(landed(keys, arrival(1), arrival(2), realtime=True))
        raw.publish(f"{ns}:rt:q", "end")
        said = []
        while said[-1:] != [b"end"]:
            if message := heard.get_message(timeout=5):
                said.append(message["data"])

    assert said == [b"2", b"end"]


@pytest.mark.parametrize("wrong", ["hash", "zset", "copied"])
def test_a_copy_to_a_key_of_another_type_changes_nothing(rsmq, raw, keys, wrong):
    key = getattr(keys, wrong)
    raw.unlink(key)
    raw.set(key, "text")
    before = dumped(raw)

    with pytest.raises(redis_errors.ResponseError, match=WRONG_TYPE):
        rsmq.run(landed(keys, arrival(1)))
    assert dumped(raw) == before


def test_a_copy_to_no_queue_changes_nothing(rsmq, raw):
    before = dumped(raw)

    with pytest.raises(QueueNotFound):
        rsmq.run(landed(rsmq.namespace.queue("none"), arrival(1)))
    assert dumped(raw) == before


@pytest.mark.parametrize("call", ["delete_queue", "purge_queue"])
def test_what_is_known_of_copies_goes_with_the_queue_and_its_messages(rsmq, raw, keys, call):
    rsmq.run(landed(keys, arrival(1)))
    assert raw.hkeys(keys.copied) == [b"created", b"digest 1"]
    getattr(rsmq, call)("q")

    assert not raw.exists(keys.copied)
    rsmq.create_queue("q", exist_ok=True)
    assert rsmq.run(landed(keys, arrival(1))) == b"1"


# Out of a queue.


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
    if left := raw.keys(f"{ns}-*"):
        raw.unlink(*left)


def test_what_is_handed_over_is_pushed_at_the_left_with_its_hash(rsmq, raw, ns, keys, list_key):
    rsmq.send_messages("q", ["a", "b", "stays"])
    raw.lpush(list_key, "before")
    messages = rsmq.receive_messages("q", 2)

    assert rsmq.run(forward_messages(keys, list_key, departures(messages, ns))) == b"11"
    assert raw.lrange(list_key, 0, -1) == [b"element b", b"element a", b"before"]
    for body in (b"a", b"b"):
        assert raw.hgetall(f"{ns}-hash-{body.decode()}") == {b"body": body, b"\0": b""}
    assert bodies(raw, ns, "q") == [b"stays"]


def test_what_was_received_again_or_deleted_is_not_handed_over(rsmq, raw, ns, keys, list_key):
    rsmq.send_messages("q", ["late", "gone", "latest"])
    late, gone, latest = rsmq.receive_messages("q", 3)
    rsmq.release_messages([late])
    rsmq.receive_message("q")
    rsmq.delete_message(gone)
    told = rsmq.run(forward_messages(keys, list_key, departures([late, gone, latest], ns)))

    assert told == b"201"
    assert raw.lrange(list_key, 0, -1) == [b"element latest"]
    assert raw.keys(f"{ns}-hash-*") == [f"{ns}-hash-latest".encode()]
    assert bodies(raw, ns, "q") == [b"late"]


def test_a_message_is_handed_over_once_though_the_answer_was_lost(rsmq, raw, ns, keys, list_key):
    rsmq.send_message("q", "a")
    given = forward_messages(keys, list_key, departures(rsmq.receive_messages("q", 1), ns))
    assert rsmq.run(given) == b"1"
    before = dumped(raw)

    assert rsmq.run(given) == b"0"
    assert dumped(raw) == before


def test_what_is_handed_over_has_more_fields_than_lua_unpacks(rsmq, raw, ns, keys, list_key):
    rsmq.send_message("q", "a")
    (message,) = rsmq.receive_messages("q", 1)
    fields = {b"%d" % number: b"x" for number in range(9000)}
    given = OutgoingMessage(message, b"id", f"{ns}-hash".encode(), fields)

    assert rsmq.run(forward_messages(keys, list_key, [given])) == b"1"
    assert raw.hgetall(f"{ns}-hash") == fields


@pytest.mark.parametrize("wrong", ["hash", "zset", "list"])
def test_a_hand_over_with_a_key_of_another_type_changes_nothing(
    rsmq, raw, ns, keys, list_key, wrong
):
    rsmq.send_message("q", "a")
    given = departures(rsmq.receive_messages("q", 1), ns)
    key = {"hash": keys.hash, "zset": keys.zset, "list": list_key}[wrong]
    raw.unlink(key)
    raw.set(key, "text")
    before = dumped(raw)

    with pytest.raises(redis_errors.ResponseError, match=WRONG_TYPE):
        rsmq.run(forward_messages(keys, list_key, given))
    assert dumped(raw) == before


# A server that refuses.


@pytest.fixture(scope="module", params=[redis_7, redis_62], ids=["redis-7", "redis-6.2"])
def full(request):
    """A server whose memory a test may declare full."""
    server = RedisServer(request.param(), "--maxmemory-policy", "noeviction")
    yield server
    server.stop()


@pytest.mark.parametrize("kind", ["left", "right", "sorted", "queue"])
def test_on_a_full_server_a_message_is_moved_whole(full, kind):
    """What it takes there frees as much as it needs here."""
    with Server.from_url(full.url, ns="full") as here:
        here.raw.flushdb()
        here.raw.config_set("maxmemory", 0)
        here.rsmq.create_queue("q")
        shape = Shape(kind, here.raw, "full")
        shape.fill(1, 2)
        to = Destination(here.rsmq.namespace.queue("q"))
        aside = Destination(None, b"full:x:aside:test")
        here.raw.config_set("maxmemory", 1)

        assert here.rsmq.run(shape.take(to, arrival(1))) == b"1"
        assert here.rsmq.run(shape.take(aside, arrival(2))) == b"1"
        assert bodies(here.raw, "full", "q") == [b"body 1"]
        assert here.raw.hkeys(aside.aside_key) == [arrival(2).message.id.encode()]
        assert shape.left() == []
        here.raw.config_set("maxmemory", 0)


def test_on_a_full_server_a_copy_is_refused_whole_and_a_hand_over_goes_through(full):
    with Server.from_url(full.url, ns="full") as here:
        here.raw.flushdb()
        here.raw.config_set("maxmemory", 0)
        here.rsmq.create_queue("q")
        here.rsmq.send_message("q", "a")
        keys = here.rsmq.namespace.queue("q")
        messages = here.rsmq.receive_messages("q", 1)
        here.raw.config_set("maxmemory", 1)
        before = dumped(here.raw)

        with pytest.raises(redis_errors.ResponseError, match=FULL):
            here.rsmq.run(landed(keys, arrival(1)))
        assert dumped(here.raw) == before
        assert here.rsmq.run(forward_messages(keys, b"list", departures(messages, "full"))) == b"1"
        assert here.raw.lrange("list", 0, -1) == [b"element a"]
        here.raw.config_set("maxmemory", 0)


_ON_EITHER_SIDE = ["hmget", "hset", "hincrby", "hexists", "hdel", "zadd", "zrem", "zscore", "zcard",
                   "ltrim", "lrange", "publish", "unlink", "time"]  # fmt: skip


@pytest.mark.parametrize("missing", _ON_EITHER_SIDE)
def test_a_user_who_may_not_loses_and_doubles_nothing(shape, server, rsmq, raw, ns, keys, missing):
    """Whatever command is missing: they are in the one or in the other."""
    shape.fill(1, 2)
    others = [f"{ns}-other-{number}".encode() for number in (1, 2)]
    for other in others:
        raw.hset(other, "a", "b")
    user = f"{ns}-user"
    raw.execute_command("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", f"-{missing}")
    to = Destination(keys, realtime=True)
    take = shape.take(to, arrival(1), arrival(2), others=others)
    aside = Destination(None, f"{ns}:x:aside:test".encode())
    url = f"redis://{user}:secret@127.0.0.1:{server.port}/0"
    with Server.from_url(url, ns=ns) as here:
        done = _tried(here, take)
        there, left = bodies(raw, ns, "q"), shape.left()
        assert (there, left) in (([b"body 1", b"body 2"], []), ([], [1, 2]))
        assert not (done and left)
        if not done and left:
            done = _tried(here, shape.take(aside, arrival(1), arrival(2), others=others))
            assert (raw.hlen(aside.aside_key), shape.left()) in ((2, []), (0, [1, 2]))
            assert done or shape.left()
        elif shape.kind in {"left", "right"} and missing != "unlink":
            assert not raw.exists(*others)
    raw.execute_command("ACL", "DELUSER", user)
    raw.unlink(*others)


def _tried(here, operation):
    """Whether it was told as done; it is refused for one reason only."""
    try:
        return here.rsmq.run(operation) == b"11"
    except redis_errors.ResponseError as error:
        if MAY_NOT not in str(error):
            raise
        return False


@pytest.mark.parametrize("missing", ["lpush", "hset", "zrem", "hdel", "ltrim", "hget", "zscore"])
def test_a_user_who_may_not_hands_over_nothing(server, rsmq, raw, ns, keys, list_key, missing):
    rsmq.send_message("q", "a")
    given = departures(rsmq.receive_messages("q", 1), ns)
    user = f"{ns}-user"
    raw.execute_command("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", f"-{missing}")
    url = f"redis://{user}:secret@127.0.0.1:{server.port}/0"
    with (
        Server.from_url(url, ns=ns) as here,
        pytest.raises(redis_errors.ResponseError, match=MAY_NOT),
    ):
        here.rsmq.run(forward_messages(keys, list_key, given))

    assert not raw.exists(list_key)
    assert bodies(raw, ns, "q") == [b"a"]
    raw.execute_command("ACL", "DELUSER", user)
