"""``rsmq why`` knows the streams that have messages in flight."""

from __future__ import annotations

from rsmq.explain import Cause, explain_message
from rsmq.explain.reader import observe_message


def explain(env, id):
    return explain_message(observe_message(env.rsmq, "q", id)).causes[0]


def test_the_stream_of_a_message_is_named_with_its_batch(env, queue):
    first, again = env.rsmq.send_messages("q", ["first", "again"])
    env.rsmq.change_message_visibility("q", first, 100)
    env.rsmq.receive_message("q", vt=0)
    env.rsmq.change_message_visibility("q", first, 0)
    query = env.query(consumerGroup="nightly", visibilityTimeout=1000)
    query.poll()

    for id, receives in ((first, 1), (again, 2)):
        assert observe_message(env.rsmq, "q", id).stream == ("nightly", 1)
        cause = explain(env, id)
        assert cause.cause is Cause.IN_FLIGHT
        begin = (
            f"A stream of Spark has it in batch 1 of its lease nightly, receive {receives}; it is"
        )
        assert cause.text.startswith(begin)


def test_a_message_that_another_consumer_has_received_since_is_not_of_the_stream(env, queue):
    (id,) = env.rsmq.send_messages("q", ["m"])
    query = env.query()
    query.poll()
    assert observe_message(env.rsmq, "q", id).stream == (query.reader.lease.name, 1)

    env.raw.zadd(env.keys().zset, {id: 1})
    assert observe_message(env.rsmq, "q", id).stream is None  # it is visible
    env.rsmq.receive_message("q", vt=100)

    assert observe_message(env.rsmq, "q", id).stream is None
    assert "Node or PHP" in explain(env, id).text


def test_a_released_receive_does_not_hide_the_stream(env, queue):
    env.rsmq.create_queue("dead")
    (id,) = env.rsmq.send_messages("q", ["m"])
    env.raw.hset(env.keys().unbegun, mapping={id: "1", "": env.fields()["created"], ":": "0"})
    query = env.query(maxReceiveCount=5, deadLetterQueue="dead")
    query.poll()
    assert explain(env, id).cause is Cause.IN_FLIGHT
