"""kill -9, and a worker of the same name."""

from __future__ import annotations

import json
import os
import signal

import pytest

from rsmq import JSON
from rsmq.errors import WorkerExists
from rsmq.worker import held_by, list_workers
from tests.workers.processes.conftest import count_of, fill, nothing_left, scores, until

pytestmark = pytest.mark.timeout(90)

VT = 300
WATCH = {"do": "watch", "for": 60}


def entry_of(raw, ns, name):
    """Of a worker until when it counts as alive, Unix seconds, its token, and what it says."""
    to, token, info = raw.hget(f"{ns}:x:workers", name).decode().split(":", 2)
    return int(to) / 1000, token, json.loads(info)


def taken_over(successor, number):
    """What it begins, and when it had the name."""
    begun = successor.saw("begin", number)
    [started] = successor.events("started")
    return started, [(event.id, event.count) for event in begun]


def test_a_worker_of_the_name_goes_on_at_once(ns, rsmq, raw, program):
    queues = {"threads": False, "tasks": True}
    ids = [
        id for queue in queues for id in fill(rsmq, queue, [{"n": n, **WATCH} for n in range(3)])
    ]
    listeners = {queue: {"vt": VT, "is_async": is_async} for queue, is_async in queues.items()}
    one = program("one", listeners, concurrency=6)
    one.saw("begin", 6)
    other = program("other", listeners, concurrency=6)
    other.saw("started")
    one.kill()
    alive_until, *_ = entry_of(raw, ns, "one")
    # The other one takes what comes, but has to wait for what the dead one held.
    fresh = [fill(rsmq, queue, [{"n": 9, "do": "return"}])[0] for queue in queues]
    other.saw("end", 2)
    assert {event.id for event in other.events("begin")} == set(fresh)
    assert other.stop() == 0
    held = held_by(rsmq, "one")
    assert sorted(id for of_queue in held.values() for id in of_queue) == sorted(ids)

    successor = program("one", listeners, concurrency=6)
    started, begun = taken_over(successor, 6)

    assert sorted(begun) == sorted((id, 2) for id in ids)
    assert started.at < alive_until
    assert "died with 6 messages" in successor.log()


def test_what_had_not_begun_comes_back_in_order(ns, rsmq, raw, program):
    bodies = [{"n": n, "do": "return"} for n in range(200)]
    bodies += [{"n": 200, **WATCH}] + [{"n": n, "do": "sleep", "for": 0.001} for n in range(300)]
    ids = fill(rsmq, "q", bodies)
    one = program("one", {"q": {"vt": VT}}, concurrency=1)
    until(lambda: "200" in {event.more for event in one.events("begin")})
    one.kill()
    assert sum(map(len, held_by(rsmq, "one").values())) > 1
    successor = program("one", {"q": {"vt": VT}}, concurrency=1, grace=0)
    # First, perhaps, what was handled before the kill and not yet deleted.
    until(lambda: "200" in {event.more for event in successor.events("begin")})
    begun = [event.id for event in successor.events("begin")]
    assert successor.stop() == 0

    assert begun == sorted(begun, key=ids.index)
    assert begun[-1] == ids[200]
    assert list(scores(raw, ns, "q")) == ids[200:]


def test_a_dead_process_that_nobody_has_waited_for_is_dead(ns, rsmq, raw, program):
    """In a container whose first process reaps nothing, that is how they all end."""
    [id] = fill(rsmq, "q", [{"n": 0, **WATCH}])
    one = program("one", {"q": {"vt": VT}})
    one.saw("begin")
    os.kill(one.process.pid, signal.SIGKILL)
    with open(f"/proc/{one.process.pid}/stat") as file:  # noqa: PTH123 - read again and again

        def is_gone():
            file.seek(0)
            return file.read().rpartition(")")[2].split()[0] == "Z"

        until(is_gone)
    alive_until, *_ = entry_of(raw, ns, "one")
    started, begun = taken_over(program("one", {"q": {"vt": VT}}), 1)

    assert begun == [(id, 2)]
    assert started.at < alive_until


def test_two_of_a_name_at_once_are_refused(ns, rsmq, raw, program, worker):
    [id] = fill(rsmq, "q", [{"n": 0, **WATCH}])
    one = program("one", {"q": {"vt": VT}})
    one.saw("begin")
    second = worker(name="one")
    second.listener("q", codec=JSON)(print)
    with pytest.raises(WorkerExists, match="one") as caught:
        second.start()

    assert f"process {one.process.pid}" in str(caught.value.hint)
    # The first one noticed nothing.
    assert count_of(raw, ns, "q", id) == 1
    assert [each.name for each in list_workers(rsmq) if each.alive] == ["one"]
    assert one.events("lost") == []


def test_of_two_successors_that_begin_together_one_takes_over(ns, rsmq, raw, program):
    ids = fill(rsmq, "q", [{"n": n, **WATCH} for n in range(4)])
    one = program("one", {"q": {"vt": VT}})
    one.saw("begin", 4)
    one.kill()
    both = [program("one", {"q": {"vt": VT}}, grace=0) for _ in range(3)]
    until(lambda: sum(each.process.poll() is not None for each in both) == 2)
    [winner] = [each for each in both if each.process.poll() is None]

    begun = winner.saw("begin", 4)
    assert sorted((event.id, event.count) for event in begun) == sorted((id, 2) for id in ids)
    assert all(each.events("exists") for each in both if each is not winner)
    assert winner.stop() == 0
    assert list(scores(raw, ns, "q")) == ids


def test_one_on_another_machine_counts_as_alive_until_its_time_is_over(ns, rsmq, raw, program):
    ids = fill(rsmq, "q", [{"n": n, **WATCH} for n in range(2)])
    one = program("one", {"q": {"vt": VT}})
    one.saw("begin", 2)
    one.kill()
    alive_until, token, info = entry_of(raw, ns, "one")
    info["place"] = "another machine"
    until_ms = round(alive_until * 1000)
    raw.hset(f"{ns}:x:workers", "one", f"{until_ms}:{token}:{json.dumps(info)}")
    started, begun = taken_over(program("one", {"q": {"vt": VT}}), 2)

    assert sorted(begun) == sorted((id, 2) for id in ids)
    assert started.at >= alive_until


def test_who_stops_in_order_leaves_nothing(ns, rsmq, raw, program):
    fill(rsmq, "q", [{"n": n, "do": "return"} for n in range(50)])
    one = program("one", {"q": {"vt": VT}})
    one.saw("end", 50)
    assert one.stop() == 0

    assert list_workers(rsmq) == []
    nothing_left(raw, ns, "q")
