"""rfq's API on our queues: its results, and the keys that it writes."""

from __future__ import annotations

import inspect
import json
import logging
import os
import subprocess
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import redis

from rsmq import RSMQ, InvalidFormat, InvalidValue, MessageNotString
from rsmq.compat.rfq import Queue, Task
from tests.migrate.rfq import PYTHON
from tests.nodes import wait_until
from tests.scale import WAIT_SECONDS


@pytest.fixture
def queue(server, ns):
    with redis.Redis(port=server.port, decode_responses=True) as client:
        yield Queue(client, ns=ns)


def read_signatures(kind):
    """The parameters of the methods of a class, without those that rfq does not have."""
    return {
        name: [
            each.name
            for each in inspect.signature(member).parameters.values()
            if each.kind is each.POSITIONAL_OR_KEYWORD
        ]
        for name, member in vars(kind).items()
        if callable(member) and (name == "__init__" or not name.startswith("_"))
    }


def stored(raw, ns, topic):
    """The bodies of a queue by their ids."""
    ids = raw.zrange(f"{ns}:{topic}", 0, -1)
    return {id.decode(): raw.hget(f"{ns}:{topic}:Q", id) for id in ids}


def test_a_message_is_published_consumed_and_done(queue, raw, ns):
    id = queue.publish("ndvi", {"tile": "7", "größe": "ä"})
    assert stored(raw, ns, "ndvi") == {id: '{"tile":"7","größe":"ä"}'.encode()}
    assert raw.hget(f"{ns}:ndvi:Q", "maxsize") == b"-1"

    task = queue.consume("ndvi")
    assert (task.topic, task.msgid) == ("ndvi", id)
    assert task.result() == {"tile": "7", "größe": "ä"}
    left = raw.zscore(f"{ns}:ndvi", id) / 1000 - raw.time()[0]
    assert 86_000 < left < 87_000
    assert task.done() == id
    assert raw.zcard(f"{ns}:ndvi") == 0
    assert raw.hexists(f"{ns}:ndvi:Q", id) is False


def test_published_is_the_time_of_the_server_in_utc_without_a_zone(queue, raw):
    before = datetime(1970, 1, 1) + timedelta(seconds=raw.time()[0])  # noqa: DTZ001 - as in rfq
    queue.publish("t", {"a": "b"})
    published = queue.consume("t").published()

    assert published.tzinfo is None
    assert before <= published <= before + timedelta(hours=1)
    with pytest.raises(InvalidFormat, match="It contains no time"):
        Task("t", "0" * 32, {}, queue.r).published()


def test_front_precedes_and_a_batch_keeps_its_order(queue):
    last = queue.publish("t", {"n": "4"})
    front = queue.publish_batch("t", [{"n": "2"}, {"n": "3"}], front=True)
    first = queue.publish("t", {"n": "1"}, front=True)

    assert queue.listq("t", "backlog") == [last, front[1], front[0], first]
    assert [queue.consume("t").result()["n"] for _ in range(4)] == ["1", "2", "3", "4"]
    # By the millisecond of their receives.
    assert set(queue.listq("t", "nextlog")) == {last, front[1], front[0], first}
    assert queue.publish_batch("t", []) == []


def test_harvest_releases_messages_to_their_old_places(queue, raw, ns):
    ids = queue.publish_batch("t", [{"n": str(n)} for n in range(4)])
    tasks = [queue.consume("t") for _ in range(3)]
    tasks[1].done()
    assert queue.info("t") == (1, 2)

    assert queue.harvest("t") == [ids[0], ids[2]]
    assert queue.info("t") == (3, 0)
    assert queue.listq("t", "backlog") == [ids[3], ids[2], ids[0]]
    assert tasks[0].done() == ids[0], "it was not received again"
    assert not raw.hexists(f"{ns}:t:Q", ids[0])


def test_a_task_that_another_consumer_has_received_is_not_deleted(queue, raw, ns, caplog):
    id = queue.publish("t", {"n": "1"})
    late = queue.consume("t")
    assert queue.harvest("t") == [id]
    again = queue.consume("t")

    with caplog.at_level(logging.WARNING, "rsmq.compat.rfq"):
        assert late.done() == id
    assert "was received by another consumer" in caplog.text
    assert raw.hexists(f"{ns}:t:Q", id)
    caplog.clear()
    assert again.done() == id
    assert not raw.hexists(f"{ns}:t:Q", id)
    assert late.done() == again.done() == id
    assert caplog.text == ""


def test_a_cancelled_task_stays_in_flight(queue):
    id = queue.publish("t", {"n": "1"})
    assert queue.consume("t").cancel() == id
    assert queue.listq("t", "nextlog") == [id]


def test_a_task_can_be_made_of_an_id(queue, raw, ns, server):
    id = queue.publish("t", {"n": "1"})
    queue.consume("t")
    task = Task("t", id, {}, queue.r, ns=ns)
    assert task.result() == {}
    assert repr(task) == f"<Task topic='t' id='{id}'>"
    assert task.done() == id
    assert not raw.hexists(f"{ns}:t:Q", id)


