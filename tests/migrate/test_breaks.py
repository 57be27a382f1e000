"""
Migrations that are interrupted at each of their requests, and run again until they are complete.

A request is interrupted before it reaches the server, or before its reply; from then on neither
server can be reached, as if the process were dead. The resulting keys are compared with those of an
uninterrupted run.
"""

from __future__ import annotations

import json
import random

import pytest
import redis.exceptions as redis_errors

from rsmq.migrate import NotPossible, RedisRQ, SourceNotFound, copy, move
from tests.migrate.break_point import BreakingProxy, BreakPoint
from tests.migrate.keyed_server import Server
from tests.migrate.source_systems import (
    SourceSystems,
    create_source,
    fill_in_odd_order,
    remaining_keys,
)
from tests.migrate.stored import dump_keys, read_bodies
from tests.scale import scaled

CONNECTION_ERRORS = (redis_errors.ConnectionError, redis_errors.TimeoutError)

pytestmark = pytest.mark.slow

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
        expected = sorted(systems.fill(kind))
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


@pytest.mark.parametrize("kind", ["rfq", "list", "rqueue"])
@pytest.mark.parametrize("is_remote", [False, True])
def test_move_interrupted_at_any_request_keeps_the_order(
    server, other_server, raw, ns, create_rqueue, kind, is_remote
):
    """The next run continues behind the last message of the one before."""
    systems = SourceSystems(raw, ns, create_rqueue)
    queue = f"{ns}-work" if kind == "list" else ns
    target_server = other_server if is_remote else server
    target_raw = target_server.raw()

    def run(break_point):
        proxies = (
            BreakingProxy(server.port, break_point),
            BreakingProxy(target_server.port, break_point),
        )
        source_server, target = (each.connect(ns) for each in proxies)
        try:
            assert move(create_source(kind, source_server, ns), queue, target, "to").verified
        except CONNECTION_ERRORS:
            return False
        except SourceNotFound:
            pass
        finally:
            for each in (source_server, target, *proxies):
                each.close()
        return True

    def run_with_break(break_point):
        systems.clear()
        target_raw.unlink(*(target_raw.keys(f"{ns}:*") or ["none"]))
        expected = fill_in_odd_order(kind, raw, ns)
        if not run(break_point):
            assert run(BreakPoint())
        assert read_bodies(target_raw, ns, "to") == expected
        return break_point.count

    run_with_break(BreakPoint())
    requests = run_with_break(BreakPoint())
    assert not target_raw.exists(f"{ns}:to:x:copied")
    chance = random.Random(f"{kind} {is_remote}")
    for executed in (False, True):
        for request in chance.sample(range(1, requests + 1), min(BREAKS, requests)):
            run_with_break(BreakPoint(request, executed=executed))
    systems.clear()
    target_raw.close()


@pytest.mark.parametrize("kind", ["rfq", "list", "rsmq", "rqueue"])
def test_messages_set_aside_for_one_queue_are_not_moved_to_another(
    server, other_server, remote, raw, ns, create_rqueue, kind
):
    """Some of them may be in the first queue already: both would have them."""
    systems = SourceSystems(raw, ns, create_rqueue)
    expected = sorted(systems.fill(kind))
    queue = f"{ns}-work" if kind == "list" else ns
    with Server.from_url(server.url, ns=f"{ns}-old" if kind == "rsmq" else ns) as source_server:
        source = create_source(kind, source_server, ns)
        aside_key = source.aside_key(queue)

        def break_off(*_):
            raise redis_errors.ConnectionError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rsmq.migrate.target.compare_bodies", break_off)
            with pytest.raises(redis_errors.ConnectionError):
                move(source, queue, remote, "to", in_flight=True)
        assert raw.exists(aside_key)
        assert remote.raw.zcard(f"{ns}:to") > 0
        before = dump_keys(raw)
        for dry_run in (True, False):
            with pytest.raises(NotPossible, match=f"on their way to another queue, {ns}:to on "):
                move(source, queue, remote, "other", in_flight=True, dry_run=dry_run)
            without_lock = {
                key: each for key, each in dump_keys(raw).items() if b":held" not in key
            }
            assert without_lock == before
        assert remote.raw.zcard(f"{ns}:other") == 0

        assert move(source, queue, remote, "to", in_flight=True).verified
        assert sorted(read_bodies(remote.raw, ns, "to")) == expected
        assert not raw.exists(aside_key)
    systems.clear()


def test_messages_set_aside_for_a_queue_that_is_gone_can_be_moved(server, remote, raw, ns):
    """The error says which field to delete."""
    raw.lpush(f"{ns}:work", "a", "b")
    with Server.from_url(server.url, ns=ns) as local:
        source = create_source("list", local, ns)
        aside_key = source.aside_key(f"{ns}:work")
        target = {"queue": f"{ns}:gone", "created": "5", "server": "elsewhere:6379/0"}
        raw.hset(aside_key, mapping={"": json.dumps(target), "1" * 10 + "x" * 22: "5 0   aside"})
        with pytest.raises(NotPossible, match=f"field '' of the hash {aside_key.decode()} "):
            move(source, f"{ns}:work", remote, "to")
        raw.hdel(aside_key, "")

        assert move(source, f"{ns}:work", remote, "to").verified
        assert sorted(read_bodies(remote.raw, ns, "to")) == [b"a", b"aside", b"b"]


def test_messages_set_aside_are_read_in_the_order_of_the_numbers_of_their_scores(server, raw, ns):
    with Server.from_url(server.url, ns=ns) as local:
        source = create_source("list", local, ns)
        for score in (1000, 999, 20, 3):
            id = f"{score:010d}" + "x" * 22
            raw.hset(source.aside_key(f"{ns}:work"), id, f"{score} 0   {score}")
        (messages,) = source.aside(f"{ns}:work")

    assert [each.message.visible_at_ms for each in messages] == [3, 20, 999, 1000]


def test_messages_set_aside_by_the_first_release_are_moved(server, remote, raw, ns):
    """Their hash names no target."""
    with Server.from_url(server.url, ns=ns) as local:
        source = create_source("list", local, ns)
        raw.hset(source.aside_key(f"{ns}:work"), "1" * 10 + "x" * 22, "5 0   aside")

        assert move(source, f"{ns}:work", remote, "to").arrived == 1
        assert read_bodies(remote.raw, ns, "to") == [b"aside"]
