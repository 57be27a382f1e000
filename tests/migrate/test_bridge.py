"""Bridges: messages go on as they come, in and out."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis.exceptions as redis_errors

from rsmq import QueueNotFound
from rsmq.migrate import (
    RFQ,
    Bridge,
    Inward,
    Lists,
    NotPossible,
    Outward,
    Queues,
    RedisRQ,
    Rqueue,
    Server,
    ToList,
    ToRFQ,
)
from tests.expect import refused
from tests.migrate.stored import bodies, stored
from tests.scale import scaled
from tests.servers import Server as RedisServer
from tests.servers import redis_7
from tests.workers.until import until

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    """So that it ends soon."""
    monkeypatch.setattr("rsmq.migrate.bridge._WAIT_SECONDS", 0.1)


class Running:
    """
    A bridge in a thread.

    Attributes:
        bridge: it.
        told: what it told of its progress.
        error: what ended it.
    """

    def __init__(self, side):
        self.told = []
        self.error = None
        self.bridge = Bridge(side, self.told.append)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self.bridge.run()
        except Exception as error:  # noqa: BLE001 - the test asks for it
            self.error = error

    def ended(self):
        self._thread.join(10)
        return not self._thread.is_alive()


@contextmanager
def running(side):
    """It is stopped at the end, and has ended well."""
    started = Running(side)
    try:
        yield started
    finally:
        started.bridge.stop()
        assert started.ended()
    assert started.error is None


@pytest.fixture
def elsewhere(server, ns):
    """Another namespace on the shared server."""
    with Server.from_url(server.url, ns=f"{ns}:old") as elsewhere:
        yield elsewhere


class Senders:
    """How each system is sent a text, and its source."""

    def __init__(self, raw, ns, here, elsewhere, redisrq, rqueue):
        self.raw, self.ns, self.redisrq = raw, ns, redisrq
        self.rqueue = rqueue
        self.here, self.elsewhere = here, elsewhere

    def list(self):
        key = f"{self.ns}-work"
        return Lists(self.here), key, lambda text: self.raw.lpush(key, text)

    def rqueue_(self):
        made = self.rqueue()
        return Rqueue(self.here), self.ns, lambda text: made.enqueue(self.ns, text)

    def rqueue_first_layout(self):
        made = self.rqueue(version=1)
        return Rqueue(self.here), self.ns, lambda text: made.enqueue(self.ns, text)

    def rsmq(self):
        self.elsewhere.rsmq.create_queue("q")
        send = self.elsewhere.rsmq.send_message
        return Queues(self.elsewhere), "q", lambda text: send("q", text)

    def rsmq_without_colon(self):
        key = f"{self.ns}:oldq"
        self.raw.hset(f"{key}:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536})

        def send(text):
            id = f"k{int(text):09}".ljust(32, "a")
            self.raw.hset(f"{key}:Q", id, text)
            self.raw.zadd(key, {id: 1_700_000_000_000 + int(text)})

        return Queues(self.elsewhere, colon=False), "q", send

    def redisrq_(self):
        old = Server.from_url(self.redisrq.url)
        old.raw.execute_command("RQ.PUSH", "q", "0")
        return RedisRQ(old), "q", lambda text: old.raw.execute_command("RQ.PUSH", "q", text)


@pytest.mark.parametrize(("kind", "away"), [
    ("list", False), ("list", True), ("rqueue_", True), ("rqueue_first_layout", False),
    ("rsmq", False), ("rsmq", True), ("rsmq_without_colon", False), ("redisrq_", False),
])  # fmt: skip
def test_what_comes_goes_on_in_order(here, there, elsewhere, raw, ns, redisrq, rqueue, kind, away):
    """Also to where nothing was yet when it began."""
    target = there if away else here
    source, queue, send = getattr(Senders(raw, ns, here, elsewhere, redisrq, rqueue), kind)()
    first = 1 if kind == "redisrq_" else 0
    with running(Inward(source, queue, target, "to")) as started:
        for number in range(first, 12):
            send(f"{number}")
            if number % 5 == 4:
                until(lambda number=number: target.raw.zcard(f"{ns}:to") == number + 1)
        until(lambda: started.bridge.moved == 12)

    assert bodies(target.raw, ns, "to") == [b"%d" % number for number in range(12)]
    assert started.told == sorted(set(started.told))
    assert started.told[-1] == 12
    if kind == "redisrq_":
        assert not redisrq.keys[b"q"].undelivered
        assert not redisrq.keys[b"q"].delivered
        source.server.close()
    left = [key for key in raw.keys("*") if b":probe:" in key or b":x:" in key]
    assert left == []


@pytest.mark.parametrize("away", [False, True])
def test_a_producer_of_rfq_stays_while_its_consumers_are_here(
    here, there, rfq, topic, raw, ns, away
):
    target = there if away else here
    numbers = []
    sent = f"{ns}:sent"
    with running(Inward(RFQ(here), topic, target, "to")):
        producer = rfq.producing(topic, sent)
        until(lambda: target.raw.exists(f"{ns}:to:Q"))
        while len(numbers) < 150:
            for message in target.rsmq.receive_messages("to", 100, wait=2):
                numbers.append(int(json.loads(message.raw)["n"]))
                target.rsmq.delete_message(message)
        producer.kill()
        producer.wait(10)
        until(lambda: not raw.exists(f"rfq:{topic}:backlog"))
    numbers += [int(json.loads(body)["n"]) for body in bodies(target.raw, ns, "to")]

    assert numbers == list(range(len(numbers)))
    # It may have been killed between the publishing and the note of it.
    assert len(numbers) - raw.llen(sent) in {0, 1}
    assert raw.keys(f"rfq:{topic}:*") == []


def test_what_someone_handles_stays_and_is_counted_as_nothing(here, elsewhere, raw, ns):
    elsewhere.rsmq.create_queue("q", vt=500)
    elsewhere.rsmq.send_messages("q", ["held", "held", "ready"])
    held = elsewhere.rsmq.receive_messages("q", 2)
    with running(Inward(Queues(elsewhere), "q", here, "to")) as started:
        until(lambda: bodies(raw, ns, "to") == [b"ready"])
        for number in range(3):
            elsewhere.rsmq.send_message("q", f"{number}")
            until(lambda number=number: raw.zcard(f"{ns}:to") == number + 2)
        until(lambda: started.bridge.moved >= 4)

    assert started.bridge.moved == 4
    assert started.told[-1] == 4
    assert [each.id for each in stored(raw, f"{ns}:old", "q")] == [each.id for each in held]


def test_what_comes_due_goes_on_with_what_is_delayed(here, elsewhere, raw, ns):
    elsewhere.rsmq.create_queue("q")
    id = elsewhere.rsmq.send_message("q", "later", delay=900)
    score = raw.zscore(f"{ns}:old:q", id)
    with running(Inward(Queues(elsewhere), "q", here, "to")):
        until(lambda: raw.zcard(f"{ns}:to"))

    (found,) = stored(raw, ns, "to")
    assert (found.id, found.score) == (id, score)


def test_a_queue_is_not_its_own_source(here, raw, ns):
    here.rsmq.create_queue("q")
    here.rsmq.send_message("q", "m")
    with refused(NotPossible, "The queue 'q' is the source and the target"):
        Bridge(Inward(Queues(here), "q", here, "q")).run()
    assert bodies(raw, ns, "q") == [b"m"]


def test_what_stands_aside_goes_on_first(here, there, raw, ns):
    """Of a move that was killed."""
    key = Lists(here).aside_key(f"{ns}-work")
    raw.hset(key, "k000000000" + "a" * 22, b"1700000000000   digest aside it was")
    with running(Inward(Lists(here), f"{ns}-work", there, "to")):
        until(lambda: there.raw.zcard(f"{ns}:to"))

    assert bodies(there.raw, ns, "to") == [b"aside it was"]
    assert not raw.exists(key)


def test_a_key_of_another_type_ends_it(here, raw, ns):
    raw.set(f"{ns}-work", "text")
    started = Running(Inward(Lists(here), f"{ns}-work", here, "to"))
    assert started.ended()

    assert isinstance(started.error, NotPossible)
    assert str(started.error) == f"The key '{ns}-work' is no list, but a string"
    raw.unlink(f"{ns}-work")


def test_it_makes_the_queue_and_ends_when_that_is_deleted(here, raw, ns):
    started = Running(Inward(Lists(here), f"{ns}-work", here, "to"))
    until(lambda: raw.sismember(f"{ns}:QUEUES", "to"))
    here.rsmq.delete_queue("to")
    raw.lpush(f"{ns}-work", "m")
    assert started.ended()

    assert isinstance(started.error, QueueNotFound)
    assert raw.lrange(f"{ns}-work", 0, -1) == [b"m"]
    raw.unlink(f"{ns}-work")


# Out.


@pytest.mark.parametrize("away", [False, True])
def test_workers_of_the_pattern_stay_while_producers_are_here(
    here, there, raw, ns, brpoplpush, away
):
    source = there if away else here
    source.rsmq.create_queue("q")
    brpoplpush()
    with running(Outward(source, "q", here, ToList(f"{ns}:work"))) as started:
        for at in range(0, 200, 20):
            source.rsmq.send_messages("q", [f"mail:{at + number}" for number in range(20)])
        until(lambda: raw.llen(f"{ns}:log") == 200)

    assert [int(n) for n in raw.lrange(f"{ns}:log", 0, -1)] == list(range(200))
    assert started.bridge.moved == 200
    assert stored(source.raw, ns, "q") == []


@pytest.mark.parametrize("away", [False, True])
def test_consumers_of_rfq_stay_while_producers_are_here(here, there, rfq, topic, raw, ns, away):
    source = there if away else here
    source.rsmq.create_queue("q")
    given = {
        '{"n": "1", "more": "grüße"}': {"n": "1", "more": "grüße"},
        '{"n": 2, "deep": {"a": [1, null]}}': {"n": "2", "deep": '{"a": [1, null]}'},
        "no JSON": {"message": "no JSON"},
        "[1]": {"message": "[1]"},
        "{}": {"message": "{}"},
        "": {"message": ""},
    }
    with running(Outward(source, "q", here, ToRFQ(topic))):
        ids = source.rsmq.send_messages("q", list(given))
        came = [rfq.consume(topic) for _ in given]

    assert [message for _, message in came] == list(given.values())
    told = [rfq.ask("published", topic=topic, msgid=id) for id, _ in came]
    sent = [source.rsmq.get_message("q", id) for id in ids]
    assert sent == [None] * len(given)
    assert [as_us(text) for text in told] == [int(id[:10], 36) for id in ids]
    for id, _ in came:
        rfq.done(topic, id)
    assert raw.keys(f"rfq:{topic}:*") == []


def as_us(text):
    from datetime import UTC, datetime

    told = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return round(told.timestamp() * 1_000_000)


def test_a_real_consumer_of_rfq_handles_all(here, rfq, topic, raw, ns):
    here.rsmq.create_queue("q")
    consumer = rfq.consuming(topic, f"{ns}:seen")
    with running(Outward(here, "q", here, ToRFQ(topic))):
        here.rsmq.send_messages("q", [json.dumps({"n": str(number)}) for number in range(500)])
        until(lambda: raw.llen(f"{ns}:seen") == 500)
    consumer.kill()

    assert [int(n) for n in raw.lrange(f"{ns}:seen", 0, -1)] == list(range(500))


def test_bytes_that_are_no_text_go_out_as_they_are(here, topic, raw, ns):
    here.rsmq.create_queue("q")
    id = here.rsmq.send_message("q", "x")
    raw.hset(f"{ns}:q:Q", id, b"\xff\x00")
    with running(Outward(here, "q", here, ToRFQ(topic))):
        until(lambda: raw.exists(f"rfq:{topic}:backlog"))
    (message,) = raw.lrange(f"rfq:{topic}:backlog", 0, -1)

    assert raw.hgetall(f"rfq:{topic}:message:{message.decode()}") == {b"message": b"\xff\x00"}
    for key in raw.keys(f"rfq:{topic}:*"):
        raw.unlink(key)


def test_there_and_back_a_message_is_as_it_was(here, topic, raw, ns):
    here.rsmq.create_queue("q")
    body = '{"n": "1", "more": "grüße"}'
    id = here.rsmq.send_message("q", body)
    with running(Outward(here, "q", here, ToRFQ(topic))):
        until(lambda: raw.exists(f"rfq:{topic}:backlog"))
    with running(Inward(RFQ(here), topic, here, "back")):
        until(lambda: raw.zcard(f"{ns}:back"))
    (found,) = stored(raw, ns, "back")

    assert (found.body, found.sent_us) == (body.encode(), int(id[:10], 36))
    assert (found.count, found.first) == (None, None)


def test_a_queue_that_is_not_there_ends_it(here, ns):
    with refused(QueueNotFound, "Queue not found"):
        Bridge(Outward(here, "none", here, ToList(f"{ns}-work"))).run()


def test_what_can_not_be_pushed_is_visible_again(here, there, raw, ns):
    there.rsmq.create_queue("q")
    there.rsmq.send_message("q", "m")
    raw.set(f"{ns}-work", "text")
    with pytest.raises(redis_errors.ResponseError, match="WRONGTYPE"):
        Bridge(Outward(there, "q", here, ToList(f"{ns}-work"))).run()

    assert there.rsmq.receive_message("q").body == "m"
    raw.unlink(f"{ns}-work")


# Ends.


@pytest.mark.parametrize("kind", ["list", "rqueue_", "rsmq", "redisrq_"])
def test_stopped_while_it_waits_it_ends(here, elsewhere, raw, ns, redisrq, rqueue, kind):
    source, queue, _ = getattr(Senders(raw, ns, here, elsewhere, redisrq, rqueue), kind)()
    with running(Inward(source, queue, here, "to")):
        until(lambda: raw.sismember(f"{ns}:QUEUES", "to"))
    source.server.close()


def test_stopped_before_it_runs_it_does_nothing(here, raw, ns):
    raw.lpush(f"{ns}-work", "m")
    bridge = Bridge(Inward(Lists(here), f"{ns}-work", here, "to"))
    bridge.stop()

    assert bridge.run() == 0
    assert raw.lrange(f"{ns}-work", 0, -1) == [b"m"]
    raw.unlink(f"{ns}-work")


@pytest.fixture
def durable():
    """A server that keeps what it said when it is killed."""
    durable = RedisServer(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    yield durable
    durable.stop()


@pytest.mark.parametrize("way", ["list", "rsmq", "out"])
def test_a_server_that_is_killed_is_waited_for(durable, server, raw, ns, monkeypatch, way):
    """The source of what comes in, or the target of what goes out, comes back after a while."""
    monkeypatch.setattr("rsmq.migrate.bridge._RECONNECT_SECONDS", 0.05)
    with Server.from_url(durable.url, ns=ns) as old, Server.from_url(server.url, ns=ns) as here:
        (old if way == "rsmq" else here).rsmq.create_queue("q")
        sides = {
            "list": lambda: Inward(Lists(old), "work", here, "to"),
            "rsmq": lambda: Inward(Queues(old), "q", here, "to"),
            "out": lambda: Outward(here, "q", old, ToList("work")),
        }
        send = {
            "list": lambda number: old.raw.lpush("work", number),
            "rsmq": lambda number: old.rsmq.send_message("q", f"{number}"),
            "out": lambda number: here.rsmq.send_message("q", f"{number}"),
        }[way]
        arrived = {
            "list": lambda: bodies(raw, ns, "to"),
            "rsmq": lambda: bodies(raw, ns, "to"),
            "out": lambda: old.raw.lrange("work", 0, -1)[::-1],
        }[way]
        with running(sides[way]()):
            for number in range(3):
                send(2 * number)
                until(lambda number=number: len(arrived()) == 2 * number + 1)
                durable.kill()
                if way == "out":
                    send(2 * number + 1)
                durable.start()
                if way != "out":
                    send(2 * number + 1)
                until(lambda number=number: len(arrived()) >= 2 * number + 2)

        assert arrived() == [b"%d" % number for number in range(6)]


@pytest.fixture
def start(monkeypatch, server, ns):
    """Starts the program in a process of its own."""
    monkeypatch.setenv("RSMQ_CONFIG", "/dev/null")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    begun = []

    def start(*arguments, url=server.url):
        program = "import sys, rsmq.cli; sys.exit(rsmq.cli.main())"
        command = [sys.executable, "-c", program, "bridge", *arguments, "--url", url, "--ns", ns]
        begun.append(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.timeout(scaled(60, 600))
@pytest.mark.parametrize("way", ["in", "in from another server", "out", "out to another server"])
def test_killed_at_any_moment_it_loses_nothing(server, other_server, raw, ns, start, way):
    """
    Between two servers what goes out may arrive twice: a batch for each kill at most.

    What it had received then comes back after a minute; here its time is put forward.
    """
    count, away = scaled(4000, 60_000), way.endswith("server")
    out = way.startswith("out")
    other = other_server if away else server
    names = ("q", f"list:{ns}-work") if out else (f"list:{ns}-work", "to")
    arguments = ["--from", names[0], "--to", names[1], "--other-url", other.url]
    chance = random.Random(way)
    with Server.from_url(server.url, ns=ns) as here, other.raw() as seen:
        if out:
            here.rsmq.create_queue("q")
            for at in range(0, count, 4000):
                here.rsmq.send_messages("q", [f"{number}" for number in range(at, at + 4000)])
        else:
            seen.lpush(f"{ns}-work", *range(count))

        def arrived():
            return seen.llen(f"{ns}-work") if out else raw.zcard(f"{ns}:to")

        kills = scaled(1, 30)
        for _ in range(kills):
            process = start(*arguments)
            enough = arrived() + chance.randrange(1, count // (kills + 1))
            until(lambda enough=enough: arrived() >= enough, 30)
            process.kill()
            process.wait(10)
            assert process.returncode == -signal.SIGKILL
            if out:
                here.rsmq.release_all_messages("q")
        process = start(*arguments)
        until(lambda: not (raw.zcard(f"{ns}:q") if out else seen.exists(f"{ns}-work")), 50)
        if not out:
            until(lambda: arrived() == count)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        if out:
            found = [int(body) for body in seen.lrange(f"{ns}-work", 0, -1)[::-1]]
        else:
            found = [int(body) for body in bodies(raw, ns, "to")]

        assert set(found) == set(range(count))
        assert len(found) - count <= (100 * kills if out and away else 0)
        assert [key for key in seen.keys("*:x:aside:*") if b":probe:" not in key] == []
        seen.unlink(f"{ns}-work")


def test_a_queue_is_made_with_what_its_source_says(here, raw, ns):
    with Server.from_url(
        f"redis://127.0.0.1:{raw.connection_pool.connection_kwargs['port']}/0", ns=f"{ns}:old"
    ) as old:
        old.rsmq.create_queue("q", vt=3600, maxsize=-1)
        old.rsmq.send_message("q", "m")
        started = Running(Inward(Queues(old), "q", here, "to"))
        until(lambda: raw.zcard(f"{ns}:to") == 1)
        started.bridge.stop()
        assert started.ended()

    assert raw.hmget(f"{ns}:to:Q", "vt", "maxsize") == [b"3600", b"-1"]
