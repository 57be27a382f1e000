"""Each step of a repair checks again, and keeps what has changed since the examination."""

from __future__ import annotations

import pytest

from rsmq.operations.doctor import (
    NOW_MS,
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


def test_fault_that_the_second_check_does_not_find_is_not_reported(namespace, raw, monkeypatch):
    """For example, a queue that Node creates, and lists a moment later."""
    raw.srem(namespace.index, "q")

    def change_queue(_):
        raw.sadd(namespace.index, "q")
        raw.hset(namespace.hash(), "vt", "0.5")

    monkeypatch.setattr("rsmq.doctor.examination.time.sleep", change_queue)

    assert namespace.find_codes() == []
    assert namespace.find_codes() == [("bad-attribute", "q", 1)]
