"""The retention of queues and the expiry of messages, on raw keys."""

from __future__ import annotations

import pytest

from rsmq import InvalidFormat, InvalidValue, NoAttributeSupplied, QueueNotFound
from rsmq.operations.restore import RestoredMessage, restore_messages
from rsmq.wire.ids import make_id_suffix
from rsmq.wire.keys import Namespace

DAY_MS = 86_400_000


def id_of(sent_ms):
    number, digits = int(sent_ms) * 1000, ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits + make_id_suffix()[:-1].decode() + "A"


def add(env, queue, age_ms, id=None, *, score=None, receives=0):
    """Add a message that was sent so long ago, as another client would have stored it."""
    sent_ms = env.now_ms() - age_ms
    id = id or id_of(sent_ms)
    env.raw.hset(env.hash(queue), id, "m")
    if receives:
        env.raw.hset(env.hash(queue), mapping={f"{id}:rc": receives, f"{id}:fr": int(sent_ms)})
    env.raw.zadd(env.zset(queue), {id: sent_ms if score is None else score})
    return id


def receive(env, queue):
    return env.rsmq.receive_message(queue)


def receive_many(env, queue):
    return next(iter(env.rsmq.receive_messages(queue, 1)), None)


def pop(env, queue):
    return env.rsmq.pop_message(queue)


def pop_many(env, queue):
    return next(iter(env.rsmq.pop_messages(queue, 1)), None)


RECEIVES = [receive, receive_many, pop, pop_many]


def test_the_retention_is_a_field_among_the_attributes(env):
    assert env.rsmq.create_queue("q", keep=60) is True
    assert env.fields("q")["x:keep"] == "60"
    assert env.rsmq.get_queue_attributes("q").keep == 60
    assert env.rsmq.set_queue_attributes("q", keep=90).keep == 90
    assert env.rsmq.set_queue_attributes("q", vt=5).keep == 90
    assert env.rsmq.set_queue_attributes("q", keep=0).keep is None
    assert "x:keep" not in env.fields("q")


def test_a_queue_without_retention_has_no_further_field(env):
    env.rsmq.create_queue("q")
    assert not [name for name in env.fields("q") if name.startswith("x:")]
    assert env.rsmq.get_queue_attributes("q").keep is None
    assert env.rsmq.get_queue_attributes("q").expired == "drop"


def test_an_existing_queue_keeps_its_retention(env):
    env.rsmq.create_queue("q", keep=60)
    assert env.rsmq.create_queue("q", keep=90, exist_ok=True) is False
    assert env.rsmq.get_queue_attributes("q").keep == 60


@pytest.mark.parametrize("take", RECEIVES)
def test_an_expired_message_is_removed_and_the_next_one_delivered(env, queue, take):
    env.rsmq.set_queue_attributes(queue, keep=86_400)
    old = [add(env, queue, DAY_MS + 1000, receives=1) for _ in range(3)]
    new = add(env, queue, DAY_MS / 2)
    before = env.fields(queue)

    assert take(env, queue).id == new
    fields = env.fields(queue)
    assert not [name for name in fields for id in old if name.startswith(id)]
    assert not set(old) & set(env.scores(queue))
    assert fields["totalrecv"] == "1"
    assert fields.get("totalsent") == before.get("totalsent")


@pytest.mark.parametrize("take", RECEIVES)
def test_an_expired_message_goes_to_the_dead_letter_queue_on_demand(env, queue, take):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 5)
    assert env.rsmq.set_queue_attributes(queue, keep=60, expired="dead-letter").expired == (
        "dead-letter"
    )
    old = add(env, queue, 61_000, receives=2)

    assert take(env, queue) is None
    assert env.scores(queue) == {}
    assert list(env.scores("dead")) == [old]
    assert env.fields("dead")[f"{old}:rc"] == "2"
    assert env.fields("dead")["totalsent"] == "1"


def test_expired_messages_stay_while_their_dead_letter_queue_is_missing(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 5)
    env.rsmq.set_queue_attributes(queue, keep=60, expired="dead-letter")
    env.rsmq.delete_queue("dead")
    old = add(env, queue, 61_000)

    assert env.rsmq.sweep_expired(queue) == []
    assert receive(env, queue).id == old


