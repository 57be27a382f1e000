"""Which of many queues a worker asks next."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace

from rsmq.worker.receive.prefetch_plan import plan_requests
from rsmq.worker.receive.turns import MIN_LANES, Turns
from rsmq.worker.run.run_queue import make_run_queue
from rsmq.worker.state.shares import Shares
from tests.unit.test_worker_plan import NOW, lane

NUMBER = 4 * MIN_LANES


def make_lanes(number=NUMBER, prefix="q", **options):
    return [lane(f"{prefix}{at}", **options) for at in range(number)]


def let_wait(lanes):
    for each in lanes:
        each.arrivals = SimpleNamespace(is_waiting=True)


def ask(turns, can_ask=lambda _lane: True):
    asked = turns.lanes_to_ask(can_ask)
    for each in asked:
        turns.note_asked(each)
    return asked


def test_queues_take_turns():
    lanes = make_lanes()
    turns = Turns(lanes, 8)
    rounds = [ask(turns) for _ in range(5)]

    assert [len(each) for each in rounds] == [MIN_LANES] * 5
    assert list(chain.from_iterable(rounds[:4])) == lanes
    assert rounds[4] == rounds[0]


def test_as_many_queues_are_asked_as_there_are_slots():
    assert len(ask(Turns(make_lanes(), 120))) == 120


def test_few_queues_are_all_asked():
    lanes = make_lanes(MIN_LANES)
    assert ask(Turns(lanes, 8)) == ask(Turns(lanes, 8)) == lanes


def test_only_as_many_queues_are_looked_at_as_are_asked():
    looks = []
    turns = Turns(make_lanes(), 8)
    turns.lanes_to_ask(lambda each: looks.append(each) or True)

    assert len(looks) == MIN_LANES


def test_queues_that_wait_or_may_not_be_asked_are_passed_over():
    lanes = make_lanes(3)
    let_wait(lanes[:1])

    assert ask(Turns(lanes, 8), lambda each: each is not lanes[1]) == lanes[2:]


def test_of_each_priority_some_are_asked_so_that_none_starves_unnoticed():
    high, low = make_lanes(prefix="h", priority=5), make_lanes(prefix="l")
    asked = ask(Turns([*low, *high], 8))

    assert asked == [*high[:MIN_LANES], *low[:MIN_LANES]]


def test_queues_that_wait_are_asked_with_those_of_a_lower_priority():
    high, same, low = make_lanes(prefix="h", priority=5), make_lanes(2, "s"), make_lanes(2, "l")
    for each in low:
        each.listener = lane(priority=-5).listener
    let_wait([*high[1:], same[1], *low])
    turns = Turns([*high, *same, *low], 8)

    assert ask(turns) == [*high[: MIN_LANES + 1], same[0]]
    assert high[0] in ask(turns), "an active queue is not behind those that wait"
    let_wait([same[0]])
    assert ask(turns) == [high[0]], "no queue of a lower priority has anything due"


def test_queues_with_weights_are_asked_by_their_turns():
    lanes = [lane(f"q{at}", weight=1 + at % 2) for at in range(NUMBER)]
    shares = make_run_queue(lanes, 8).shares
    for each in lanes[: NUMBER - MIN_LANES]:
        shares[each].begin(each)
    asked = Turns(lanes, 8).first_by_shares(lanes, shares)

    assert asked == lanes[NUMBER - MIN_LANES :]


def test_plan_of_queues_with_weights_takes_as_many_steps_as_there_are_queues(monkeypatch):
    steps, turn = [], Shares.turn

    def count(shares, lane, waiting=0):
        steps.append(lane)
        return turn(shares, lane, waiting)

    monkeypatch.setattr(Shares, "turn", count)
    counts = []
    for number in (50, 100):
        lanes = [lane(f"q{at}", weight=1 + at % 2) for at in range(number)]
        shares = make_run_queue(lanes, 8).shares
        steps.clear()
        plan_requests(lanes, 8, {}, NOW, shares)
        counts.append(len(steps))
    assert counts[1] <= 2 * counts[0]
