"""Faults of schedules."""

from __future__ import annotations

from rsmq.doctor.catalogue import FAULTS


def find(namespace):
    return {(each.code, each.text) for each in namespace.examine()}


def test_sound_schedules_are_no_findings(namespace, rsmq):
    rsmq.schedules.add("a", every=60, queue="q")
    rsmq.schedules.add("b", every=60, queue="q")
    rsmq.schedules.pause("b")

    assert find(namespace) == set()


def test_lost_broken_and_failing_schedules_are_reported(namespace, rsmq, raw):
    keys = f"{namespace.ns}:x:schedules", f"{namespace.ns}:x:due"
    for name in ("timeless", "broken", "failing"):
        rsmq.schedules.add(name, every=60, queue="q")
    raw.zadd(keys[1], {"nameless": 1})
    raw.zrem(keys[1], "timeless")
    raw.hset(keys[0], "broken", "{}")
    raw.hset(keys[0], "failing:failure", "1 3 Queue not found")

    assert find(namespace) == {
        ("lost-schedule", "schedule nameless has a time, and no definition"),
        ("lost-schedule", "schedule timeless has a definition, and no time"),
        ("broken-schedule", "the definition of schedule broken can't be read: KeyError: 'form'"),
        ("failing-schedule", "schedule failing fails: Queue not found"),
    }
    rsmq.schedules.add("timeless", every=60, queue="q")
    rsmq.schedules.add("broken", every=60, queue="q")
    rsmq.schedules.remove("nameless")
    rsmq.schedules.remove("failing")
    assert find(namespace) == set()
    assert FAULTS["lost-schedule"].severity == "error"


def test_a_user_without_the_right_to_schedules_can_examine(namespace, raw):
    raw.set(f"{namespace.ns}:x:schedules", "of another program")

    assert find(namespace) == set()