def test_a_message_that_is_not_done_returns_after_its_visibility_timeout(queue, ns):
    id = queue.publish("t", {"n": "1"})
    impatient = Queue(queue.r, ns=ns, vt=0)
    assert impatient.consume("t").msgid == id
    assert queue.consume("t").msgid == id
    with pytest.raises(InvalidValue, match="vt must be between 0 and 9999999, not -1"):
        Queue(queue.r, ns=ns, vt=-1).consume("new")
    assert "new" not in queue.topics()


def test_purge_removes_one_list(queue, raw, ns):
    ids = queue.publish_batch("t", [{"n": str(n)} for n in range(4)])
    queue.consume("t")
    assert queue.purge("t", "backlog") == ids[1:]
    assert list(stored(raw, ns, "t")) == [ids[0]]
    assert queue.purge("t", "nextlog") == [ids[0]]
    assert stored(raw, ns, "t") == {}


def test_peek_shows_a_message_that_is_there(queue):
    id = queue.publish("t", {"n": "1"})
    assert queue.peek("t", id) == {"n": "1"}
    assert queue.info("t") == (1, 0)
    assert queue.peek("t", "x" * 32) is None


def test_a_missing_topic_is_empty(queue):
    assert queue.topics() == []
    assert queue.info("t") == (0, 0)
    assert queue.listq("t", "backlog") == queue.listq("t", "nextlog") == []
    assert queue.purge("t", "backlog") == queue.purge("t", "nextlog") == []
    assert queue.harvest("t") == []
    assert queue.peek("t", "x" * 32) is None
    assert queue.topics() == []


def test_consume_waits_for_a_topic_that_does_not_exist(queue):
    tasks = []
    thread = threading.Thread(target=lambda: tasks.append(queue.consume("t")))
    thread.start()
    wait_until(lambda: queue.topics() == ["t"])
    queue.publish("t", {"n": "1"})
    thread.join(WAIT_SECONDS)

    assert tasks[0].result() == {"n": "1"}


@pytest.mark.parametrize("name", ["a.b", "tiles/2024 ä", "x" * 200])
def test_topics_may_have_names_that_node_refuses(queue, raw, ns, name):
    queue.publish(name, {"n": "1"})
    assert queue.topics() == [name]
    assert raw.zcard(f"{ns}:{name}") == 1
    assert queue.consume(name).result() == {"n": "1"}


def test_numbers_and_bytes_become_the_texts_that_rfq_stores(queue):
    queue.publish("t", {"a": 7, "b": 0.5, "c": "ä".encode(), 1: "d"})
    assert queue.consume("t").result() == {"a": "7", "b": "0.5", "c": "ä", "1": "d"}


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ({}, "The message is an empty dict"),
        ("text", "The message is a str"),
        ([{"a": "b"}], "The message is a list"),
        ({"a": None}, "A name or a value of the message is a NoneType"),
        ({"a": True}, "A name or a value of the message is a bool"),
        ({"a": {"b": "c"}}, "A name or a value of the message is a dict"),
        ({"a": b"\xff"}, "A name or a value of the message is not UTF-8"),
        ({"a": "\ud800"}, "A name or a value of the message is not UTF-8"),
    ],
)
def test_what_is_not_a_dict_of_texts_is_refused(queue, raw, ns, message, fault):
    with pytest.raises(MessageNotString) as caught:
        queue.publish_batch("t", [{"good": "1"}, message])
    assert str(caught.value).startswith(fault)
    assert "as in {'tile': '7'}" in str(caught.value)
    assert raw.keys(f"{ns}:*") == []


@pytest.mark.parametrize(
    ("raw_body", "texts"),
    [
        (b'{"a": "b", "n": 1, "l": ["\xc3\xa4"]}', {"a": "b", "n": "1", "l": '["ä"]'}),
        (b"hello", {"message": "hello"}),
        (b"{}", {"message": "{}"}),
        (b"[" * 5000, {"message": "[" * 5000}),
        (b"\xff", {"message": "\udcff"}),
    ],
    ids=["an object", "a text", "an empty object", "too deep", "bytes"],
)
def test_bodies_of_other_clients_become_texts(queue, rsmq, raw_body, texts):
    from rsmq import BYTES

    rsmq.create_queue("t")
    id = rsmq.send_message("t", raw_body, codec=BYTES)
    assert queue.peek("t", id) == texts
    assert queue.consume("t").result() == texts


@pytest.mark.parametrize("call", [Queue.listq, Queue.purge])
def test_a_list_is_the_backlog_or_the_nextlog(queue, call):
    with pytest.raises(InvalidFormat, match="Pass 'backlog' or 'nextlog'"):
        call(queue, "t", "done")


