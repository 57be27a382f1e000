"""The clusters and Sentinel groups of the tests do what their helpers promise."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import exceptions
from redis.crc import key_slot

from tests.clusters import SLOTS, slot_of
from tests.nodes import wait_until
from tests.scale import scaled
from tests.sentinels import SentinelGroup
from tests.servers import redis_7

pytestmark = pytest.mark.slow

_numbers = itertools.count()


@pytest.fixture(params=scaled(["cluster"], ["cluster", "valkey_cluster"]))
def any_cluster(request):
    cluster = request.getfixturevalue(request.param)
    yield cluster
    cluster.heal()


@pytest.fixture
def tag(any_cluster):
    """A hash tag for this test. Its keys are removed afterwards."""
    name = f"{{fixture{next(_numbers)}-{os.getpid()}}}"
    yield name
    any_cluster.heal()
    keys = any_cluster.raw.keys(f"{name}*")
    if keys:
        any_cluster.raw.unlink(*keys)


def other_master(cluster, node):
    return next(each for each in cluster.masters if each is not node)


def asking(node, *command):
    """Send ASKING and the command on one connection, as a client does after ASK."""
    with node.raw(single_connection_client=True) as raw:
        raw.execute_command("ASKING")
        return raw.execute_command(*command)


@pytest.mark.parametrize("key", ["plain", "{tag}key", "a{tag}b", "{}key", "{", "a}b{c", "{a}{b}"])
def test_slots_are_those_of_redis_py(key):
    assert slot_of(key) == slot_of(key.encode()) == key_slot(key.encode())


def test_a_cluster_has_its_masters_and_replicas(any_cluster):
    assert len(any_cluster.nodes) == 6
    assert len(any_cluster.masters) == 3
    for master in any_cluster.masters:
        assert len(any_cluster.replicas_of(master)) == 1
    owned = [any_cluster.owner_of(slot) for slot in (0, SLOTS // 2, SLOTS - 1)]
    assert len({node.port for node in owned}) == 3
    assert any_cluster.url.count("127.0.0.1:") == 6


def test_raw_commands_go_to_the_owners_of_their_keys(any_cluster, tag):
    name = tag.strip("{}")
    keys = [f"{name}-{number}" for number in range(20)]
    for key in keys:
        any_cluster.raw.hset(key, "field", "value")
    assert len({any_cluster.node_of(key) for key in keys}) == 3
    assert any_cluster.raw.hgetall(keys[0]) == {b"field": b"value"}
    assert any_cluster.raw.eval("return redis.call('HLEN', KEYS[1])", 1, keys[1]) == 1
    assert sorted(any_cluster.raw.keys(f"{name}-*")) == sorted(map(str.encode, keys))
    assert any_cluster.raw.unlink(*keys) == 20
    for command in (any_cluster.raw.flushall, any_cluster.raw.info):
        with pytest.raises(NotImplementedError):
            command()


def test_a_failover_promotes_the_replica(any_cluster, tag):
    old = any_cluster.node_of(tag)
    (replica,) = any_cluster.replicas_of(old)
    any_cluster.raw.set(tag, "value")

    any_cluster.failover(replica)

    assert any_cluster.node_of(tag) is replica
    assert any_cluster.replicas_of(replica) == [old]
    assert any_cluster.raw.get(tag) == b"value"


def test_a_slot_moves_step_by_step(any_cluster, tag):
    source, slot = any_cluster.node_of(tag), slot_of(tag)
    target = other_master(any_cluster, source)
    one, two = f"{tag}1", f"{tag}2"
    any_cluster.raw.set(one, 1)
    any_cluster.raw.set(two, 2)

    with source.raw() as at_source, target.raw() as at_target:
        any_cluster.begin_slot_move(slot, target)
        assert at_source.mget(one, two) == [b"1", b"2"]
        with pytest.raises(exceptions.AskError, match=str(target.port)):
            at_source.get(f"{tag}-new")
        with pytest.raises(exceptions.MovedError, match=str(source.port)):
            at_target.get(one)

        (moved,) = any_cluster.move_keys(slot, target, 1)
        with pytest.raises(exceptions.AskError):
            at_source.get(moved)
        assert asking(target, "GET", moved) == any_cluster.raw.get(moved) == moved[-1:]
        with pytest.raises(exceptions.TryAgainError):
            asking(target, "MGET", one, two)
        with pytest.raises(exceptions.TryAgainError):
            at_source.mget(one, two)

        assert len(any_cluster.move_keys(slot, target)) == 1
        any_cluster.end_slot_move(slot, target)
        with pytest.raises(exceptions.MovedError, match=str(target.port)):
            at_source.get(one)
        assert at_target.mget(one, two) == [b"1", b"2"]

    assert any_cluster.node_of(tag) is target
    any_cluster.move_slot(slot, source)
    assert any_cluster.node_of(tag) is source
    assert any_cluster.raw.get(one) == b"1"


@pytest.mark.parametrize("fault", ["freeze", "kill"])
def test_a_failed_master_is_replaced_and_healed(any_cluster, tag, fault):
    old = any_cluster.node_of(tag)
    (replica,) = any_cluster.replicas_of(old)
    any_cluster.raw.set(tag, "value")

    getattr(old, fault)()
    any_cluster.wait_until_promoted(replica)
    assert any_cluster.node_of(tag) is replica
    assert any_cluster.raw.get(tag) == b"value"

    any_cluster.heal()
    assert any_cluster.node_of(tag) is replica
    assert any_cluster.replicas_of(replica) == [old]
    with old.raw(single_connection_client=True) as raw:
        raw.execute_command("READONLY")
        assert raw.get(tag) == b"value"
    assert len(any_cluster.masters) == 3


def test_heal_keeps_the_data_of_killed_masters_and_open_moves(any_cluster, tag):
    source, slot = any_cluster.node_of(tag), slot_of(tag)
    target = other_master(any_cluster, source)
    for number in range(4):
        any_cluster.raw.set(f"{tag}{number}", number)
    any_cluster.begin_slot_move(slot, target)
    any_cluster.move_keys(slot, target, 2)
    assert len(any_cluster.raw.keys(f"{tag}*")) == 4
    any_cluster.heal()
    assert any_cluster.node_of(tag) is target

    for master in any_cluster.masters:
        master.kill()
    any_cluster.heal()

    assert len(any_cluster.masters) == 3
    for number in range(4):
        assert any_cluster.raw.get(f"{tag}{number}") == str(number).encode()
    any_cluster.move_slot(slot, any_cluster.owner_of((slot + 1) % SLOTS))


@pytest.fixture
def group(sentinels):
    yield sentinels
    sentinels.heal()


def test_a_sentinel_failover_changes_the_primary(group):
    old = group.primary
    with group.raw() as raw:
        raw.set("fixture", "value")
        assert raw.wait(1, 5000) == 1

    group.failover()

    assert group.primary is not old
    with group.raw() as raw:
        assert raw.get("fixture") == b"value"
        assert raw.unlink("fixture") == 1


@pytest.mark.parametrize("fault", ["freeze", "kill"])
def test_sentinels_replace_a_failed_primary(group, fault):
    old = group.primary
    with group.raw() as raw:
        raw.set("fixture", "value")
        assert raw.wait(1, 5000) == 1

    getattr(old, fault)()
    group.wait_until_promoted(old)
    assert group.primary is not old
    group.sentinels[0].kill()
    group.heal()

    assert group.replicas == [old]
    with group.raw() as raw:
        assert raw.get("fixture") == b"value"
        assert raw.unlink("fixture") == 1


def test_a_sentinel_group_with_passwords_and_two_replicas():
    group = SentinelGroup(redis_7(), replicas=2, password="word", sentinel_password="other")
    group.start()
    try:
        assert group.url.startswith("redis+sentinel://:word@127.0.0.1:")
        assert group.url.endswith("/mymaster/0?sentinel_password=other")
        with group.raw(password=None) as raw, pytest.raises(exceptions.AuthenticationError):
            raw.ping()
        old = group.primary
        group.failover()
        group.heal()
        assert old in group.replicas
    finally:
        group.stop()


def test_servers_end_with_the_process_that_started_them():
    program = """
import threading
from tests.nodes import Node
from tests.servers import redis_7

node = Node(redis_7())
thread = threading.Thread(target=node.start)
thread.start()
thread.join()
assert node.ask("PING")
node.freeze()
print(node.pid, node.folder, flush=True)
input()
"""
    starter = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        pid, folder = starter.stdout.readline().split()
        assert Path(f"/proc/{pid}").exists()
        starter.send_signal(signal.SIGKILL)
    wait_until(lambda: not _is_process(pid), failure="the server has not ended")
    shutil.rmtree(folder)


def _is_process(pid):
    # A dead process may wait for its new parent as a zombie.
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
