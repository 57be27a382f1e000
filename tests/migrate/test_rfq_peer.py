"""What the tests of moving over rely on, of the real rfq."""

from __future__ import annotations

import json

from tests.workers.until import until


def test_messages_are_hashes_and_their_ids_go_from_list_to_list(rfq, topic, raw):
    first, second = rfq.publish_batch(topic, [{"n": "1"}, {"n": "2"}])
    front = rfq.publish(topic, {"n": "0", "more": "ä"}, front=True)
    backlog, nextlog = f"rfq:{topic}:backlog", f"rfq:{topic}:nextlog"

    assert raw.lrange(backlog, 0, -1) == [second.encode(), first.encode(), front.encode()]
    assert raw.hgetall(f"rfq:{topic}:message:{front}") == {b"n": b"0", b"more": "ä".encode()}
    assert rfq.consume(topic) == (front, {"n": "0", "more": "ä"})
    assert raw.lrange(nextlog, 0, -1) == [front.encode()]
    assert rfq.ask("info", topic=topic) == [2, 1]
    rfq.done(topic, front)
    assert not raw.exists(nextlog, f"rfq:{topic}:message:{front}")


def test_its_command_reaches_the_same_server(rfq, topic):
    code, id, said = rfq.command("publish", "-t", topic, "-m", json.dumps({"a": "b"}))
    assert (code, said) == (0, "")

    assert rfq.ask("listq", topic=topic, queue="backlog") == [id.strip()]
    assert rfq.command("consume", "-t", topic) == (0, "{'a': 'b'}\n", "")


def test_programs_produce_and_consume_until_they_are_killed(rfq, topic, raw, ns):
    producer = rfq.producing(topic, f"{ns}:sent")
    consumer = rfq.consuming(topic, f"{ns}:seen")
    until(lambda: raw.llen(f"{ns}:seen") >= 5)
    producer.kill()
    producer.wait(10)
    until(lambda: rfq.ask("info", topic=topic) == [0, 0])
    consumer.kill()

    numbers = raw.lrange(f"{ns}:seen", 0, -1)
    assert numbers == [b"%d" % n for n in range(len(numbers))]
    # It may have been killed between the publishing and the note of it.
    assert raw.lrange(f"{ns}:sent", 0, -1) in (numbers, numbers[:-1])
