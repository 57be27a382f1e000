"""Copies that are run repeatedly while the source changes."""

from __future__ import annotations

import json

import pytest

from rsmq.migrate import RFQ, Queues, Rqueue, RunReplaced, copy, move
from rsmq.migrate.target import COPY_LIFETIME_SECONDS
from tests.migrate.keyed_server import Server
from tests.migrate.rqueue_states import fill_queue
from tests.migrate.stored import dump_keys, predicted_figures, read_bodies, read_messages


@pytest.fixture
def source(local, rfq, topic):
    rfq.publish_batch(topic, [{"n": str(number)} for number in range(5)])
    return RFQ(local)


def read_numbers(raw, ns, queue="to"):
    return [int(json.loads(body)["n"]) for body in read_bodies(raw, ns, queue)]


def test_consumed_messages_are_not_copied_again(source, target, topic, ns):
    copy(source, topic, target, "to")
    popped = target.rsmq.pop_message("to")
    deleted = target.rsmq.receive_message("to")
    target.rsmq.delete_message(deleted)
    received = target.rsmq.receive_message("to", vt=500)
    report = copy(source, topic, target, "to")

    assert sorted(read_numbers(target.raw, ns)) == [2, 3, 4]
    assert {popped.id, deleted.id}.isdisjoint(
        each.id for each in read_messages(target.raw, ns, "to")
    )
    assert (report.arrived, report.before, report.consumed) == (0, 3, 2)
    assert report.verified
    # The consumer still holds its lease.
    assert target.rsmq.delete_message(received)


def test_second_copy_appends_only_new_messages(source, target, rfq, topic, ns):
    copy(source, topic, target, "to")
    before = read_messages(target.raw, ns, "to")
    rfq.publish_batch(topic, [{"n": "5"}, {"n": "6"}])
    report = copy(source, topic, target, "to")

    assert read_messages(target.raw, ns, "to")[:5] == before
    assert read_numbers(target.raw, ns) == list(range(7))
    assert (report.arrived, report.before, report.consumed) == (2, 5, 0)
    assert report.found["ready"] == 7


def test_changes_during_a_copy_are_not_missed(source, target, rfq, topic, raw, ns):
    """Messages arrive while it reads, and consumers remove some; it reads until none is new."""
    rfq.publish_batch(topic, [{"n": str(number)} for number in range(5, 2500)])
    numbers = iter(range(2500, 2600))
    stages, consumed = [], set()

    def interfere(progress):
        stages.append(progress.doing)
        if len(stages) < 6:
            rfq.publish(topic, {"n": str(next(numbers))})
            id, message = rfq.consume(topic)
            consumed.add(int(message["n"]))
            rfq.mark_done(topic, id)

    report = copy(source, topic, target, "to", tell=interfere)
    copied_numbers = read_numbers(target.raw, ns)

    assert copied_numbers == sorted(set(copied_numbers))
    assert set(copied_numbers) | consumed == set(range(2505))
    assert report.verified
    assert set(stages) == {"copying", "comparing"}
    assert report.arrived == len(copied_numbers)
    assert report.found == {"ready": 2500, "delayed": 0, "in_flight": 0}


def test_each_run_renews_the_expiry_of_the_index(source, target, topic, ns):
    key = f"{ns}:to:x:copied"
    copy(source, topic, target, "to")
    assert 0 <= COPY_LIFETIME_SECONDS - target.raw.ttl(key) < 60
    target.raw.expire(key, 5)
    copy(source, topic, target, "to")
    assert 0 <= COPY_LIFETIME_SECONDS - target.raw.ttl(key) < 60
    assert target.raw.hlen(key) == 7  # also the queue's identity, and the copy's start


def test_finish_deletes_the_index(source, target, topic, ns):
    copy(source, topic, target, "to", finish=True)
    assert not target.raw.exists(f"{ns}:to:x:copied")
    before = read_messages(target.raw, ns, "to")
    target.rsmq.delete_message("to", before[0].id)
    report = copy(source, topic, target, "to")

    # The derived id is the same each time.
    assert [each.id for each in read_messages(target.raw, ns, "to")] == [each.id for each in before]
    assert (report.arrived, report.before) == (1, 4)


def test_copy_that_another_run_has_finished_adds_nothing_more(source, target, topic, ns):
    """Without the record it would bring consumed messages back."""
    runs = []

    def finish_meanwhile(_):
        if not runs:
            runs.append(copy(source, topic, target, "to", finish=True))
            target.rsmq.delete_messages(
                "to", [each.id for each in read_messages(target.raw, ns, "to")]
            )

    with pytest.raises(RunReplaced):
        copy(source, topic, target, "to", tell=finish_meanwhile)
    assert runs[0].verified
    assert read_messages(target.raw, ns, "to") == []
    # It may have opened the record again, but has added nothing.
    assert target.raw.hkeys(f"{ns}:to:x:copied") in ([], [b"created", b"begun"])


