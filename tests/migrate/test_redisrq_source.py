"""Moving over from RedisRQ, of which the commands are all that can be seen."""

from __future__ import annotations

import pytest
import redis.exceptions as redis_errors

from rsmq.migrate import RedisRQ, Server, SourceNotFound, copy, move
from tests.expect import refused
from tests.migrate.stored import Stored, bodies, now_ms, numbers, stored

BINARY = bytes(range(256))


@pytest.fixture
def old(redisrq):
    with Server.from_url(redisrq.url) as old:
        yield old


@pytest.fixture
def push(old):
    def push(*given, key="q"):
        return old.raw.execute_command("RQ.PUSH", key, *given)

    return push


@pytest.fixture
def pop(old):
    def pop(count, key="q"):
        return [id for _, id, _ in old.raw.execute_command("RQ.POP", "COUNT", count, key)]

    return pop


def ms_of(id):
    return int(id.split(b"-")[0])


def waiting(redisrq, key=b"q"):
    queue = redisrq.keys[key]
    return [each.body for each in queue.undelivered], [each.body for each in queue.delivered]


def test_a_move_takes_what_waits_and_acknowledges_it(old, here, push, pop, redisrq, raw, ns):
    ids = push("held", "a", BINARY, "", "same", "same")
    assert pop(1) == ids[:1]
    report = move(RedisRQ(old), "q", here, "to")
    found = stored(raw, ns, "to")

    assert [each.body for each in found] == [b"a", BINARY, b"", b"same", b"same"]
    assert [each.sent_us for each in found] == [ms_of(id) * 1000 for id in ids[1:]]
    assert {(each.count, each.first) for each in found} == {(None, None)}
    assert waiting(redisrq) == ([], [b"held"])
    assert not raw.exists(f"{ns}:to:x:copied")
    assert report.found == {"ready": 5, "delayed": 0, "in_flight": 1}
    assert (report.arrived, report.left, report.verified) == (5, 1, True)


def test_a_move_with_what_was_delivered_leaves_nothing(old, here, push, pop, redisrq, raw, ns):
    ids = push("held twice", "held", "a")
    pop(2)
    redisrq.elapse("q", 60)
    old.raw.execute_command("RQ.RECOVER", "q", 1, 1000)
    redisrq.elapse("q", 1)
    delivered = {each.body: each.delivered_ms for each in redisrq.keys[b"q"].delivered}
    report = move(RedisRQ(old), "q", here, "to", in_flight=True)
    found = {each.body: each for each in stored(raw, ns, "to")}

    assert found.keys() == {b"a", b"held", b"held twice"}
    for body, count, id in ((b"held twice", 2, ids[0]), (b"held", 1, ids[1])):
        each = found[body]
        assert (each.count, each.first) == (count, delivered[body])
        assert each.score == delivered[body]
        assert each.sent_us == ms_of(id) * 1000
    assert waiting(redisrq) == ([], [])
    assert (report.arrived, report.left, report.verified) == (3, 0, True)


def test_a_copy_leaves_it_as_it_was(old, here, push, pop, redisrq, raw, ns):
    ids = push("held", *(f"{number}" for number in range(1500)))
    pop(1)
    before = waiting(redisrq)
    for again in (False, True):
        report = copy(RedisRQ(old), "q", here, "to")
        found = stored(raw, ns, "to")

        assert waiting(redisrq) == before
        assert [each.body for each in found if each.count is None] == before[0]
        held = next(each for each in found if each.count)
        assert held == Stored(held.id, b"held", held.score, 1, held.first)
        assert held.score == held.first >= ms_of(ids[0])
        assert (report.arrived, report.before) == ((0, 1501) if again else (1501, 0))
        assert report.found == {"ready": 1500, "delayed": 0, "in_flight": 1}
        assert report.verified