def test_the_environment_names_the_server(server, ns, monkeypatch):
    monkeypatch.setenv("RFQ_REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("RFQ_REDIS_PORT", str(server.port))
    queue = Queue(ns=ns)
    id = queue.publish("t", {"a": "b"})
    assert Task("t", id, {}, ns=ns).done() == id
    assert queue.info("t") == (0, 0)
    assert "Queue" in repr(queue)
    assert str(server.port) in repr(queue)
    queue.r.close()


def test_an_rsmq_can_be_handed_in(rsmq, raw, ns):
    queue = Queue(rsmq)
    queue.publish("t", {"a": "b"})
    assert raw.zcard(f"{ns}:t") == 1
    with pytest.raises(InvalidFormat, match=r"Invalid qname format: 'a\.b'"):
        queue.publish("a.b", {"a": "b"})
    with pytest.raises(InvalidFormat):
        Queue("redis://127.0.0.1")


def test_version_names_this_library_and_the_server(queue, raw):
    from rsmq import __version__

    assert queue.version() == (__version__, raw.info("server")["redis_version"])


def test_an_embedded_redis_works(ns):
    with RSMQ.from_url("memory://") as client:
        queue = Queue(client)
        id = queue.publish("t", {"a": "b"})
        assert queue.consume("t").msgid == id
        assert queue.harvest("t") == [id]
        assert queue.consume("t").done() == id
        assert queue.info("t") == (0, 0)


def test_methods_and_parameters_are_those_of_the_real_rfq(answering_rfq):
    theirs = answering_rfq.call("signatures")
    ours = {kind.__name__: read_signatures(kind) for kind in (Queue, Task)}

    assert ours == theirs


def test_answers_are_those_of_the_real_rfq(answering_rfq, queue, topic):
    """Ids are compared by their place in the list of published ones."""
    seen = {}
    for name, call in (("rfq", answering_rfq.call), ("ours", calls_of(queue))):
        ids = [call("publish", topic=topic, message={"n": str(n)}) for n in range(3)]
        ids.append(call("publish", topic=topic, message={"n": "9"}, front=True))
        answers = [
            call("topics").count(topic),
            call("info", topic=topic),
            call("listq", topic=topic, queue="backlog"),
            call("consume", topic=topic),
            call("consume", topic=topic),
            len(call("listq", topic=topic, queue="nextlog")),
            call("done", topic=topic, msgid=ids[0]),
            call("done", topic=topic, msgid="0" * 32),
            call("peek", topic=topic, msgid=ids[1]),
            call("peek", topic=topic, msgid=ids[0]),
            call("info", topic=topic),
            call("harvest", topic=topic),
            call("info", topic=topic),
            len(call("purge", topic=topic, queue="backlog")),
            call("info", topic=topic),
        ]
        text = json.dumps(answers)
        for number, id in enumerate(ids):
            text = text.replace(id, f"id {number}")
        seen[name] = json.loads(text)

    assert seen["ours"] == seen["rfq"]


def calls_of(queue):
    """Return a function that answers as compat/rfq/peer.py does."""

    def call(op, topic=None, **args):
        if op == "topics":
            return queue.topics()
        if op == "consume":
            task = queue.consume(topic)
            return {"id": task.msgid, "message": task.result()}
        if op == "done":
            return Task(topic, args["msgid"], {}, queue._rsmq).done()
        result = getattr(queue, op)(topic=topic, **args)
        return list(result) if isinstance(result, tuple) else result

    return call


PROGRAM = """
from rfq.rfq import Queue

queue = Queue()
queue.publish("TOPIC", {"tile": "7", "band": "nir"})
queue.publish_batch("TOPIC", [{"tile": "8"}, {"tile": "9"}])
for _ in range(2):
    task = queue.consume("TOPIC")
    print(task.result(), len(task.msgid), task.published().year > 2000)
    task.done()
queue.consume("TOPIC")  # and never done
print(queue.info("TOPIC"), len(queue.harvest("TOPIC")), queue.info("TOPIC"))
task = queue.consume("TOPIC")
print(task.result(), task.done() == task.msgid, queue.info("TOPIC"))
"""


def test_a_program_runs_with_its_import_changed(answering_rfq, server, ns, topic, raw, tmp_path):
    environment = {
        **os.environ, "RFQ_REDIS_HOST": "127.0.0.1", "RFQ_REDIS_PORT": str(server.port)
    }  # fmt: skip

    def run(python, code):
        done = subprocess.run(
            [python, "-W", "error", "-c", code], env=environment, capture_output=True, text=True,
            check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    program = PROGRAM.replace("TOPIC", topic)
    theirs = run(PYTHON, program)
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    ours = run(sys.executable, program.replace("from rfq.rfq", "from rsmq.compat.rfq"))
    raw.delete(f"rsmq:{topic}", f"rsmq:{topic}:Q")
    raw.srem("rsmq:QUEUES", topic)

    assert ours == theirs
    assert theirs.splitlines()[-1] == "{'tile': '9'} True (0, 0)"
