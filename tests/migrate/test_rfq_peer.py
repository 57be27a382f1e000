"""The properties of the real rfq on which the migration tests rely."""

from __future__ import annotations

import json

from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until


def test_messages_are_hashes_and_their_ids_move_between_lists(rfq, topic, raw):
    first, second = rfq.publish_batch(topic, [{"n": "1"}, {"n": "2"}])
    front = rfq.publish(topic, {"n": "0", "more": "ä"}, front=True)
    backlog, nextlog = f"rfq:{topic}:backlog", f"rfq:{topic}:nextlog"

    assert raw.lrange(backlog, 0, -1) == [second.encode(), first.encode(), front.encode()]
    assert raw.hgetall(f"rfq:{topic}:message:{front}") == {b"n": b"0", b"more": "ä".encode()}
    assert rfq.consume(topic) == (front, {"n": "0", "more": "ä"})
    assert raw.lrange(nextlog, 0, -1) == [front.encode()]
    assert rfq.call("info", topic=topic) == [2, 1]
    rfq.mark_done(topic, front)
    assert not raw.exists(nextlog, f"rfq:{topic}:message:{front}")


def test_command_uses_the_same_server(rfq, topic):
    code, id, errors = rfq.run_command("publish", "-t", topic, "-m", json.dumps({"a": "b"}))
    assert (code, errors) == (0, "")

    assert rfq.call("listq", topic=topic, queue="backlog") == [id.strip()]
    assert rfq.run_command("consume", "-t", topic) == (0, "{'a': 'b'}\n", "")


def test_programs_produce_and_consume_until_they_are_killed(rfq, topic, raw, ns):
    producer = rfq.start_producer(topic, f"{ns}:sent")
    consumer = rfq.start_consumer(topic, f"{ns}:seen")
    wait_until(lambda: raw.llen(f"{ns}:seen") >= 5)
    producer.kill()
    producer.wait(WAIT_SECONDS)
    wait_until(lambda: rfq.call("info", topic=topic) == [0, 0])
    consumer.kill()

    numbers = raw.lrange(f"{ns}:seen", 0, -1)
    assert numbers == [b"%d" % n for n in range(len(numbers))]
    # The producer may have been killed between the publication and its record.
    assert raw.lrange(f"{ns}:sent", 0, -1) in (numbers, numbers[:-1])
