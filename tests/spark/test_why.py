"""``rsmq why`` knows the streams that have messages in flight."""

from __future__ import annotations

import json

import pytest

from rsmq.explain import Cause, explain_message, explain_queue
from rsmq.explain.reader import observe_message, observe_queue
from rsmq.wire.streams import StreamInfo


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
        begin = f"The stream of Spark nightly has it in its batch 1, receive {receives}; it is"
        assert cause.text.startswith(begin)


def test_a_message_that_another_consumer_has_received_since_is_not_of_the_stream(env, queue):
    (id,) = env.rsmq.send_messages("q", ["m"])
    query = env.query()
    query.poll()
    assert observe_message(env.rsmq, "q", id).stream == (query.reader.consumer.name, 1)

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


def test_an_idle_stream_is_a_consumer_of_its_queues(env, queue):
    key = f"{env.ns}:x:streams"
    query = env.query(consumerGroup="nightly")
    query.run()  # there are no messages

    ((name, entry),) = env.raw.hgetall(key).items()
    seen_ms, *stored = json.loads(entry)
    assert (name, stored) == (b"nightly:q", ["nightly", {"q": 0}])
    assert 100_000 < env.raw.pttl(key) <= 150_000
    facts = observe_queue(env.rsmq, "q")
    assert facts.streams == (StreamInfo("nightly", seen_ms, {"q": 0}),)
    assert "The stream of Spark nightly reads it" in explain_queue(facts).sentence
    env.rsmq.send_message("q", "m")
    env.rsmq.pause_queue("q")  # its cause would be that there is no worker, too
    causes = [each.cause for each in explain_queue(observe_queue(env.rsmq, "q")).causes]
    assert causes == [Cause.PAUSED, Cause.WAITING]

    query.run()
    query.reader.consumer.entry.write()
    assert json.loads(env.raw.hget(key, name))[2] == {"q": 1}
    query.reader.consumer.entry.write()
    assert json.loads(env.raw.hget(key, name))[2] == {"q": 0}
    query.reader.stop()
    assert env.raw.exists(key) == 0
    assert observe_queue(env.rsmq, "q").streams == ()


def test_entries_of_streams_that_were_killed_are_deleted_and_their_number_is_bounded(env, queue):
    key, now_ms = f"{env.ns}:x:streams", 1000 * int(env.raw.time()[0])
    env.raw.hset(key, "killed", json.dumps([now_ms - 151_000, "killed", {"q": 3}]))
    env.raw.hset(key, "of a newer form", "{}")
    assert observe_queue(env.rsmq, "q").streams == ()
    query = env.query(consumerGroup="nightly")
    query.run()
    assert list(env.raw.hgetall(key)) == [b"nightly:q"]

    env.raw.delete(key)
    others = {f"s{n}": json.dumps([now_ms, f"s{n}", {"q": 0}]) for n in range(100)}
    env.raw.hset(key, mapping=others)
    query.reader.consumer.entry.write()
    assert sorted(env.raw.hkeys(key)) == sorted(map(str.encode, others))
    assert len(observe_queue(env.rsmq, "q").streams) == 100


def test_a_stream_runs_if_its_entry_cant_be_written(env, queue, caplog):
    env.raw.set(f"{env.ns}:x:streams", "of another type")
    (id,) = env.rsmq.send_messages("q", ["m"])
    query = env.query()
    with caplog.at_level("INFO"):
        assert [row["id"] for row in query.run()] == [id]
    assert "The entry of the stream was not written" in caplog.text
    assert observe_queue(env.rsmq, "q").streams == ()
    query.reader.stop()


@pytest.mark.parametrize("group", [None, "nightly"])
def test_the_history_has_the_done_messages_of_a_stream_as_those_of_a_task(env, queue, group):
    options = {"consumerGroup": group} if group else {}
    calls, task = env.keys().calls, f"Spark stream {group}" if group else "Spark stream"
    env.rsmq.send_messages("q", ["a", "b", "c"])
    query = env.query(maxMessagesPerTrigger=2, **options)
    query.run_until_empty()
    assert not env.raw.exists(calls)  # once a minute is enough

    query.reader.consumer.entry.write()
    assert env.raw.hkeys(calls) == [task.encode()]
    stored = env.raw.hget(calls, task)
    query.reader.consumer.entry.write()
    assert env.raw.hget(calls, task) == stored
    env.rsmq.send_message("q", "d")
    query.run_until_empty()
    query.reader.stop()

    (figures,) = env.rsmq.task_figures(["q"])
    assert (figures.task, figures.calls, figures.failed, figures.running) == (task, 4, 0, 0)
    assert sum(figures.calls_by_step) == 4
    assert figures.duration is not None
    assert env.raw.hkeys(calls) == [task.encode()]


def test_a_message_that_another_consumer_received_is_not_in_the_history_of_the_stream(env, queue):
    ids = env.rsmq.send_messages("q", ["a", "b"])
    query = env.query()
    query.run()
    env.rsmq.change_message_visibility("q", ids[0], 0)
    env.rsmq.receive_message("q", vt=100)
    query.run_until_empty()
    query.reader.stop()

    (figures,) = env.rsmq.task_figures(["q"])
    assert figures.calls == 1


def test_a_stream_runs_if_its_figures_cant_be_recorded(env, queue, caplog):
    env.raw.set(env.keys().calls, "of another type")
    env.rsmq.send_message("q", "m")
    query = env.query()
    query.run_until_empty()
    with caplog.at_level("INFO"):
        query.reader.stop()
    assert "q: the figures of the stream were not recorded" in caplog.text
    assert env.raw.get(env.keys().calls) == b"of another type"
    assert env.scores() == {}
