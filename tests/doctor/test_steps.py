"""Each step of a repair checks again, and keeps what has changed since the examination."""

from __future__ import annotations

import pytest
from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.doctor import repair
from rsmq.doctor.catalogue import OPT_IN_REPAIRS
from rsmq.doctor.operations import (
    FIRST_STEP,
    NOW_MS,
    examine_messages,
    remove_extensions,
    remove_ghost_ids,
    remove_orphan_fields,
    repair_fields,
    repair_listing,
    repair_scores,
    replace_ids,
    restore_orphan_bodies,
)

ID = b"hod98j94h7HkqVvzKrlMYXegVzlPtuLy"
SCORE = 1795264742384


@pytest.fixture
def keys(rsmq):
    return rsmq.namespace.queue("q")


@pytest.fixture
def changes_nothing(namespace, rsmq):
    """A function: whether an operation returns 0 and changes no key."""

    def check(operation):
        before = namespace.dump()
        answer = rsmq.run(operation)
        return answer == 0 and namespace.dump() == before

    return check


@pytest.fixture
def message(namespace, raw):
    """A message without a fault."""
    raw.hset(namespace.hash(), mapping={ID: "m", ID + b":rc": 1, ID + b":fr": SCORE})
    raw.zadd(namespace.zset(), {ID: SCORE})


@pytest.mark.usefixtures("message")
def test_repairs_of_ghosts_and_orphans_keep_a_complete_message(keys, changes_nothing):
    assert changes_nothing(remove_ghost_ids(keys, [(ID, True)]))
    assert changes_nothing(remove_orphan_fields(keys, [ID], bodies=False))
    assert changes_nothing(remove_orphan_fields(keys, [ID], bodies=True))
    assert changes_nothing(restore_orphan_bodies(keys, [(ID, 5)]))


@pytest.mark.usefixtures("message")
def test_removal_of_counters_keeps_bodies(keys, namespace, raw, changes_nothing):
    raw.zrem(namespace.zset(), ID)

    assert changes_nothing(remove_orphan_fields(keys, [ID], bodies=False))


def test_id_without_a_body_is_neither_restored_nor_replaced(keys, namespace, raw, changes_nothing):
    assert changes_nothing(restore_orphan_bodies(keys, [(ID, 5)]))
    raw.zadd(namespace.zset(), {ID: SCORE})
    assert changes_nothing(replace_ids(keys, [(ID, SCORE * 1000)]))


@pytest.mark.usefixtures("message")
def test_score_that_changed_is_kept(keys, changes_nothing):
    assert changes_nothing(repair_scores(keys, [(ID, b"1795264742", b"5")]))
    assert changes_nothing(repair_scores(keys, [(ID[:-1] + b"z", b"5", None)]))


def test_deleted_message_gets_no_counters(keys, changes_nothing):
    assert changes_nothing(repair_fields(keys, [(ID + b":fr", None, NOW_MS)]))
    assert changes_nothing(repair_fields(keys, [(ID + b":rc", None, b"1")]))


@pytest.mark.usefixtures("message")
def test_count_that_changed_is_kept(keys, changes_nothing):
    assert changes_nothing(repair_fields(keys, [(ID + b":rc", b"7", b"1")]))
    assert changes_nothing(repair_fields(keys, [(ID + b":fr", None, NOW_MS)]))


def test_name_stays_listed_while_a_key_of_the_queue_exists(namespace, raw, rsmq, changes_nothing):
    raw.delete(namespace.hash())
    raw.zadd(namespace.zset(), {ID: SCORE})
    assert changes_nothing(repair_listing(rsmq.namespace, "q", create=False))
    raw.delete(namespace.zset())
    raw.hset(namespace.hash(), "totalsent", 1)
    assert changes_nothing(repair_listing(rsmq.namespace, "q", create=False))


def test_deleted_queue_is_not_created_again(namespace, raw, rsmq):
    rsmq.delete_queue("q")

    assert rsmq.run(repair_listing(rsmq.namespace, "q", create=True)) == 0
    assert namespace.dump() == {}


@pytest.mark.parametrize("existing", ["hash", "zset"])
def test_extension_data_is_kept_while_a_key_of_the_queue_exists(
    keys, namespace, raw, changes_nothing, existing
):
    raw.hset(keys.reasons, "a", "b")
    if existing == "zset":
        raw.delete(namespace.hash())
        raw.zadd(namespace.zset(), {ID: SCORE})

    assert changes_nothing(remove_extensions(keys, [keys.reasons]))


def test_restoring_into_a_deleted_queue_fails_and_changes_nothing(keys, namespace, raw, rsmq):
    from rsmq import QueueNotFound

    raw.hdel(namespace.hash(), "vt")
    raw.hset(namespace.hash(), ID, "m")
    with pytest.raises(QueueNotFound):
        rsmq.run(restore_orphan_bodies(keys, [(ID, None)]))

    assert not raw.exists(namespace.zset())


def test_id_that_ends_like_a_counter_is_an_id(namespace, raw):
    for id in (ID + b":rc", ID + b":meta"):
        raw.hset(namespace.hash(), id, "m")
        raw.zadd(namespace.zset(), {id: SCORE})

    assert namespace.find_codes() == [("undeletable-id", "q", 2)]


@pytest.fixture
def recorded_steps(rsmq, monkeypatch):
    """The scripts that run, each with its number of arguments and the number of ids it returns."""
    steps = []
    run = type(rsmq).run

    def record(self, operation):
        result = run(self, operation)
        size = len(result[2]) if operation.script.name == "examine_messages" else 0
        steps.append((operation.script.name, len(operation.args), size))
        return result

    monkeypatch.setattr(type(rsmq), "run", record)
    return steps


