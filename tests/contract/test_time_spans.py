"""Arguments in seconds may be a timedelta. Checked on raw keys."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rsmq import InvalidValue
from rsmq.transport.retry import check_deadline
from tests.expect import refused

MINUTE = timedelta(minutes=1)


@pytest.fixture
def backend():
    return "redis"


def test_the_attributes_of_a_queue(env):
    env.rsmq.create_queue("q", vt=MINUTE, delay=timedelta(hours=1))
    fields = env.fields("q")
    assert (fields["vt"], fields["delay"]) == ("60", "3600")

    env.rsmq.set_queue_attributes("q", vt=timedelta(0), delay=timedelta(days=1))
    fields = env.fields("q")
    assert (fields["vt"], fields["delay"]) == ("0", "86400")


def test_the_delay_of_a_message(env, queue):
    delay = timedelta(milliseconds=1500)
    ids = [
        env.rsmq.send_message(queue, "m", delay=delay),
        env.rsmq.send_messages(queue, ["m"], delay=delay)[0],
        env.rsmq.publish([queue], "m", delay=delay)[queue],
    ]

    assert [env.scores(queue)[id] - int(id[:10], 36) // 1000 for id in ids] == [1500] * 3


def test_a_deduplication_window(env, queue):
    env.rsmq.send_message(queue, "m", dedup_id="d", dedup_window=timedelta(hours=1))

    assert 3_590_000 < env.raw.pttl(f"{env.zset(queue)}:x:dedup") <= 3_600_000


@pytest.mark.parametrize(
    "receive",
    [
        lambda client: client.receive_message("q", vt=MINUTE),
        lambda client: client.receive_messages("q", 1, vt=MINUTE)[0],
        lambda client: client.recover_messages("q", 1, idle=timedelta(0), vt=MINUTE)[0],
    ],
)
def test_the_visibility_timeout_of_a_receive(env, queue, receive):
    id = env.rsmq.send_message(queue, "m")
    if receive.__code__.co_names[0] == "recover_messages":
        env.rsmq.receive_message(queue, vt=30)
    before = env.now_ms()
    receive(env.rsmq)

    assert before + 60_000 <= env.scores(queue)[id] <= env.now_ms() + 60_000


def test_the_visibility_timeout_of_a_change(env, queue):
    changes = [
        lambda message: env.rsmq.change_message_visibility(message, MINUTE),
        lambda message: env.rsmq.change_message_visibility(message, vt=MINUTE),
        lambda message: env.rsmq.change_message_visibility(queue, message.id, MINUTE),
        lambda message: env.rsmq.change_messages_visibility([message], MINUTE),
        lambda message: env.rsmq.change_messages_visibility(queue, [message.id], vt=MINUTE),
    ]
    for change in changes:
        id = env.rsmq.send_message(queue, "m")
        message = env.rsmq.receive_message(queue)
        before = env.now_ms()
        assert change(message)
        assert before + 60_000 <= env.scores(queue)[id] <= env.now_ms() + 60_000


def test_the_wait_of_a_receive(env, queue):
    wait = timedelta(milliseconds=20)
    assert env.rsmq.receive_message(queue, wait=wait) is None
    assert env.rsmq.receive_messages([queue], 1, wait=wait) == []
    assert env.rsmq.pop_message(queue, wait=wait) is None
    assert env.rsmq.pop_messages(queue, 1, wait=wait) == []


def test_the_deadline_of_retries(env):
    assert check_deadline(MINUTE) == 60.0
    assert env.client(retry_deadline=MINUTE).list_queues() == []


def test_a_timedelta_out_of_range_is_refused(env, queue):
    client, state = env.rsmq, env.state()
    long, negative = timedelta(days=116), timedelta(microseconds=-1000)
    for call in (
        lambda span: client.create_queue("r", vt=span),
        lambda span: client.set_queue_attributes(queue, delay=span),
        lambda span: client.send_message(queue, "m", delay=span),
        lambda span: client.receive_message(queue, vt=span),
        lambda span: client.receive_message(queue, wait=span),
        lambda span: client.recover_messages(queue, 1, idle=span),
    ):
        for span in (long, negative):
            with pytest.raises(InvalidValue, match="between 0 and 9999999"):
                call(span)
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        client.create_queue("r", vt=timedelta(milliseconds=1500))
    with refused(InvalidValue, "dedup_window must be between 1 and 9999999"):
        client.send_message(queue, "m", dedup_id="d", dedup_window=timedelta(milliseconds=10))
    with refused(InvalidValue, "max_messages must be between 1 and 10000"):
        client.receive_messages(queue, MINUTE)
    assert env.state() == state
