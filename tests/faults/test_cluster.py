"""A Redis Cluster whose nodes fail and whose slots move: nothing is stored twice, or lost."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest
import redis
import redis.asyncio

from rsmq import RSMQ, AsyncRSMQ
from rsmq.doctor import examine
from rsmq.errors import ClientClosed
from rsmq.jobs.operations import cancel_job, read_jobs
from rsmq.operations.plain import plain_command, plain_commands
from rsmq.transport.topology.cluster import ClusterTopology
from rsmq.wire.keys import Namespace as Keys
from tests.clusters import Cluster, slot_of
from tests.crowd import (
    LOST,
    WITHIN_SECONDS,
    Calls,
    Namespace,
    Sending,
    Waiters,
    assert_no_commands,
    bodies,
    command_counts,
    expect_wake_ups,
    run_traffic,
    wait_until_quiet,
    wait_until_tracked,
    window_of_stop,
)
from tests.engines import installed_engine_path
from tests.faults import (
    group_steps,
    limit_steps,
    moved_group_steps,
    record_steps,
    trash_steps,
    worker_steps,
)
from tests.faults.slot_steps import Step, Stored
from tests.nodes import wait_until, wait_until_in_step
from tests.ports import free_port
from tests.proxy import Proxy
from tests.scale import ENGINE_SHARES, SOAK, scaled

pytestmark = pytest.mark.slow

_numbers = itertools.count()

#: The client of a cluster is tested on two engines by scripts/test, too.
ENGINES = ENGINE_SHARES | {"valkey-9.1": 1.0}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    """The name of an engine."""
    return request.param


@pytest.fixture(scope="module")
def cluster(engine):
    """A Redis Cluster whose nodes are replaced sooner than those of the shared one."""
    started = Cluster(installed_engine_path(engine), node_timeout=2000 if SOAK else 1000)
    started.start()
    yield started
    started.stop()


@pytest.fixture(params=["sync", "asyncio"])
def place(request, cluster):
    """A namespace. The cluster is repaired afterwards."""
    place = Namespace(request.param, cluster.url)
    yield place
    place.close()
    cluster.heal()
    keys = cluster.raw.keys(f"{place.ns}*")
    if keys:
        cluster.raw.unlink(*keys)


@pytest.fixture
def rounds(engine, place):
    """Return the numbers of rounds; the asyncio client runs a quarter of them."""

    def numbers(usual, soak):
        count = int(scaled(usual, soak) * ENGINES[engine])
        return range(count if place.mode == "sync" else max(1, count // 4))

    return numbers


def owner_and_replica(cluster, ns):
    """Return the master of a namespace and its replica, when the replica is in step."""
    master = cluster.node_of(ns)
    (replica,) = cluster.replicas_of(master)
    wait_until_in_step(master, lambda: [replica])
    return master, replica


def other_master(cluster, node):
    return next(each for each in cluster.masters if each is not node)


@contextmanager
def redis_py_cluster(place, cluster, **options):
    """A cluster client of redis-py, of either kind, with its default retries."""
    port = cluster.masters[0].port
    if place.runner is None:
        with redis.RedisCluster("127.0.0.1", port, **options) as client:
            yield client
    else:
        client = redis.asyncio.RedisCluster("127.0.0.1", port, **options)
        place.runner.run(client.initialize())
        yield client
        place.runner.run(client.aclose())


def wrapped(place, client):
    kind = RSMQ if place.mode == "sync" else AsyncRSMQ
    return kind(client, ns=place.ns)


def send_to_frozen_master(place, cluster, *, until_replaced, dedup=False, client=None):
    """Send while the master is frozen, and return the senders."""
    master, replica = owner_and_replica(cluster, place.ns)
    sending = Sending(dedup=dedup)
    options = {"client": client} if client else {"socket_timeout": 0.5}
    crowd = place.start(*sending.works(), **options)
    wait_until(lambda: sending.is_warm)
    written_until = wait_until_in_step(master, lambda: [replica])
    master.freeze()
    if until_replaced:
        sending.unreplicated = window_of_stop(written_until)
        cluster.wait_until_promoted(replica)
        count = len(sending.calls.returned)
        wait_until(lambda: len(sending.calls.returned) > count + 20)
    else:
        wait_until(lambda: len(sending.calls.errors) >= 4)
    master.thaw()  # now it runs the commands that are left in its sockets
    cluster.heal()
    sending.stops = True
    crowd.join()
    sending.assert_stored_once(cluster.raw, place.ns)
    return sending


@pytest.mark.parametrize("until_replaced", [False, True])
def test_sends_to_a_frozen_master_are_stored_once(place, cluster, rounds, until_replaced):
    client = place.open_client()
    client.create_queue("q")
    for _ in rounds(5, 100):
        sending = send_to_frozen_master(place, cluster, until_replaced=until_replaced)
        sending.calls.log()
        assert len(sending.calls.errors) >= 4
        client.purge_queue("q")


def test_deduplicated_sends_to_a_frozen_master_raise_nothing(place, cluster, rounds):
    client = place.open_client()
    for _ in rounds(5, 100):
        client.create_queue("q")
        sending = send_to_frozen_master(place, cluster, until_replaced=True, dedup=True)
        sending.calls.log()
        assert sending.calls.errors == {}
        client.delete_queue("q")


def test_a_handed_in_cluster_client_repeats_nothing_and_stays_open(place, cluster):
    place.open_client().create_queue("q")
    with redis_py_cluster(place, cluster, socket_timeout=0.5) as inner:
        sending = send_to_frozen_master(
            place, cluster, until_replaced=False, client=wrapped(place, inner)
        )
        assert len(sending.calls.errors) >= 4

        client = place.wrap(wrapped(place, inner))
        client.send_message("q", "m")
        client.close()
        stored = inner.hget(f"{place.ns}:q:Q", "vt")
        assert (stored if place.runner is None else place.runner.run(as_coroutine(stored))) == b"30"


async def as_coroutine(awaitable):
    return await awaitable


class Kill:
    """kill -9 of the master, whose replica is in step. The test starts it again."""

    def __call__(self, cluster, ns):
        master, replica = owner_and_replica(cluster, ns)
        written_until = wait_until_in_step(master, lambda: [replica])
        master.kill()
        window = window_of_stop(written_until)
        cluster.wait_until_promoted(replica)
        return window


class Failover:
    """CLUSTER FAILOVER."""

    def __call__(self, cluster, ns):
        _, replica = owner_and_replica(cluster, ns)
        cluster.failover(replica)


class SlotMove:
    """The slot moves to another master in several steps."""

    def __call__(self, cluster, ns):
        slot, target = slot_of(ns), other_master(cluster, cluster.node_of(ns))
        cluster.begin_slot_move(slot, target)
        time.sleep(0.05)
        cluster.move_keys(slot, target, 1)
        time.sleep(0.05)
        cluster.move_keys(slot, target)
        time.sleep(0.05)
        cluster.end_slot_move(slot, target)


FAULTS = {"failover": Failover(), "move": SlotMove(), "kill": Kill()}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_message_is_lost_or_doubled(place, cluster, rounds, fault):
    client = place.open_client()
    for _ in rounds(5, 100):
        client.create_queue("q")
        traffic = run_traffic(place, cluster, FAULTS[fault])
        traffic.calls.log()
        client.delete_queue("q")


def test_threads_share_a_client_through_a_failover(place, cluster):
    place.open_client().create_queue("q")
    _, replica = owner_and_replica(cluster, place.ns)
    sending = Sending()
    crowd = place.start(*sending.works(8), client_name="eight")
    wait_until(lambda: sending.is_warm)
    before = command_counts(replica).get("cluster|slots", 0)
    begin = time.monotonic()
    cluster.failover(replica)
    count = len(sending.calls.returned)
    wait_until(lambda: len(sending.calls.returned) > count + 80)

    refreshes = command_counts(replica).get("cluster|slots", 0) - before
    assert refreshes <= 10 * (time.monotonic() - begin) + 8
    # The connections to the former master are closed.
    wait_until(lambda: {node for node, _ in connections_named(cluster, "eight")} == {replica})
    assert len(connections_named(cluster, "eight")) <= 8
    sending.stops = True
    crowd.join()
    sending.assert_stored_once(cluster.raw, place.ns)
    wait_until(lambda: not connections_named(cluster, "eight"))


def connections_named(cluster, name):
    return [
        (node, each)
        for node in cluster.running
        for each in node.ask("CLIENT LIST")
        if each["name"] == name
    ]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_calls_run(cluster):
    place = Namespace("sync", cluster.url)
    client = place.open_client()
    client.create_queue("q")
    _, replica = owner_and_replica(cluster, place.ns)
    sending = Sending()
    shared = place.make_client()
    crowd = place.start(*sending.works(), client=shared)
    wait_until(lambda: sending.is_warm)
    failover = threading.Thread(target=cluster.failover, args=(replica,))
    failover.start()
    children = []
    while failover.is_alive() or len(children) < 4:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.alarm(40)
                for number in range(20):
                    id = shared.send_message("q", f"child {len(children)}-{number}")
                    shared.get_message("q", id)
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
        time.sleep(0.2)
        if len(children) == 12:
            failover.join()
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    sending.stops = True
    crowd.join()
    texts = [body.decode() for body in bodies(cluster.raw, place.ns, "q").values()]
    assert len(texts) == len(set(texts))
    # A send of a child may have been on its way when the master was demoted.
    assert sum(status != 0 for status in statuses) <= 1
    own = {body for body in texts if not body.startswith("child")}
    assert sending.calls.returned.keys() <= own
    sending.calls.assert_only_ambiguous_errors()
    place.close()
    cluster.heal()


# Slot moves


def prepare_queues(*names):
    def prepare(client, stored):
        for name in names:
            client.create_queue(name)

    return prepare


def prepare_message(name, *others):
    def prepare(client, stored):
        prepare_queues(name, *others)(client, stored)
        return client.send_message(name, name)

    return prepare


def prepare_received(name, *others):
    def prepare(client, stored):
        prepare_message(name, *others)(client, stored)
        return client.receive_message(name)

    return prepare


def prepare_worn(name, target):
    """Prepare a message that was received as often as the policy of its queue allows."""

    def prepare(client, stored):
        id = prepare_message(name, target)(client, stored)
        client.set_dead_letter_policy(name, target, 2)
        for _ in range(2):
            assert client.receive_message(name, vt=0).id == id
        return id

    return prepare


def prepare_hidden_worn(name, target):
    """Prepare such a message in flight, as its consumer was killed."""

    def prepare(client, stored):
        id = prepare_worn(name, target)(client, stored)
        client.change_message_visibility(name, id, 10)
        return id

    return prepare


def prepare_unbegun(name, target):
    """Prepare a message of which one receive does not count, because no handler was called."""

    def prepare(client, stored):
        id = prepare_worn(name, target)(client, stored)
        created = stored.field(name, "created")
        stored.raw.hset(f"{stored.ns}:{name}:x:unbegun", mapping={"": created, id: 1})
        return id

    return prepare


def check_unbegun(state, result, stored):
    assert (result.id, result.receive_count) == (state, 3)
    assert stored.ids("unbegun-dead") == []


def check_dead_letter(name, target, expected):
    def check(state, result, stored):
        assert result == expected(state)
        assert stored.ids(name) == []
        assert stored.bodies(name) == []
        assert stored.ids(target) == [state]
        assert stored.bodies(target) == [name.encode()]
        assert stored.field(target, f"{state}:rc") == b"2"

    return check


def check_send(state, result, stored):
    assert stored.ids("send") == [result]
    assert stored.bodies("send") == [b"m"]


def check_batch(state, result, stored):
    assert stored.ids("batch") == result
    assert stored.bodies("batch") == [b"1", b"2", b"3"]


def check_large_batch(state, result, stored):
    assert sorted(stored.ids("large")) == sorted(result)
    assert stored.bodies("large") == [letter * 9_000 for letter in (b"a", b"b", b"c")]


def check_realtime(state, result, stored):
    assert stored.ids("dedup") == [result]
    assert stored.bodies("dedup") == [b"m"]


def prepare_unique(client, stored):
    client.create_queue("unique")
    return client.send_message("unique", "earlier", unique_key="one")


def check_unique(state, result, stored):
    assert stored.ids("unique") == [result] == [state]
    assert stored.bodies("unique") == [b"m"]


def check_tracked(state, result, stored):
    assert stored.ids("tracked") == [result]
    assert stored.fields(f"tracked:x:job:{result}") == {b"state": b"waiting"}


def prepare_job(client, stored):
    client.create_queue("job")
    return Keys(stored.ns).queue("job"), client.send_message("job", "m")


def check_status(state, result, stored):
    assert stored.ids("job") == [state[1]]
    assert [record.state for record in result] == [b"waiting"]


def prepare_cancel(client, stored):
    client.create_queue("cancel")
    return Keys(stored.ns).queue("cancel"), client.send_message("cancel", "m", track=True)


def check_cancel(state, result, stored):
    assert (result, stored.ids("cancel")) == ("cancelled", [])
    assert stored.fields(f"cancel:x:job:{state[1]}")[b"state"] == b"cancelled"


def check_receive(state, result, stored):
    assert (result.id, result.body, result.receive_count) == (state, "receive", 1)
    assert stored.field("receive", f"{state}:rc") == b"1"


def check_receive_many(state, result, stored):
    assert [message.id for message in result] == [state]
    assert stored.field("many", f"{state}:rc") == b"1"


def check_empty(state, result, stored):
    assert result is None
    assert stored.ids("empty") == []


def check_pop(state, result, stored):
    assert (result.id, result.body) == (state, "pop")
    assert stored.ids("pop") == []
    assert stored.bodies("pop") == []


def check_delete(state, result, stored):
    assert result is True
    assert stored.ids("delete") == []
    assert stored.bodies("delete") == []


def check_visibility(state, result, stored):
    assert result is True
    assert stored.is_visible("hide", state.id)


def check_publish(state, result, stored):
    assert stored.ids("one") == [result["one"]]
    assert stored.ids("two") == [result["two"]]
    assert stored.bodies("one") == stored.bodies("two") == [b"m"]


def check_redrive(state, result, stored):
    assert len(result) == 1
    assert stored.ids("dead") == []
    assert stored.bodies("dead") == []
    assert stored.bodies("fresh") == [b"dead"]


def check_move(state, result, stored):
    assert result == [state]
    assert stored.ids("from") == []
    assert stored.bodies("from") == []
    assert stored.ids("to") == [state]
    assert stored.bodies("to") == [b"from"]


def check_recover(state, result, stored):
    assert [message.id for message in result] == [state.id]
    assert stored.field("stuck", f"{state.id}:rc") == b"2"


def check_release(state, result, stored):
    assert result == [state.id]
    assert stored.is_visible("held", state.id)


def check_release_all(state, result, stored):
    assert result == 1
    assert stored.is_visible("all", state.id)


def check_count(state, result, stored):
    assert (result.visible, result.in_flight, result.delayed) == (1, 0, 0)


def check_create(state, result, stored):
    assert result is True
    assert stored.is_listed("new")
    assert stored.field("new", "vt") == b"7"


def check_delete_queue(state, result, stored):
    assert result is None
    assert not stored.is_listed("gone")
    assert stored.ids("gone") == []
    assert stored.bodies("gone") == []


def check_purge(state, result, stored):
    assert result == 1
    assert stored.ids("purged") == []
    assert stored.bodies("purged") == []


def check_pause(state, result, stored):
    assert result is True
    assert stored.field("paused", "x:paused")


def prepare_plain(name, **options):
    """Return a function that prepares an operation of plain commands on two keys of a queue."""

    def prepare(client, stored):
        id = prepare_message(name)(client, stored)
        zset = f"{stored.ns}:{name}".encode()
        commands = (b"HGET", zset + b":Q", id.encode()), (b"ZCARD", zset)
        return plain_commands(zset, commands, **options)

    return prepare


def prepare_one_plain(client, stored):
    prepare_message("plain")(client, stored)
    return plain_command("ZCARD", f"{stored.ns}:plain")


PLAIN = {
    "plain": prepare_one_plain,
    "plain-many": prepare_plain("plain-many"),
    "plain-atomic": prepare_plain("plain-atomic", in_transaction=True),
}


def check_plain(name):
    def check(operation, result, stored):
        assert result == (1 if name == "plain" else [name.encode(), 1])

    return check


STEPS = [
    Step("send", prepare_queues("send"), lambda c, _: c.send_message("send", "m"), check_send),
    Step(
        "send_messages",
        prepare_queues("batch"),
        lambda c, _: c.send_messages("batch", ["1", "2", "3"]),
        check_batch,
    ),
    Step(
        "send_messages in two steps",
        prepare_queues("large"),
        lambda c, _: c.send_messages("large", [letter * 9_000 for letter in "abc"]),
        check_large_batch,
    ),
    Step(
        "send with dedup_id",
        prepare_queues("dedup"),
        lambda c, _: c.send_message("dedup", "m", dedup_id="once"),
        check_realtime,
    ),
    Step(
        "send with unique_key",
        prepare_unique,
        lambda c, _: c.send_message("unique", "m", unique_key="one", replace=True),
        check_unique,
    ),
    Step(
        "send with track",
        prepare_queues("tracked"),
        lambda c, _: c.send_message("tracked", "m", track=True),
        check_tracked,
    ),
    Step(
        "status of a job",
        prepare_job,
        lambda c, state: c.run(read_jobs(state[0], [state[1]], only_reads=False)),
        check_status,
    ),
    Step(
        "cancel of a job",
        prepare_cancel,
        lambda c, state: c.run(cancel_job(*state)),
        check_cancel,
    ),
    Step(
        "receive",
        prepare_message("receive"),
        lambda c, _: c.receive_message("receive", vt=1000),
        check_receive,
    ),
    Step(
        "receive_messages",
        prepare_message("many"),
        lambda c, _: c.receive_messages("many", 5, vt=1000),
        check_receive_many,
    ),
    Step(
        "receive from an empty queue",
        prepare_queues("empty"),
        lambda c, _: c.receive_message("empty"),
        check_empty,
    ),
    Step("pop", prepare_message("pop"), lambda c, _: c.pop_message("pop"), check_pop),
    Step("delete", prepare_received("delete"), lambda c, m: c.delete_message(m), check_delete),
    Step(
        "change visibility",
        prepare_received("hide"),
        lambda c, m: c.change_message_visibility(m, 0),
        check_visibility,
    ),
    Step(
        "publish",
        prepare_queues("one", "two"),
        lambda c, _: c.publish(["one", "two"], "m"),
        check_publish,
    ),
    Step(
        "receive of a dead letter",
        prepare_worn("worn", "worn-dead"),
        lambda c, _: c.receive_message("worn", vt=1000),
        check_dead_letter("worn", "worn-dead", lambda _: None),
    ),
    Step(
        "receive_messages of a dead letter",
        prepare_worn("tired", "tired-dead"),
        lambda c, _: c.receive_messages("tired", 5, vt=1000),
        check_dead_letter("tired", "tired-dead", lambda _: []),
    ),
    Step(
        "pop of a dead letter",
        prepare_worn("weary", "weary-dead"),
        lambda c, _: c.pop_message("weary"),
        check_dead_letter("weary", "weary-dead", lambda _: None),
    ),
    Step(
        "sweep",
        prepare_worn("swept", "swept-dead"),
        lambda c, _: c.sweep_dead_letters("swept"),
        check_dead_letter("swept", "swept-dead", lambda id: [id]),
    ),
    Step(
        "recover of a dead letter",
        prepare_hidden_worn("killed", "killed-dead"),
        lambda c, _: c.recover_messages("killed", 5, idle=0),
        check_dead_letter("killed", "killed-dead", lambda _: []),
    ),
    Step(
        "receive of a message with an unbegun receive",
        prepare_unbegun("unbegun", "unbegun-dead"),
        lambda c, _: c.receive_message("unbegun"),
        check_unbegun,
    ),
    Step(
        "redrive",
        prepare_message("dead", "fresh"),
        lambda c, _: c.redrive_messages("dead", "fresh"),
        check_redrive,
    ),
    Step(
        "move",
        prepare_message("from", "to"),
        lambda c, id: c.move_messages("from", "to", [id]),
        check_move,
    ),
    Step(
        "recover",
        prepare_received("stuck"),
        lambda c, _: c.recover_messages("stuck", 5, idle=0, vt=1000),
        check_recover,
    ),
    Step("release", prepare_received("held"), lambda c, m: c.release_messages([m]), check_release),
    Step(
        "release all",
        prepare_received("all"),
        lambda c, _: c.release_all_messages("all"),
        check_release_all,
    ),
    Step("count", prepare_message("count"), lambda c, _: c.count_messages("count"), check_count),
    Step("create", prepare_queues(), lambda c, _: c.create_queue("new", vt=7), check_create),
    Step(
        "delete queue",
        prepare_message("gone"),
        lambda c, _: c.delete_queue("gone"),
        check_delete_queue,
    ),
    Step("purge", prepare_message("purged"), lambda c, _: c.purge_queue("purged"), check_purge),
    Step("pause", prepare_queues("paused"), lambda c, _: c.pause_queue("paused"), check_pause),
    *(
        Step(name, prepare, lambda c, operation: c.run(operation), check_plain(name))
        for name, prepare in PLAIN.items()
    ),
]


def make_each_call(place, cluster, stage, keys_to_move):
    """Make each call while the slot is in this stage of its move; the move ends later."""
    client = place.open_client()
    stored = Stored(cluster.raw, place.ns)
    features = (
        worker_steps, group_steps, moved_group_steps, record_steps, trash_steps, limit_steps,
    )  # fmt: skip
    steps = [*STEPS, *(step for each in features for step in each.STEPS)]
    states = {step.name: step.prepare(client, stored) for step in steps}
    slot, source = slot_of(place.ns), cluster.node_of(place.ns)
    target = other_master(cluster, source)
    key_count = source.ask("CLUSTER", "COUNTKEYSINSLOT", slot)
    calls = Calls()
    may_start = threading.Event()

    async def work(step, client):
        await client.list_queues()  # it learns which node has the slot
        while not may_start.is_set():
            await client.sleep(0.005)
        await calls.make(step.name, step.call(client, states[step.name]))

    crowd = place.start(*(partial(work, step) for step in steps))
    cluster.begin_slot_move(slot, target)
    if stage == "some keys":
        cluster.move_keys(slot, target, keys_to_move(key_count))
    elif stage != "begun":
        cluster.move_keys(slot, target)
    if stage == "ended":
        cluster.end_slot_move(slot, target)
    may_start.set()
    if stage != "ended":
        time.sleep(0.5)
        cluster.move_keys(slot, target)
        cluster.end_slot_move(slot, target)
    crowd.join()

    assert calls.errors == {}
    for step in steps:
        step.check(states[step.name], calls.returned[step.name], stored)
    assert faults_found(place) == []
    for name in client.list_queues():
        client.delete_queue(name)
    left = cluster.raw.keys(f"{place.ns}*")
    of_namespace = f"{place.ns}:x:".encode()
    # Records of jobs end by their time to live.
    assert all(key.startswith(of_namespace) or b":x:job:" in key for key in left), left
    cluster.raw.unlink(*left)  # the workers and the records
    return calls


@pytest.mark.one_face
@pytest.mark.parametrize("stage", ["begun", "some keys", "all keys", "ended"])
def test_each_call_in_a_slot_that_is_moved(place, cluster, rounds, stage):
    generator = random.Random(stage)
    for _ in rounds(1, 100):
        calls = make_each_call(
            place,
            cluster,
            stage,
            lambda keys: generator.randrange(1, keys) if SOAK else keys // 2,
        )
        calls.log()


@pytest.mark.one_face
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("part", ["unbegun:x:unbegun", "unbegun-dead", "unbegun-dead:Q"])
def test_a_dead_letter_waits_for_a_key_on_the_other_node(place, cluster, part, is_first):
    """The key is the first that moves, or the last."""
    client = place.open_client()
    stored = Stored(cluster.raw, place.ns)
    id = prepare_unbegun("unbegun", "unbegun-dead")(client, stored)
    worn = client.send_message("unbegun", "worn")
    stored.raw.hset(f"{place.ns}:unbegun:Q", f"{worn}:rc", 2)
    client.send_message("unbegun-dead", "other")
    slot, source = slot_of(place.ns), cluster.node_of(place.ns)
    target = other_master(cluster, source)
    cluster.begin_slot_move(slot, target)
    key = f"{place.ns}:{part}".encode()
    moved = (
        [key] if is_first else [each for each in source.ask("KEYS", f"{place.ns}*") if each != key]
    )
    command = ("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *moved)
    assert source.ask(*command) == b"OK"
    calls = Calls()

    async def receive_twice(client):
        # The first receive is the third of the message, of which two count.
        await calls.make("sweep", client.sweep_dead_letters("unbegun"))
        await calls.make("first", client.receive_message("unbegun", vt=0))

    crowd = place.start(receive_twice)
    time.sleep(0.3)
    cluster.move_keys(slot, target)
    cluster.end_slot_move(slot, target)
    crowd.join()
    assert calls.errors == {}
    assert calls.returned["sweep"] == [worn]
    assert (calls.returned["first"].id, calls.returned["first"].receive_count) == (id, 3)
    assert client.receive_message("unbegun") is None
    assert {id, worn} < set(stored.ids("unbegun-dead"))
    assert stored.bodies("unbegun-dead") == [b"other", b"unbegun", b"worn"]


@pytest.mark.one_face
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "ending",
    [*worker_steps.UNDECLARED, *group_steps.ENDINGS[: scaled(1, 3)], limit_steps.ENDING],
)
def test_calls_wait_for_keys_beside_a_queue_on_the_other_node(place, cluster, ending, is_first):
    """These keys are the first that move, or the last."""
    client = place.open_client()
    stored = Stored(cluster.raw, place.ns)
    steps = worker_steps.STEPS + group_steps.STEPS + limit_steps.STEPS
    states = {step.name: step.prepare(client, stored) for step in steps}
    slot, source = slot_of(place.ns), cluster.node_of(place.ns)
    target = other_master(cluster, source)
    cluster.begin_slot_move(slot, target)
    keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10_000)
    moved = [key for key in keys if key.decode().endswith(ending) == is_first]
    assert 0 < len(moved) < len(keys)
    command = ("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *moved)
    assert source.ask(*command) == b"OK"
    calls = Calls()

    async def work(step, client):
        await calls.make(step.name, step.call(client, states[step.name]))

    crowd = place.start(*(partial(work, step) for step in steps))
    time.sleep(0.3)
    cluster.move_keys(slot, target)
    cluster.end_slot_move(slot, target)
    crowd.join()
    assert calls.errors == {}
    for step in steps:
        step.check(states[step.name], calls.returned[step.name], stored)


def faults_found(place):
    with RSMQ.from_url(place.url, ns=place.ns) as client:
        return [
            finding
            for finding in examine(client).findings
            if finding.code not in ("no-persistence", "replicas-not-required")
        ]


def test_an_empty_queue_in_a_slot_that_is_moved(place, cluster):
    client = place.open_client()
    client.create_queue("q")
    slot, source = slot_of(place.ns), cluster.node_of(place.ns)
    target = other_master(cluster, source)
    cluster.begin_slot_move(slot, target)
    calls = Calls()

    async def work(client):
        await calls.make("receive", client.receive_message("q"))
        id = await calls.make("send", client.send_message("q", "m"))
        await calls.make("pop", client.pop_message("q"))
        await calls.make("delete", client.delete_message("q", id))

    crowd = place.start(work)
    time.sleep(1)
    cluster.move_keys(slot, target)
    cluster.end_slot_move(slot, target)
    crowd.join()

    assert calls.errors == {}
    assert calls.returned["receive"] is None
    assert calls.returned["pop"].body == "m"
    assert calls.returned["delete"] is False
    assert calls.returned["send"] == calls.returned["pop"].id
    assert bodies(cluster.raw, place.ns, "q") == {}


def test_ask_is_followed_before_the_move_ends(place, cluster):
    client = place.open_client()
    client.create_queue("q")
    first = client.send_message("q", "1")
    slot, source = slot_of(place.ns), cluster.node_of(place.ns)
    target = other_master(cluster, source)
    cluster.begin_slot_move(slot, target)
    cluster.move_keys(slot, target)
    before = command_counts(target).get("asking", 0)

    second = client.send_message("q", "2")
    realtime = place.open_client(realtime=True)
    third = realtime.send_message("q", "3")
    message = client.receive_message("q", vt=0)
    assert message.id == first
    assert client.delete_message(message) is True
    assert [each.body for each in client.receive_messages("q", 9)] == ["2", "3"]

    assert command_counts(target)["asking"] >= before + 5
    with target.raw(protocol=2, single_connection_client=True) as at_target:
        at_target.execute_command("ASKING")
        assert sorted(at_target.zrange(f"{place.ns}:q", 0, -1)) == sorted(
            [second.encode(), third.encode()]
        )
    cluster.end_slot_move(slot, target)
    assert client.count_messages("q").in_flight == 2


# Replies that are dropped


@pytest.fixture
def link(place, cluster):
    """A client, and a proxy in front of the master of its namespace."""
    owner = cluster.node_of(place.ns)
    proxy = Proxy(owner.port)

    def remap(address):
        return (address[0], proxy.port) if address[1] == owner.port else address

    client = place.open_client(address_remap=remap)
    client.create_queue("q")
    client.create_queue("dead")
    warm_up(client)
    yield proxy, client
    proxy.close()


def warm_up(client):
    """Let the server cache the scripts, so that each call sends one command."""
    client.send_message("q", "warm")
    client.send_messages("q", ["warm"])
    client.send_message("q", "warm", dedup_id="warm", unique_key="warm")
    message = client.receive_message("q", vt=1000)
    client.change_message_visibility(message, 1000)
    client.move_messages("q", "dead", [message.id])
    client.redrive_messages("dead", "q")
    client.delete_message("q", message.id)
    client.release_messages(client.receive_messages("q", 1))
    client.pop_message("q")
    client.count_messages("q")
    client.purge_queue("q")


def lose_reply(proxy, call):
    proxy.drop, before = 1, proxy.scripts
    with pytest.raises(LOST, match="may have run the call, or not"):
        call()
    assert proxy.drop == 0
    assert proxy.scripts == before + 1


def test_calls_that_must_not_run_twice_raise(place, cluster, rounds, link):
    for _ in rounds(5, 100):
        lose_replies_of_calls_that_must_not_run_twice(place, cluster, link)


def lose_replies_of_calls_that_must_not_run_twice(place, cluster, link):
    proxy, client = link
    stored = Stored(cluster.raw, place.ns)
    lose_reply(proxy, lambda: client.send_message("q", "1"))
    assert stored.bodies("q") == [b"1"]
    lose_reply(proxy, lambda: client.send_messages("q", ["2", "3"]))
    assert stored.bodies("q") == [b"1", b"2", b"3"]
    lose_reply(proxy, lambda: client.pop_message("q"))
    assert stored.bodies("q") == [b"2", b"3"]
    ids = stored.ids("q")
    lose_reply(proxy, lambda: client.move_messages("q", "dead", ids))
    assert stored.ids("dead") == ids
    lose_reply(proxy, lambda: client.redrive_messages("dead", "q"))
    assert stored.bodies("q") == [b"2", b"3"]
    lose_reply(proxy, lambda: client.purge_queue("q"))
    assert stored.ids("q") == stored.bodies("q") == []


def test_a_receive_whose_reply_is_lost_is_repeated_once(place, cluster, rounds, link):
    for _ in rounds(5, 100):
        lose_replies_of_receives(place, cluster, link)


def lose_replies_of_receives(place, cluster, link):
    proxy, client = link
    ids = client.send_messages("q", ["1", "2", "3", "4"])
    proxy.drop = 1
    assert client.receive_message("q", vt=1000).id == ids[1]
    proxy.drop = 2
    with pytest.raises(LOST):
        client.receive_message("q", vt=1000)
    counts = cluster.raw.hmget(f"{place.ns}:q:Q", [f"{id}:rc" for id in ids])
    assert counts == [b"1", b"1", b"1", b"1"]
    client.purge_queue("q")


def test_calls_that_may_run_twice_are_repeated(place, cluster, rounds, link):
    for _ in rounds(5, 100):
        lose_replies_of_calls_that_may_run_twice(place, cluster, link)


def lose_replies_of_calls_that_may_run_twice(place, cluster, link):
    proxy, client = link
    stored = Stored(cluster.raw, place.ns)

    def with_lost_replies(call):
        proxy.drop = 3
        result = call()
        assert proxy.drop == 0
        return result

    body = f"m{next(_numbers)}"
    id = with_lost_replies(lambda: client.send_message("q", body, dedup_id=body))
    assert stored.ids("q") == [id]
    message = client.receive_message("q", vt=1000)
    assert with_lost_replies(lambda: client.change_message_visibility(message, 0)) is True
    message = client.receive_message("q", vt=1000)
    assert with_lost_replies(lambda: client.release_messages([message])) == [id]
    message = client.receive_message("q", vt=1000)
    assert with_lost_replies(lambda: client.count_messages("q")).in_flight == 1
    assert with_lost_replies(lambda: client.delete_message(message)) is True
    assert with_lost_replies(lambda: client.create_queue("new", vt=5)) is True
    assert stored.ids("q") == stored.bodies("q") == []
    assert stored.is_listed("new")
    client.delete_queue("new")


# Waiting


class Freeze:
    """SIGSTOP of the master, whose connections stay open. Its replica is promoted."""

    def __call__(self, cluster, ns):
        master, replica = owner_and_replica(cluster, ns)
        wait_until_in_step(master, lambda: [replica])
        master.freeze()
        cluster.wait_until_promoted(replica)


WAITING_FAULTS = {**FAULTS, "freeze": Freeze()}


def test_a_call_that_finds_the_new_master_wakes_the_waiting_receives(place, cluster, monkeypatch):
    # The tracking connection alone would not notice that its server hangs.
    for name in ("GROUP_CHECK_SECONDS", "REPLY_TIMEOUT_SECONDS"):
        monkeypatch.setattr(f"rsmq.waiting.tracking.{name}", 1000.0)
    place.open_client().create_queue("q")
    waiters, sending = Waiters(), Sending(dedup=True)
    crowd = place.start(*waiters.works(), *sending.works(1))
    wait_until(lambda: len(waiters.bodies) > 20)

    Freeze()(cluster, place.ns)
    count = len(waiters.bodies)
    wait_until(lambda: len(waiters.bodies) > count + 20, WITHIN_SECONDS)

    node = cluster.node_of(place.ns)
    wait_until(lambda: any("t" in each["flags"] for each in node.ask("CLIENT LIST")))
    sending.stops = waiters.stops = True
    place.open_client().send_messages("q", ["last"] * 4)
    crowd.join()


def test_waiting_receives_are_woken_through_every_fault(place, cluster, rounds):
    client = place.open_client()
    for _ in rounds(1, 40):
        client.create_queue("q")
        waiters = Waiters()
        crowd = place.start(*waiters.works())
        wait_until_tracked(cluster.node_of(place.ns))
        assert_no_commands(cluster.node_of(place.ns), 2)
        expect_wake_ups(waiters, client, "start")
        names = ("move", "freeze") if place.mode == "asyncio" and not SOAK else WAITING_FAULTS
        for name in names:
            WAITING_FAULTS[name](cluster, place.ns)
            client = place.open_client()  # that of before may wait for a server that hangs
            expect_wake_ups(waiters, client, name)
            wait_until_tracked(cluster.node_of(place.ns))
            wait_until_quiet(cluster.node_of(place.ns), 0.5)
            cluster.heal()
        waiters.stops = True
        client.send_messages("q", ["last"] * 4)
        crowd.join()
        assert waiters.calls.errors == {}
        client.delete_queue("q")


# Clients that are closed


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_calls_ask_ten_times_a_second_if_no_node_answers(mode, monkeypatch):
    """All of a client together, not each of them."""
    asked, failed, lock = [], [], threading.Lock()
    refresh, note_failed_refresh = ClusterTopology.refresh, ClusterTopology.note_failed_refresh

    def note(self, now, error):
        with lock:
            note_failed_refresh(self, now, error)
            failed.append((now, time.monotonic()))

    monkeypatch.setattr(
        ClusterTopology, "refresh", lambda self, now: (asked.append(now), refresh(self, now))[1]
    )
    monkeypatch.setattr(ClusterTopology, "note_failed_refresh", note)
    url = f"redis+cluster://127.0.0.1:{free_port()}"
    options = {"ns": "{x}", "retry_deadline": 1}

    async def send():
        async with AsyncRSMQ.from_url(url, **options) as rsmq:
            sends = (rsmq.send_message("q", "m") for _ in range(50))
            return await asyncio.gather(*sends, return_exceptions=True)

    if mode == "asyncio":
        errors = asyncio.run(send())
    else:
        with RSMQ.from_url(url, **options) as rsmq, ThreadPoolExecutor(50) as threads:
            sends = [threads.submit(rsmq.send_message, "q", "m") for _ in range(50)]
            errors = [each.exception() for each in sends]
    assert {type(error) for error in errors} == {redis.ConnectionError}
    assert all("Is Redis running at 127.0.0.1" in str(error) for error in errors)
    assert len(asked) > 1
    # Threads may ask at the same time, as long as none has got an answer or an error. The last
    # failure that was noted before a call looks decides for a tenth of a second from its begin.
    for now in asked:
        last = max((noted, began) for began, noted in [*failed, (-1.0, -1.0)] if noted < now)
        assert now >= last[1] + 0.1


def test_a_client_that_is_closed_during_a_refresh(place, cluster):
    place.open_client().create_queue("q")
    tarpit = socket.create_server(("127.0.0.1", 0))  # it never answers
    url = place.url.replace("//", f"//127.0.0.1:{tarpit.getsockname()[1]},")
    client = place.make_client(url=url, client_name="closed")
    errors = []

    def call_and_close():
        def close():
            time.sleep(0.2)
            client.close()

        closer = threading.Thread(target=close)
        closer.start()
        try:
            client.list_queues()
        except (ClientClosed, *LOST) as error:
            errors.append(error)
        closer.join()
        # The thread has not ended, so its connections are not freed with it.
        wait_until(lambda: not connections_named(cluster, "closed"))

    async def call_and_close_in_loop():
        async def close():
            await asyncio.sleep(0.2)
            await client.close()

        closer = asyncio.create_task(close())
        async with asyncio.timeout(WITHIN_SECONDS):
            with pytest.raises(ClientClosed):
                await client.list_queues()
            await closer
        deadline = time.monotonic() + WITHIN_SECONDS
        while connections_named(cluster, "closed"):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    with tarpit:
        if place.mode == "sync":
            call_and_close()
        else:
            place.runner.run(call_and_close_in_loop())
