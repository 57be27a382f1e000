"""Rqueue's periodic messages become schedules, and ids of messages become unique keys."""

from __future__ import annotations

from contextlib import suppress

import pytest
import redis.exceptions as redis_errors

from rsmq.migrate import Bridge, Inward, Rqueue, SourceNotFound, copy, move, verify
from rsmq.migrate.schedules import schedule_name
from tests.migrate.break_point import BreakingProxy, BreakPoint
from tests.migrate.rqueue_states import convert
from tests.migrate.stored import read_messages

HOUR = 3_600_000


@pytest.fixture
def rqueue(create_rqueue):
    return create_rqueue()


def run_with_break(servers, break_point, ns, **options):
    """Move over connections that break at a request; return whether they have."""
    proxies = [BreakingProxy(each.port, break_point) for each in servers]
    own, target = (proxy.connect(ns) for proxy in proxies)
    try:
        move(Rqueue(own, **options), ns, target, "to")
    except (redis_errors.ConnectionError, redis_errors.TimeoutError):
        pass
    finally:
        for each in (own, target, *proxies):
            each.close()
    return break_point.has_broken


def take_over(local, target, ns, **options):
    return move(Rqueue(local, schedules=True), ns, target, "to", **options)


def ticks(server):
    """Return the next tick of each schedule, Unix ms."""
    found = {}
    for each in server.rsmq.schedules.list():
        found[each.name] = round(each.next_tick_at.timestamp() * 1000)
    return found


def first_after(due_ms, period_ms):
    return due_ms - due_ms % period_ms + period_ms


def test_move_adds_a_schedule_whose_first_tick_is_after_the_message(rqueue, local, target, ns):
    to = target
    hourly = rqueue.enqueue_periodic(ns, convert("tick"), HOUR)
    daily = rqueue.enqueue_periodic(ns, convert("day"), 24 * HOUR)
    later = rqueue.enqueue_in(ns, convert("later"), 60_000)
    names = {each.id: f"to.{each.id}" for each in (hourly, daily)}
    preview = take_over(local, to, ns, dry_run=True)
    assert preview.schedules == {
        names[hourly.id]: (3600, "added"), names[daily.id]: (86_400, "added")
    }  # fmt: skip
    assert f"schedule {names[daily.id]}, every 86400 s: would be added" in preview.as_text()
    assert ticks(to) == {}

    report = take_over(local, to, ns)
    assert report.verified
    assert report.schedules == preview.schedules
    assert f"schedule {names[hourly.id]}, every 3600 s: added" in report.as_text()
    assert [each["outcome"] for each in report.as_dict()["schedules"]] == ["added"] * 2
    assert not [note for note in report.notes if "periodic" in note]
    due = {each.id: each.fields["processAt"] for each in (hourly, daily, later)}
    assert ticks(to) == {
        names[hourly.id]: first_after(due[hourly.id], HOUR),
        names[daily.id]: first_after(due[daily.id], 24 * HOUR),
    }
    messages = read_messages(to.raw, ns, "to")
    assert sorted(each.score for each in messages) == sorted(due.values())
    definition = to.rsmq.schedules.get(names[hourly.id]).definition
    assert (definition.queue, definition.body) == ("to", hourly.fields["message"].encode())