@pytest.mark.parametrize("is_same_score", [True, False])
def test_examination_reads_every_id_once_in_short_steps(
    namespace, raw, recorded_steps, is_same_score
):
    ids = {f"{number:032d}": SCORE + (0 if is_same_score else number) for number in range(1001)}
    raw.zadd(namespace.zset(), ids)
    raw.hset(namespace.hash(), mapping=dict.fromkeys(ids, "m"))

    assert namespace.find_codes() == []
    sizes = [size for name, _, size in recorded_steps if name == "examine_messages"]
    assert sizes == [100] * 10 + [1]


@pytest.mark.parametrize("change", ["deleted", "hidden", "neighbours"])
def test_examination_continues_behind_an_id_that_is_gone(namespace, raw, rsmq, keys, change):
    """The walk continues at the place of the last id, also if other programs change the queue."""
    ids = [f"{number:032d}" for number in range(600)]
    raw.zadd(namespace.zset(), dict.fromkeys(ids, SCORE))
    position, _, entries = rsmq.run(examine_messages(keys, FIRST_STEP))
    if change == "deleted":
        raw.zrem(namespace.zset(), *ids[50:100])
    elif change == "hidden":
        raw.zadd(namespace.zset(), {ids[99]: SCORE + 5000})
    else:
        raw.zrem(namespace.zset(), *ids[:3])
        raw.zadd(namespace.zset(), {"0": SCORE - 1, f"{ids[50]}x": SCORE})
    read = [entry.id.decode() for entry in entries]
    while position is not None:
        position, _, entries = rsmq.run(examine_messages(keys, position))
        read += [entry.id.decode() for entry in entries]

    # An id whose score changes may be read twice.
    assert read == ids + ([ids[99]] if change == "hidden" else [])


def test_examination_continues_between_ids_of_any_bytes(namespace, raw, rsmq, keys):
    """Redis orders ids by their bytes, not by the locale of the server."""
    ids = sorted(bytes([first, second]) for first in range(256) for second in (0, 65, 97, 255))
    raw.zadd(namespace.zset(), dict.fromkeys(ids, SCORE))
    for last in (ids[0], ids[500], ids[501], ids[-1]):
        raw.zrem(namespace.zset(), last)
        behind = [id for id in ids if id > last]
        _, _, entries = rsmq.run(examine_messages(keys, (b"%d" % SCORE, last)))
        raw.zadd(namespace.zset(), {last: SCORE})

        assert [entry.id for entry in entries] == behind[:100]


def test_repairs_change_few_messages_in_a_step(namespace, raw, recorded_steps):
    ids = [f"{number:031d}_" for number in range(300)]
    raw.zadd(namespace.zset(), dict.fromkeys(ids, 5))
    raw.hset(
        namespace.hash(),
        mapping={field: "x" for id in ids[:200] for field in (id, f"{id}:rc", f"{id}:fr")},
    )
    namespace.repair(*(way for way in OPT_IN_REPAIRS if way != "orphan-body:remove"))

    arguments_of_one = {"remove_ghost_ids": 2, "replace_ids": 3, "repair_fields": 6}
    numbers = {
        name: arguments // arguments_of_one[name]
        for name, arguments, _ in recorded_steps
        if name in arguments_of_one
    }
    assert numbers.keys() == arguments_of_one.keys()
    assert max(numbers.values()) <= 100


def test_examination_of_fields_reads_few_in_a_step(namespace, raw, rsmq, monkeypatch):
    raw.hset(namespace.hash(), mapping={f"{number:032d}": "x" * 1000 for number in range(2000)})
    counts = []
    run = type(rsmq).run

    def record(self, operation):
        if operation.script.name == "examine_fields":
            counts.append(int(operation.args[1]))
        return run(self, operation)

    monkeypatch.setattr(type(rsmq), "run", record)
    namespace.find_codes()

    assert counts[0] == 10
    assert max(counts) <= 100


def test_fault_that_the_second_check_does_not_find_is_not_reported(namespace, raw, monkeypatch):
    """For example, a queue that Node creates, and lists a moment later."""
    raw.srem(namespace.index, "q")

    def change_queue(_):
        raw.sadd(namespace.index, "q")
        raw.hset(namespace.hash(), "vt", "0.5")

    monkeypatch.setattr("rsmq.doctor.examination.time.sleep", change_queue)

    assert namespace.find_codes() == []
    assert namespace.find_codes() == [("bad-attribute", "q", 1)]


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        (ResponseError("WRONGTYPE wrong"), False),
        (OutOfMemoryError("full"), False),
        (ReadOnlyError("a replica"), True),
        (RedisTimeoutError("too late"), True),
    ],
)
def test_error_of_one_repair_stops_the_others_only_if_it_concerns_all(
    namespace, raw, rsmq, monkeypatch, error, is_final
):
    ghosts = [f"{number:032d}" for number in range(250)]
    raw.zadd(namespace.zset(), dict.fromkeys(ghosts, 5))
    raw.hset(namespace.hash(), mapping={"gone:rc": 1})
    findings = namespace.examine()
    run = type(rsmq).run
    steps = []

    def fail_in_third_step(self, operation):
        if operation.script.name == "remove_ghost_ids":
            steps.append(operation)
            if len(steps) == 3:
                raise error
        return run(self, operation)

    monkeypatch.setattr(type(rsmq), "run", fail_in_third_step)
    ghost, counter = repair(rsmq, findings)

    assert (ghost.finding.code, ghost.number, ghost.error) == ("ghost", 200, error)
    assert raw.zcard(namespace.zset()) == 50
    assert (counter.number, counter.error) == ((0, error) if is_final else (1, None))
    assert raw.hexists(namespace.hash(), "gone:rc") is is_final
