"""Migration from lists of the BRPOPLPUSH pattern."""

from __future__ import annotations

import pytest

from rsmq.migrate import Lists, NotPossible, SourceChanged, SourceNotFound, copy, move
from tests.expect import refused
from tests.migrate.stored import dump_keys, now_ms, predicted_figures, read_bodies, read_messages
from tests.workers.polling import wait_until

BINARY = bytes(range(256))


@pytest.fixture
def work_list(raw, ns):
    """Return the key of a list of messages, some of them equal, beside the lists of two workers."""
    key = f"{ns}-work"
    raw.lpush(key, "a", "same", BINARY, "same", "", "same")
    raw.lpush(f"{ns}-w1-queue", "held 1")
    raw.lpush(f"{ns}-w2-queue", "held 2", "held 3")
    yield key
    raw.unlink(*[key, *raw.keys(f"{ns}-*")])


@pytest.fixture
def source(local, ns):
    return Lists(local, processing=[f"{ns}-w*-queue"])


def read_lists(raw, ns):
    return {key: raw.lrange(key, 0, -1) for key in raw.keys(f"{ns}-*")}


ALL = [b"a", b"same", BINARY, b"same", b"", b"same"]


def test_move_moves_every_element_once_in_order(source, target, work_list, raw, ns):
    before = now_ms(raw) * 1000
    report = move(source, work_list, target, "to")
    messages = read_messages(target.raw, ns, "to")

    assert [each.body for each in messages] == ALL
    assert all(before <= each.sent_us <= (now_ms(target.raw) + 1) * 1000 for each in messages)
    assert {(each.count, each.first) for each in messages} == {(None, None)}
    assert all(each.score <= now_ms(target.raw) for each in messages)
    assert not raw.exists(work_list)
    assert raw.lrange(f"{ns}-w2-queue", 0, -1) == [b"held 3", b"held 2"]
    assert report.found == {"ready": 6, "delayed": 0, "in_flight": 3}
    assert (report.arrived, report.left, report.verified) == (6, 3, True)
    assert not target.raw.exists(f"{ns}:to:x:copied")
    assert not raw.exists(source.aside_key(work_list))


def test_move_with_in_flight_empties_the_workers_lists(source, target, work_list, raw, ns):
    before = now_ms(raw)
    report = move(source, work_list, target, "to", in_flight=True)
    messages = read_messages(target.raw, ns, "to")

    assert [each.body for each in messages] == [b"held 1", b"held 2", b"held 3", *ALL]
    assert [each.count for each in messages] == [1] * 3 + [None] * 6
    assert all(before <= each.first <= now_ms(raw) for each in messages[:3])
    assert raw.keys(f"{ns}-*") == []
    assert (report.arrived, report.left) == (9, 0)
    assert report.found == {"ready": 6, "delayed": 0, "in_flight": 3}


def test_move_continues_after_an_earlier_move(source, target, work_list, raw, ns):
    move(source, work_list, target, "to")
    raw.lpush(work_list, "same", "later")
    report = move(source, work_list, target, "to")

    assert read_bodies(target.raw, ns, "to") == [*ALL, b"same", b"later"]
    assert (report.arrived, report.created) == (2, False)
    with refused(SourceNotFound, f"There is no list {work_list!r} with messages in it"):
        move(Lists(source.server), work_list, target, "to")


def test_copy_orders_messages_in_flight_first_and_changes_no_list(
    source, target, work_list, raw, ns
):
    before = read_lists(raw, ns)
    report = copy(source, work_list, target, "to")
    messages = read_messages(target.raw, ns, "to")

    assert read_lists(raw, ns) == before
    assert [each.body for each in messages if each.count is None] == ALL
    assert {each.body for each in messages if each.count == 1} == {b"held 1", b"held 2", b"held 3"}
    assert [each.count for each in messages] == [1] * 3 + [None] * 6
    assert (report.arrived, report.before, report.verified) == (9, 0, True)


def test_second_copy_duplicates_nothing(source, target, work_list, raw, ns):
    copy(source, work_list, target, "to")
    before = read_messages(target.raw, ns, "to")
    target.rsmq.delete_message("to", before[4].id)
    report = copy(source, work_list, target, "to")

    assert read_messages(target.raw, ns, "to") == before[:4] + before[5:]
    assert (report.arrived, report.before, report.consumed) == (0, 8, 1)
    assert report.verified


