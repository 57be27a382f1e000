"""Each step of a repair looks again: what has changed since it was seen stays as it is."""

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
def unchanged(patient, rsmq):
    """An operation that does nothing now, and answers so."""

    def check(operation):
        before = patient.state()
        answer = rsmq.run(operation)
        return answer == 0 and patient.state() == before

    return check


@pytest.fixture
def message(patient, raw):
    """A message as it should be."""
    raw.hset(patient.hash(), mapping={ID: "m", ID + b":rc": 1, ID + b":fr": SCORE})
    raw.zadd(patient.zset(), {ID: SCORE})


@pytest.mark.usefixtures("message")
def test_a_message_is_no_ghost_and_nothing_of_it_is_left_over(keys, unchanged):
    assert unchanged(remove_ghost_ids(keys, [(ID, True)]))
    assert unchanged(remove_orphan_fields(keys, [ID], bodies=False))
    assert unchanged(remove_orphan_fields(keys, [ID], bodies=True))
    assert unchanged(restore_orphan_bodies(keys, [(ID, 5)]))


@pytest.mark.usefixtures("message")
def test_a_body_stays_where_counters_are_removed(keys, patient, raw, unchanged):
    raw.zrem(patient.zset(), ID)

    assert unchanged(remove_orphan_fields(keys, [ID], bodies=False))


def test_what_has_no_body_is_neither_restored_nor_given_another_id(keys, patient, raw, unchanged):
    assert unchanged(restore_orphan_bodies(keys, [(ID, 5)]))
    raw.zadd(patient.zset(), {ID: SCORE})
    assert unchanged(replace_ids(keys, [(ID, SCORE * 1000)]))


@pytest.mark.usefixtures("message")
def test_a_score_that_is_another_one_now_stays(keys, unchanged):
    assert unchanged(repair_scores(keys, [(ID, b"1795264742", b"5")]))
    assert unchanged(repair_scores(keys, [(ID[:-1] + b"z", b"5", None)]))


def test_a_message_that_is_gone_gets_no_counters(keys, unchanged):
    assert unchanged(repair_fields(keys, [(ID + b":fr", None, NOW_MS)]))
    assert unchanged(repair_fields(keys, [(ID + b":rc", None, b"1")]))


@pytest.mark.usefixtures("message")
def test_a_count_that_went_on_stays(keys, unchanged):
    assert unchanged(repair_fields(keys, [(ID + b":rc", b"7", b"1")]))
    assert unchanged(repair_fields(keys, [(ID + b":fr", None, NOW_MS)]))


def test_a_name_stays_listed_while_anything_of_the_queue_is_there(patient, raw, rsmq, unchanged):
    raw.delete(patient.hash())
    raw.zadd(patient.zset(), {ID: SCORE})
    assert unchanged(repair_listing(rsmq.namespace, "q", create=False))
    raw.delete(patient.zset())
    raw.hset(patient.hash(), "totalsent", 1)
    assert unchanged(repair_listing(rsmq.namespace, "q", create=False))


def test_a_queue_that_was_deleted_is_not_made_again(patient, raw, rsmq):
    rsmq.delete_queue("q")

    assert rsmq.run(repair_listing(rsmq.namespace, "q", create=True)) == 0
    assert patient.state() == {}


@pytest.mark.parametrize("there", ["hash", "zset"])
def test_extension_data_stay_while_anything_of_the_queue_is_there(
    keys, patient, raw, unchanged, there
):
    raw.hset(keys.reasons, "a", "b")
    if there == "zset":
        raw.delete(patient.hash())
        raw.zadd(patient.zset(), {ID: SCORE})

    assert unchanged(remove_extensions(keys, [keys.reasons]))


def test_restoring_into_a_queue_that_was_deleted_makes_none(keys, patient, raw, rsmq):
    from rsmq import QueueNotFound

    raw.hdel(patient.hash(), "vt")
    raw.hset(patient.hash(), ID, "m")
    with pytest.raises(QueueNotFound):
        rsmq.run(restore_orphan_bodies(keys, [(ID, None)]))

    assert not raw.exists(patient.zset())


def test_an_id_that_ends_like_a_counter_is_an_id(patient, raw):
    for id in (ID + b":rc", ID + b":meta"):
        raw.hset(patient.hash(), id, "m")
        raw.zadd(patient.zset(), {id: SCORE})

    assert patient.codes() == [("undeletable-id", "q", 2)]


def test_what_is_found_once_only_is_not_told(patient, raw, monkeypatch):
    """As a queue that Node is about to list."""
    raw.srem(patient.index, "q")

    def meanwhile(_):
        raw.sadd(patient.index, "q")
        raw.hset(patient.hash(), "vt", "0.5")

    monkeypatch.setattr("rsmq.doctor.examination.time.sleep", meanwhile)

    assert patient.codes() == []
    assert patient.codes() == [("bad-attribute", "q", 1)]
