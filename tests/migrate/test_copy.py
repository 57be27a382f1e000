"""Copies: run again, and again, while the source goes on."""

from __future__ import annotations

import json

import pytest

from rsmq.migrate import RFQ, Queues, Rqueue, Server, copy, move
from rsmq.migrate.target import COPY_LIFETIME_SECONDS
from tests.migrate.rqueue_states import whole
from tests.migrate.stored import bodies, dumped, numbers, stored


@pytest.fixture
def source(here, rfq, topic):
    rfq.publish_batch(topic, [{"n": str(number)} for number in range(5)])
    return RFQ(here)


def numbers_of(raw, ns, queue="to"):
    return [int(json.loads(body)["n"]) for body in bodies(raw, ns, queue)]


def test_what_was_consumed_does_not_come_back(source, target, topic, ns):
    copy(source, topic, target, "to")
    popped = target.rsmq.pop_message("to")
    deleted = target.rsmq.receive_message("to")
    target.rsmq.delete_message(deleted)
    received = target.rsmq.receive_message("to", vt=500)
    report = copy(source, topic, target, "to")

    assert sorted(numbers_of(target.raw, ns)) == [2, 3, 4]
    assert {popped.id, deleted.id}.isdisjoint(each.id for each in stored(target.raw, ns, "to"))
    assert (report.arrived, report.before, report.consumed) == (0, 3, 2)
    assert report.verified
    # Whoever has it has it still.
    assert target.rsmq.delete_message(received)


def test_what_is_new_comes_behind_and_only_that(source, target, rfq, topic, ns):
    copy(source, topic, target, "to")
    before = stored(target.raw, ns, "to")
    rfq.publish_batch(topic, [{"n": "5"}, {"n": "6"}])
    report = copy(source, topic, target, "to")

    assert stored(target.raw, ns, "to")[:5] == before
    assert numbers_of(target.raw, ns) == list(range(7))
    assert (report.arrived, report.before, report.consumed) == (2, 5, 0)
    assert report.found["ready"] == 7


def test_what_comes_and_goes_while_it_is_copied_is_not_missed(source, target, rfq, topic, raw, ns):
    """New ones come while it reads, and consumers take some away; it reads until nothing is new."""
    rfq.publish_batch(topic, [{"n": str(number)} for number in range(5, 2500)])
    numbers = iter(range(2500, 2600))
    told, consumed = [], set()

    def interfere(progress):
        told.append(progress.doing)
        if len(told) < 6:
            rfq.publish(topic, {"n": str(next(numbers))})
            id, message = rfq.consume(topic)
            consumed.add(int(message["n"]))
            rfq.done(topic, id)

    report = copy(source, topic, target, "to", tell=interfere)
    found = numbers_of(target.raw, ns)

    assert found == sorted(set(found))
    assert set(found) | consumed == set(range(2505))
    assert report.verified
    assert set(told) == {"copying", "comparing"}
    assert report.arrived == len(found)
    assert report.found == {"ready": 2500, "delayed": 0, "in_flight": 0}


def test_the_index_is_kept_for_its_time_after_each_run(source, target, topic, ns):
    key = f"{ns}:to:x:copied"
    copy(source, topic, target, "to")
    assert 0 <= COPY_LIFETIME_SECONDS - target.raw.ttl(key) < 60
    target.raw.expire(key, 5)
    copy(source, topic, target, "to")
    assert 0 <= COPY_LIFETIME_SECONDS - target.raw.ttl(key) < 60
    assert target.raw.hlen(key) == 7  # and of what queue it is, and when it was begun


def test_a_finished_copy_forgets_what_it_did(source, target, topic, ns):
    copy(source, topic, target, "to", finish=True)
    assert not target.raw.exists(f"{ns}:to:x:copied")
    before = stored(target.raw, ns, "to")
    target.rsmq.delete_message("to", before[0].id)
    report = copy(source, topic, target, "to")

    # The id is the same one each time.
    assert [each.id for each in stored(target.raw, ns, "to")] == [each.id for each in before]
    assert (report.arrived, report.before) == (1, 4)


def test_a_copy_that_is_not_verified_is_not_finished(source, here, topic, raw, ns):
    copy(source, topic, here, "to")
    wrong = stored(raw, ns, "to")[2]
    raw.hset(f"{ns}:to:Q", wrong.id, "other")
    report = copy(source, topic, here, "to", finish=True)

    assert (report.missing, report.verified, report.done) == (1, False, False)
    assert report.notes["there is another body under its id"].examples == [wrong.id]
    assert report.as_text().splitlines()[-1].startswith("  NOT VERIFIED: run it again")
    assert raw.exists(f"{ns}:to:x:copied")
    dry = copy(source, topic, here, "to", dry_run=True)
    assert numbers(dry) == numbers(copy(source, topic, here, "to"))


