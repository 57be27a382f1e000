"""Redis ends, forgets its scripts, closes connections, and its replies are lost: work goes on."""

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
from rsmq.lua.load import load
from tests.proxy import Proxy
from tests.scale import scaled
from tests.workers.processes.conftest import fill, nothing_left, scores, until

pytestmark = pytest.mark.timeout(scaled(120, 3600))

VT = 120
VT_SHORT = 1
MESSAGES = scaled(1500, 50_000)


class Work:
    """Handlers in threads and tasks that write down whose attempt begins and ends."""

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
def test_faults_under_load_lose_and_double_nothing(own_server, worker, fault, pause):
    chance = random.Random(7)
    queues = "threads", "tasks"
    work = Work()
    with own_server.client("faults", retry_deadline=60) as rsmq, own_server.raw() as raw:
        ids = []
        for queue in queues:
            bodies = [{"n": n, "for": chance.choice([0, 0.01])} for n in range(MESSAGES // 2)]
            ids += fill(rsmq, queue, bodies)
        with own_server.client("faults") as client:
            one = worker(client, concurrency=4)
            for queue in queues:
                one.listener(queue, vt=VT, codec=JSON)(getattr(work, queue))
            one.start()
            faults = 0
            deadline = time.monotonic() + scaled(60, 3000)
            while sum(work.ended.values()) < len(ids) or faults < 5:
                assert time.monotonic() < deadline, (len(work.ended), scores(raw, "faults", queue))
                with contextlib.suppress(ConnectionError):
                    fault(own_server, raw)
                faults += 1
                time.sleep(chance.uniform(*pause))
            until(lambda: not any(rsmq.get_queue_attributes(queue).messages for queue in queues))
            one.stop()
        print(f"{faults} faults, {sum(work.begun.values())} attempts")

        assert Counter(work.ended.values()) == {1: len(ids)}, "handled twice"
        assert work.ended.keys() == set(ids)
        assert max(work.begun.values()) == 1, "one attempt had two holders"
        nothing_left(raw, "faults", *queues)


SCRIPTS = (
    "register_worker",
    "send_heartbeat",
    "receive_for_worker",
    "settle_messages",
    "dead_letter_messages",
    "record_quarantine_run",
    "unregister_worker",
)
#: What settle_messages does.
SETTLED = {"delete", "hide", "release", "extend"}


@pytest.fixture
def cut(server, ns, raw, worker):
    """A client behind a proxy, which loses the reply of one script of a name, that has run."""
    for script in SCRIPTS:
        raw.script_load(load(script).source)  # else it is a NOSCRIPT that is lost

    class Cut:
        def __init__(self):
            self.proxy = Proxy(server.port)
            self.client = RSMQ.from_url(self.proxy.url, ns=ns)
            self.script = None
            self.done = threading.Event()
            run = self.client.run
            self.client.run = lambda operation: run(self.seen(operation))

        def seen(self, operation):
            named = operation.script.name, *operation.args
            if self.script in named and not self.done.is_set():
                self.done.set()
                self.proxy.drop = 1
            return operation

        def lose(self, what):
            """Of this script, or of the first settle_messages that does this."""
            self.script = what.encode() if what in SETTLED else what

    cut = Cut()
    yield cut
    cut.client.close()
    cut.proxy.close()


@pytest.mark.parametrize("script", [*SCRIPTS, "delete", "hide", "extend"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_reply_that_is_lost_costs_nothing(ns, rsmq, raw, worker, cut, script, is_async):
    """Nothing stays hidden for its visibility timeout, and nothing is handled twice."""
    rsmq.create_queue("dead")
    vt = 0.6 if script == "extend" else VT
    kinds = ["return", "fail", "fail_first", "slow", "often", "return"]
    ids = dict(zip(fill(rsmq, "q", [{"do": kind} for kind in kinds]), kinds, strict=True))
    often = next(id for id, kind in ids.items() if kind == "often")
    raw.hset(f"{ns}:q:Q", f"{often}:rc", 5)
    raw.hset(f"{ns}:q:Q", f"{often}:fr", 1)
    done, begun = Counter(), Counter()

    def checked(body, message):
        begun[message.id, message.receive_count] += 1
        if body["do"] == "fail" or (body["do"] == "fail_first" and message.attempt == 1):
            raise ValueError(body["do"])
        return 1.0 if body["do"] == "slow" else 0

    def handle(body, message):
        time.sleep(checked(body, message))
        done[message.id] += 1

    async def handle_async(body, message):
        await asyncio.sleep(checked(body, message))
        done[message.id] += 1

    one = worker(cut.client, concurrency=2)
    one.listener("q", vt=vt, codec=JSON, max_retries=2, backoff=0.05, dead_letter_queue="dead")(
        handle_async if is_async else handle
    )
    cut.lose(script)
    one.start()
    until(lambda: raw.zcard(f"{ns}:q") == 0, 30)
    one.stop()

    assert cut.done.is_set()
    assert done == {id: 1 for id, kind in ids.items() if kind != "fail"}
    assert max(begun.values()) == 1
    [grave] = rsmq.peek_messages("dead")
    assert ids[grave.id] == "fail"
    assert grave.reason.exception == "ValueError: fail"
    nothing_left(raw, ns, "q")


def test_a_release_whose_reply_is_lost(ns, rsmq, raw, worker, cut):
    ids = fill(rsmq, "q", [{"n": n} for n in range(4)])
    begun, over = [], threading.Event()
    one = worker(cut.client, concurrency=3)

    @one.listener("q", vt=VT, codec=JSON)
    def handle(body, message):
        begun.append(message.id)
        over.wait(20)

    one.start()
    until(lambda: len(begun) == 3)
    cut.lose("release")
    one.stop(grace=0)
    over.set()

    assert cut.done.is_set()
    assert [message.id for message in rsmq.receive_messages("q", 10)] == ids
    assert raw.keys(f"{ns}:x:held:*") == []


def test_replies_that_are_lost_under_load_cost_nothing(ns, rsmq, raw, server, worker):
    chance = random.Random(11)
    work = Work()
    ids = fill(rsmq, "threads", [{"for": chance.choice([0, 0.01])} for _ in range(MESSAGES)])
    proxy = Proxy(server.port)
    with RSMQ.from_url(proxy.url, ns=ns) as client:
        one = worker(client, concurrency=4)
        one.listener("threads", vt=VT, codec=JSON)(work.threads)
        one.start()
        deadline = time.monotonic() + scaled(60, 3000)
        while len(work.ended) < len(ids):
            assert time.monotonic() < deadline, scores(raw, ns, "threads")
            time.sleep(chance.uniform(0, 0.1))
            proxy.drop = 1
        proxy.drop = 0
        until(lambda: raw.zcard(f"{ns}:threads") == 0)
        one.stop()
    proxy.close()

    assert work.ended == dict.fromkeys(ids, 1)
    assert max(work.begun.values()) == 1
    nothing_left(raw, ns, "threads")


@pytest.mark.parametrize("is_async", [False, True])
def test_an_outage_longer_than_vt(own_server, worker, is_async):
    """Handlers learn while it lasts that the message may be somebody else's; then work goes on."""
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
        one = worker(client)
        one.listener("q", vt=1, codec=JSON)(handle_async if is_async else handle)
        one.start()
        until(lambda: len(begun) == len(ids))
        own_server.kill()
        begin = time.monotonic()
        told = learned.wait(outage)
        time.sleep(max(begin + outage - time.monotonic(), 0))
        own_server.start()
        until(lambda: len(ended) == len(ids))
        later = None
        with own_server.client("outage") as rsmq:
            [later] = fill(rsmq, "q", [{"n": 9}])
            until(lambda: (later, 1) in begun)
        one.stop(grace=0)

    assert told, "the lease is over, and its handler does not learn it"
    assert sorted(ended) == sorted(ids)
    assert max(Counter(begun).values()) == 1


def test_a_reply_that_never_comes_costs_nothing(ns, rsmq, raw, server, worker):
    """The connection is half open: a read of it times out."""
    proxy = Proxy(server.port)
    work = Work()
    ids = fill(rsmq, "threads", [{"for": 0} for _ in range(20)])
    with RSMQ.from_url(proxy.url, ns=ns, socket_timeout=0.5) as client:
        one = worker(client, concurrency=4)
        one.listener("threads", vt=VT, codec=JSON)(work.threads)
        one.start()
        until(lambda: len(work.ended) == len(ids))
        for _ in range(3):
            proxy.hold = 1
            ids.extend(fill(rsmq, "threads", [{"for": 0} for _ in range(20)]))
            until(lambda: len(work.ended) == len(ids), 30)
        until(lambda: raw.zcard(f"{ns}:threads") == 0)
        one.stop()
    proxy.close()

    assert work.ended == dict.fromkeys(ids, 1)
    nothing_left(raw, ns, "threads")


def test_a_worker_that_is_cut_off_tells_its_handlers_when_their_leases_are_over(
    ns, rsmq, raw, server, worker
):
    """Others can reach Redis, and have its messages after vt."""
    [id] = fill(rsmq, "q", [{"n": 0}])
    proxy = Proxy(server.port)
    begun, learned = threading.Event(), []
    with RSMQ.from_url(proxy.url, ns=ns) as client:
        one = worker(client)

        @one.listener("q", vt=VT_SHORT, codec=JSON)
        def handle(body, message):
            begun.set()
            while not message.lease_lost:
                time.sleep(0.01)
            learned.append(time.monotonic())

        one.start()
        begun.wait(10)
        proxy.refuse = True
        proxy.close_connections()
        until(lambda: rsmq.receive_message("q", vt=VT) is not None)
        taken = time.monotonic()
        until(lambda: learned)
        proxy.refuse = False
        one.stop()
    proxy.close()

    # The time is what the test is about: before the handler would learn it from Redis, which the
    # worker cannot reach.
    assert learned[0] - taken < 15
    assert [message.id for message in rsmq.peek_messages("q")] == [id]
    assert raw.keys(f"{ns}:x:held:*") == []


@pytest.mark.parametrize("is_async", [False, True])
def test_a_server_that_is_full_is_drained(own_server, worker, is_async):
    """What is handled makes room: retries, dead letters and messages that go alone on the way."""
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
        ids = fill(rsmq, "q", [{"do": kind, "fat": "x" * 1000} for kind in kinds])
        for id, kind in zip(ids, kinds, strict=True):
            if kind == "often":
                raw.hset("full:q:Q", f"{id}:rc", 7)
                raw.hset("full:q:Q", f"{id}:fr", 1)
        raw.config_set("maxmemory-policy", "noeviction")
        raw.config_set("maxmemory", 1_000_000)
        with pytest.raises(redis_errors.OutOfMemoryError):
            rsmq.send_message("q", "one more")
        one = worker(rsmq, concurrency=4)
        one.listener("q", vt=VT, codec=JSON, max_retries=1, backoff=0, dead_letter_queue="dead")(
            handle_async if is_async else handle
        )
        one.start()
        until(lambda: raw.zcard("full:q") == 0, 30)
        one.stop()

        assert raw.zcard("full:dead") == 100
        assert done == {id: 1 for id, kind in zip(ids, kinds, strict=True) if kind != "fail"}
        assert max(begun.values()) == 1
        nothing_left(raw, "full", "q")
