"""
Failovers that lose or repeat a confirmed message, and those that don't, step by step.

Sentinels promote a replica, and make the old primary its replica only seconds later. Until then
both are primaries, and each has clients.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from rsmq import RSMQ, Confirm, NotReplicated
from tests.crowd import Namespace
from tests.engines import engine_path, installed_engine_path
from tests.nodes import Node, are_in_step, wait_until
from tests.sentinels import SentinelGroup

pytestmark = pytest.mark.slow

_TIME_LENGTH = 10
_PROMPT_COPY = ["repl-diskless-sync yes", "repl-diskless-sync-delay 0"]


@pytest.fixture(scope="module")
def sentinels(engine):
    """A primary, a replica and three Sentinels of the engine."""
    started = SentinelGroup(installed_engine_path(engine))
    started.start()
    yield started
    started.stop()


@pytest.fixture(params=["sync", "asyncio"])
def place(request, sentinels):
    sentinels.heal()
    place = Namespace(request.param, sentinels.url)
    place.open_client().create_queue("q")
    wait_until(lambda: are_in_step(sentinels.primary, sentinels.replicas))
    yield place
    place.close()


@contextmanager
def replaced_primary(group):
    """Promote the replica, and run the block while the old primary still takes calls."""
    old = group.primary
    old.ask("ACL", "SETUSER", "default", "-replicaof", "-slaveof")  # as asked by the Sentinels
    try:
        group.failover()
        yield old
    finally:
        old.ask("ACL", "SETUSER", "default", "+@all")


def demote_as_sentinels_do(old, new):
    old.ask("ACL", "SETUSER", "default", "+@all")
    with old.raw() as raw, raw.pipeline(transaction=True) as commands:
        commands.execute_command("REPLICAOF", "127.0.0.1", new.port)
        commands.execute_command("CLIENT", "KILL", "TYPE", "normal")
        commands.execute()


def demote_by_hand(old, new):
    old.ask("ACL", "SETUSER", "default", "+@all")
    old.ask("REPLICAOF", "127.0.0.1", new.port)


def raw_ids(node, ns):
    with node.raw(decode_responses=True) as raw:
        return raw.zrange(f"{ns}:q", 0, -1)


def wait_until_a_call_waits(node, ns):
    """Wait until a message is in the queue of a server, and a call for its confirmation."""
    wait_until(lambda: raw_ids(node, ns))
    with node.raw() as raw:
        wait_until(lambda: any(each["cmd"] == "wait" for each in raw.client_list()))


@pytest.mark.parametrize("demote", [demote_as_sentinels_do, demote_by_hand])
def test_a_message_may_be_received_from_the_old_primary_and_again_from_the_new_one(
    place, sentinels, demote
):
    """The dedup record was on the old primary alone, as the message."""
    producer, consumer = place.make_client(), RSMQ.from_url(sentinels.url, ns=place.ns)
    sent = []

    async def send(client):
        # A confirmed call may have its own connection, and a new one is to the new primary.
        await client.send_message("q", "warm", confirm=Confirm(replicas=1))
        is_connected.set()
        is_replaced.wait()
        options = {"dedup_id": "1", "confirm": Confirm(replicas=1, timeout=50)}
        sent.append(await client.send_message("q", "a", **options))

    is_connected, is_replaced = threading.Event(), threading.Event()
    crowd = place.start(send, client=producer)
    is_connected.wait()
    assert consumer.pop_message("q").body == "warm"
    with replaced_primary(sentinels) as old:
        is_replaced.set()
        wait_until_a_call_waits(old, place.ns)
        received = consumer.receive_message("q", vt=1000)
        consumer.delete_message(received)
        new = sentinels.primary
        assert raw_ids(new, place.ns) == []
        demote(old, new)
        crowd.join()

    assert raw_ids(new, place.ns) == sent
    again = consumer.receive_message("q")
    assert (received.body, again.body, again.id) == ("a", "a", sent[0])
    assert received.id[_TIME_LENGTH:] == again.id[_TIME_LENGTH:]  # one call, which ran on both
    assert received.id != again.id
    consumer.close()


def test_a_call_that_is_not_confirmed_moves_its_client_to_the_new_primary(place, sentinels):
    client = place.open_client()
    client.send_message("q", "warm")
    client.send_message("q", "warm", confirm=Confirm(replicas=1))
    with replaced_primary(sentinels) as old:
        new = sentinels.primary
        before = raw_ids(old, place.ns)
        with pytest.raises(NotReplicated):
            client.send_message("q", "a", dedup_id="1", confirm=Confirm(replicas=1, timeout=0.05))
        id = client.send_message("q", "a", dedup_id="1")

        assert raw_ids(new, place.ns) == [*before, id]
        assert len(raw_ids(old, place.ns)) == len(before) + 1


@pytest.fixture
def servers(engine):
    """A primary and two replicas without Sentinels."""
    nodes = [Node(installed_engine_path(engine), _PROMPT_COPY) for _ in range(3)]
    for node in nodes:
        node.start()
    for node in nodes[1:]:
        follow(node, nodes[0])
    yield nodes
    for node in nodes:
        node.stop()


def follow(node, primary):
    """Make a server the replica of another one, and wait until it has its data."""
    node.ask("REPLICAOF", "127.0.0.1", primary.port)
    wait_until(lambda: are_in_step(primary, [node]))


def test_a_message_that_one_of_two_replicas_has_is_lost_if_the_other_takes_over(servers):
    """The old primary and its replica confirm messages to each other until both are demoted."""
    old, replica, new = servers
    with RSMQ.from_url(f"redis://127.0.0.1:{old.port}/0", ns="two") as rsmq:
        rsmq.create_queue("q")
        both = rsmq.send_message("q", "a", confirm=Confirm(replicas=2, timeout=50))
        new.ask("REPLICAOF", "NO", "ONE")
        one = rsmq.send_message("q", "b", confirm=Confirm(replicas=1, timeout=50))
        with pytest.raises(NotReplicated) as caught:
            rsmq.send_message("q", "c", confirm=Confirm(replicas=2, timeout=0.05))
    assert raw_ids(old, "two") == [both, one, caught.value.result]
    for node in (replica, old):
        follow(node, new)

    for node in servers:
        assert raw_ids(node, "two") == [both]


def test_a_message_is_lost_if_its_primary_restarts_without_it_before_a_replica_takes_over(servers):
    primary, replica, other = servers
    with RSMQ.from_url(f"redis://127.0.0.1:{primary.port}/0", ns="two") as rsmq:
        rsmq.create_queue("q")
        id = rsmq.send_message("q", "a", confirm=Confirm(replicas=2, timeout=50))
    assert raw_ids(replica, "two") == raw_ids(other, "two") == [id]
    primary.restart()  # without its data
    wait_until(lambda: are_in_step(primary, [replica, other]))

    for node in servers:
        assert raw_ids(node, "two") == []


def test_a_message_that_is_on_the_disk_of_its_primary_survives_a_restart():
    binary = engine_path("valkey-9.1")
    if binary is None:
        pytest.skip("valkey-9.1 is not installed: run scripts/setup")
    nodes = [
        Node(binary, [*_PROMPT_COPY, "appendonly yes", "appendfsync everysec"]) for _ in range(2)
    ]
    primary, replica = nodes
    try:
        for node in nodes:
            node.start()
        follow(replica, primary)
        with RSMQ.from_url(f"redis://127.0.0.1:{primary.port}/0", ns="two") as rsmq:
            rsmq.create_queue("q")
            id = rsmq.send_message("q", "a", confirm=Confirm(replicas=1, timeout=50, fsync=True))
        primary.restart()
        wait_until(lambda: are_in_step(primary, [replica]))
        for node in nodes:
            assert raw_ids(node, "two") == [id]
    finally:
        for node in nodes:
            node.stop()
