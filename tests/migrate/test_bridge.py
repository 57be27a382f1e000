"""Bridges: messages are moved as they arrive, in both directions."""

from __future__ import annotations

import json
import random
import signal
import threading
from contextlib import contextmanager

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
    ToList,
    ToRFQ,
)
from tests.expect import refused
from tests.migrate.keyed_server import Server
from tests.migrate.stored import read_bodies, read_messages
from tests.scale import WAIT_SECONDS, scaled
from tests.servers import Server as RedisServer
from tests.servers import redis_7
from tests.workers.polling import wait_until
from tests.workers.processes.forks import start_command


@pytest.fixture(autouse=True)
def short_check_interval(monkeypatch):
    """Shorten the interval of checks, so that the tests end soon."""
    monkeypatch.setattr("rsmq.migrate.bridge._WAIT_SECONDS", 0.1)


class RunningBridge:
    """
    A bridge in a thread.

    Attributes:
        bridge: the bridge.
        progress: the numbers of moved messages that it reported.
        error: the exception that ended it, or None.
    """

    def __init__(self, side):
        self.progress = []
        self.error = None
        self.bridge = Bridge(side, self.progress.append)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self.bridge.run()
        except Exception as error:  # noqa: BLE001 - the test asks for it
            self.error = error

    def wait_for_end(self):
        self._thread.join(WAIT_SECONDS)
        return not self._thread.is_alive()


@contextmanager
def run_bridge(side):
    """Run a bridge; stop it at the end, and check that it ended without an error."""
    started = RunningBridge(side)
    try:
        yield started
    finally:
        started.bridge.stop()
        assert started.wait_for_end()
    assert started.error is None


@pytest.fixture
def other_namespace(server, ns):
    """Return another namespace on the shared server."""
    with Server.from_url(server.url, ns=f"{ns}:old") as other_namespace:
        yield other_namespace


