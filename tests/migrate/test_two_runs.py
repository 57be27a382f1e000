"""Two runs at once, one of which may be suspended at any moment: no message is doubled or lost."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
import redis

from rsmq.migrate import NotPossible, SourceNotFound, move
from rsmq.wire.keys import lock_of_aside
from tests.migrate.break_point import BreakingProxy, BreakPoint
from tests.migrate.keyed_server import Server
from tests.migrate.source_systems import SourceSystems, create_source
from tests.migrate.stored import read_bodies, read_messages
from tests.scale import scaled

KINDS = ["rfq", "list", "rsmq", "rqueue", "redisrq"]

#: How many moments of a suspension are tested, of all possible ones.
MOMENTS = scaled(2, 10_000)


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


class SuspensionPoint(BreakPoint):
    """A request before which a run is suspended, while an action runs."""

    def __init__(self, request, action):
        super().__init__(request)
        self._action = action

    def next(self):
        with self._lock:
            self.count += 1
            if self.count == self.request:
                self._action()
        return True, True


class System:
    """One system to migrate from, and the way to a target on another server."""

    def __init__(self, kind, ns, server, redisrq, systems, target_port):
        self.kind = kind
        self.ns = ns
        self.port = redisrq.port if kind == "redisrq" else server.port
        self.source_ns = f"{ns}-old" if kind == "rsmq" else ns
        self.target_port = target_port
        self._redisrq = redisrq
        self._systems = systems
        self.queue = f"{ns}-work" if kind == "list" else ns

    def fill(self):
        """Fill the source, and return the expected bodies."""
        if self.kind != "redisrq":
            return self._systems.fill(self.kind)
        with Server.from_url(self._redisrq.url) as old:
            old.raw.execute_command("RQ.PUSH", self.queue, *range(5))
            old.raw.execute_command("RQ.POP", self.queue)
        self._redisrq.advance_time(self.queue, 1)
        return [b"%d" % number for number in range(5)]

    def run(self, point=None, to="to", **options):
        """Migrate to the other server. Return the report, or None if nothing is left."""
        point = point or BreakPoint()
        proxies = BreakingProxy(self.port, point), BreakingProxy(self.target_port, point)
        old, target = proxies[0].connect(self.source_ns), proxies[1].connect(self.ns)
        try:
            source = create_source(self.kind, old, self.ns)
            return move(source, self.queue, target, to, in_flight=True, **options)
        except SourceNotFound:
            return None
        finally:
            for each in (old, target, *proxies):
                each.close()

    def expire_lock(self):
        with Server.from_url(f"redis://127.0.0.1:{self.port}", ns=self.source_ns) as old:
            aside = old.rsmq.namespace.aside(f"{self.kind}:{self.queue}")
            old.raw.delete(lock_of_aside(aside))


@pytest.fixture(params=KINDS)
def system(request, server, other_server, redisrq, raw, ns, create_rqueue):
    systems = SourceSystems(raw, ns, create_rqueue)
    yield System(request.param, ns, server, redisrq, systems, other_server.port)
    systems.clear()


def test_second_move_at_once_is_refused(system, remote, ns):
    """The first run continues, and its messages are moved once."""
    expected = system.fill()
    refusals = []

    def run_a_second(_):
        if refusals:
            return
        for to in ("to", "other"):
            with pytest.raises(NotPossible, match=f"Another run is moving {system.kind}:"):
                system.run(to=to)
            refusals.append(to)

    report = system.run(tell=run_a_second)

    assert refusals
    assert report.verified
    assert sorted(read_bodies(remote.raw, ns, "to")) == sorted(expected)


@pytest.mark.parametrize("follows_an_interrupted_run", [False, True])
def test_suspended_move_adds_nothing_after_another_run_has_replaced_it(
    system, remote, raw, ns, follows_an_interrupted_run
):
    """
    While it is suspended, its lock expires, another run moves all, and consumers empty the queue.

    An interrupted run before it has left messages set aside.
    """
    bodies = []

    def consume():
        for message in read_messages(remote.raw, ns, "to"):
            bodies.append(message.body)
            assert remote.rsmq.delete_message("to", message.id)

    def replace():
        system.expire_lock()
        with suppress(NotPossible):
            system.run()
        if remote.raw.exists(f"{ns}:to"):
            consume()

    def interrupt(*_):
        raise redis.exceptions.ConnectionError

    def run_with_suspension(request):
        bodies.clear()
        expected = system.fill()
        if follows_an_interrupted_run:
            with (
                pytest.MonkeyPatch.context() as patch,
                pytest.raises(redis.exceptions.ConnectionError),
            ):
                patch.setattr("rsmq.migrate.target.add_messages", interrupt)
                system.run()
            if system.kind == "redisrq":
                system._redisrq.advance_time(system.queue, 1)
        point = SuspensionPoint(request, replace)
        with suppress(NotPossible):
            system.run(point)
        if system.kind == "redisrq":
            system._redisrq.advance_time(system.queue, 1)
        system.run()
        consume()
        assert sorted(bodies) == sorted(expected), (request, point.count)
        return point.count

    remote.rsmq.create_queue("to")
    run_with_suspension(0)
    requests = run_with_suspension(0)
    assert requests > 10
    chance = random.Random(system.kind)
    for request in sorted(chance.sample(range(1, requests + 1), min(MOMENTS, requests))):
        run_with_suspension(request)