@pytest.mark.slow
@pytest.mark.parametrize("executed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["one server", "two servers"])
def test_takeover_that_ends_at_any_request_and_is_run_again_has_each_time_once(
    server, other_server, local, remote, raw, ns, rqueue, kind, executed
):
    target_server, target = (server, local) if kind == "one server" else (other_server, remote)
    for request in range(1, 200):
        message = rqueue.enqueue_periodic(ns, convert("tick"), HOUR)
        rqueue.enqueue(ns, convert("a"), id="order 7%")
        name, due = f"to.{message.id}", message.fields["processAt"]
        has_broken = run_with_break(
            (server, target_server), BreakPoint(request, executed=executed), ns,
            schedules=True, unique_ids=True,
        )  # fmt: skip
        is_at_source = raw.zscore(rqueue.scheduled(ns), message.raw) is not None
        assert is_at_source or ticks(target) == {name: first_after(due, HOUR)}
        with suppress(SourceNotFound):  # all was moved
            report = move(Rqueue(local, schedules=True, unique_ids=True), ns, target, "to")
            assert report.verified
        ids = {each.body: each.id for each in read_messages(target.raw, ns, "to")}
        assert sorted(ids) == sorted([convert("tick").encode(), convert("a").encode()])
        assert len(read_messages(target.raw, ns, "to")) == 2
        assert ticks(target) == {name: first_after(due, HOUR)}
        assert target.raw.hgetall(f"{ns}:to:x:unique") == {
            message.id.encode(): ids[convert("tick").encode()].encode(),
            b"order 7%": ids[convert("a").encode()].encode(),
        }
        target.rsmq.schedules.remove(name)
        target.rsmq.delete_queue("to")
        if not has_broken:
            return
    raise AssertionError("it never ended")


def test_schedule_waits_for_the_times_that_rqueue_adds_meanwhile(rqueue, local, ns):
    """A listener of Rqueue that still runs adds the next time while the queue is moved."""
    first = rqueue.enqueue_periodic(ns, convert("tick"), HOUR)
    take_over(local, local, ns)
    (name,) = ticks(local)
    second = rqueue.message(
        ns, first.fields["message"], id=first.id, period=HOUR, queuedTime=0,
        processAt=first.fields["processAt"] + HOUR,
    )  # fmt: skip
    local.raw.zadd(rqueue.scheduled(ns), {second.raw: second.fields["processAt"]})
    report = take_over(local, local, ns)

    assert report.schedules == {name: (3600, "present")}
    assert ticks(local) == {name: first_after(second.fields["processAt"], HOUR)}


def test_tick_that_was_fired_before_the_second_run_is_not_repeated(rqueue, local, ns):
    first = rqueue.enqueue_periodic(ns, convert("tick"), HOUR)
    source = Rqueue(local, schedules=True)
    local.rsmq.create_queue("to")
    (periodic,) = source.periodic_messages(ns)
    assert periodic.due_ms == first.fields["processAt"]
    take_over(local, local, ns)
    (name,) = ticks(local)
    last = first_after(periodic.due_ms, HOUR)
    local.raw.hset(f"{ns}:x:schedules", f"{name}:last", f"{last} {last} -")
    local.raw.hset(f"{ns}:x:schedules", f"{name}:tick", last + HOUR)
    local.raw.zadd(rqueue.scheduled(ns), {first.raw: first.fields["processAt"]})

    assert take_over(local, local, ns).schedules == {name: (3600, "present")}
    assert ticks(local) == {name: last + HOUR}


def test_other_schedule_of_the_name_stays_and_the_move_is_not_verified(rqueue, local, ns):
    message = rqueue.enqueue_periodic(ns, convert("tick"), HOUR)
    name = f"to.{message.id}"
    local.rsmq.schedules.add(name, every=60, queue="other", body="own")
    before = local.raw.hgetall(f"{ns}:x:schedules")
    report = take_over(local, local, ns)

    assert report.schedules == {name: (3600, "other")}
    assert not report.verified
    assert "ANOTHER ONE OF THIS NAME IS THERE, and stays" in report.as_text()
    assert local.raw.hgetall(f"{ns}:x:schedules") == before
    assert len(read_messages(local.raw, ns, "to")) == 1


def test_times_that_no_schedule_can_have_are_told(rqueue, local, ns):
    message = rqueue.enqueue_periodic(ns, convert("tick"), 50)
    report = take_over(local, local, ns)

    assert report.schedules == {f"to.{message.id}": (0.05, "failed")}
    assert not report.verified
    assert any(note.startswith(f"NO SCHEDULE to.{message.id}") for note in report.notes)
    assert ticks(local) == {}


def test_periodic_message_that_was_deleted_in_rqueue_gets_no_schedule(rqueue, local, ns):
    rqueue.delete(rqueue.enqueue_periodic(ns, convert("tick"), HOUR))

    assert take_over(local, local, ns).schedules == {}
    assert ticks(local) == {}


def test_verification_compares_schedules(rqueue, local, target, ns):
    message = rqueue.enqueue_periodic(ns, convert("tick"), HOUR)
    name = f"to.{message.id}"
    source = Rqueue(local, schedules=True)
    copy(source, ns, target, "to")
    assert ticks(target) == {}  # after a copy both systems would send
    missing = verify(source, ns, target, "to")
    assert (missing.schedules, missing.verified) == ({name: (3600, "added")}, False)
    assert f"schedule {name}, every 3600 s: NOT THERE" in missing.as_text()
    assert verify(Rqueue(local), ns, target, "to").verified

    move(source, ns, target, "to", in_flight=True)
    with_both = rqueue.enqueue_periodic(ns, convert("tick"), HOUR)
    local.raw.zadd(rqueue.scheduled(ns), {message.raw: message.fields["processAt"]})
    local.raw.zrem(rqueue.scheduled(ns), with_both.raw)
    assert verify(source, ns, target, "to").schedules == {name: (3600, "present")}


@pytest.mark.parametrize("id", ["a b", "ä" * 100, "x" * 400, "a:b"])
def test_name_of_a_schedule_is_made_of_any_id(id):
    name = schedule_name("reports", id)

    assert name.startswith("reports.")
    assert len(name) <= 160
    assert name != schedule_name("reports", id + "-")
    assert schedule_name("reports", "daily") == "reports.daily"


@pytest.mark.parametrize("way", [copy, move])
def test_ids_become_unique_keys_until_their_messages_are_done(rqueue, local, target, ns, way):
    to = target
    rqueue.enqueue(ns, convert("a"), id="order 7%")
    rqueue.enqueue(ns, convert("b"), id="order-8")
    rqueue.enqueue(ns, convert("long"), id="x" * 129)
    source = Rqueue(local, unique_ids=True)
    report = way(source, ns, to, "to")

    assert report.verified
    assert [note.number for note in report.notes.values() if "unique key" in note.text] == [1]
    keys = to.raw.hgetall(f"{ns}:to:x:unique")
    ids = {each.body: each.id for each in read_messages(to.raw, ns, "to")}
    assert keys == {
        b"order 7%": ids[convert("a").encode()].encode(),
        b"order-8": ids[convert("b").encode()].encode(),
    }
    sent = to.rsmq.send_message("to", "again", unique_key="order 7%")
    assert sent == ids[convert("a").encode()]
    to.rsmq.delete_message("to", sent)
    assert to.rsmq.send_message("to", "again", unique_key="order 7%") != sent


def test_key_of_a_message_that_is_sent_before_the_move_stays_with_it(rqueue, local, ns):
    rqueue.enqueue(ns, convert("old"), id="order-7")
    local.rsmq.create_queue("to")
    sent = local.rsmq.send_message("to", "new", unique_key="order-7")
    move(Rqueue(local, unique_ids=True), ns, local, "to")

    assert local.raw.hgetall(f"{ns}:to:x:unique") == {b"order-7": sent.encode()}
    assert len(read_messages(local.raw, ns, "to")) == 2


def test_move_without_the_option_writes_no_keys(rqueue, local, target, ns):
    rqueue.enqueue(ns, convert("a"), id="order-7")
    move(Rqueue(local), ns, target, "to")

    assert not target.raw.exists(f"{ns}:to:x:unique", f"{ns}:x:schedules")


def test_bridge_adds_the_schedule_when_the_message_is_due(rqueue, local, ns):
    due = local.now_us() // 1000 - 1000
    message = rqueue.message(ns, convert("tick"), period=HOUR, processAt=due, queuedTime=0)
    local.raw.zadd(rqueue.scheduled(ns), {message.raw: due})
    local.rsmq.create_queue("to")
    side = Inward(Rqueue(local, schedules=True, unique_ids=True), ns, local, "to")
    assert Bridge(side, limit=1).run() == 1

    assert side.report.schedules == {f"to.{message.id}": (3600, "added")}
    assert ticks(local)[f"to.{message.id}"] > due
    assert local.raw.hkeys(f"{ns}:to:x:unique") == [message.id.encode()]