def test_a_dead_letter_is_moved_also_if_it_is_expired(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 2)
    env.rsmq.set_queue_attributes(queue, keep=60)
    old = add(env, queue, 61_000, receives=2)

    assert receive(env, queue) is None
    assert list(env.scores("dead")) == [old]


@pytest.mark.parametrize(
    "id", ["0" * 31 + "A", "a" * 32, "0123456789abcdef" * 2, "foreign-id-1234567890"]
)
def test_ids_without_a_time_do_not_expire(env, queue, id):
    env.rsmq.set_queue_attributes(queue, keep=1)
    add(env, queue, DAY_MS, id)

    assert env.rsmq.sweep_expired(queue) == []
    assert receive(env, queue).id == id


def test_a_message_in_flight_stays_until_it_is_received_again(env, queue):
    env.rsmq.set_queue_attributes(queue, keep=60)
    held = add(env, queue, 61_000, score=env.now_ms() + 20_000, receives=1)

    assert env.rsmq.sweep_expired(queue) == []
    assert receive(env, queue) is None
    assert list(env.scores(queue)) == [held]
    assert env.rsmq.recover_messages(queue, 5, idle=0) == []
    assert env.scores(queue) == {}


def test_a_receive_removes_at_most_a_thousand(env, queue):
    env.rsmq.set_queue_attributes(queue, keep=60)
    for _ in range(1001):
        add(env, queue, 61_000)

    assert receive(env, queue) is None
    assert len(env.scores(queue)) == 1
    assert receive(env, queue) is None
    assert env.scores(queue) == {}


def test_a_sweep_removes_the_visible_ones_up_to_its_number(env, queue):
    env.rsmq.set_queue_attributes(queue, keep=60)
    new = add(env, queue, 0, score=1)
    old = [add(env, queue, 70_000 - each) for each in range(1100)]

    assert env.rsmq.sweep_expired(queue, 5) == old[:5]
    assert len(env.rsmq.sweep_expired(queue, 10_000)) == 1095
    assert list(env.scores(queue)) == [new]
    assert env.rsmq.sweep_expired(queue) == []


def test_a_purge_keeps_the_retention(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 5)
    env.rsmq.set_queue_attributes(queue, keep=60, expired="dead-letter")
    env.rsmq.purge_queue(queue)
    attributes = env.rsmq.get_queue_attributes(queue)
    assert (attributes.keep, attributes.expired) == (60, "dead-letter")


def test_bad_values_are_refused_and_change_nothing(env, queue):
    before = env.state()
    with pytest.raises(InvalidValue, match="keep"):
        env.rsmq.set_queue_attributes(queue, keep=-1)
    with pytest.raises(InvalidValue, match="keep"):
        env.rsmq.create_queue("new", keep=0.5)
    with pytest.raises(InvalidFormat, match="expired"):
        env.rsmq.set_queue_attributes(queue, expired="keep")
    with pytest.raises(InvalidFormat, match="expired"):
        env.rsmq.set_queue_attributes(queue, expired="dead-letter")
    with pytest.raises(InvalidValue, match="max_messages"):
        env.rsmq.sweep_expired(queue, 0)
    with pytest.raises(NoAttributeSupplied):
        env.rsmq.set_queue_attributes(queue)
    with pytest.raises(QueueNotFound):
        env.rsmq.sweep_expired("missing")
    assert env.state() == before


def limits_of(env, queue):
    found = env.raw.hgetall(f"{env.ns}:{queue}:x:limits")
    return {id.decode(): record.decode() for id, record in found.items()}


def expire(env, queue, id):
    """Store that the message expired one ms ago."""
    env.raw.hset(f"{env.ns}:{queue}:x:limits", id, f":{env.now_ms() - 1:.0f}")


def test_a_send_stores_when_its_message_expires(env, queue):
    id = env.rsmq.send_message(queue, "m", expires=1.5)
    assert limits_of(env, queue) == {id: f":{int(id[:10], 36) // 1000 + 1500}"}
    assert env.fields(queue)["x:limited"] == "1"
    ids = env.rsmq.send_messages(queue, ["a", "b"], expires=60)
    assert limits_of(env, queue).keys() == {id, *ids}


