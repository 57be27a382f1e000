"""Moving over from lists of the BRPOPLPUSH pattern."""

from __future__ import annotations

import pytest

from rsmq.migrate import Lists, NotPossible, SourceChanged, SourceNotFound, copy, move
from tests.expect import refused
from tests.migrate.stored import bodies, dumped, now_ms, numbers, stored
from tests.workers.until import until

BINARY = bytes(range(256))


@pytest.fixture
def work(raw, ns):
    """The key of a list with messages, some of them alike; the workers' lists are beside it."""
    key = f"{ns}-work"
    raw.lpush(key, "a", "same", BINARY, "same", "", "same")
    raw.lpush(f"{ns}-w1-queue", "held 1")
    raw.lpush(f"{ns}-w2-queue", "held 2", "held 3")
    yield key
    raw.unlink(*[key, *raw.keys(f"{ns}-*")])


@pytest.fixture
def source(here, ns):
    return Lists(here, processing=[f"{ns}-w*-queue"])


def lists_of(raw, ns):
    return {key: raw.lrange(key, 0, -1) for key in raw.keys(f"{ns}-*")}


ALL = [b"a", b"same", BINARY, b"same", b"", b"same"]


def test_a_move_takes_every_element_once_in_order(source, target, work, raw, ns):
    before = now_ms(raw) * 1000
    report = move(source, work, target, "to")
    found = stored(target.raw, ns, "to")

    assert [each.body for each in found] == ALL
    assert all(before <= each.sent_us <= (now_ms(target.raw) + 1) * 1000 for each in found)
    assert {(each.count, each.first) for each in found} == {(None, None)}
    assert all(each.score <= now_ms(target.raw) for each in found)
    assert not raw.exists(work)
    assert raw.lrange(f"{ns}-w2-queue", 0, -1) == [b"held 3", b"held 2"]
    assert report.found == {"ready": 6, "delayed": 0, "in_flight": 3}
    assert (report.arrived, report.left, report.verified) == (6, 3, True)
    assert not target.raw.exists(f"{ns}:to:x:copied")
    assert not raw.exists(source.aside_key(work))


def test_a_move_with_what_is_handled_empties_the_workers_lists(source, target, work, raw, ns):
    before = now_ms(raw)
    report = move(source, work, target, "to", in_flight=True)
    found = stored(target.raw, ns, "to")

    assert [each.body for each in found] == [b"held 1", b"held 2", b"held 3", *ALL]
    assert [each.count for each in found] == [1] * 3 + [None] * 6
    assert all(before <= each.first <= now_ms(raw) for each in found[:3])
    assert raw.keys(f"{ns}-*") == []
    assert (report.arrived, report.left) == (9, 0)
    assert report.found == {"ready": 6, "delayed": 0, "in_flight": 3}


def test_a_move_goes_on_where_another_stopped(source, target, work, raw, ns):
    move(source, work, target, "to")
    raw.lpush(work, "same", "later")
    report = move(source, work, target, "to")

    assert bodies(target.raw, ns, "to") == [*ALL, b"same", b"later"]
    assert (report.arrived, report.created) == (2, False)
    with refused(SourceNotFound, f"There is no list {work!r} with messages in it"):
        move(Lists(source.server), work, target, "to")


def test_a_copy_brings_those_in_hand_before_the_others_and_changes_no_list(
    source, target, work, raw, ns
):
    before = lists_of(raw, ns)
    report = copy(source, work, target, "to")
    found = stored(target.raw, ns, "to")

    assert lists_of(raw, ns) == before
    assert [each.body for each in found if each.count is None] == ALL
    assert {each.body for each in found if each.count == 1} == {b"held 1", b"held 2", b"held 3"}
    assert [each.count for each in found] == [1] * 3 + [None] * 6
    assert (report.arrived, report.before, report.verified) == (9, 0, True)


def test_a_copy_run_again_brings_nothing_twice(source, target, work, raw, ns):
    copy(source, work, target, "to")
    before = stored(target.raw, ns, "to")
    target.rsmq.delete_message("to", before[4].id)
    report = copy(source, work, target, "to")

    assert stored(target.raw, ns, "to") == before[:4] + before[5:]
    assert (report.arrived, report.before, report.consumed) == (0, 8, 1)
    assert report.verified


