"""A body that is larger than the server's proto-max-bulk-len harms no other call."""

from __future__ import annotations

import asyncio
import gc

import pytest
import redis
import redis.asyncio

from rsmq import BYTES, RSMQ, AsyncRSMQ, Confirm, MessageTooLong, NotReplicated
from rsmq.transport.asyncio_ import multiplexed
from tests.servers import Server, redis_7

LIMIT = 1024 * 1024
OTHERS = 40
TOO_LARGE = b"x" * (LIMIT + 1)

SENDS = {
    "send_message": lambda client: client.send_message("q", TOO_LARGE),
    "dedup_id": lambda client: client.send_message("q", TOO_LARGE, dedup_id="d"),
    "send_messages": lambda client: client.send_messages("q", [TOO_LARGE, b"small"]),
    "publish": lambda client: client.publish(["q"], TOO_LARGE),
    "confirmed": lambda client: client.send_message("q", TOO_LARGE, confirm=Confirm(replicas=1)),
}


@pytest.fixture(scope="module")
def limited():
    server = Server(redis_7(), "--proto-max-bulk-len", str(LIMIT))
    with server.raw() as raw:
        for user, rights in (("all", "+@all"), ("few", "-@admin -@dangerous")):
            raw.execute_command("ACL", "SETUSER", user, "on", "nopass", "~*", "&*", "+@all",
                                *rights.split())  # fmt: skip
    yield server
    server.stop()


@pytest.fixture
def raw(limited):
    with limited.raw() as raw:
        yield raw
        raw.flushall()


def bodies(raw, ns="rsmq"):
    fields = raw.hgetall(f"{ns}:q:Q")
    return sorted(body for id, body in fields.items() if len(id) == 32)


async def send_beside_others(client, send):
    """Send a body beside other calls; return its result or exception."""
    await client.create_queue("q", maxsize=-1)
    await client.send_message("q", b"0")  # connected, and the server has the script
    others = [client.send_message("q", b"%d" % number) for number in range(1, OTHERS)]
    results = await asyncio.gather(
        *others[: OTHERS // 2], send(client), *others[OTHERS // 2 :], return_exceptions=True
    )
    result = results.pop(OTHERS // 2)
    assert all(isinstance(each, str) for each in results), results
    return result


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
def test_a_too_large_body_fails_alone_and_its_error_names_the_limit(limited, raw, send):
    async def main():
        async with AsyncRSMQ.from_url(limited.url, codec=BYTES) as client:
            return await send_beside_others(client, send)

    error = asyncio.run(main())
    assert isinstance(error, MessageTooLong)
    assert f"{LIMIT + 1:,} bytes" in str(error)
    assert f"at most {LIMIT:,}" in str(error)
    assert "raise proto-max-bulk-len" in str(error)
    assert bodies(raw) == sorted(b"%d" % number for number in range(OTHERS))


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
def test_a_too_large_body_fails_alone_if_the_user_may_not_ask_for_the_limit(limited, raw, send):
    async def main():
        url = limited.url.replace("//", "//few:x@")
        async with AsyncRSMQ.from_url(url, codec=BYTES, retry_deadline=0) as client:
            return await send_beside_others(client, send)

    error = asyncio.run(main())
    assert isinstance(error, redis.RedisError)
    assert "proto-max-bulk-len" in str(error)
    assert bodies(raw) == sorted(b"%d" % number for number in range(OTHERS))


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "handed in"])
@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
def test_the_error_of_each_client_names_the_limit(limited, raw, kind, is_own):
    redis_py = redis if kind is RSMQ else redis.asyncio
    inner = redis_py.Redis(port=limited.port)
    client = kind.from_url(limited.url, codec=BYTES) if is_own else kind(inner, codec=BYTES)

    async def call(method, *args, **options):
        result = method(*args, **options)
        return await result if asyncio.iscoroutine(result) else result

    async def main():
        await call(client.create_queue, "q", maxsize=-1)
        with pytest.raises(MessageTooLong, match=f"at most {LIMIT:,}.*proto-max-bulk-len"):
            await call(client.send_message, "q", TOO_LARGE)
        raw.config_set("proto-max-bulk-len", 2 * LIMIT)  # is noticed
        try:
            await call(client.send_message, "q", TOO_LARGE)
        finally:
            raw.config_set("proto-max-bulk-len", LIMIT)
        await call(client.close)
        await call(inner.close if kind is RSMQ else inner.aclose)

    asyncio.run(main())
    assert bodies(raw) == [TOO_LARGE]


def test_large_bodies_are_sent_on_connections_of_their_own_which_are_closed(server, raw, ns):
    name = f"large-{ns}"

    async def main():
        async with AsyncRSMQ.from_url(server.url, ns=ns, codec=BYTES, client_name=name) as client:
            await client.create_queue("q", maxsize=-1)
            calls = [client.send_message("q", TOO_LARGE) for _ in range(3)]
            calls.append(
                client.send_message("q", TOO_LARGE, confirm=Confirm(replicas=1, timeout=0.01))
            )
            *ids, unconfirmed = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(unconfirmed, NotReplicated)
            assert await client.send_message("q", b"small")
            with server.raw() as other:
                stored = other.hgetall(f"{ns}:q:Q")
                assert all(stored[id.encode()] == TOO_LARGE for id in (*ids, unconfirmed.result))
                for _ in range(100):
                    names = [each["name"] for each in other.client_list()]
                    if names.count(name) == 1:
                        return
                    await asyncio.sleep(0.05)
            raise AssertionError("connections are left")

    asyncio.run(main())


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_the_connection_of_a_large_body_is_freed_when_it_is_closed(
    server, ns, monkeypatch, is_confirmed
):
    monkeypatch.setattr(multiplexed, "INTERRUPTION_GRACE_SECONDS", 3600)

    def alive():
        loop = asyncio.get_running_loop()
        return sum(
            isinstance(each, multiplexed.MultiplexedConnection) and each._loop is loop
            for each in gc.get_objects()
        )

    async def main():
        async with AsyncRSMQ.from_url(server.url, ns=ns, codec=BYTES) as client:
            await client.create_queue("q", maxsize=-1)
            await client.send_message("q", b"small")
            for _ in range(3):
                if not is_confirmed:
                    await client.send_message("q", TOO_LARGE)
                    continue
                with pytest.raises(NotReplicated):
                    await client.send_message(
                        "q", TOO_LARGE, confirm=Confirm(replicas=1, timeout=0.01)
                    )
            for _ in range(200):
                gc.collect()
                if alive() == 1:
                    return
                await asyncio.sleep(0.05)
            raise AssertionError(f"{alive() - 1} connections are left")

    asyncio.run(main())


def test_a_too_large_body_fails_alone_on_a_cluster(cluster_server):
    ns = "{large}"

    async def main():
        url = cluster_server.url.replace("redis://", "redis+cluster://").removesuffix("/0")
        async with AsyncRSMQ.from_url(url, ns=ns, codec=BYTES) as client:
            return await send_beside_others(client, SENDS["send_message"])

    with cluster_server.raw() as raw:
        raw.config_set("proto-max-bulk-len", LIMIT)
        try:
            assert isinstance(asyncio.run(main()), MessageTooLong)
        finally:
            raw.config_set("proto-max-bulk-len", 512 * LIMIT)
        assert bodies(raw, ns) == sorted(b"%d" % number for number in range(OTHERS))