@pytest.mark.parametrize("take", RECEIVES)
def test_a_message_past_its_own_expiry_is_removed(env, queue, take):
    old = env.rsmq.send_message(queue, "old", expires=60)
    new = env.rsmq.send_message(queue, "new", expires=60)
    plain = env.rsmq.send_message(queue, "plain")
    expire(env, queue, old)

    assert take(env, queue).id == new
    assert take(env, queue).id == plain
    assert old not in env.fields(queue)
    assert old not in env.scores(queue)


@pytest.mark.parametrize("take", RECEIVES)
def test_a_message_past_its_own_expiry_is_dead_lettered_on_demand(env, queue, take):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 5)
    env.rsmq.set_queue_attributes(queue, expired="dead-letter")
    old = env.rsmq.send_message(queue, "old", expires=60)
    expire(env, queue, old)

    assert take(env, queue) is None
    assert list(env.scores("dead")) == [old]
    assert take(env, "dead").id == old


def test_the_earlier_of_retention_and_expiry_counts(env, queue):
    env.rsmq.set_queue_attributes(queue, keep=60)
    env.rsmq.send_message(queue, "m", expires=3600)
    old = add(env, queue, 61_000)
    env.raw.hset(f"{env.ns}:{queue}:x:limits", old, f":{env.now_ms() + 60_000:.0f}")

    assert env.rsmq.sweep_expired(queue) == [old]
    assert env.rsmq.sweep_expired(queue) == []


def test_a_record_without_its_message_is_removed_by_later_sends(env, queue):
    id = env.rsmq.send_message(queue, "m", expires=60)
    env.raw.zrem(env.zset(queue), id)
    env.raw.hdel(env.hash(queue), id)
    other = env.rsmq.send_message(queue, "m", expires=60)
    assert limits_of(env, queue).keys() == {other}


def test_a_replaced_message_gets_the_new_expiry(env, queue):
    id = env.rsmq.send_message(queue, "1", unique_key="k", expires=60)
    before = limits_of(env, queue)[id]
    assert env.rsmq.send_message(queue, "2", unique_key="k", replace=True, expires=90) == id
    assert int(limits_of(env, queue)[id][1:]) >= int(before[1:]) + 30_000
    assert env.rsmq.send_message(queue, "3", unique_key="k", expires=900) == id
    assert int(limits_of(env, queue)[id][1:]) < int(before[1:]) + 100_000


def test_a_message_that_is_replaced_without_an_expiry_has_none_any_more(env, queue):
    other = env.rsmq.send_message(queue, "other", expires=60)
    id = env.rsmq.send_message(queue, "1", unique_key="k", expires=60)
    assert env.rsmq.send_message(queue, "2", unique_key="k", replace=True) == id
    assert limits_of(env, queue).keys() == {other}


def restore(env, queue, id):
    """Delete the message as another client does, and restore it as an import does."""
    score, body = env.raw.zscore(env.zset(queue), id), env.raw.hget(env.hash(queue), id)
    env.raw.zrem(env.zset(queue), id)
    env.raw.hdel(env.hash(queue), id)
    row = RestoredMessage(id, body, int(score), 0, None)
    keys = Namespace(env.ns).queue(queue)
    assert env.rsmq.run(restore_messages(keys, [row], largest=1, realtime=False)) == 1


def test_a_message_that_is_moved_back_has_no_limits_any_more(env, queue):
    env.rsmq.create_queue("other")
    id = env.rsmq.send_message(queue, "m", expires=60)
    expire(env, queue, id)
    env.rsmq.move_messages(queue, "other", [id])
    env.rsmq.move_messages("other", queue, [id])
    assert limits_of(env, queue) == {}
    assert receive(env, queue).id == id


def test_a_dead_letter_that_is_moved_back_has_no_limits_any_more(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 5)
    env.rsmq.set_queue_attributes(queue, expired="dead-letter")
    id = env.rsmq.send_message(queue, "m", expires=60)
    expire(env, queue, id)
    assert receive(env, queue) is None
    env.rsmq.move_messages("dead", queue, [id])
    assert receive(env, queue).id == id