def test_dry_runs_change_nothing_and_tell_the_numbers_of_the_runs(
    old, here, push, pop, redisrq, raw, ns
):
    push("held", "a", "b")
    pop(1)
    redisrq.elapse("q", 1)
    for way, options in ((copy, {}), (move, {}), (move, {"in_flight": True})):
        before = waiting(redisrq), raw.keys(f"{ns}:*")
        dry = numbers(way(RedisRQ(old), "q", here, way.__name__, dry_run=True, **options))
        assert (waiting(redisrq), raw.keys(f"{ns}:*")) == before
        real = numbers(way(RedisRQ(old), "q", here, way.__name__, **options))
        assert dry == real


def test_all_queues_are_found_and_others_are_not(old, push, redisrq):
    push("a")
    push("b", key="ü")
    redisrq.keys[b"text"] = b"x"
    source = RedisRQ(old)

    assert source.queues() == ["q", "ü"]
    with refused(SourceNotFound, "There is no RedisRQ queue 'none'"):
        source.look("none")
    with pytest.raises(redis_errors.ResponseError, match="WRONGTYPE"):
        source.look("text")
    assert source.look("q").counts == {"ready": 1, "delayed": 0, "in_flight": 0}


def test_a_server_without_the_module_says_so(here, raw, ns):
    assert RedisRQ(here).queues() == []
    with pytest.raises(redis_errors.ResponseError, match=r"unknown command .RQ\.INFO"):
        move(RedisRQ(here), "q", here, "to")
    assert not raw.exists(f"{ns}:to:Q")


@pytest.mark.parametrize("executed", [False, True])
def test_a_move_that_breaks_off_at_the_acknowledgement_goes_on(
    old, here, push, redisrq, raw, ns, executed
):
    """It has arrived; what is delivered at the source is only acknowledged then."""
    push(*(f"{number}" for number in range(5)))
    for _ in range(4):  # each attempt of redis-py's
        redisrq.drop_next("RQ.ACK", executed=executed)
    with pytest.raises(redis_errors.ConnectionError):
        move(RedisRQ(old), "q", here, "to")
    assert len(bodies(raw, ns, "to")) == 5
    assert here.rsmq.pop_message("to").body == "0"  # consumed meanwhile

    push("later")
    report = move(RedisRQ(old), "q", here, "to")
    assert bodies(raw, ns, "to") == [b"1", b"2", b"3", b"4", b"later"]
    assert waiting(redisrq) == ([], [])
    assert report.verified


@pytest.mark.parametrize("executed", [False, True])
def test_what_was_popped_without_an_answer_is_in_flight_and_not_lost(
    old, here, push, redisrq, raw, ns, executed
):
    push(*(f"{number}" for number in range(5)))
    redisrq.drop_next("RQ.POP", executed=executed)
    report = move(RedisRQ(old), "q", here, "to")
    lost = 5 if executed else 0

    assert (report.left, len(bodies(raw, ns, "to"))) == (lost, 5 - lost)
    redisrq.elapse("q", 1)
    report = move(RedisRQ(old), "q", here, "to", in_flight=True)
    assert sorted(bodies(raw, ns, "to")) == [b"0", b"1", b"2", b"3", b"4"]
    assert waiting(redisrq) == ([], [])


def test_what_someone_acknowledged_meanwhile_is_not_missed(old, here, push, pop, redisrq, raw, ns):
    """Its consumer was quicker: at least once."""
    push("a", "b")
    (id,) = pop(1)
    source = RedisRQ(old)
    old.raw.execute_command("RQ.ACK", "q", id)
    report = move(source, "q", here, "to", in_flight=True)

    assert bodies(raw, ns, "to") == [b"b"]
    assert report.verified
    assert all(each.score <= now_ms(raw) for each in stored(raw, ns, "to"))


def test_two_queues_with_the_same_id_come_to_one_queue(old, here, push, redisrq, raw, ns):
    """Each key counts for itself."""
    push("one", key="k1")
    push("two", key="k2")
    redisrq.keys[b"k2"].undelivered[0].id = redisrq.keys[b"k1"].undelivered[0].id
    copy(RedisRQ(old), "k1", here, "to")
    here.rsmq.pop_message("to")

    assert copy(RedisRQ(old), "k2", here, "to").arrived == 1
    assert bodies(raw, ns, "to") == [b"two"]
