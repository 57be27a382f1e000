"""
Migrations that are broken off at each of their requests, and run again until they are through.

A request is broken off before it reaches the server, or before its answer comes back; from then on
neither server can be reached, as if the process were dead. What is in Redis afterwards is compared
with what a run without a break leaves.
"""

from __future__ import annotations

import random

import pytest
import redis.exceptions as redis_errors

from rsmq.migrate import (
    RFQ,
    Lists,
    Queues,
    RedisRQ,
    Rqueue,
    Server,
    SourceNotFound,
    copy,
    move,
)  # fmt: skip
from rsmq.migrate.sources.rfq import make_uuid
from tests.migrate.fuse import Fuse, Fused
from tests.migrate.rqueue_states import whole
from tests.migrate.stored import bodies, dumped
from tests.scale import scaled

LOST = (redis_errors.ConnectionError, redis_errors.TimeoutError)

pytestmark = pytest.mark.timeout(scaled(60, 600))

#: How many breaks of each kind a scenario has, of all that it could have.
BREAKS = scaled(5, 10_000)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Two messages a page, so that few messages have many requests."""
    for name in (
        "sources.base.PAGE_SIZE",
        "sources.base.FIRST_PAGE_SIZE",
        "sources.redisrq.FIRST_PAGE_SIZE",
        "mover.PAGE_SIZE",
    ):
        monkeypatch.setattr(f"rsmq.migrate.{name}", 2)


class Systems:
    """What is there to move; each fills the keys of a namespace, and says what must arrive."""

    def __init__(self, raw, ns, rqueue):
        self.raw = raw
        self.ns = ns
        self.rqueue = rqueue

    def rfq(self):
        for number in range(5):
            id = make_uuid(1_700_000_000_000_000 + number).hex
            self.raw.hset(f"rfq:{self.ns}:message:{id}", "n", number)
            self.raw.lpush(f"rfq:{self.ns}:backlog", id)
        self.raw.lmove(f"rfq:{self.ns}:backlog", f"rfq:{self.ns}:nextlog", "RIGHT", "LEFT")
        return [b'{"n": "%d"}' % number for number in range(5)]

    def list(self):
        self.raw.lpush(f"{self.ns}-work", "a", "same", "same", "b", "same")
        self.raw.lpush(f"{self.ns}-w1", "held")
        return [b"a", b"same", b"same", b"b", b"same", b"held"]

    def rsmq(self):
        with Server.from_url(self.url, ns=f"{self.ns}-old") as old:
            old.rsmq.create_queue(self.ns)
            old.rsmq.send_messages(self.ns, ["0", "1", "2", "3"])
            old.rsmq.receive_message(self.ns, vt=500)
            old.rsmq.send_message(self.ns, "4", delay=500)
        return [b"0", b"1", b"2", b"3", b"4"]

    def rqueue_(self):
        state = whole(self.rqueue(), self.ns)
        return [
            each.fields["message"].encode()
            for each in (*state.ready, state.failed, state.later, state.periodic, state.processing)
        ]

    @property
    def url(self):
        connected = self.raw.connection_pool.connection_kwargs
        return f"redis://127.0.0.1:{connected['port']}/0"

    def clear(self):
        keys = [
            key for pattern in (f"*{self.ns}*", "__rq::*") for key in self.raw.scan_iter(pattern)
        ]
        if keys:
            self.raw.unlink(*keys)


def sources(kind, server, ns):
    return {
        "rfq": lambda: RFQ(server),
        "list": lambda: Lists(server, processing=[f"{ns}-w[0-9]"]),
        "rsmq": lambda: Queues(server),
        "rqueue": lambda: Rqueue(server),
    }[kind]()


def left_at(kind, raw, ns):
    """What is left of the source's messages: none of any kind."""
    patterns = {
        "rfq": [f"rfq:{ns}:*"],
        "list": [f"{ns}-*"],
        "rsmq": [f"{ns}-old:{ns}"],
        "rqueue": [f"__rq::?queue::{{{ns}}}", f"__rq::queue::{{{ns}}}"],
    }[kind]
    left = [key for pattern in [*patterns, "*:x:aside:*"] for key in raw.keys(pattern)]
    return [key for key in left if not key.endswith(b":held")]  # which ends by itself