def test_another_body_under_an_id_that_was_never_copied_is_left_and_told(
    source, here, topic, raw, ns
):
    copy(source, topic, here, "to", finish=True)
    ids = [each.id for each in stored(raw, ns, "to")]
    raw.hset(f"{ns}:to:Q", ids[0], "other")
    report = copy(source, topic, here, "to")

    assert bodies(raw, ns, "to")[0] == b"other"
    assert (report.arrived, report.before, report.missing) == (0, 4, 1)
    assert not report.verified


def test_the_checksum_is_that_of_the_bodies_whatever_the_way(source, here, there, topic, ns):
    copied = copy(source, topic, here, "to")
    again = copy(source, topic, there, "other")
    moved = move(source, topic, there, "moved")

    assert copied.checksum == again.checksum == moved.checksum != 0
    there.rsmq.send_message("moved", "one more")
    assert move(Queues(there), "moved", here, "back").checksum != copied.checksum


def test_two_sources_may_be_copied_into_one_queue(source, here, rfq, topic, raw, ns, rqueue):
    state = whole(rqueue(), ns)
    for _ in range(2):
        copied = copy(source, topic, here, "to")
        other = copy(Rqueue(here), ns, here, "to")
        assert copied.verified
        assert other.verified
    texts = [each.fields["message"].encode() for each in state.ready]

    assert len(bodies(raw, ns, "to")) == 5 + 6
    assert [each for each in bodies(raw, ns, "to") if each in texts] == texts


def test_a_dry_run_changes_no_key_at_all(source, here, rfq, topic, raw, ns):
    """Before, between and after; and tells the numbers of the run that follows."""

    def both(**options):
        before = dumped(raw)
        dry = copy(source, topic, here, "to", dry_run=True, **options)
        assert dumped(raw) == before
        assert dry.done
        assert not dry.verified
        real = copy(source, topic, here, "to", **options)
        assert numbers(dry) == numbers(real)
        return numbers(real)

    assert both()["arrived"] == 5
    here.rsmq.pop_message("to")
    rfq.publish(topic, {"n": "5"})
    raw.unlink(f"rfq:{topic}:message:{rfq.ask('listq', topic=topic, queue='backlog')[2]}")
    told = both()
    assert [told[name] for name in ("arrived", "before", "consumed", "left_out")] == [1, 3, 1, 1]
    assert both(finish=True)["arrived"] == 0
    assert both()["before"] == 4


def test_a_queue_that_never_rests_is_told(source, target, rfq, topic, ns):
    counter = iter(range(5, 1000))
    report = copy(
        source, topic, target, "to",
        tell=lambda progress: rfq.publish(topic, {"n": str(next(counter))}),
    )  # fmt: skip

    assert not report.verified
    assert "messages keep coming: run it again when nobody sends them there" in report.notes
    assert copy(source, topic, target, "to").verified
    assert numbers_of(target.raw, ns) == list(range(next(counter)))


def test_realtime_publishes_what_arrives_once_a_page(source, server, topic, raw, ns):
    with (
        Server.from_url(server.url, ns=ns, realtime=True) as here,
        raw.pubsub(ignore_subscribe_messages=True) as heard,
    ):
        heard.subscribe(f"{ns}:rt:to", f"{ns}:rt:moved")
        heard.get_message(timeout=5)
        heard.get_message(timeout=5)
        for _ in range(2):
            copy(source, topic, here, "to")
        move(source, topic, here, "moved")
        raw.publish(f"{ns}:rt:to", "end")
        said = []
        while said[-1:] != [b"end"]:
            if message := heard.get_message(timeout=5):
                said.append(message["data"])

    assert said == [b"5", b"5", b"end"]


def test_the_queue_may_be_deleted_and_copied_to_again(source, here, topic, raw, ns):
    copy(source, topic, here, "to")
    here.rsmq.delete_queue("to")
    assert not raw.exists(f"{ns}:to:x:copied")
    report = copy(source, topic, here, "to")

    assert (report.arrived, report.created) == (5, True)


def test_an_index_of_another_type_is_refused_before_anything_is_added(source, here, topic, raw, ns):
    import redis.exceptions as redis_errors

    raw.set(f"{ns}:to:x:copied", "text")
    with pytest.raises(redis_errors.ResponseError, match="WRONGTYPE"):
        copy(source, topic, here, "to")
    assert bodies(raw, ns, "to") == []