@pytest.mark.parametrize("change", ["pushed", "taken", "replaced", "rotated"])
def test_copy_of_a_changed_list_is_refused(local, work_list, raw, ns, change):
    copy(Lists(local), work_list, local, "to")
    before = read_messages(raw, ns, "to")
    if change == "pushed":
        raw.lpush(work_list, "new")
    elif change == "taken":
        raw.rpop(work_list)
    elif change == "replaced":
        raw.lset(work_list, 2, "other")
    else:
        raw.lmove(work_list, work_list, "LEFT", "RIGHT")

    with pytest.raises(SourceChanged) as caught:
        copy(Lists(local), work_list, local, "to")
    assert caught.value.text == f"The list {work_list!r} was changed since the copy began"
    assert "a move is possible while they work" in caught.value.hint
    assert read_messages(raw, ns, "to") == before


def test_list_that_changes_during_the_copy_is_refused(local, work_list, raw, ns):
    raw.lpush(work_list, *[f"{number}" for number in range(2500)])

    def change(progress):
        if progress.doing == "copying" and progress.done == 1000:
            raw.rpop(work_list)

    with pytest.raises(SourceChanged):
        copy(Lists(local), work_list, local, "to", tell=change)


def test_finish_deletes_the_index(source, local, work_list, raw, ns):
    copy(source, work_list, local, "to")
    assert raw.exists(f"{ns}:to:x:copied")
    copy(source, work_list, local, "to", finish=True)

    assert not raw.exists(f"{ns}:to:x:copied")
    assert len(read_bodies(raw, ns, "to")) == 9


def test_dry_run_changes_nothing_and_predicts_the_figures(source, local, work_list, raw, ns):
    def dry_run_and_run(way, **options):
        before = dump_keys(raw)
        dry = way(source, work_list, local, "to", dry_run=True, **options)
        assert dump_keys(raw) == before
        real = way(source, work_list, local, "to", **options)
        assert predicted_figures(dry) == predicted_figures(real)
        return real

    assert dry_run_and_run(copy).arrived == 9
    assert dry_run_and_run(copy).before == 9
    local.rsmq.pop_message("to")
    assert dry_run_and_run(copy).consumed == 1
    local.rsmq.delete_queue("to")
    assert dry_run_and_run(move).found == {"ready": 6, "delayed": 0, "in_flight": 3}
    assert dry_run_and_run(move, in_flight=True).arrived == 3


def test_queues_lists_all_lists_except_those_of_other_systems(local, work_list, raw, ns):
    raw.lpush("rfq:t:backlog", "x")
    raw.lpush("__rq::queue::{q}", "x")
    raw.lpush("rqueue-x", "x")
    raw.sadd(f"{ns}-set", "x")
    lists = Lists(local).queues()

    assert lists == sorted([f"{ns}-w1-queue", f"{ns}-w2-queue", work_list])
    raw.unlink("rfq:t:backlog", "__rq::queue::{q}", "rqueue-x")


def test_work_list_is_not_a_processing_list(local, work_list, raw, ns):
    source = Lists(local, processing=[f"{ns}-*", f"{ns}-w1*"])

    assert source.look(work_list).counts == {"ready": 6, "delayed": 0, "in_flight": 3}


def test_queue_can_not_be_its_own_source(local, raw, ns):
    raw.lpush(f"{ns}:to", "x")
    for way in (copy, move):
        with refused(NotPossible, "The queue 'to' is the source and the target"):
            way(Lists(local), f"{ns}:to", local, "to")
    assert raw.lrange(f"{ns}:to", 0, -1) == [b"x"]


def test_move_beside_active_workers_loses_and_duplicates_nothing(
    local, raw, ns, start_brpoplpush_worker
):
    """Each task is in exactly one place: handled by a worker, moved, or in the list of a worker."""
    count = 3000
    raw.lpush(f"{ns}:work", *[f"mail:{number}" for number in range(count)])
    for name in ("w1", "w2"):
        start_brpoplpush_worker(name, work=f"{ns}:work")
    wait_until(lambda: raw.llen(f"{ns}:log") > 20)
    report = move(Lists(local, processing=[f"{ns}:w*-queue"]), f"{ns}:work", local, "to")
    wait_until(lambda: not raw.exists(f"{ns}:w1-queue", f"{ns}:w2-queue"))
    handled = [int(number) for number in raw.lrange(f"{ns}:log", 0, -1)]
    moved = [int(body.split(b":")[1]) for body in read_bodies(raw, ns, "to")]

    assert sorted(handled + moved) == list(range(count))
    assert moved == sorted(moved)
    assert report.arrived == len(moved) > 0
    assert report.verified