def test_a_dead_letter_queue_with_limits_forgets_those_of_an_id_that_arrives(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 1)
    id = add(env, queue, 0, receives=1)
    env.raw.hset(env.hash("dead"), "x:limited", "1")
    expire(env, "dead", id)
    assert env.rsmq.sweep_dead_letters(queue) == [id]
    assert limits_of(env, "dead") == {}
    assert receive(env, "dead").id == id


def test_a_restored_message_has_no_limits_any_more(env, queue):
    id = env.rsmq.send_message(queue, "m", expires=60)
    expire(env, queue, id)
    restore(env, queue, id)
    assert limits_of(env, queue) == {}
    assert receive(env, queue).id == id


def test_a_purge_removes_the_limits(env, queue):
    env.rsmq.send_message(queue, "m", expires=60)
    env.rsmq.purge_queue(queue)
    assert limits_of(env, queue) == {}
    assert "x:limited" not in env.fields(queue)


def test_an_expiry_that_is_not_after_the_delay_is_refused(env, queue):
    env.rsmq.create_queue("delayed", delay=60)
    before = env.state()
    for options in ({"expires": 0}, {"expires": 5, "delay": 5}, {"expires": -1}):
        with pytest.raises(InvalidValue, match="expires"):
            env.rsmq.send_message(queue, "m", **options)
    with pytest.raises(InvalidValue, match="expires"):
        env.rsmq.send_messages("delayed", ["m"], expires=60)
    assert env.state() == before


def test_a_send_stores_how_often_its_message_may_be_tried_again(env, queue):
    few = env.rsmq.send_message(queue, "m", max_retries=0)
    assert limits_of(env, queue) == {few: "0:"}
    assert env.fields(queue)["x:limited"] == "1"
    both = env.rsmq.send_message(queue, "m", max_retries=3, expires=1.5)
    ids = env.rsmq.send_messages(queue, ["a", "b"], max_retries=1_000_000)
    assert limits_of(env, queue) == {
        few: "0:",
        both: f"3:{int(both[:10], 36) // 1000 + 1500}",
        **dict.fromkeys(ids, "1000000:"),
    }


def test_a_replaced_message_has_the_retries_of_its_newest_send(env, queue):
    id = env.rsmq.send_message(queue, "1", unique_key="k", max_retries=2, expires=60)
    assert env.rsmq.send_message(queue, "2", unique_key="k", max_retries=3) == id
    assert limits_of(env, queue)[id].startswith("2:")
    env.rsmq.send_message(queue, "3", unique_key="k", max_retries=3, replace=True)
    assert limits_of(env, queue) == {id: "3:"}


@pytest.mark.refused
@pytest.mark.parametrize("number", [-1, 1_000_001, 0.5, "2", True])
def test_a_bad_number_of_retries_is_refused(env, queue, number):
    before = env.state()
    with pytest.raises(InvalidValue, match="max_retries"):
        env.rsmq.send_message(queue, "m", max_retries=number)
    with pytest.raises(InvalidValue, match="max_retries"):
        env.rsmq.send_messages(queue, ["m"], max_retries=number)
    assert env.state() == before


@pytest.mark.parametrize("receive", RECEIVES[:2])
def test_a_consumer_moves_a_message_after_its_own_number_of_attempts(env, queue, receive):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 3)
    for number, attempts in ((0, 1), (1, 2), (None, 3), (4, 5)):
        id = env.rsmq.send_message(queue, "m", max_retries=number)
        for _ in range(attempts):
            message = receive(env, queue)
            assert message.id == id
            env.rsmq.change_message_visibility(message, 0)
        assert receive(env, queue) is None
        assert id in env.scores("dead")
        assert env.scores(queue) == {}


def test_a_number_of_retries_counts_instead_of_the_limit_of_the_policy(env, queue):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy(queue, "dead", 2)
    few, many, usual = (add(env, queue, 9000 - at, receives=2) for at in range(3))
    env.raw.hset(env.hash(queue), "x:limited", "1")
    env.raw.hset(f"{env.ns}:{queue}:x:limits", mapping={few: "0:", many: "5:"})

    assert sorted(env.rsmq.sweep_dead_letters(queue)) == sorted([few, usual])
    assert receive(env, queue).id == many
