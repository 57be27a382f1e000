"""Calls that are ready in the same turn of the event loop: a batch, in which each has its end."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import pytest
import redis.exceptions as redis_errors

from rsmq import AsyncRSMQ, Message, MessageTooLong, QueueNotFound
from rsmq.operations.coalescing import KINDS, MAX_CALLS
from tests.clusters import slot_of
from tests.lent import LendingAsyncRedis
from tests.proxy import Proxy
from tests.scale import WAIT_SECONDS, scaled
from tests.servers import Server, redis_7

LARGE = "x" * 9000


@pytest.fixture
def proxy(server):
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def own_server():
    """A server whose settings a test may change."""
    started = Server(redis_7())
    yield started
    started.stop()


def together(*calls):
    """Make calls in one turn of the loop; return their results and errors."""
    return asyncio.gather(*calls, return_exceptions=True)


async def gathered(*calls):
    return await together(*calls)


@asynccontextmanager
async def connected(url, ns, **options):
    """A client with queue q, whose server has answered each kind of call once."""
    async with AsyncRSMQ.from_url(url, ns=ns, **options) as client:
        yield await prepared(client)


async def prepared(client):
    await client.create_queue("q", vt=1000, exist_ok=True)
    await client.send_message("q", "1")
    await client.send_message("q", "2")
    message = await client.receive_message("q")
    assert await client.change_message_visibility(message, 0)
    assert await client.pop_message("q")
    assert await client.pop_message("q")
    assert not await client.delete_message(message)
    return client


def count_scripts(raw):
    stats = raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))


def stored(raw, ns):
    """Return the bodies in queue q by id, in the order of the queue."""
    fields = raw.hgetall(f"{ns}:q:Q")
    return {id.decode(): fields.get(id, b"").decode() for id in raw.zrange(f"{ns}:q", 0, -1)}


def is_consistent(raw, ns):
    """Return whether each id has its body, and each body its id."""
    bodies = {field for field in raw.hkeys(f"{ns}:q:Q") if len(field) == 32}
    return bodies == set(raw.zrange(f"{ns}:q", 0, -1))


def hidden(raw, ns):
    """Return the ids of the messages that are hidden for long."""
    seconds, _ = raw.time()
    return {id.decode() for id in raw.zrangebyscore(f"{ns}:q", seconds * 1000 + 500_000, "+inf")}


async def test_a_life_of_messages_in_one_script_for_each_kind_of_call(server, raw, ns):
    async with connected(server.url, ns) as client:
        before = count_scripts(raw)
        ids = await together(*(client.send_message("q", str(each)) for each in range(20)))
        assert list(stored(raw, ns)) == ids
        assert list(stored(raw, ns).values()) == [str(each) for each in range(20)]
        assert raw.hget(f"{ns}:q:Q", "totalsent") == b"22"

        messages = await together(*(client.receive_message("q") for _ in range(21)))
        assert messages.pop() is None
        assert [(each.id, each.receive_count) for each in messages] == [(id, 1) for id in ids]
        assert raw.hget(f"{ns}:q:Q", "totalrecv") == b"23"
        assert hidden(raw, ns) == set(ids)

        changes = (client.change_message_visibility(each, 0) for each in messages)
        assert await together(*changes) == [True] * 20
        assert hidden(raw, ns) == set()
        again = await together(*(client.receive_message("q") for _ in range(10)))
        assert [each.receive_count for each in again] == [2] * 10
        assert {each.first_received_ms for each in again} <= {
            each.first_received_ms for each in messages
        }
        deletes = (client.delete_message(each) for each in (*again, messages[0], *again))
        assert await together(*deletes) == [True] * 10 + [False] * 11
        pops = await together(*(client.pop_message("q") for _ in range(11)))
        assert [each and each.receive_count for each in pops] == [2] * 10 + [None]
        assert raw.zcard(f"{ns}:q") == 0
        assert set(raw.hkeys(f"{ns}:q:Q")) >= {b"vt", b"delay", b"maxsize", b"created"}
        assert not any(len(field) >= 32 for field in raw.hkeys(f"{ns}:q:Q"))
        # After calls one by one, the first call goes at once.
        assert count_scripts(raw) - before == 1 + 6


def test_batches_keep_their_order_if_their_scripts_are_missing(own_server):
    """A read brings the errors of all of them, before any is sent again."""

    async def main():
        async with connected(own_server.url, "flushed") as client:
            for size in (MAX_CALLS + 5, 3):
                await together(*(client.send_message("q", "warm") for _ in range(2)))
                await together(*(client.pop_message("q") for _ in range(2)))
                raw.script_flush()
                bodies = [str(each) for each in range(size)]
                await together(
                    *(client.send_message("q", each) for each in bodies),
                    *(client.pop_message("q") for _ in range(2)),
                )
                assert list(stored(raw, "flushed").values()) == bodies[2:]
                await client.purge_queue("q")

    with own_server.raw() as raw:
        asyncio.run(main())


async def test_a_size_limit_that_is_too_large_for_a_reply_is_no_limit(server, raw, ns):
    async with connected(server.url, ns) as client:
        raw.hset(f"{ns}:q:Q", "maxsize", "9" * 20)
        for body in ("m", LARGE):
            ids = await together(*(client.send_message("q", body) for _ in range(5)))
            assert list(stored(raw, ns)) == ids
            await client.purge_queue("q")


def test_monitor_shows_the_script_of_the_batch(own_server):
    async def main():
        async with connected(own_server.url, "m") as client:
            await together(*(client.send_message("q", f"body {each}") for each in range(9)))
            await client.send_message("q", "the last body")

    with own_server.raw() as raw, raw.monitor() as monitor:
        asyncio.run(main())
        commands = []
        for each in monitor.listen():
            commands.append(each["command"])
            if "the last body" in each["command"] and each["client_type"] != "lua":
                break
    assert sum("body 8" in each and each.startswith("EVAL") for each in commands) == 1


@pytest.mark.parametrize("bodies", [["m"] * 4, [LARGE] * 4], ids=["small", "large"])
def test_calls_that_differ_are_not_in_one_batch(server, raw, ns, bodies):
    """Realtime, options, a position and other delays; and a single call."""

    async def main():
        async with (
            connected(server.url, ns) as client,
            AsyncRSMQ.from_url(server.url, ns=ns, realtime=True) as realtime,
        ):
            await client.create_queue("p")
            await realtime.send_message("p", "m")
            await client.send_message("p", "m", dedup_id="0")
            before = count_scripts(raw)
            await together(*(realtime.send_message("q", each) for each in bodies))
            await together(
                *(
                    client.send_message("q", each, dedup_id=str(number))
                    for number, each in enumerate(bodies)
                )
            )
            await together(*(client.send_message("q", each, front=True) for each in bodies))
            await together(
                *(
                    client.send_message(queue, each)
                    for queue, each in zip("qpqp", bodies, strict=True)
                )
            )
            await together(
                *(
                    client.send_message("q", each, delay=number)
                    for number, each in enumerate(bodies)
                )
            )
            await together(*(client.receive_message("p", vt=0) for _ in bodies))
            assert count_scripts(raw) - before == 24

    asyncio.run(main())


@pytest.mark.parametrize("body", ["m", LARGE], ids=["small", "large"])
async def test_each_call_has_its_own_error(server, raw, ns, body):
    async with connected(server.url, ns) as client:
        await client.set_queue_attributes("q", maxsize=10_000)
        bodies = [body, "x" * 10_001, body, body, "x" * 10_002]
        found = await together(
            *(client.send_message("q", each) for each in bodies),
            *(client.send_message("missing", body) for _ in range(3)),
            *(client.receive_message("missing") for _ in range(2)),
            *(client.pop_message("missing") for _ in range(2)),
            *(client.change_message_visibility("missing", "i" * 32, 1) for _ in range(2)),
            *(client.delete_message("missing", "i" * 32) for _ in range(2)),
        )
        refused = await together(client.send_message("q", bodies[1]))
        assert [type(found[1]), str(found[1])] == [MessageTooLong, str(refused[0])]
        assert isinstance(found[4], MessageTooLong)
        assert "10002" in str(found[4])
        assert [each for each in found[:5] if isinstance(each, str)] == list(stored(raw, ns))
        assert len(stored(raw, ns)) == 3
        assert [type(each) for each in found[5:14]] == [QueueNotFound] * 9
        assert len({id(each) for each in found[5:14]}) == 9
        assert found[14:] == [False, False]


async def test_a_key_of_another_type_and_a_stored_value_that_is_no_number(server, raw, ns):
    async with connected(server.url, ns) as client:
        raw.hset(f"{ns}:q:Q", "delay", "soon")
        single = await together(client.send_message("q", "m"))
        for error in await together(*(client.send_message("q", "m") for _ in range(4))):
            assert (type(error), str(error)) == (type(single[0]), str(single[0]))
        raw.delete(f"{ns}:q")
        raw.set(f"{ns}:q", "text")
        raw.hset(f"{ns}:q:Q", "delay", "0")
        for error in await together(
            *(client.send_message("q", "m") for _ in range(3)),
            *(client.send_message("q", LARGE) for _ in range(3)),
            *(client.receive_message("q") for _ in range(3)),
            *(client.delete_message("q", "i" * 32) for _ in range(3)),
        ):
            assert isinstance(error, redis_errors.ResponseError)
            assert "WRONGTYPE" in str(error)
        assert not [field for field in raw.hkeys(f"{ns}:q:Q") if len(field) == 32]


async def test_full_memory_fails_each_send_and_no_other_call(own_server):
    async with connected(own_server.url, "full") as client:
        await together(*(client.send_message("q", each) for each in "abc"))
        with own_server.raw() as raw:
            raw.config_set("maxmemory", 1)
            try:
                found = await together(
                    *(client.send_message("q", "m") for _ in range(3)),
                    *(client.send_message("q", LARGE) for _ in range(3)),
                    *(client.receive_message("q") for _ in range(2)),
                    *(client.pop_message("q") for _ in range(2)),
                )
                assert all(isinstance(each, redis_errors.ResponseError) for each in found[:6])
                assert [each and each.body for each in found[6:]] == ["a", "b", "c", None]
                deletes = await together(*(client.delete_message(each) for each in found[6:8]))
                assert deletes == [True, True]
                assert is_consistent(raw, "full")
                assert not stored(raw, "full")
            finally:
                raw.config_set("maxmemory", 0)


async def test_calls_of_a_demoted_server_are_tried_again_when_it_is_promoted(own_server):
    async with connected(own_server.url, "demoted", retry_deadline=20) as client:
        with own_server.raw() as raw:
            raw.replicaof("127.0.0.1", "1")
            try:
                bodies = [*map(str, range(5)), *[LARGE] * 3]
                sends = [client.send_message("q", each) for each in bodies]
                calls = asyncio.create_task(gathered(*sends))
                rejected = "errorstat_READONLY"
                while raw.info("errorstats").get(rejected, {"count": 0})["count"] < 8:
                    await asyncio.sleep(0.01)
            finally:
                raw.replicaof("NO", "ONE")
            ids = await calls
            assert sorted(ids) == sorted(stored(raw, "demoted"))
            assert len(set(ids)) == 8


@pytest.mark.parametrize("kind", ["url", "lent", "memory"])
async def test_a_server_that_has_lost_its_scripts_runs_each_call_once(own_server, kind):
    if kind == "memory":
        client, raw, inner = AsyncRSMQ.from_url("memory://", ns=kind), None, None
    elif kind == "lent":
        inner, raw = LendingAsyncRedis(port=own_server.port), own_server.raw()
        client = AsyncRSMQ(inner, ns=kind)
    else:
        client, raw, inner = AsyncRSMQ.from_url(own_server.url, ns=kind), own_server.raw(), None
    await prepared(client)
    for _ in range(3):
        if raw is not None:
            raw.script_flush()
        ids = await together(*(client.send_message("q", str(each)) for each in range(6)))
        assert len(set(ids)) == 6
        messages = await together(*(client.receive_message("q") for _ in range(7)))
        assert sorted(each.id for each in messages if each) == sorted(ids)
        deleted = await together(*(client.delete_message(each) for each in messages if each))
        assert deleted == [True] * 6
    await client.close()
    if inner is not None:
        await inner.aclose()
    if raw is not None:
        raw.close()


async def test_a_reply_that_is_lost_fails_or_repeats_each_call_by_its_retry_class(proxy, raw, ns):
    async with connected(proxy.url, ns) as client:

        async def broken(*calls):
            proxy.drop = 1
            return await together(*calls)

        sent = await broken(*(client.send_message("q", f"lost {each}") for each in range(5)))
        failed = [each for each in sent if not isinstance(each, str)]
        assert failed
        assert all(isinstance(each, redis_errors.ConnectionError) for each in failed)
        # The first call went alone. Calls that were not sent when its connection broke are
        # repeated; those that were sent are not.
        assert {each for each in sent if isinstance(each, str)} <= stored(raw, ns).keys()
        assert len(stored(raw, ns)) <= len(sent)
        assert is_consistent(raw, ns)

        await prepared_again(client)
        ids = await together(*(client.send_message("q", str(each)) for each in range(5)))
        received = await broken(*(client.receive_message("q") for _ in range(5)))
        assert not any(isinstance(each, Exception) for each in received)
        assert {each.id for each in received if each} <= set(ids)

        for id in ids:
            raw.zadd(f"{ns}:q", {id: 0})
        await prepared_again(client, delete=False)
        messages = await together(*(client.receive_message("q") for _ in range(5)))
        assert await broken(*(client.delete_message(each) for each in messages)) == [True] * 5
        assert not stored(raw, ns)

        await prepared_again(client)
        await together(*(client.send_message("q", str(each)) for each in range(5)))
        popped = await broken(*(client.pop_message("q") for _ in range(5)))
        assert all(isinstance(each, redis_errors.ConnectionError) for each in popped)


async def prepared_again(client, *, delete=True):
    """Connect again, and make batches at once."""
    if delete:
        await client.purge_queue("q")
    await client.list_queues()
    make_batches(client)


def make_batches(client):
    """Let the connection take single calls of each kind as answered, and forget failed batches."""
    reconnecting = client._caller._loop_connections[asyncio.get_running_loop()]
    reconnecting._coalescer._pauses.clear()
    reconnecting._current.loaded |= KINDS.keys()
    reconnecting._current._is_sequential = False


@pytest.mark.parametrize(("spare", "stored_bodies"), [(0, 4), (1, 4)], ids=["first", "second"])
def test_a_lost_reply_to_a_step_of_large_sends(proxy, raw, ns, spare, stored_bodies):
    """The first step changes nothing, so it is tried again. The second step is not."""

    async def main():
        async with connected(proxy.url, ns) as client:
            await prepared_again(client)
            proxy.spare, proxy.drop = spare, 1
            found = await together(*(client.send_message("q", LARGE) for _ in range(4)))
            if spare:
                assert all(isinstance(each, redis_errors.ConnectionError) for each in found)
            else:
                assert set(stored(raw, ns)) == set(found)
            assert len(stored(raw, ns)) == stored_bodies
            assert is_consistent(raw, ns)

    asyncio.run(main())


async def test_large_bodies_keep_the_order_of_all_calls(server, raw, ns):
    async with connected(server.url, ns) as client:
        bodies = [f"{each}{LARGE if each % 7 > 2 else ''}" for each in range(40)]
        calls = [client.send_message("q", each) for each in bodies]
        calls.append(client.receive_message("q"))
        tasks = [asyncio.ensure_future(each) for each in calls]
        await asyncio.sleep(0)
        later = [asyncio.ensure_future(client.send_message("q", "later")) for _ in range(2)]
        found = await together(*tasks, *later)
        assert found[40].body == bodies[0]
        assert list(stored(raw, ns)) == [*found[1:40], *found[41:], found[0]]
        assert list(stored(raw, ns).values()) == [*bodies[1:], "later", "later", bodies[0]]


def test_large_bodies_of_several_queues_take_two_round_trips_and_hold_no_other_call(own_server):
    """All first steps are sent together, and other calls run before the replies to these."""
    proxy = Proxy(own_server.port)
    ns = "trips"

    def transactions():
        return raw.info("commandstats").get("cmdstat_multi", {"calls": 0})["calls"]

    async def main():
        async with connected(proxy.url, ns) as client:
            await client.create_queue("p")
            await client.create_queue("other")
            make_batches(client)
            before = transactions()
            proxy.withholding = True
            sends = [
                asyncio.ensure_future(client.send_message("qqqqpppp"[each % 8], f"{each}{LARGE}"))
                for each in range(40)
            ]
            later = asyncio.ensure_future(client.send_message("other", "later"))
            await asyncio.sleep(0)
            last = asyncio.ensure_future(client.send_message("q", "last"))
            await until(lambda: raw.zcard(f"{ns}:other") == raw.zcard(f"{ns}:q") == 1)
            assert transactions() - before == 10
            assert raw.zcard(f"{ns}:p") == 0
            proxy.withholding = False
            ids = await asyncio.gather(*sends)
            assert await later in {each.decode() for each in raw.zrange(f"{ns}:other", 0, -1)}
            assert transactions() - before == 20
            # Their places are those of the first step.
            expected = [id for at, id in enumerate(ids) if at % 8 < 4]
            assert list(stored(raw, ns)) == [*expected, await last]
            assert raw.zcard(f"{ns}:p") == 20
            assert is_consistent(raw, ns)

    try:
        with own_server.raw() as raw:
            asyncio.run(main())
    finally:
        proxy.close()


@pytest.mark.parametrize("kind", ["url", "lent"])
def test_calls_that_are_cancelled_before_they_are_written_are_not_sent(proxy, raw, ns, kind):
    """As soon as the buffers of the system are full, nothing more is packed."""
    bodies = ["x" * 200_000] * 300

    async def main():
        inner = LendingAsyncRedis(port=proxy.port) if kind == "lent" else None
        client = await prepared(
            AsyncRSMQ.from_url(proxy.url, ns=ns) if inner is None else AsyncRSMQ(inner, ns=ns)
        )
        await together(*(client.send_message("q", "m") for _ in range(3)))
        received = raw.hget(f"{ns}:q:Q", "totalrecv")
        proxy.stalled = True
        calls = [asyncio.ensure_future(client.send_message("q", each)) for each in bodies]
        calls += [asyncio.ensure_future(client.send_message("q", LARGE)) for _ in range(20)]
        calls += [asyncio.ensure_future(client.receive_message("q")) for _ in range(3)]
        calls += [asyncio.ensure_future(client.pop_message("q")) for _ in range(3)]
        kept = asyncio.ensure_future(client.send_message("q", "kept"))
        for _ in range(20):
            await asyncio.sleep(0)
        for each in calls:
            each.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        proxy.stalled = False
        assert await kept
        await together(*calls)
        found = list(stored(raw, ns).values())
        assert found[:3] == ["m"] * 3
        assert found[-1] == "kept"
        assert set(found[3:-1]) <= {bodies[0]}
        assert len(found) < len(bodies) // 2
        assert raw.hget(f"{ns}:q:Q", "totalrecv") == received
        assert is_consistent(raw, ns)
        await client.close()
        if inner is not None:
            await inner.aclose()

    asyncio.run(main())


def test_a_user_without_the_right_to_multi_sends_large_bodies(own_server):
    with own_server.raw() as raw:
        raw.acl_setuser("u", enabled=True, passwords=["+p"], keys="*", commands=["+@all", "-multi"])
        url = own_server.url.replace("://", "://u:p@")

        async def main():
            async with connected(url, "few") as client:
                for _ in range(2):
                    ids = await together(*(client.send_message("q", LARGE) for _ in range(4)))
                    assert set(ids) <= set(stored(raw, "few"))
                assert len(stored(raw, "few")) == 8

        asyncio.run(main())
        raw.acl_deluser("u")


@pytest.mark.parametrize(
    "command",
    ["hdel", "hget", "hincrby", "hmget", "hset", "zadd", "zrangebyscore", "zrem", "zscore"],
)
def test_a_user_without_a_right_loses_doubles_and_hides_no_message(own_server, command):
    ns = f"without-{command}"

    async def main():
        async with connected(own_server.url, ns) as client:
            ids = await together(*(client.send_message("q", f"all {each}") for each in range(4)))
        async with connected_as_user() as few:
            sent = await together(*(few.send_message("q", f"few {each}") for each in range(4)))
            large = await together(*(few.send_message("q", LARGE) for _ in range(2)))
            received = await together(*(few.receive_message("q") for _ in range(4)))
            messages = [each for each in received if isinstance(each, Message)]
            deleted = await together(*(few.delete_message(each) for each in messages))
        kept = {each.id for each, done in zip(messages, deleted, strict=True) if done is not True}
        expected = {*ids, *(each for each in [*sent, *large] if isinstance(each, str))}
        expected -= {each.id for each in messages if each.id not in kept}
        assert set(stored(raw, ns)) == expected
        assert is_consistent(raw, ns)
        assert hidden(raw, ns) == kept

    @asynccontextmanager
    async def connected_as_user():
        url = own_server.url.replace("://", "://few:p@")
        async with AsyncRSMQ.from_url(url, ns=ns) as client:
            await client.list_queues()  # opens the connection
            make_batches(client)
            yield client

    with own_server.raw() as raw:
        rights = ["+@all", f"-{command}"]
        raw.acl_setuser("few", enabled=True, passwords=["+p"], keys="*", commands=rights)
        asyncio.run(main())
        raw.acl_deluser("few")


def test_the_size_of_a_batch_is_bounded(server, raw, ns):
    number = 2 * MAX_CALLS + 100

    async def main():
        async with connected(server.url, ns) as client:
            before = count_scripts(raw)
            ids = await together(*(client.send_message("q", str(each)) for each in range(number)))
            assert list(stored(raw, ns)) == ids
            assert count_scripts(raw) - before == 1 + 3
            messages = await together(*(client.receive_message("q") for _ in range(number)))
            assert [each.id for each in messages] == ids
            await client.purge_queue("q")

            # 200 bodies of 8000 bytes are more than 1 MiB.
            bodies = [f"{each:08}" * 1000 for each in range(200)]
            before = count_scripts(raw)
            ids = await together(*(client.send_message("q", each) for each in bodies))
            assert count_scripts(raw) - before == 1 + 2
            messages = await together(*(client.receive_message("q") for _ in range(201)))
            assert sorted(each.body for each in messages if each) == bodies
            assert sorted(each.id for each in messages if each) == sorted(ids)

    asyncio.run(main())


async def test_the_time_limit_of_one_call_does_not_end_the_others(proxy, raw, ns):
    async with connected(proxy.url, ns) as client:
        await client.send_message("q", "first")
        proxy.stalled = True
        limited = [
            asyncio.ensure_future(client.send_message("q", "limited", timeout=0.1)),
            asyncio.ensure_future(client.send_message("q", "limited", timeout=0.1)),
        ]
        others = [asyncio.ensure_future(client.receive_message("q")) for _ in range(3)]
        others += [asyncio.ensure_future(client.send_message("q", "other")) for _ in range(3)]
        found = await together(*limited)
        assert all(isinstance(each, redis_errors.TimeoutError) for each in found)
        assert not any(each.done() for each in others)
        proxy.stalled = False
        found = await together(*others)
        assert not any(isinstance(each, Exception) for each in found)
        assert is_consistent(raw, ns)


@pytest.mark.parametrize("kind", ["url", "lent"])
def test_random_cancellations_lose_and_hide_no_message(server, raw, ns, kind):
    """Before and after a batch is written. A cancelled receive gives its message back."""
    cancellations = scaled(300, 100_000)

    async def main():
        inner = LendingAsyncRedis(port=server.port) if kind == "lent" else None
        client = await prepared(
            AsyncRSMQ.from_url(server.url, ns=ns) if inner is None else AsyncRSMQ(inner, ns=ns)
        )
        generator = random.Random(11)
        left = cancellations
        while left > 0:
            calls = [client.send_message("q", "m") for _ in range(generator.randrange(2, 12))]
            calls += [client.receive_message("q") for _ in range(generator.randrange(2, 12))]
            generator.shuffle(calls)
            tasks = [asyncio.ensure_future(each) for each in calls]
            for task in generator.sample(tasks, generator.randrange(1, len(tasks))):
                for _ in range(generator.choice([0, 0, 0, 1, 1, 2, 5])):
                    await asyncio.sleep(0)
                left -= task.cancel()
            found = await together(*tasks)
            kept = {each.id for each in found if isinstance(each, Message)}
            sent = {each for each in found if isinstance(each, str)}
            assert all(
                isinstance(each, str | Message | asyncio.CancelledError | None) for each in found
            )
            await until(lambda kept=kept: hidden(raw, ns) == kept)
            assert is_consistent(raw, ns)
            assert sent <= set(stored(raw, ns))
            await together(*(client.delete_message("q", id) for id in kept))
            if raw.zcard(f"{ns}:q") > 200:
                await client.purge_queue("q")
        await client.close()
        if inner is not None:
            await inner.aclose()

    asyncio.run(main())


def test_kills_of_the_server_lose_and_double_no_message_of_a_batch():
    """Kill the server, which stores each write on disk, while calls of all kinds run together."""
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    generator = random.Random(7)
    sent, unknown, received, deleted = {}, set(), [], {}

    async def send(client, body):
        try:
            sent[await client.send_message("q", body)] = body
        except redis_errors.ConnectionError:
            unknown.add(body)

    async def receive(client):
        message = await client.receive_message("q")  # tried again: the first one stays hidden
        if message is None:
            return
        received.append(message.id)
        if await client.delete_message(message):
            deleted[message.id] = message.body

    async def main():
        async with connected(server.url, "rsmq", retry_deadline=60) as client:
            for round_ in range(scaled(6, 200)):
                scripts = count_scripts(raw)
                bodies = [f"{round_}-{each}" for each in range(60)]
                bodies += [f"{round_}-large-{each}-{LARGE}" for each in range(6)]
                calls = [asyncio.ensure_future(send(client, body)) for body in bodies]
                calls += [asyncio.ensure_future(receive(client)) for _ in range(40)]
                await asyncio.sleep(generator.uniform(0, 0.01))
                if round_:
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
                await asyncio.gather(*calls)
                if not round_:
                    assert count_scripts(raw) - scripts < 20, "they were not sent in batches"

    try:
        with server.raw() as raw:
            asyncio.run(main())
            left = stored(raw, "rsmq")
            assert is_consistent(raw, "rsmq")
    finally:
        server.stop()
    assert sent.keys() <= left.keys() | deleted.keys()
    assert not left.keys() & deleted.keys()
    assert len(received) == len(set(received))
    bodies = [*left.values(), *deleted.values()]
    assert len(bodies) == len(set(bodies))
    assert set(bodies) - set(sent.values()) <= unknown
    assert deleted


async def until(condition):
    """Wait for what is undone after the reply to a cancelled call."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_slot_that_moves_while_calls_run_together(cluster):
    """Calls are redirected one by one: by ASK while the slot moves, by MOVED after that."""
    ns = "{coalesced}"

    async def main():
        async with connected(cluster.url, ns) as client:
            await together(*(client.send_message("q", f"a{each}") for each in range(6)))
            slot, source = slot_of(ns), cluster.node_of(ns)
            target = next(each for each in cluster.masters if each is not source)
            cluster.begin_slot_move(slot, target)
            cluster.move_keys(slot, target)
            ids = await together(
                *(client.send_message("q", f"b{each}") for each in range(6)),
                *(client.send_message("q", LARGE) for _ in range(3)),
            )
            assert all(isinstance(each, str) for each in ids)
            cluster.end_slot_move(slot, target)
            messages = await together(*(client.receive_message("q") for _ in range(16)))
            bodies = sorted(each.body for each in messages if each)
            assert bodies == [f"{kind}{each}" for kind in "ab" for each in range(6)] + [LARGE] * 3
            deletes = (client.delete_message(each) for each in messages if each)
            assert await together(*deletes) == [True] * 15
            await client.delete_queue("q")

    try:
        asyncio.run(main())
    finally:
        cluster.heal()
