"""
Migrations that are interrupted at each of their requests, and run again until they are complete.

A request is interrupted before it reaches the server, or before its reply; from then on neither
server can be reached, as if the process were dead. The resulting keys are compared with those of an
uninterrupted run.
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
from tests.migrate.break_point import BreakingProxy, BreakPoint
from tests.migrate.rqueue_states import fill_queue
from tests.migrate.stored import dump_keys, read_bodies
from tests.scale import scaled

CONNECTION_ERRORS = (redis_errors.ConnectionError, redis_errors.TimeoutError)

pytestmark = pytest.mark.timeout(scaled(60, 600))

#: How many breaks of each kind a scenario tests, of all possible ones.
BREAKS = scaled(5, 10_000)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Limit pages to two messages, so that few messages need many requests."""
    for name in (
        "sources.base.PAGE_SIZE",
        "sources.base.FIRST_PAGE_SIZE",
        "sources.redisrq.FIRST_PAGE_SIZE",
        "mover.PAGE_SIZE",
    ):
        monkeypatch.setattr(f"rsmq.migrate.{name}", 2)


class SourceSystems:
    """
    The systems to migrate from. Each method fills a namespace and returns the expected bodies.
    """

    def __init__(self, raw, ns, create_rqueue):
        self.raw = raw
        self.ns = ns
        self.create_rqueue = create_rqueue

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

    def rqueue_queue(self):
        state = fill_queue(self.create_rqueue(), self.ns)
        return [
            each.fields["message"].encode()
            for each in (*state.ready, state.failed, state.later, state.periodic, state.processing)
        ]

    @property
    def url(self):
        options = self.raw.connection_pool.connection_kwargs
        return f"redis://127.0.0.1:{options['port']}/0"

    def clear(self):
        keys = [
            key for pattern in (f"*{self.ns}*", "__rq::*") for key in self.raw.scan_iter(pattern)
        ]
        if keys:
            self.raw.unlink(*keys)


def create_source(kind, server, ns):
    return {
        "rfq": lambda: RFQ(server),
        "list": lambda: Lists(server, processing=[f"{ns}-w[0-9]"]),
        "rsmq": lambda: Queues(server),
        "rqueue": lambda: Rqueue(server),
    }[kind]()


def remaining_keys(kind, raw, ns):
    """Return the keys of the source's remaining messages."""
    patterns = {
        "rfq": [f"rfq:{ns}:*"],
        "list": [f"{ns}-*"],
        "rsmq": [f"{ns}-old:{ns}"],
        "rqueue": [f"__rq::?queue::{{{ns}}}", f"__rq::queue::{{{ns}}}"],
    }[kind]
    keys = [key for pattern in [*patterns, "*:x:aside:*"] for key in raw.keys(pattern)]
    return [key for key in keys if not key.endswith(b":held")]  # the lock expires by itself


@pytest.mark.parametrize("kind", ["rfq", "list", "rsmq", "rqueue"])
@pytest.mark.parametrize("way", ["copy", "move", "move to another server"])
def test_migration_interrupted_at_any_request_loses_and_duplicates_nothing(
    server, other_server, raw, ns, create_rqueue, kind, way
):
    is_remote = way.endswith("server")
    systems = SourceSystems(raw, ns, create_rqueue)
    queue = {"list": f"{ns}-work"}.get(kind, ns)
    source_ns = f"{ns}-old" if kind == "rsmq" else ns
    target_server = other_server if is_remote else server
    target_raw = target_server.raw()

    def run(break_point):
        """Run the migration over new connections; return whether it finished."""
        proxies = (
            BreakingProxy(server.port, break_point),
            BreakingProxy(target_server.port, break_point),
        )
        source_server, target = proxies[0].connect(source_ns), proxies[1].connect(ns)
        try:
            source = create_source(kind, source_server, ns)
            if way == "copy":
                report = copy(source, queue, target, "to")
            else:
                report = move(source, queue, target, "to", in_flight=True)
            assert report.verified
        except CONNECTION_ERRORS:
            return False
        except SourceNotFound:  # nothing was left to migrate
            assert remaining_keys(kind, raw, ns) == []
        finally:
            for each in (source_server, target, *proxies):
                each.close()
        return True

    def run_with_break(break_point):
        systems.clear()
        target_raw.unlink(*(target_raw.keys(f"{ns}:*") or ["none"]))
        expected = sorted(getattr(systems, {"rqueue": "rqueue_queue"}.get(kind, kind))())
        before = source_keys(raw, ns)
        if not run(break_point):
            assert run(BreakPoint())
        assert sorted(read_bodies(target_raw, ns, "to")) == expected
        if way == "copy":
            assert source_keys(raw, ns) == before
        else:
            assert remaining_keys(kind, raw, ns) == []
        return break_point.count

    run_with_break(BreakPoint())  # now the servers know the scripts
    requests = run_with_break(BreakPoint())
    assert requests > 10
    chance = random.Random(f"{kind} {way}")
    for executed in (False, True):
        requests_range = range(1, requests + 1)
        for request in chance.sample(requests_range, min(BREAKS, requests)):
            break_point = BreakPoint(request, executed=executed)
            run_with_break(break_point)
            assert break_point.has_broken, (request, requests)
    systems.clear()
    target_raw.close()


def source_keys(raw, ns):
    return {
        key: each
        for key, each in dump_keys(raw).items()
        if not key.startswith(f"{ns}:".encode()) and b":x:" not in key
    }


def test_move_from_redisrq_interrupted_at_any_request_loses_nothing(server, redisrq, raw, ns):
    """
    A popped message is in flight at the source afterwards; --in-flight moves it too.

    An acknowledged message is deleted there, so none may be acknowledged before it has arrived.
    """

    def run(break_point, queue):
        proxies = BreakingProxy(redisrq.port, break_point), BreakingProxy(server.port, break_point)
        old, target = (each.connect(ns) for each in proxies)
        try:
            return move(RedisRQ(old), queue, target, queue, in_flight=True)
        except CONNECTION_ERRORS:
            return None
        finally:
            for each in (old, target, *proxies):
                each.close()

    def run_with_break(break_point, queue):
        with Server.from_url(redisrq.url) as old:
            old.raw.execute_command("RQ.PUSH", queue, *range(5))
            old.raw.execute_command("RQ.POP", queue)
        redisrq.advance_time(queue, 1)
        if run(break_point, queue) is None:
            redisrq.advance_time(queue, 1)
            assert run(BreakPoint(), queue).verified
        assert sorted(read_bodies(raw, ns, queue)) == [b"0", b"1", b"2", b"3", b"4"]
        remaining = redisrq.keys[queue.encode()]
        assert (len(remaining.undelivered), len(remaining.delivered)) == (0, 0)
        return break_point.count

    run_with_break(BreakPoint(), "q")
    requests = run_with_break(BreakPoint(), "q0")
    assert requests > 10
    chance = random.Random("redisrq")
    for executed in (False, True):
        for request in chance.sample(range(1, requests + 1), min(BREAKS, requests)):
            run_with_break(BreakPoint(request, executed=executed), f"q{request}-{executed}")