class Senders:
    """For each system: its source, the queue, and a function that sends a text."""

    def __init__(self, raw, ns, local, other_namespace, redisrq, create_rqueue):
        self.raw, self.ns, self.redisrq = raw, ns, redisrq
        self.create_rqueue = create_rqueue
        self.local, self.other_namespace = local, other_namespace

    def list(self):
        key = f"{self.ns}-work"
        return Lists(self.local), key, lambda text: self.raw.lpush(key, text)

    def rqueue_second_layout(self):
        system = self.create_rqueue()
        return Rqueue(self.local), self.ns, lambda text: system.enqueue(self.ns, text)

    def rqueue_first_layout(self):
        system = self.create_rqueue(version=1)
        return Rqueue(self.local), self.ns, lambda text: system.enqueue(self.ns, text)

    def rsmq(self):
        self.other_namespace.rsmq.create_queue("q")
        send = self.other_namespace.rsmq.send_message
        return Queues(self.other_namespace), "q", lambda text: send("q", text)

    def rsmq_without_colon(self):
        key = f"{self.ns}:oldq"
        self.raw.hset(f"{key}:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536})

        def send(text):
            id = f"k{int(text):09}".ljust(32, "a")
            self.raw.hset(f"{key}:Q", id, text)
            self.raw.zadd(key, {id: 1_700_000_000_000 + int(text)})

        return Queues(self.other_namespace, colon=False), "q", send

    def redisrq_queue(self):
        old = Server.from_url(self.redisrq.url)
        old.raw.execute_command("RQ.PUSH", "q", "0")
        return RedisRQ(old), "q", lambda text: old.raw.execute_command("RQ.PUSH", "q", text)


@pytest.mark.parametrize(("kind", "is_remote"), [
    ("list", False), ("list", True), ("rqueue_second_layout", True), ("rqueue_first_layout", False),
    ("rsmq", False), ("rsmq", True), ("rsmq_without_colon", False), ("redisrq_queue", False),
])  # fmt: skip
def test_inward_bridge_moves_arriving_messages_in_order(
    local, remote, other_namespace, raw, ns, redisrq, create_rqueue, kind, is_remote
):
    """The target queue may not exist when the bridge starts."""
    target = remote if is_remote else local
    source, queue, send = getattr(
        Senders(raw, ns, local, other_namespace, redisrq, create_rqueue), kind
    )()
    first = 1 if kind == "redisrq_queue" else 0
    with run_bridge(Inward(source, queue, target, "to")) as started:
        for number in range(first, 12):
            send(f"{number}")
            if number % 5 == 4:
                wait_until(lambda number=number: target.raw.zcard(f"{ns}:to") == number + 1)
        wait_until(lambda: started.bridge.moved == 12)

    assert read_bodies(target.raw, ns, "to") == [b"%d" % number for number in range(12)]
    assert started.progress == sorted(set(started.progress))
    assert started.progress[-1] == 12
    if kind == "redisrq_queue":
        assert not redisrq.keys[b"q"].undelivered
        assert not redisrq.keys[b"q"].delivered
        source.server.close()
    left = [key for key in raw.keys("*") if b":probe:" in key or b":x:" in key]
    assert left == []


@pytest.mark.parametrize("is_remote", [False, True])
def test_inward_bridge_serves_an_rfq_producer(local, remote, rfq, topic, raw, ns, is_remote):
    target = remote if is_remote else local
    numbers = []
    sent = f"{ns}:sent"
    with run_bridge(Inward(RFQ(local), topic, target, "to")):
        producer = rfq.start_producer(topic, sent)
        wait_until(lambda: target.raw.exists(f"{ns}:to:Q"))
        while len(numbers) < 150:
            for message in target.rsmq.receive_messages("to", 100, wait=2):
                numbers.append(int(json.loads(message.raw)["n"]))
                target.rsmq.delete_message(message)
        producer.kill()
        producer.wait(WAIT_SECONDS)
        wait_until(lambda: not raw.exists(f"rfq:{topic}:backlog"))
    numbers += [int(json.loads(body)["n"]) for body in read_bodies(target.raw, ns, "to")]

    assert numbers == list(range(len(numbers)))
    # The producer may have been killed between the publication and its record.
    assert len(numbers) - raw.llen(sent) in {0, 1}
    assert raw.keys(f"rfq:{topic}:*") == []


def test_messages_in_flight_stay_and_are_not_counted(local, other_namespace, raw, ns):
    other_namespace.rsmq.create_queue("q", vt=500)
    other_namespace.rsmq.send_messages("q", ["held", "held", "ready"])
    held = other_namespace.rsmq.receive_messages("q", 2)
    with run_bridge(Inward(Queues(other_namespace), "q", local, "to")) as started:
        wait_until(lambda: read_bodies(raw, ns, "to") == [b"ready"])
        for number in range(3):
            other_namespace.rsmq.send_message("q", f"{number}")
            wait_until(lambda number=number: raw.zcard(f"{ns}:to") == number + 2)
        wait_until(lambda: started.bridge.moved >= 4)

    assert started.bridge.moved == 4
    assert started.progress[-1] == 4
    assert [each.id for each in read_messages(raw, f"{ns}:old", "q")] == [each.id for each in held]


def test_delayed_messages_are_moved_with_their_due_time(local, other_namespace, raw, ns):
    other_namespace.rsmq.create_queue("q")
    id = other_namespace.rsmq.send_message("q", "later", delay=900)
    score = raw.zscore(f"{ns}:old:q", id)
    with run_bridge(Inward(Queues(other_namespace), "q", local, "to")):
        wait_until(lambda: raw.zcard(f"{ns}:to"))

    (message,) = read_messages(raw, ns, "to")
    assert (message.id, message.score) == (id, score)


def test_queue_can_not_be_its_own_source(local, raw, ns):
    local.rsmq.create_queue("q")
    local.rsmq.send_message("q", "m")
    with refused(NotPossible, "The queue 'q' is the source and the target"):
        Bridge(Inward(Queues(local), "q", local, "q")).run()
    assert read_bodies(raw, ns, "q") == [b"m"]


def test_staged_messages_are_moved_first(local, remote, raw, ns):
    """Messages that a killed move has left in staging."""
    key = Lists(local).aside_key(f"{ns}-work")
    raw.hset(key, "k000000000" + "a" * 22, b"1700000000000   digest aside it was")
    with run_bridge(Inward(Lists(local), f"{ns}-work", remote, "to")):
        wait_until(lambda: remote.raw.zcard(f"{ns}:to"))

    assert read_bodies(remote.raw, ns, "to") == [b"aside it was"]
    assert not raw.exists(key)


def test_key_of_wrong_type_ends_the_bridge(local, raw, ns):
    raw.set(f"{ns}-work", "text")
    started = RunningBridge(Inward(Lists(local), f"{ns}-work", local, "to"))
    assert started.wait_for_end()

    assert isinstance(started.error, NotPossible)
    assert str(started.error) == f"The key '{ns}-work' is not a list, but a string"
    raw.unlink(f"{ns}-work")


def test_bridge_creates_the_queue_and_ends_when_it_is_deleted(local, raw, ns):
    started = RunningBridge(Inward(Lists(local), f"{ns}-work", local, "to"))
    wait_until(lambda: raw.sismember(f"{ns}:QUEUES", "to"))
    local.rsmq.delete_queue("to")
    raw.lpush(f"{ns}-work", "m")
    assert started.wait_for_end()

    assert isinstance(started.error, QueueNotFound)
    assert raw.lrange(f"{ns}-work", 0, -1) == [b"m"]
    raw.unlink(f"{ns}-work")


# From RSMQ to another system.


@pytest.mark.parametrize("is_remote", [False, True])
def test_outward_bridge_serves_brpoplpush_workers(
    local, remote, raw, ns, start_brpoplpush_worker, is_remote
):
    source = remote if is_remote else local
    source.rsmq.create_queue("q")
    start_brpoplpush_worker()
    with run_bridge(Outward(source, "q", local, ToList(f"{ns}:work"))) as started:
        for first_number in range(0, 200, 20):
            source.rsmq.send_messages(
                "q", [f"mail:{first_number + number}" for number in range(20)]
            )
        wait_until(lambda: raw.llen(f"{ns}:log") == 200)

    assert [int(n) for n in raw.lrange(f"{ns}:log", 0, -1)] == list(range(200))
    assert started.bridge.moved == 200
    assert read_messages(source.raw, ns, "q") == []


@pytest.mark.parametrize("is_remote", [False, True])
def test_outward_bridge_serves_rfq_consumers(local, remote, rfq, topic, raw, ns, is_remote):
    source = remote if is_remote else local
    source.rsmq.create_queue("q")
    messages_by_body = {
        '{"n": "1", "more": "grüße"}': {"n": "1", "more": "grüße"},
        '{"n": 2, "deep": {"a": [1, null]}}': {"n": "2", "deep": '{"a": [1, null]}'},
        "no JSON": {"message": "no JSON"},
        "[1]": {"message": "[1]"},
        "{}": {"message": "{}"},
        "": {"message": ""},
    }
    with run_bridge(Outward(source, "q", local, ToRFQ(topic))):
        ids = source.rsmq.send_messages("q", list(messages_by_body))
        received_messages = [rfq.consume(topic) for _ in messages_by_body]

    assert [message for _, message in received_messages] == list(messages_by_body.values())
    published_times = [rfq.call("published", topic=topic, msgid=id) for id, _ in received_messages]
    sent = [source.rsmq.get_message("q", id) for id in ids]
    assert sent == [None] * len(messages_by_body)
    assert [to_microseconds(text) for text in published_times] == [int(id[:10], 36) for id in ids]
    for id, _ in received_messages:
        rfq.mark_done(topic, id)
    assert raw.keys(f"rfq:{topic}:*") == []


def to_microseconds(text):
    from datetime import UTC, datetime

    published_at = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return round(published_at.timestamp() * 1_000_000)


def test_real_rfq_consumer_handles_all(local, rfq, topic, raw, ns):
    local.rsmq.create_queue("q")
    consumer = rfq.start_consumer(topic, f"{ns}:seen")
    with run_bridge(Outward(local, "q", local, ToRFQ(topic))):
        local.rsmq.send_messages("q", [json.dumps({"n": str(number)}) for number in range(500)])
        wait_until(lambda: raw.llen(f"{ns}:seen") == 500)
    consumer.kill()

    assert [int(n) for n in raw.lrange(f"{ns}:seen", 0, -1)] == list(range(500))


def test_bytes_that_are_not_text_are_sent_unchanged(local, topic, raw, ns):
    local.rsmq.create_queue("q")
    id = local.rsmq.send_message("q", "x")
    raw.hset(f"{ns}:q:Q", id, b"\xff\x00")
    with run_bridge(Outward(local, "q", local, ToRFQ(topic))):
        wait_until(lambda: raw.exists(f"rfq:{topic}:backlog"))
    (message,) = raw.lrange(f"rfq:{topic}:backlog", 0, -1)

    assert raw.hgetall(f"rfq:{topic}:message:{message.decode()}") == {b"message": b"\xff\x00"}
    for key in raw.keys(f"rfq:{topic}:*"):
        raw.unlink(key)


def test_message_is_unchanged_after_a_round_trip(local, topic, raw, ns):
    local.rsmq.create_queue("q")
    body = '{"n": "1", "more": "grüße"}'
    id = local.rsmq.send_message("q", body)
    with run_bridge(Outward(local, "q", local, ToRFQ(topic))):
        wait_until(lambda: raw.exists(f"rfq:{topic}:backlog"))
    with run_bridge(Inward(RFQ(local), topic, local, "back")):
        wait_until(lambda: raw.zcard(f"{ns}:back"))
    (message,) = read_messages(raw, ns, "back")

    assert (message.body, message.sent_us) == (body.encode(), int(id[:10], 36))
    assert (message.count, message.first) == (None, None)


def test_missing_queue_ends_the_bridge(local, ns):
    with refused(QueueNotFound, "Queue not found"):
        Bridge(Outward(local, "none", local, ToList(f"{ns}-work"))).run()


def test_message_that_can_not_be_pushed_is_released(local, remote, raw, ns):
    remote.rsmq.create_queue("q")
    remote.rsmq.send_message("q", "m")
    raw.set(f"{ns}-work", "text")
    with pytest.raises(redis_errors.ResponseError, match="WRONGTYPE"):
        Bridge(Outward(remote, "q", local, ToList(f"{ns}-work"))).run()

    assert remote.rsmq.receive_message("q").body == "m"
    raw.unlink(f"{ns}-work")


# Stop and failures.


@pytest.mark.parametrize("kind", ["list", "rqueue_second_layout", "rsmq", "redisrq_queue"])
def test_stop_ends_a_waiting_bridge(local, other_namespace, raw, ns, redisrq, create_rqueue, kind):
    source, queue, _ = getattr(
        Senders(raw, ns, local, other_namespace, redisrq, create_rqueue), kind
    )()
    with run_bridge(Inward(source, queue, local, "to")):
        wait_until(lambda: raw.sismember(f"{ns}:QUEUES", "to"))
    source.server.close()


def test_bridge_stopped_before_its_run_does_nothing(local, raw, ns):
    raw.lpush(f"{ns}-work", "m")
    bridge = Bridge(Inward(Lists(local), f"{ns}-work", local, "to"))
    bridge.stop()

    assert bridge.run() == 0
    assert raw.lrange(f"{ns}-work", 0, -1) == [b"m"]
    raw.unlink(f"{ns}-work")


@pytest.fixture
def durable():
    """Start a server that keeps acknowledged writes when it is killed."""
    durable = RedisServer(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    yield durable
    durable.stop()


@pytest.mark.parametrize("way", ["list", "rsmq", "out"])
def test_bridge_waits_for_a_killed_server(durable, server, raw, ns, monkeypatch, way):
    """
    The source of an inward bridge, or the target of an outward one, is unavailable for a while.
    """
    monkeypatch.setattr("rsmq.migrate.bridge._RECONNECT_SECONDS", 0.05)
    with Server.from_url(durable.url, ns=ns) as old, Server.from_url(server.url, ns=ns) as local:
        (old if way == "rsmq" else local).rsmq.create_queue("q")
        sides = {
            "list": lambda: Inward(Lists(old), "work", local, "to"),
            "rsmq": lambda: Inward(Queues(old), "q", local, "to"),
            "out": lambda: Outward(local, "q", old, ToList("work")),
        }
        send = {
            "list": lambda number: old.raw.lpush("work", number),
            "rsmq": lambda number: old.rsmq.send_message("q", f"{number}"),
            "out": lambda number: local.rsmq.send_message("q", f"{number}"),
        }[way]
        arrived = {
            "list": lambda: read_bodies(raw, ns, "to"),
            "rsmq": lambda: read_bodies(raw, ns, "to"),
            # A push whose reply is lost is made again, so a message may be there twice.
            "out": lambda: list(dict.fromkeys(old.raw.lrange("work", 0, -1)[::-1])),
        }[way]
        with run_bridge(sides[way]()):
            for number in range(3):
                send(2 * number)
                wait_until(lambda number=number: len(arrived()) == 2 * number + 1)
                durable.kill()
                if way == "out":
                    send(2 * number + 1)
                durable.start()
                if way != "out":
                    send(2 * number + 1)
                wait_until(lambda number=number: len(arrived()) >= 2 * number + 2)

        assert arrived() == [b"%d" % number for number in range(6)]


@pytest.fixture
def start(monkeypatch, server, ns):
    """Return a function that starts the program in a process."""
    monkeypatch.setenv("RSMQ_CONFIG", "/dev/null")
    processes = []

    def start(*arguments, url=server.url):
        processes.append(start_command("bridge", *arguments, "--url", url, "--ns", ns))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("way", ["in", "in from another server", "out", "out to another server"])
def test_killed_bridge_loses_nothing(server, other_server, raw, ns, start, way):
    """
    Between two servers, outward messages may arrive twice: at most a batch for each kill.

    Messages that it had received would be visible again after a minute; here they are released.
    """
    count, is_remote = scaled(4000, 60_000), way.endswith("server")
    out = way.startswith("out")
    other = other_server if is_remote else server
    names = ("q", f"list:{ns}-work") if out else (f"list:{ns}-work", "to")
    arguments = ["--from", names[0], "--to", names[1], "--other-url", other.url]
    chance = random.Random(way)
    with Server.from_url(server.url, ns=ns) as local, other.raw() as other_raw:
        if out:
            local.rsmq.create_queue("q")
            for first_number in range(0, count, 4000):
                local.rsmq.send_messages(
                    "q", [f"{number}" for number in range(first_number, first_number + 4000)]
                )
        else:
            other_raw.lpush(f"{ns}-work", *range(count))

        def arrived():
            return other_raw.llen(f"{ns}-work") if out else raw.zcard(f"{ns}:to")

        kills = scaled(1, 30)
        for _ in range(kills):
            process = start(*arguments)
            threshold = arrived() + chance.randrange(1, count // (kills + 1))
            wait_until(lambda threshold=threshold: arrived() >= threshold)
            process.kill()
            process.wait(WAIT_SECONDS)
            assert process.returncode == -signal.SIGKILL
            if out:
                local.rsmq.release_all_messages("q")
        process = start(*arguments)
        wait_until(lambda: not (raw.zcard(f"{ns}:q") if out else other_raw.exists(f"{ns}-work")))
        if not out:
            wait_until(lambda: arrived() == count)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0
        if out:
            found = [int(body) for body in other_raw.lrange(f"{ns}-work", 0, -1)[::-1]]
        else:
            found = [int(body) for body in read_bodies(raw, ns, "to")]

        assert set(found) == set(range(count))
        assert len(found) - count <= (100 * kills if out and is_remote else 0)
        assert [key for key in other_raw.keys("*:x:aside:*") if b":probe:" not in key] == []
        other_raw.unlink(f"{ns}-work")


def test_queue_is_created_with_the_attributes_of_its_source(local, raw, ns):
    with Server.from_url(
        f"redis://127.0.0.1:{raw.connection_pool.connection_kwargs['port']}/0", ns=f"{ns}:old"
    ) as old:
        old.rsmq.create_queue("q", vt=3600, maxsize=-1)
        old.rsmq.send_message("q", "m")
        started = RunningBridge(Inward(Queues(old), "q", local, "to"))
        wait_until(lambda: raw.zcard(f"{ns}:to") == 1)
        started.bridge.stop()
        assert started.wait_for_end()

    assert raw.hmget(f"{ns}:to:Q", "vt", "maxsize") == [b"3600", b"-1"]