@pytest.mark.parametrize("kind", ["rfq", "list", "rsmq", "rqueue"])
@pytest.mark.parametrize("way", ["copy", "move", "move to another server"])
def test_whatever_request_is_the_last_one_nothing_is_lost_or_doubled(
    server, other_server, raw, ns, rqueue, kind, way
):
    away = way.endswith("server")
    systems = Systems(raw, ns, rqueue)
    queue = {"list": f"{ns}-work"}.get(kind, ns)
    source_ns = f"{ns}-old" if kind == "rsmq" else ns
    to = other_server if away else server
    seen = to.raw()

    def run(fuse):
        """Whether it came to its end, over new connections."""
        proxies = Fused(server.port, fuse), Fused(to.port, fuse)
        here, target = proxies[0].opened(source_ns), proxies[1].opened(ns)
        try:
            source = sources(kind, here, ns)
            if way == "copy":
                report = copy(source, queue, target, "to")
            else:
                report = move(source, queue, target, "to", in_flight=True)
            assert report.verified
        except LOST:
            return False
        except SourceNotFound:  # nothing was left to be done
            assert left_at(kind, raw, ns) == []
        finally:
            for each in (here, target, *proxies):
                each.close()
        return True

    def tried(fuse):
        systems.clear()
        seen.unlink(*(seen.keys(f"{ns}:*") or ["none"]))
        expected = sorted(getattr(systems, {"rqueue": "rqueue_"}.get(kind, kind))())
        before = source_keys(raw, ns)
        if not run(fuse):
            assert run(Fuse())
        assert sorted(bodies(seen, ns, "to")) == expected
        if way == "copy":
            assert source_keys(raw, ns) == before
        else:
            assert left_at(kind, raw, ns) == []
        return fuse.count

    tried(Fuse())  # and now the servers know the scripts
    requests = tried(Fuse())
    assert requests > 10
    chance = random.Random(f"{kind} {way}")
    for executed in (False, True):
        places = range(1, requests + 1)
        for at in chance.sample(places, min(BREAKS, requests)):
            fuse = Fuse(at, executed=executed)
            tried(fuse)
            assert fuse.blown, (at, requests)
    systems.clear()
    seen.close()


def source_keys(raw, ns):
    return {
        key: each
        for key, each in dumped(raw).items()
        if not key.startswith(f"{ns}:".encode()) and b":x:" not in key
    }


def test_of_redisrq_nothing_is_lost_whatever_request_is_the_last_one(server, redisrq, raw, ns):
    """
    What was popped is in flight at the source then; with --in-flight it comes too.

    An acknowledged message is gone there, so none may be acknowledged before it has arrived.
    """

    def run(fuse, queue):
        proxies = Fused(redisrq.port, fuse), Fused(server.port, fuse)
        old, target = (each.opened(ns) for each in proxies)
        try:
            return move(RedisRQ(old), queue, target, queue, in_flight=True)
        except LOST:
            return None
        finally:
            for each in (old, target, *proxies):
                each.close()

    def tried(fuse, queue):
        with Server.from_url(redisrq.url) as old:
            old.raw.execute_command("RQ.PUSH", queue, *range(5))
            old.raw.execute_command("RQ.POP", queue)
        redisrq.elapse(queue, 1)
        if run(fuse, queue) is None:
            redisrq.elapse(queue, 1)
            assert run(Fuse(), queue).verified
        assert sorted(bodies(raw, ns, queue)) == [b"0", b"1", b"2", b"3", b"4"]
        left = redisrq.keys[queue.encode()]
        assert (len(left.undelivered), len(left.delivered)) == (0, 0)
        return fuse.count

    tried(Fuse(), "q")
    requests = tried(Fuse(), "q0")
    assert requests > 10
    chance = random.Random("redisrq")
    for executed in (False, True):
        for at in chance.sample(range(1, requests + 1), min(BREAKS, requests)):
            tried(Fuse(at, executed=executed), f"q{at}-{executed}")