def test_unverified_copy_is_not_finished(source, local, topic, raw, ns):
    copy(source, topic, local, "to")
    changed = read_messages(raw, ns, "to")[2]
    raw.hset(f"{ns}:to:Q", changed.id, "other")
    report = copy(source, topic, local, "to", finish=True)

    assert (report.missing, report.verified, report.done) == (1, False, False)
    assert report.notes["there is another body under its id"].examples == [changed.id]
    assert report.as_text().splitlines()[-1].startswith("  NOT VERIFIED: run it again")
    assert raw.exists(f"{ns}:to:x:copied")
    dry = copy(source, topic, local, "to", dry_run=True)
    assert predicted_figures(dry) == predicted_figures(copy(source, topic, local, "to"))


def test_different_body_under_a_taken_id_is_kept_and_reported(source, local, topic, raw, ns):
    copy(source, topic, local, "to", finish=True)
    ids = [each.id for each in read_messages(raw, ns, "to")]
    raw.hset(f"{ns}:to:Q", ids[0], "other")
    report = copy(source, topic, local, "to")

    assert read_bodies(raw, ns, "to")[0] == b"other"
    assert (report.arrived, report.before, report.missing) == (0, 4, 1)
    assert not report.verified


def test_checksum_depends_only_on_the_bodies(source, local, remote, topic, ns):
    copied = copy(source, topic, local, "to")
    second = copy(source, topic, remote, "other")
    moved = move(source, topic, remote, "moved")

    assert copied.checksum == second.checksum == moved.checksum != 0
    remote.rsmq.send_message("moved", "one more")
    assert move(Queues(remote), "moved", local, "back").checksum != copied.checksum


def test_two_sources_can_be_copied_into_one_queue(
    source, local, rfq, topic, raw, ns, create_rqueue
):
    state = fill_queue(create_rqueue(), ns)
    for _ in range(2):
        copied = copy(source, topic, local, "to")
        other = copy(Rqueue(local), ns, local, "to")
        assert copied.verified
        assert other.verified
    texts = [each.fields["message"].encode() for each in state.ready]

    assert len(read_bodies(raw, ns, "to")) == 5 + 6
    assert [each for each in read_bodies(raw, ns, "to") if each in texts] == texts


def test_dry_run_changes_no_key(source, local, rfq, topic, raw, ns):
    """Before, between and after runs; and it reports the figures of the next run."""

    def dry_run_and_run(**options):
        before = dump_keys(raw)
        dry = copy(source, topic, local, "to", dry_run=True, **options)
        assert dump_keys(raw) == before
        assert dry.done
        assert not dry.verified
        real = copy(source, topic, local, "to", **options)
        assert predicted_figures(dry) == predicted_figures(real)
        return predicted_figures(real)

    assert dry_run_and_run()["arrived"] == 5
    local.rsmq.pop_message("to")
    rfq.publish(topic, {"n": "5"})
    raw.unlink(f"rfq:{topic}:message:{rfq.call('listq', topic=topic, queue='backlog')[2]}")
    figures = dry_run_and_run()
    assert [figures[name] for name in ("arrived", "before", "consumed", "left_out")] == [1, 3, 1, 1]
    assert dry_run_and_run(finish=True)["arrived"] == 0
    assert dry_run_and_run()["before"] == 4


def test_source_that_keeps_growing_is_reported(source, target, rfq, topic, ns):
    counter = iter(range(5, 1000))
    report = copy(
        source, topic, target, "to",
        tell=lambda progress: rfq.publish(topic, {"n": str(next(counter))}),
    )  # fmt: skip

    assert not report.verified
    assert "messages keep coming: run it again when no program sends them there" in report.notes
    assert copy(source, topic, target, "to").verified
    assert read_numbers(target.raw, ns) == list(range(next(counter)))


def test_realtime_publishes_once_per_page(source, server, topic, raw, ns):
    with (
        Server.from_url(server.url, ns=ns, realtime=True) as local,
        raw.pubsub(ignore_subscribe_messages=True) as subscription,
    ):
        subscription.subscribe(f"{ns}:rt:to", f"{ns}:rt:moved")
        subscription.get_message(timeout=5)
        subscription.get_message(timeout=5)
        for _ in range(2):
            copy(source, topic, local, "to")
        move(source, topic, local, "moved")
        raw.publish(f"{ns}:rt:to", "end")
        published = []
        while published[-1:] != [b"end"]:
            if message := subscription.get_message(timeout=5):
                published.append(message["data"])

    assert published == [b"5", b"5", b"end"]


def test_deleted_queue_can_be_copied_to_again(source, local, topic, raw, ns):
    copy(source, topic, local, "to")
    local.rsmq.delete_queue("to")
    assert not raw.exists(f"{ns}:to:x:copied")
    report = copy(source, topic, local, "to")

    assert (report.arrived, report.created) == (5, True)


def test_index_of_wrong_type_is_refused_before_any_message_is_added(source, local, topic, raw, ns):
    import redis.exceptions as redis_errors

    raw.set(f"{ns}:to:x:copied", "text")
    with pytest.raises(redis_errors.ResponseError, match="WRONGTYPE"):
        copy(source, topic, local, "to")
    assert read_bodies(raw, ns, "to") == []
