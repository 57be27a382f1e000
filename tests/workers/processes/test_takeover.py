"""kill -9, and the takeover by a worker of the same name."""

from __future__ import annotations

import json
import os
import signal

import pytest

from rsmq import JSON
from rsmq.errors import WorkerExists
from rsmq.worker import held_by, list_workers
from tests.workers.processes.conftest import (
    assert_nothing_left,
    fill,
    receive_count,
    scores,
    wait_until,
)

VT = 300
WATCH = {"do": "watch", "for": 60}


def registry_entry(raw, ns, name):
    """
    Return the worker's registry entry: the Unix time until which it counts as alive, token, info.
    """
    alive_until_ms, token, info = raw.hget(f"{ns}:x:workers", name).decode().split(":", 2)
    return int(alive_until_ms) / 1000, token, json.loads(info)


def keep_registered(raw, ns, name):
    """Let a worker count as alive for an hour, unless its process is found to be dead."""
    alive_until, token, info = registry_entry(raw, ns, name)
    until_ms = round((alive_until + 3600) * 1000)
    raw.hset(f"{ns}:x:workers", name, f"{until_ms}:{token}:{json.dumps(info)}")


def takeover(successor, number):
    """Return the start event of the successor, and the ids and receive counts that it begins."""
    begun = successor.wait_for("begin", number)
    [started] = successor.events("started")
    return started, [(event.id, event.count) for event in begun]


def test_worker_of_the_same_name_takes_over_at_once(ns, rsmq, raw, start_program):
    queues = {"threads": False, "tasks": True}
    ids = [
        id for queue in queues for id in fill(rsmq, queue, [{"n": n, **WATCH} for n in range(3)])
    ]
    listeners = {queue: {"vt": VT, "is_async": is_async} for queue, is_async in queues.items()}
    one = start_program("one", listeners, concurrency=6)
    one.wait_for("begin", 6)
    other = start_program("other", listeners, concurrency=6)
    other.wait_for("started")
    one.kill()
    keep_registered(raw, ns, "one")
    # Another worker receives new messages, but not the messages in flight of the dead one.
    fresh = [fill(rsmq, queue, [{"n": 9, "do": "return"}])[0] for queue in queues]
    other.wait_for("end", 2)
    assert {event.id for event in other.events("begin")} == set(fresh)
    assert other.stop() == 0
    held = held_by(rsmq, "one")
    assert sorted(id for of_queue in held.values() for id in of_queue) == sorted(ids)

    successor = start_program("one", listeners, concurrency=6)
    _, begun = takeover(successor, 6)

    assert sorted(begun) == sorted((id, 2) for id in ids)
    assert "died with 6 messages" in successor.log()


def test_prefetched_messages_are_taken_over_in_order(ns, rsmq, raw, start_program):
    bodies = [{"n": n, "do": "return"} for n in range(200)]
    bodies += [{"n": 200, **WATCH}] + [{"n": n, "do": "sleep", "for": 0.001} for n in range(300)]
    ids = fill(rsmq, "q", bodies)
    one = start_program("one", {"q": {"vt": VT}}, concurrency=1)
    wait_until(lambda: "200" in {event.detail for event in one.events("begin")})
    one.kill()
    assert sum(map(len, held_by(rsmq, "one").values())) > 1
    successor = start_program("one", {"q": {"vt": VT}}, concurrency=1, grace=0)
    # Messages that were handled before the kill and not yet deleted may come first.
    wait_until(lambda: "200" in {event.detail for event in successor.events("begin")})
    begun = [event.id for event in successor.events("begin")]
    assert successor.stop() == 0

    assert begun == sorted(begun, key=ids.index)
    assert begun[-1] == ids[200]
    assert list(scores(raw, ns, "q")) == ids[200:]


def test_zombie_process_counts_as_dead(ns, rsmq, raw, start_program):
    """In a container whose init process reaps no children, all processes end like this."""
    [id] = fill(rsmq, "q", [{"n": 0, **WATCH}])
    one = start_program("one", {"q": {"vt": VT}}, is_anew=True)
    one.wait_for("begin")
    os.kill(one.process.pid, signal.SIGKILL)
    with open(f"/proc/{one.process.pid}/stat") as file:  # noqa: PTH123 - read again and again

        def is_gone():
            file.seek(0)
            return file.read().rpartition(")")[2].split()[0] == "Z"

        wait_until(is_gone)
    keep_registered(raw, ns, "one")
    _, begun = takeover(start_program("one", {"q": {"vt": VT}}), 1)

    assert begun == [(id, 2)]


def test_second_live_worker_of_a_name_is_refused(ns, rsmq, raw, start_program, create_worker):
    [id] = fill(rsmq, "q", [{"n": 0, **WATCH}])
    one = start_program("one", {"q": {"vt": VT}})
    one.wait_for("begin")
    second = create_worker(name="one")
    second.listener("q", codec=JSON)(print)
    with pytest.raises(WorkerExists, match="one") as caught:
        second.start()

    assert f"process {one.process.pid}" in str(caught.value.hint)
    # The first worker is not affected.
    assert receive_count(raw, ns, "q", id) == 1
    assert [each.name for each in list_workers(rsmq) if each.alive] == ["one"]
    assert one.events("lost") == []


def test_only_one_of_several_successors_takes_over(ns, rsmq, raw, start_program):
    ids = fill(rsmq, "q", [{"n": n, **WATCH} for n in range(4)])
    one = start_program("one", {"q": {"vt": VT}})
    one.wait_for("begin", 4)
    one.kill()
    both = [start_program("one", {"q": {"vt": VT}}, grace=0) for _ in range(3)]
    wait_until(lambda: sum(each.process.poll() is not None for each in both) == 2)
    [winner] = [each for each in both if each.process.poll() is None]

    begun = winner.wait_for("begin", 4)
    assert sorted((event.id, event.count) for event in begun) == sorted((id, 2) for id in ids)
    assert all(each.events("exists") for each in both if each is not winner)
    assert winner.stop() == 0
    assert list(scores(raw, ns, "q")) == ids


def test_worker_on_another_machine_counts_as_alive_until_its_entry_expires(
    ns, rsmq, raw, start_program
):
    ids = fill(rsmq, "q", [{"n": n, **WATCH} for n in range(2)])
    one = start_program("one", {"q": {"vt": VT}})
    one.wait_for("begin", 2)
    one.kill()
    alive_until, token, info = registry_entry(raw, ns, "one")
    info["place"] = "another machine"
    until_ms = round(alive_until * 1000)
    raw.hset(f"{ns}:x:workers", "one", f"{until_ms}:{token}:{json.dumps(info)}")
    started, begun = takeover(start_program("one", {"q": {"vt": VT}}), 2)

    assert sorted(begun) == sorted((id, 2) for id in ids)
    assert started.time >= alive_until


def test_graceful_stop_leaves_nothing(ns, rsmq, raw, start_program):
    fill(rsmq, "q", [{"n": n, "do": "return"} for n in range(50)])
    one = start_program("one", {"q": {"vt": VT}})
    one.wait_for("end", 50)
    assert one.stop() == 0

    assert list_workers(rsmq) == []
    assert_nothing_left(raw, ns, "q")