@pytest.mark.parametrize("touch", ["pushed", "taken", "replaced", "rotated"])
def test_a_copy_of_a_list_that_was_touched_since_is_refused(here, work, raw, ns, touch):
    copy(Lists(here), work, here, "to")
    before = stored(raw, ns, "to")
    if touch == "pushed":
        raw.lpush(work, "new")
    elif touch == "taken":
        raw.rpop(work)
    elif touch == "replaced":
        raw.lset(work, 2, "other")
    else:
        raw.lmove(work, work, "LEFT", "RIGHT")

    with pytest.raises(SourceChanged) as caught:
        copy(Lists(here), work, here, "to")
    assert str(caught.value) == f"The list {work!r} was touched since the copy began"
    assert "a move may go on while they work" in caught.value.hint
    assert stored(raw, ns, "to") == before


def test_a_list_that_is_touched_while_it_is_copied_is_refused(here, work, raw, ns):
    raw.lpush(work, *[f"{number}" for number in range(2500)])

    def touch(progress):
        if progress.doing == "copying" and progress.done == 1000:
            raw.rpop(work)

    with pytest.raises(SourceChanged):
        copy(Lists(here), work, here, "to", tell=touch)


def test_a_finished_copy_forgets(source, here, work, raw, ns):
    copy(source, work, here, "to")
    assert raw.exists(f"{ns}:to:x:copied")
    copy(source, work, here, "to", finish=True)

    assert not raw.exists(f"{ns}:to:x:copied")
    assert len(bodies(raw, ns, "to")) == 9


def test_dry_runs_change_nothing_and_tell_the_numbers_of_the_runs(source, here, work, raw, ns):
    def both(way, **options):
        before = dumped(raw)
        dry = way(source, work, here, "to", dry_run=True, **options)
        assert dumped(raw) == before
        real = way(source, work, here, "to", **options)
        assert numbers(dry) == numbers(real)
        return real

    assert both(copy).arrived == 9
    assert both(copy).before == 9
    here.rsmq.pop_message("to")
    assert both(copy).consumed == 1
    here.rsmq.delete_queue("to")
    assert both(move).found == {"ready": 6, "delayed": 0, "in_flight": 3}
    assert both(move, in_flight=True).arrived == 3


def test_all_lists_are_named_but_those_of_other_systems(here, work, raw, ns):
    raw.lpush("rfq:t:backlog", "x")
    raw.lpush("__rq::queue::{q}", "x")
    raw.lpush("rqueue-x", "x")
    raw.sadd(f"{ns}-set", "x")
    found = Lists(here).queues()

    assert found == sorted([f"{ns}-w1-queue", f"{ns}-w2-queue", work])
    raw.unlink("rfq:t:backlog", "__rq::queue::{q}", "rqueue-x")


def test_the_work_list_itself_is_no_processing_list(here, work, raw, ns):
    source = Lists(here, processing=[f"{ns}-*", f"{ns}-w1*"])

    assert source.look(work).counts == {"ready": 6, "delayed": 0, "in_flight": 3}


def test_a_queue_is_not_its_own_source(here, raw, ns):
    raw.lpush(f"{ns}:to", "x")
    for way in (copy, move):
        with refused(NotPossible, "The queue 'to' is the source and the target"):
            way(Lists(here), f"{ns}:to", here, "to")
    assert raw.lrange(f"{ns}:to", 0, -1) == [b"x"]


def test_a_move_beside_workers_of_the_pattern_loses_and_doubles_nothing(here, raw, ns, brpoplpush):
    """Each task is handled by a worker, or moved, or in the hands of a worker: in one of them."""
    count = 3000
    raw.lpush(f"{ns}:work", *[f"mail:{number}" for number in range(count)])
    for name in ("w1", "w2"):
        brpoplpush(name, work=f"{ns}:work")
    until(lambda: raw.llen(f"{ns}:log") > 20)
    report = move(Lists(here, processing=[f"{ns}:w*-queue"]), f"{ns}:work", here, "to")
    until(lambda: not raw.exists(f"{ns}:w1-queue", f"{ns}:w2-queue"))
    handled = [int(number) for number in raw.lrange(f"{ns}:log", 0, -1)]
    moved = [int(body.split(b":")[1]) for body in bodies(raw, ns, "to")]

    assert sorted(handled + moved) == list(range(count))
    assert moved == sorted(moved)
    assert report.arrived == len(moved) > 0
    assert report.verified
