"""Workers while Redis restarts, forgets its scripts, closes connections, or loses replies."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter

import pytest
from redis import exceptions as redis_errors

from rsmq import JSON, RSMQ
from rsmq.operations.scripts import load
from tests.proxy import Proxy
from tests.scale import WAIT_SECONDS, scaled
from tests.workers.processes.conftest import assert_nothing_left, fill, scores, wait_until

VT = 120
VT_SHORT = 1
MESSAGES = scaled(1500, 50_000)


class RecordingHandlers:
    """Handlers in threads and tasks that record the attempts that begin and end."""

    def __init__(self):
        self.begun = Counter()
        self.ended = Counter()
        self.lock = threading.Lock()

    def threads(self, body, message):
        self._begin(message)
        time.sleep(body["for"])
        self._end(message)

    async def tasks(self, body, message):
        self._begin(message)
        await asyncio.sleep(body["for"])
        self._end(message)

    def _begin(self, message):
        with self.lock:
            self.begun[message.id, message.receive_count] += 1

    def _end(self, message):
        with self.lock:
            self.ended[message.id] += 1


def restart(server, raw):
    server.kill()
    server.start()


def flush(server, raw):
    for _ in range(20):
        raw.script_flush()
        time.sleep(0.005)


def disconnect(server, raw):
    raw.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.mark.parametrize(
    ("fault", "pause"), [(restart, (0.2, 0.9)), (flush, (0, 0.01)), (disconnect, (0.0, 0.1))]
)
def test_faults_under_load_lose_and_duplicate_nothing(own_server, create_worker, fault, pause):
    chance = random.Random(7)
    queues = "threads", "tasks"
    handlers = RecordingHandlers()
    with own_server.client("faults", retry_deadline=60) as rsmq, own_server.raw() as raw:
        ids = []
        for queue in queues:
            bodies = [{"n": n, "for": chance.choice([0, 0.01])} for n in range(MESSAGES // 2)]
            ids += fill(rsmq, queue, bodies)
        with own_server.client("faults") as client:
            one = create_worker(client, concurrency=4)
            for queue in queues:
                one.listener(queue, vt=VT, codec=JSON)(getattr(handlers, queue))
            one.start()
            faults = 0
            deadline = time.monotonic() + scaled(600, 3000)
            while sum(handlers.ended.values()) < len(ids) or faults < 5:
                assert time.monotonic() < deadline, (
                    len(handlers.ended),
                    scores(raw, "faults", queue),
                )
                with contextlib.suppress(ConnectionError):
                    fault(own_server, raw)
                faults += 1
                time.sleep(chance.uniform(*pause))
            wait_until(
                lambda: not any(rsmq.get_queue_attributes(queue).messages for queue in queues)
            )
            one.stop()
        print(f"{faults} faults, {sum(handlers.begun.values())} attempts")

        assert Counter(handlers.ended.values()) == {1: len(ids)}, "handled twice"
        assert handlers.ended.keys() == set(ids)
        assert max(handlers.begun.values()) == 1, "one attempt had two holders"
        assert_nothing_left(raw, "faults", *queues)


SCRIPTS = (
    "register_worker",
    "send_heartbeat",
    "receive_for_worker",
    "settle_messages",
    "dead_letter_messages",
    "record_quarantine_run",
    "unregister_worker",
)
#: The actions of settle_messages.
SETTLE_ACTIONS = {"delete", "retry", "unbegun", "extend"}


@pytest.fixture
def lossy_client(server, ns, raw, create_worker):
    """Return a client behind a proxy that drops one reply of a script that has run."""
    for script in SCRIPTS:
        raw.script_load(
            load(script, "worker").source
        )  # otherwise the dropped reply would be NOSCRIPT

    class LossyClient:
        def __init__(self):
            self.proxy = Proxy(server.port)
            self.client = RSMQ.from_url(self.proxy.url, ns=ns)
            self.script = None
            self.was_dropped = threading.Event()
            run = self.client.run
            self.client.run = lambda operation: run(self.prepare_loss(operation))

        def prepare_loss(self, operation):
            script_and_actions = operation.script.name, *operation.args
            if self.script in script_and_actions and not self.was_dropped.is_set():
                self.was_dropped.set()
                self.proxy.drop = 1
            return operation

        def drop_reply_of(self, name):
            """
            Drop the next reply of this script, or of the first settle_messages with this action.
            """
            self.script = name.encode() if name in SETTLE_ACTIONS else name

    lossy_client = LossyClient()
    yield lossy_client
    lossy_client.client.close()
    lossy_client.proxy.close()


@pytest.mark.parametrize("script", [*SCRIPTS, "delete", "retry", "extend"])
@pytest.mark.parametrize("is_async", [False, True])
def test_lost_reply_has_no_effect(ns, rsmq, raw, create_worker, lossy_client, script, is_async):
    """No message stays hidden until its visibility timeout ends, and none is handled twice."""
    rsmq.create_queue("dead")
    vt = 0.6 if script == "extend" else VT
    kinds = ["return", "fail", "fail_first", "slow", "often", "return"]
    ids = dict(zip(fill(rsmq, "q", [{"do": kind} for kind in kinds]), kinds, strict=True))
    often = next(id for id, kind in ids.items() if kind == "often")
    raw.hset(f"{ns}:q:Q", f"{often}:rc", 5)
    raw.hset(f"{ns}:q:Q", f"{often}:fr", 1)
    done, begun = Counter(), Counter()

    def check_attempt(body, message):
        begun[message.id, message.receive_count] += 1
        if body["do"] == "fail" or (body["do"] == "fail_first" and message.attempt == 1):
            raise ValueError(body["do"])
        return 1.0 if body["do"] == "slow" else 0

    def handle(body, message):
        time.sleep(check_attempt(body, message))
        done[message.id] += 1

    async def handle_async(body, message):
        await asyncio.sleep(check_attempt(body, message))
        done[message.id] += 1

    one = create_worker(lossy_client.client, concurrency=2)
    one.listener("q", vt=vt, codec=JSON, max_retries=2, backoff=0.05, dead_letter_queue="dead")(
        handle_async if is_async else handle
    )
    lossy_client.drop_reply_of(script)
    one.start()
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    one.stop()

    assert lossy_client.was_dropped.is_set()
    assert done == {id: 1 for id, kind in ids.items() if kind != "fail"}
    assert max(begun.values()) == 1
    [letter] = rsmq.peek_messages("dead")
    assert ids[letter.id] == "fail"
    assert letter.reason.exception == "ValueError: fail"
    assert_nothing_left(raw, ns, "q")


def test_lost_reply_of_a_release_has_no_effect(ns, rsmq, raw, create_worker, lossy_client):
    ids = fill(rsmq, "q", [{"n": n} for n in range(4)])
    begun, over = [], threading.Event()
    one = create_worker(lossy_client.client, concurrency=3)

    @one.listener("q", vt=VT, codec=JSON)
    def handle(body, message):
        begun.append(message.id)
        over.wait(WAIT_SECONDS)

    one.start()
    wait_until(lambda: len(begun) == 3)
    lossy_client.drop_reply_of("unbegun")
    one.stop(grace=0)
    over.set()

    assert lossy_client.was_dropped.is_set()
    assert [message.id for message in rsmq.receive_messages("q", 10)] == ids
    assert raw.keys(f"{ns}:x:held:*") == []


def test_lost_replies_under_load_have_no_effect(ns, rsmq, raw, server, create_worker):
    chance = random.Random(11)
    handlers = RecordingHandlers()
    ids = fill(rsmq, "threads", [{"for": chance.choice([0, 0.01])} for _ in range(MESSAGES)])
    proxy = Proxy(server.port)
    with RSMQ.from_url(proxy.url, ns=ns) as client:
        one = create_worker(client, concurrency=4)
        one.listener("threads", vt=VT, codec=JSON)(handlers.threads)
        one.start()
        deadline, received, drops = time.monotonic() + scaled(600, 3000), 0, 0
        while len(handlers.ended) < len(ids):
            assert time.monotonic() < deadline, scores(raw, ns, "threads")
            time.sleep(chance.uniform(0, 0.1))
            # The worker would hide a message whose reply is lost three times in a row.
            if one.numbers.received > received:
                received = one.numbers.received
                proxy.drop = 1
                drops += 1
        proxy.drop = 0
        wait_until(lambda: raw.zcard(f"{ns}:threads") == 0)
        one.stop()
    proxy.close()

    assert drops > 1
    assert handlers.ended == dict.fromkeys(ids, 1)
    assert max(handlers.begun.values()) == 1
    assert_nothing_left(raw, ns, "threads")


@pytest.mark.parametrize("is_async", [False, True])
def test_outage_longer_than_vt(own_server, create_worker, is_async):
    """Handlers learn during the outage that the lease is lost; afterwards work continues."""
    outage = scaled(6, 15)
    learned, begun, ended = threading.Event(), [], []
    with own_server.client("outage", retry_deadline=60) as rsmq:
        ids = fill(rsmq, "q", [{"n": n} for n in range(3)])

    def handle(body, message):
        begun.append((message.id, message.attempt))
        while message.attempt == 1:
            if message.lease_lost:
                learned.set()
                return
            time.sleep(0.01)
        ended.append(message.id)

    async def handle_async(body, message):
        begun.append((message.id, message.attempt))
        if message.attempt == 1:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                learned.set()
                raise
        ended.append(message.id)

    with own_server.client("outage") as client:
        one = create_worker(client)
        one.listener("q", vt=1, codec=JSON)(handle_async if is_async else handle)
        one.start()
        wait_until(lambda: len(begun) == len(ids))
        own_server.kill()
        begin = time.monotonic()
        was_notified = learned.wait(outage)
        time.sleep(max(begin + outage - time.monotonic(), 0))
        own_server.start()
        wait_until(lambda: len(ended) == len(ids))
        later = None
        with own_server.client("outage") as rsmq:
            [later] = fill(rsmq, "q", [{"n": 9}])
            wait_until(lambda: (later, 1) in begun)
        one.stop(grace=0)

    assert was_notified, "the lease is over, and its handler does not learn it"
    assert sorted(ended) == sorted(ids)
    assert max(Counter(begun).values()) == 1


def test_missing_reply_has_no_effect(ns, rsmq, raw, server, create_worker):
    """The connection is half open: reading from it times out."""
    proxy = Proxy(server.port)
    handlers = RecordingHandlers()
    ids = fill(rsmq, "threads", [{"for": 0} for _ in range(20)])
    with RSMQ.from_url(proxy.url, ns=ns, socket_timeout=0.5) as client:
        one = create_worker(client, concurrency=4)
        one.listener("threads", vt=VT, codec=JSON)(handlers.threads)
        one.start()
        wait_until(lambda: len(handlers.ended) == len(ids))
        for _ in range(3):
            proxy.hold = 1
            ids.extend(fill(rsmq, "threads", [{"for": 0} for _ in range(20)]))
            wait_until(lambda: len(handlers.ended) == len(ids))
        wait_until(lambda: raw.zcard(f"{ns}:threads") == 0)
        one.stop()
    proxy.close()

    assert handlers.ended == dict.fromkeys(ids, 1)
    assert_nothing_left(raw, ns, "threads")


def test_disconnected_worker_notifies_handlers_of_ended_leases(
    ns, rsmq, raw, server, create_worker
):
    """Other clients can reach Redis, and receive its messages after vt."""
    [id] = fill(rsmq, "q", [{"n": 0}])
    proxy = Proxy(server.port)
    begun, learned = threading.Event(), []
    with RSMQ.from_url(proxy.url, ns=ns) as client:
        one = create_worker(client)

        @one.listener("q", vt=VT_SHORT, codec=JSON)
        def handle(body, message):
            begun.set()
            while not message.lease_lost:
                time.sleep(0.01)
            learned.append(time.monotonic())

        one.start()
        begun.wait(WAIT_SECONDS)
        proxy.refuse = True
        proxy.close_connections()
        wait_until(lambda: rsmq.receive_message("q", vt=VT) is not None)
        received_at = time.monotonic()
        wait_until(lambda: learned)
        proxy.refuse = False
        one.stop()
    proxy.close()

    # The time is what the test is about: before the handler would learn it from Redis, which the
    # worker cannot reach.
    assert learned[0] - received_at < 15
    assert [message.id for message in rsmq.peek_messages("q")] == [id]
    assert raw.keys(f"{ns}:x:held:*") == []


@pytest.mark.parametrize("is_async", [False, True])
def test_worker_drains_a_full_server(own_server, create_worker, is_async):
    """Handling frees memory, also with retries, dead letters and quarantine on the way."""
    begun, done = Counter(), Counter()

    def handle(body, message):
        begun[message.id, message.receive_count] += 1
        if body["do"] == "fail" or (body["do"] == "fail_first" and message.attempt == 1):
            raise ValueError(body["do"])
        done[message.id] += 1

    async def handle_async(body, message):
        handle(body, message)

    with own_server.client("full") as rsmq, own_server.raw() as raw:
        rsmq.create_queue("dead")
        kinds = ["return", "fail", "fail_first", "often"] * 100
        ids = fill(rsmq, "q", [{"do": kind, "padding": "x" * 1000} for kind in kinds])
        for id, kind in zip(ids, kinds, strict=True):
            if kind == "often":
                raw.hset("full:q:Q", f"{id}:rc", 7)
                raw.hset("full:q:Q", f"{id}:fr", 1)
        raw.config_set("maxmemory-policy", "noeviction")
        raw.config_set("maxmemory", 1_000_000)
        with pytest.raises(redis_errors.OutOfMemoryError):
            rsmq.send_message("q", "one more")
        one = create_worker(rsmq, concurrency=4)
        one.listener("q", vt=VT, codec=JSON, max_retries=1, backoff=0, dead_letter_queue="dead")(
            handle_async if is_async else handle
        )
        one.start()
        wait_until(lambda: raw.zcard("full:q") == 0)
        one.stop()

        assert raw.zcard("full:dead") == 100
        assert done == {id: 1 for id, kind in zip(ids, kinds, strict=True) if kind != "fail"}
        assert max(begun.values()) == 1
        assert_nothing_left(raw, "full", "q")
