"""Sentinels that replace the primary: calls find the new one, and nothing is stored twice."""

from __future__ import annotations

import asyncio
import time

import pytest
import redis.exceptions as redis_errors

from rsmq import RSMQ, AsyncRSMQ, InvalidFormat
from rsmq.worker import Worker
from tests.crowd import (
    LOST,
    Namespace,
    Sending,
    Traffic,
    Waiters,
    assert_no_commands,
    bodies,
    expect_wake_ups,
    script_calls,
    wait_until_quiet,
    wait_until_tracked,
    window_of_stop,
)
from tests.engines import installed_engine_path
from tests.nodes import wait_until, wait_until_in_step
from tests.scale import ENGINE_SHARES, SOAK, WAIT_SECONDS, scaled
from tests.sentinels import NAME, SentinelGroup

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sentinels(engine):
    """A primary, a replica and three Sentinels of the engine. A test that breaks them heals."""
    started = SentinelGroup(installed_engine_path(engine))
    started.start()
    yield started
    started.stop()


@pytest.fixture
def rounds(engine, place):
    """Return the numbers of rounds; the asyncio client runs a quarter of them."""

    def numbers(usual, soak):
        count = int(scaled(usual, soak) * ENGINE_SHARES[engine])
        return range(count if place.mode == "sync" else max(1, count // 4))

    return numbers


@pytest.fixture(params=["sync", "asyncio"])
def place(request, sentinels):
    """A namespace. The group is repaired afterwards."""
    place = Namespace(request.param, sentinels.url)
    yield place
    place.close()
    sentinels.heal()
    with sentinels.raw() as raw:
        keys = raw.keys(f"{place.ns}*")
        if keys:
            raw.unlink(*keys)


def wait_for_replica(sentinels):
    """Wait until the replica has what the primary had written, and return until when."""
    return wait_until_in_step(sentinels.primary, lambda: sentinels.replicas)


def kill_primary(sentinels):
    """Kill the primary, whose replica is in step; return when it may not have been."""
    old = sentinels.primary
    written_until = wait_for_replica(sentinels)
    old.kill()
    window = window_of_stop(written_until)
    sentinels.wait_until_promoted(old)
    return window


def freeze_primary(sentinels):
    """Suspend the primary, whose replica is in step: its connections stay open."""
    old = sentinels.primary
    wait_for_replica(sentinels)
    old.freeze()
    sentinels.wait_until_promoted(old)


def fail_over(sentinels):
    """Let the Sentinels replace the primary, and do soon what they do to it after 8 seconds."""
    wait_for_replica(sentinels)
    old = sentinels.primary
    sentinels.failover()
    sentinels.heal()  # now it is a replica
    old.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")


def test_no_message_is_lost_or_doubled_after_a_kill(place, sentinels, rounds):
    client = place.open_client()
    for _ in rounds(5, 100):
        client.create_queue("q")
        traffic = run_traffic(place, sentinels)
        traffic.calls.log()
        client.delete_queue("q")


def run_traffic(place, sentinels):
    """Send, receive and delete while the primary is killed, and return the record."""
    traffic = Traffic()
    crowd = place.start(*traffic.works(producers=3, consumers=3))
    wait_until(lambda: len(traffic.ledger.deleted) >= 50)
    traffic.unreplicated.append(kill_primary(sentinels))
    count = len(traffic.ledger.deleted)
    wait_until(lambda: len(traffic.ledger.deleted) >= count + 20)
    sentinels.heal()
    traffic.stop()
    crowd.join()
    with sentinels.raw() as raw:
        traffic.assert_exact(raw, place.ns)
    return traffic


def wait_for_every_sender(sending):
    """Wait until each sender has sent again."""
    before = set(sending.calls.returned)

    def active():
        return {
            body.partition("-")[0] for body in list(sending.calls.returned) if body not in before
        }

    wait_until(lambda: len(active()) == 4, failure=lambda: f"only these send: {active()}")


def send_to_frozen_primary(place, sentinels):
    """Send while the primary is frozen, until another one has replaced it; return the senders."""
    sending = Sending()
    crowd = place.start(*sending.works(), socket_timeout=0.5)
    wait_until(lambda: sending.is_warm)
    old = sentinels.primary
    written_until = wait_for_replica(sentinels)
    old.freeze()
    sending.unreplicated = window_of_stop(written_until)
    sentinels.wait_until_promoted(old)
    # Until Sentinels reach it, the old primary would accept sends of callers that still connect.
    wait_for_every_sender(sending)
    old.thaw()  # now it runs the commands that are left in its sockets
    sentinels.heal()
    sending.stops = True
    crowd.join()
    with sentinels.raw() as raw:
        sending.assert_stored_once(raw, place.ns)
    return sending


def test_sends_to_a_frozen_primary_are_stored_once(place, sentinels, rounds):
    client = place.open_client()
    for _ in rounds(5, 100):
        client.create_queue("q")
        sending = send_to_frozen_primary(place, sentinels)
        sending.calls.log()
        assert len(sending.calls.errors) >= 4
        client.delete_queue("q")


def test_a_failover_that_sentinels_are_asked_for(place, sentinels):
    place.open_client().create_queue("q")
    sending = Sending()
    crowd = place.start(*sending.works(), client_name="sender")
    wait_until(lambda: sending.is_warm)
    old = sentinels.primary
    acknowledged = dict(sending.calls.returned)
    fail_over(sentinels)
    wait_until(lambda: script_calls(sentinels.primary) > 100)
    wait_until(lambda: "sender" not in [each["name"] for each in old.ask("CLIENT LIST")])
    calls = script_calls(old)
    before = len(sending.calls.returned)
    wait_until(lambda: len(sending.calls.returned) >= before + 50)
    assert script_calls(old) == calls
    sending.stops = True
    crowd.join()

    sending.calls.assert_only_ambiguous_errors()
    with sentinels.raw() as raw:
        stored = bodies(raw, place.ns, "q")
    assert len(set(stored.values())) == len(stored)
    # Until Sentinels reach it, the old primary accepts sends, which are lost.
    for body, id in acknowledged.items():
        assert stored[id].decode() == body


def test_waiting_receives_are_woken_by_each_primary(place, sentinels, rounds):
    client = place.open_client()
    for _ in rounds(1, 40):
        client.create_queue("q")
        waiters = Waiters()
        crowd = place.start(*waiters.works())
        wait_until_tracked(sentinels.primary)
        assert_no_commands(sentinels.primary, 2)
        expect_wake_ups(waiters, client, "start")
        faults = (fail_over, kill_primary, freeze_primary)
        for fault in faults if place.mode == "sync" or SOAK else (freeze_primary,):
            fault(sentinels)
            client = place.open_client()  # that of before may wait for a server that hangs
            expect_wake_ups(waiters, client, fault.__name__)
            wait_until_tracked(sentinels.primary)
            wait_until_quiet(sentinels.primary, 0.5)
            sentinels.heal()
        waiters.stops = True
        client.send_messages("q", ["last"] * 4)
        crowd.join()
        assert waiters.calls.errors == {}
        client.delete_queue("q")


def test_a_former_primary_gets_no_call_when_it_returns(place, sentinels):
    place.open_client().create_queue("q")
    sending = Sending()
    crowd = place.start(*sending.works(), client_name="sender")
    wait_until(lambda: sending.is_warm)
    old = sentinels.primary
    sending.unreplicated = kill_primary(sentinels)
    # Until Sentinels reach it, the old primary would accept sends of callers that still connect.
    wait_for_every_sender(sending)
    sentinels.heal()
    assert old in sentinels.replicas
    before = len(sending.calls.returned)
    wait_until(lambda: len(sending.calls.returned) >= before + 50)

    # It counts from its start, when it was a primary until the Sentinels reached it.
    assert script_calls(old) == 0
    sending.stops = True
    crowd.join()
    with sentinels.raw() as raw:
        sending.assert_stored_once(raw, place.ns)


def test_an_idle_client_does_not_return_to_a_former_primary_that_starts_again(place, sentinels):
    client = place.open_client()
    client.create_queue("q")
    client.send_message("q", "before")
    old = sentinels.primary
    kill_primary(sentinels)
    old.start()  # as a primary, until the Sentinels reach it
    id = client.send_message("q", "after")
    with sentinels.raw() as raw:
        assert bodies(raw, place.ns, "q")[id] == b"after"
    assert script_calls(old) == 0


def test_users_and_passwords_of_servers_and_sentinels(engine):
    group = SentinelGroup(installed_engine_path(engine), password="word", sentinel_password="other")
    group.start()
    try:
        for mode in ("sync", "asyncio"):
            check_passwords(Namespace(mode, group.url), group)
    finally:
        group.stop()


def check_passwords(place, group):
    for node in group.sentinels:
        node.ask("ACL", "SETUSER", "asker", "on", ">third", "allchannels", "+@all")
    for number, query in enumerate(
        ("", "&sentinel_username=default", "&sentinel_username=asker&sentinel_password=third")
    ):
        client = place.open_client(url=group.url + query)
        client.create_queue(f"q{number}")
        id = client.send_message(f"q{number}", "m")
        with group.raw() as raw:
            assert list(bodies(raw, place.ns, f"q{number}")) == [id]
    group.heal()  # the replica may not have the queues yet
    group.failover()
    assert sorted(client.list_queues()) == ["q0", "q1", "q2"]
    check_passwords_as_arguments(place, group)

    without = group.url.partition("?")[0]
    for url in (
        without,
        f"{without}?sentinel_password=wrong",
        f"{group.url}&sentinel_username=stranger",
        group.url.replace(":word@", ":wrong@"),
        group.url.replace(":word@", ""),
    ):
        begin = time.monotonic()
        with pytest.raises(redis_errors.ConnectionError) as caught:
            place.open_client(url=url).list_queues()
        assert isinstance(
            caught.value, redis_errors.AuthenticationError | redis_errors.AuthorizationError
        ), (url, caught.value)
        assert "password" in str(caught.value).lower()
        assert "other" not in str(caught.value)
        assert time.monotonic() - begin < 15  # it is not repeated until the deadline
    place.close()


def check_passwords_as_arguments(place, group):
    without = group.url.partition("?")[0].replace(":word@", "")
    arguments = {"password": "word", "sentinel_password": "other"}
    client = place.open_client(url=without, **arguments)
    assert sorted(client.list_queues()) == ["q0", "q1", "q2"]
    third = {**arguments, "sentinel_username": "asker", "sentinel_password": "third"}
    assert len(place.open_client(url=without, **third).list_queues()) == 3
    # As with redis-py's options, that of the URL has precedence.
    wrong = {**arguments, "sentinel_password": "wrong-word"}
    client = place.open_client(url=f"{without}?sentinel_password=other", **wrong)
    assert len(client.list_queues()) == 3
    assert "other" not in repr(client)
    with pytest.raises(redis_errors.AuthenticationError) as caught:
        place.open_client(url=without, **wrong).list_queues()
    assert "wrong-word" not in str(caught.value)
    for name in ("sentinel_username", "sentinel_password"):
        with pytest.raises(InvalidFormat, match=name) as caught:
            place.open_client(url="redis://127.0.0.1:1/0", **{name: "other"})
        assert "other" not in str(caught.value)


@pytest.mark.parametrize("place", ["sync"], indirect=True)
def test_a_wait_for_a_result_survives_the_death_of_the_primary(place, sentinels):
    client = place.open_client()
    client.create_queue("q")
    ids = client.send_messages("q", ["a", "b"], track=True)
    results = []

    async def wait(client):
        jobs = [client._client.job("q", id) for id in ids]  # a handle is no call
        results.extend(await client.wait_for_jobs(jobs, 40))

    crowd = place.start(wait)
    wait_until_tracked(sentinels.primary)
    kill_primary(sentinels)
    worker = Worker(RSMQ.from_url(sentinels.url, ns=place.ns), grace=1)
    worker.listener("q", track=True, drop=True, max_retries=0)(str.upper)
    worker.start()
    crowd.join()
    worker.stop()
    assert [status.result() for status in results] == ["A", "B"]


def test_a_client_behind_sentinels_with_a_password(engine):
    group = SentinelGroup(installed_engine_path(engine), password="word", sentinel_password="other")
    group.start()
    try:
        without = group.url.partition("?")[0].replace(":word@", "")
        options = {"ns": "s", "password": "word", "sentinel_password": "other"}
        with RSMQ.from_url(without, **options) as rsmq:
            rsmq.create_queue("q")
            rsmq.send_message("q", "m")
            assert rsmq.receive_message("q").body == "m"

        async def count():
            async with AsyncRSMQ.from_url(without, **options) as rsmq:
                return (await rsmq.get_queue_attributes("q")).messages

        assert asyncio.run(count()) == 1
        # A worker on it, also its asyncio client.
        worker = Worker(RSMQ.from_url(group.url, ns="w"))
        bodies = []

        @worker.listener("jobs", drop=True, max_retries=0)
        async def handle(body):
            bodies.append(body)
            await worker.aio.send_message("done", body)

        for queue in ("jobs", "done"):
            worker.rsmq.create_queue(queue)
        worker.rsmq.send_message("jobs", "job")
        worker.run(until_empty=True, raise_errors=True, timeout=WAIT_SECONDS)
        assert (bodies, worker.rsmq.count_messages("done").visible) == (["job"], 1)
    finally:
        group.stop()


def test_a_wrong_name_of_the_primary(place, sentinels):
    client = place.open_client(url=place.url.replace(f"/{NAME}/", "/other/"))
    with pytest.raises(redis_errors.ResponseError, match="'other'") as caught:
        client.list_queues()
    for node in sentinels.sentinels:
        assert f"127.0.0.1:{node.port}" in str(caught.value)


def test_all_sentinels_are_away(place, sentinels):
    connected = place.open_client()
    connected.create_queue("q")
    for node in sentinels.sentinels:
        node.kill()

    # A client that is connected needs no Sentinel.
    id = connected.send_message("q", "m")
    assert connected.pop_message("q").id == id
    with pytest.raises(LOST) as caught:
        place.open_client(retry_deadline=0.5).send_message("q", "m")
    assert "may have run" not in str(caught.value)
    for node in sentinels.sentinels:
        assert f"127.0.0.1:{node.port}" in str(caught.value)

    sending = Sending()
    crowd = place.start(*sending.works(2))
    sentinels.heal()
    wait_until(lambda: sending.is_warm)
    sending.stops = True
    crowd.join()
    assert sending.calls.errors == {}
