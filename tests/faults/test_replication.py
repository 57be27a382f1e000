"""Calls that wait for replicas and disks: confirm=."""

from __future__ import annotations

import asyncio
import itertools
import math
import pickle
import random
import threading
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta

import pytest
import redis
import redis.asyncio

from rsmq import RSMQ, AsyncRSMQ, Confirm, InvalidFormat, InvalidValue, NotPossible, NotReplicated
from rsmq.operations.confirmation import wait_command
from rsmq.transport.asyncio_ import group_commit
from tests.blocking import Blocking
from tests.engines import engine_path, installed_engine_path
from tests.expect import refused
from tests.nodes import Node, wait_until
from tests.proxy import Proxy
from tests.scale import ENGINE_SHARES, WAIT_SECONDS, scaled
from tests.sentinels import SentinelGroup

pytestmark = pytest.mark.slow

_numbers = itertools.count()


class Place:
    """A namespace of a primary with one replica, and a client of it."""

    def __init__(self, group, kind):
        self.group = group
        self.ns = f"copies{next(_numbers)}"
        self.kind = kind
        self._runner = asyncio.Runner() if "asyncio" in kind else None
        self._closing = []
        self.rsmq = self.client(confirm=Confirm(replicas=1))

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.group.primary.port}/0"

    def client(self, **options):
        options = {"ns": self.ns, **options}
        if self._runner is None:
            if "handed" in self.kind:
                inner = redis.Redis.from_url(self.url)
                client = RSMQ(inner, **options)
                self._closing += [client.close, inner.close]
                return client
            client = RSMQ.from_url(self.group.url, **options)
            self._closing.append(client.close)
            return client
        if "handed" in self.kind:
            inner = redis.asyncio.Redis.from_url(self.url)
            client = Blocking(self._runner, AsyncRSMQ(inner, **options))
            self._closing += [client.close, lambda: self._runner.run(inner.aclose())]
            return client
        client = Blocking(self._runner, AsyncRSMQ.from_url(self.group.url, **options))
        self._closing.append(client.close)
        return client

    def bodies(self, queue="q"):
        """Return the bodies of a queue, by the raw keys of the primary."""
        with self.group.raw() as raw:
            ids = raw.zrange(f"{self.ns}:{queue}", 0, -1)
            return [raw.hget(f"{self.ns}:{queue}:Q", id) for id in ids]

    def close(self):
        for close in reversed(self._closing):
            close()
        if self._runner is not None:
            self._runner.close()


@pytest.fixture(scope="module")
def sentinels(engine):
    """A primary, a replica and three Sentinels of the engine. A test that breaks them heals."""
    started = SentinelGroup(installed_engine_path(engine))
    started.start()
    yield started
    started.stop()


@pytest.fixture(params=["sync", "asyncio", "sync, handed in", "asyncio, handed in"])
def place(request, sentinels):
    sentinels.heal()
    place = Place(sentinels, request.param)
    place.rsmq.create_queue("q")
    place.rsmq.create_queue("other")
    yield place
    place.close()


@contextmanager
def frozen_replica(place):
    """Run the block while the replica is suspended."""
    (replica,) = place.group.replicas
    replica.freeze()
    try:
        yield
    finally:
        replica.thaw()


def calls_of(command, group):
    """Return how often the primary has run a command."""
    return calls_on(group.primary, command)


def calls_on(node, command):
    """Return how often a server has run a command."""
    with node.raw() as raw:
        return raw.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


#: Each call that waits for replicas, with what its result stands for.
WRITES = {
    "send_message": lambda rsmq, **copies: rsmq.send_message("q", "a", **copies),
    "send_message, dedup_id": lambda rsmq, **copies: rsmq.send_message(
        "q", "a", dedup_id="1", **copies
    ),
    "send_messages": lambda rsmq, **copies: rsmq.send_messages("q", ["a", "b"], **copies),
    "send_messages, dedup_ids": lambda rsmq, **copies: rsmq.send_messages(
        "q", ["a", "b"], dedup_ids=["1", None], **copies
    ),
    "send_messages, large": lambda rsmq, **copies: rsmq.send_messages(
        "q", ["a" * 9000, "b" * 9000], **copies
    ),
    "publish": lambda rsmq, **copies: rsmq.publish(["q", "other"], "a", **copies),
}


@pytest.mark.parametrize("name", WRITES)
def test_confirmed_call_returns_its_result(place, name):
    before = calls_of("wait", place.group)

    result = WRITES[name](place.rsmq)

    assert result
    assert place.bodies()
    assert calls_of("wait", place.group) > before


@pytest.mark.parametrize("name", WRITES)
def test_call_that_no_replica_confirms_raises_what_it_has_stored(place, name):
    with frozen_replica(place), pytest.raises(NotReplicated) as caught:
        WRITES[name](place.rsmq, confirm=Confirm(replicas=1, timeout=0.05))

    stored = place.bodies()
    assert len(stored) == (2 if "messages" in name else 1)
    with place.group.raw() as raw:
        ids = [id.decode() for id in raw.zrange(f"{place.ns}:q", 0, -1)]
    result = caught.value.result
    assert result == (
        {"q": ids[0], "other": result["other"]}
        if name == "publish"
        else ids
        if isinstance(result, list)
        else ids[0]
    )
    assert caught.value.value == "confirmed by 0 of 1 replicas"
    assert "After 0.05 seconds" in caught.value.hint


def test_a_redrive_ends_with_the_first_step_that_is_not_confirmed(place):
    for _ in range(3):
        place.rsmq.send_messages("other", ["x"] * 500, confirm=Confirm())
    redriven = "1,000 messages redriven"
    with frozen_replica(place), pytest.raises(NotReplicated, match=redriven) as caught:
        place.rsmq.redrive_messages("other", "q", confirm=Confirm(replicas=1, timeout=0.05))

    assert len(caught.value.result) == len(place.bodies()) == 1000
    assert len(place.bodies("other")) == 500


def test_move_and_redrive_are_confirmed(place):
    ids = place.rsmq.send_messages("q", ["a", "b", "c"])

    assert place.rsmq.move_messages("q", "other", ids[:2]) == ids[:2]
    with frozen_replica(place), pytest.raises(NotReplicated) as caught:
        place.rsmq.move_messages("q", "other", ids[2:], confirm=Confirm(replicas=1, timeout=0.05))
    assert caught.value.result == ids[2:]
    assert place.bodies("other") == [b"a", b"b", b"c"]

    redriven = place.rsmq.redrive_messages("other", "q", max_messages=1)
    assert [old for old, _ in redriven] == ids[:1]
    with frozen_replica(place), pytest.raises(NotReplicated) as caught:
        place.rsmq.redrive_messages("other", "q", confirm=Confirm(replicas=1, timeout=0.05))
    assert [old for old, _ in caught.value.result] == ids[1:]
    assert place.bodies("q") == [b"a", b"b", b"c"]
    assert place.bodies("other") == []


def test_calls_that_change_nothing_need_no_confirmation(place):
    """Even if earlier changes of their connection are not confirmed."""
    with frozen_replica(place):
        with pytest.raises(NotReplicated):
            place.rsmq.send_message("q", "a", confirm=Confirm(replicas=1, timeout=0.05))
        assert (
            place.rsmq.move_messages(
                "q", "other", ["a" * 32], confirm=Confirm(replicas=1, timeout=0.05)
            )
            == []
        )
        assert (
            place.rsmq.redrive_messages("other", "q", confirm=Confirm(replicas=1, timeout=0.05))
            == []
        )


def test_repeated_dedup_id_is_not_confirmed_by_a_replica_that_lacks_the_message(place):
    with frozen_replica(place):
        for _ in range(3):
            with pytest.raises(NotReplicated) as caught:
                place.rsmq.send_message(
                    "q", "a", dedup_id="1", confirm=Confirm(replicas=1, timeout=0.05)
                )
        other = place.client(confirm=Confirm(replicas=1, timeout=0.05))
        with pytest.raises(NotReplicated):  # on a connection that has written nothing
            other.send_message("q", "a", dedup_id="1")

    assert place.rsmq.send_message("q", "a", dedup_id="1") == caught.value.result
    assert place.bodies() == [b"a"]


def test_unique_key_in_use_is_not_confirmed_by_a_replica_that_lacks_the_message(place):
    with frozen_replica(place):
        copies = Confirm(replicas=1, timeout=0.05)
        with pytest.raises(NotReplicated) as caught:
            place.rsmq.send_message("q", "a", unique_key="1", confirm=copies)
        other = place.client(confirm=copies)
        with pytest.raises(NotReplicated):  # on a connection that has written nothing
            other.send_message("q", "b", unique_key="1")

    assert place.rsmq.send_message("q", "c", unique_key="1") == caught.value.result
    assert place.bodies() == [b"a"]


def test_repeated_dedup_id_forgets_no_record(place):
    id = place.rsmq.send_message("q", "a", dedup_id="1", dedup_window=100)
    key = f"{place.ns}:q:x:dedup"
    with place.group.raw() as raw:
        raw.persist(key)
        records = raw.hgetall(key)
        assert place.rsmq.send_message("q", "a", dedup_id="1", dedup_window=100) == id
        assert raw.hgetall(key) == records
        assert 99_000 < raw.pttl(key) <= 100_000


def test_a_rejected_wait_is_not_repeated(place):
    """For example, because the user has no right for it: the server would reject it again."""

    def rejections():
        with place.group.raw() as raw:
            return raw.info("commandstats").get("cmdstat_wait", {}).get("rejected_calls", 0)

    # Loads the script: a call whose script is missing is sent again, and so is its WAIT.
    first = place.rsmq.send_message("q", "first")
    before = rejections()
    place.group.primary.ask("ACL", "SETUSER", "default", "-wait")
    try:
        with pytest.raises(NotReplicated, match=r"server answered: .*permission") as caught:
            place.rsmq.send_message("q", "a", confirm=Confirm(replicas=1, timeout=50))
    finally:
        place.group.primary.ask("ACL", "SETUSER", "default", "+@all")

    assert rejections() == before + 1
    with place.group.raw() as raw:
        assert raw.zrange(f"{place.ns}:q", 0, -1) == [first.encode(), caught.value.result.encode()]


def test_settings_of_a_call_replace_those_of_the_client(place):
    plain = place.client()
    before = calls_of("wait", place.group)
    plain.send_message("q", "a")
    place.rsmq.send_message("q", "b", confirm=Confirm())
    assert calls_of("wait", place.group) == before

    plain.send_message("q", "c", confirm=Confirm(replicas=1))
    assert calls_of("wait", place.group) > before
    with pytest.raises(NotReplicated):
        plain.send_message("q", "d", confirm=Confirm(replicas=2, timeout=0.05))
    assert place.bodies() == [b"a", b"b", b"c", b"d"]


def test_other_calls_have_no_such_setting(place):
    for call in (
        lambda: place.rsmq.receive_message("q", confirm=Confirm(replicas=1)),
        lambda: place.rsmq.delete_message("q", "a" * 32, confirm=Confirm(replicas=1)),
        lambda: place.rsmq.purge_queue("q", fsync=True),
    ):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (InvalidValue, {"replicas": -1}, "replicas must be between 0 and 100"),
        (InvalidValue, {"replicas": 101}, "replicas must be between 0 and 100"),
        (InvalidValue, {"replicas": "1"}, "replicas must be between 0 and 100"),
        (InvalidValue, {"replicas": 1, "timeout": 0}, "timeout must be between 0.001 and 60"),
        (InvalidValue, {"replicas": 1, "timeout": 61}, "timeout must be between 0.001 and 60"),
        (InvalidFormat, {"fsync": 1}, "Invalid fsync format"),
        (InvalidFormat, {"timeout": 5}, "Invalid timeout format"),
    ],
)
def test_wrong_copies_are_refused(kind, options, text):
    with refused(kind, text):
        Confirm(**options)


def test_copies_are_a_plain_value():
    copies = Confirm(replicas=2, timeout=timedelta(seconds=3))

    assert (copies.replicas, copies.timeout, copies.fsync) == (2, 3.0, False)
    assert copies == pickle.loads(pickle.dumps(copies)) == Confirm(replicas=2, timeout=3)
    assert Confirm(replicas=0, timeout=3) != Confirm() == Confirm(replicas=0)


def test_wrong_confirm_is_refused_and_changes_nothing(sentinels):
    text = "Invalid confirm format"
    with RSMQ.from_url(sentinels.url, ns="wrong") as rsmq, refused(InvalidFormat, text):
        rsmq.send_message("q", "a", confirm=1)
    with refused(InvalidFormat, text):
        RSMQ.from_url(sentinels.url, ns="wrong", confirm=1)
    with sentinels.raw() as raw:
        assert raw.keys("wrong*") == []


def test_concurrent_calls_of_an_event_loop_wait_together(sentinels):
    sentinels.heal()

    async def send():
        async with AsyncRSMQ.from_url(
            sentinels.url, ns="together", confirm=Confirm(replicas=1)
        ) as rsmq:
            await rsmq.create_queue("q")
            before = calls_of("wait", sentinels)
            ids = await asyncio.gather(*(rsmq.send_message("q", "a") for _ in range(500)))
            return len(set(ids)), calls_of("wait", sentinels) - before

    sent, waits = asyncio.run(send())
    assert sent == 500
    assert waits <= 10


def test_call_that_waits_blocks_no_other(sentinels):
    """WAIT blocks its connection, so a second one is needed: here for as long as the test lasts."""
    sentinels.heal()

    async def run():
        async with AsyncRSMQ.from_url(sentinels.url, ns="beside") as rsmq:
            await rsmq.create_queue("q")
            confirmed = asyncio.ensure_future(
                rsmq.send_message("q", "a", confirm=Confirm(replicas=2, timeout=50))
            )
            while not await rsmq.get_queue_attributes("q"):
                await asyncio.sleep(0.01)
            for _ in range(300):
                await rsmq.count_messages("q")
            # Another confirmed call is sent between two commands that wait.
            await rsmq.send_message("q", "b", confirm=Confirm(replicas=1, timeout=50))
            assert not confirmed.done()
            confirmed.cancel()

    asyncio.run(run())


@pytest.mark.parametrize("seconds", [0, 0.4])
def test_program_that_cancels_all_other_tasks_ends_confirmed_calls(sentinels, seconds):
    """Before the first reply the call may have run; later it has."""
    sentinels.heal()
    ns = f"cancelled{seconds}"

    async def run():
        async with AsyncRSMQ.from_url(sentinels.url, ns=ns) as rsmq:
            await rsmq.create_queue("q")
            send = asyncio.ensure_future(
                rsmq.send_message("q", "a", confirm=Confirm(replicas=2, timeout=50))
            )
            while not (await rsmq.get_queue_attributes("q")).messages:
                await asyncio.sleep(0.01)
            await asyncio.sleep(seconds)
            for task in asyncio.all_tasks() - {asyncio.current_task(), send}:
                task.cancel()
            kind = NotReplicated if seconds else redis.ConnectionError
            with pytest.raises(kind, match="interrupted" if kind is not NotReplicated else "broke"):
                await send

    asyncio.run(run())
    with sentinels.raw() as raw:
        assert raw.zcard(f"{ns}:q") == 1


@pytest.mark.parametrize("dedup_id", [None, "1"])
def test_connection_that_breaks_while_a_call_waits(sentinels, dedup_id):
    """The message is stored, so a send without a dedup_id must not be repeated."""
    sentinels.heal()
    port = sentinels.primary.port
    proxy = Proxy(port)
    with RSMQ.from_url(proxy.url, ns=f"broken{dedup_id}") as rsmq:
        rsmq.create_queue("q")
        (replica,) = sentinels.replicas
        replica.freeze()
        caught = []

        def send():
            try:
                rsmq.send_message(
                    "q", "a", confirm=Confirm(replicas=1, timeout=3), dedup_id=dedup_id
                )
            except NotReplicated as error:
                caught.append(error)

        sender = threading.Thread(target=send)
        sender.start()
        with sentinels.raw() as raw:
            wait_until(lambda: raw.zcard(f"broken{dedup_id}:q") == 1)
            wait_until(
                lambda: any(each["cmd"] == "wait" for each in raw.client_list()),
                failure="no call waits",
            )
            proxy.close_connections()
            if dedup_id:
                replica.thaw()
            sender.join(WAIT_SECONDS)
            if not dedup_id:
                replica.thaw()
            assert raw.zcard(f"broken{dedup_id}:q") == 1
    proxy.close()

    if dedup_id:
        assert caught == []
    else:
        assert "not confirmed, because the connection broke" in str(caught[0])


@pytest.fixture(scope="module")
def disk_server():
    """A server that can say what is on disk, with an append-only file."""
    binary = engine_path("valkey-9.1")
    if binary is None:
        pytest.skip("valkey-9.1 is not installed: run scripts/setup")
    node = Node(binary, [])
    node.start()
    yield node
    node.stop()


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_fsync_waits_for_the_disk(disk_server, mode):
    disk_server.ask("CONFIG", "SET", "appendonly", "yes")
    url = f"redis://127.0.0.1:{disk_server.port}/0"

    async def send():
        async with AsyncRSMQ.from_url(url, ns=mode, confirm=Confirm(fsync=True)) as rsmq:
            await rsmq.create_queue("q")
            return await asyncio.gather(*(rsmq.send_message("q", "a") for _ in range(20)))

    if mode == "asyncio":
        ids = asyncio.run(send())
    else:
        with RSMQ.from_url(url, ns=mode, confirm=Confirm(fsync=True)) as rsmq:
            rsmq.create_queue("q")
            ids = [rsmq.send_message("q", "a") for _ in range(20)]

    assert len(set(ids)) == 20
    assert calls_on(disk_server, "waitaof") > 0


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
def test_fsync_is_refused_before_anything_is_sent(disk_server, sentinels, engine, mode):
    disk_server.ask("CONFIG", "SET", "appendonly", "no")
    for url, text in (
        (f"redis://127.0.0.1:{disk_server.port}/0", "fsync=True needs an append-only file"),
        (
            sentinels.url,
            "fsync=True needs Redis 7.2 or later"
            if engine == "redis-7.0"
            else "fsync=True needs an append-only file",
        ),
    ):
        runner = asyncio.Runner()
        if mode == "asyncio":
            rsmq = Blocking(runner, AsyncRSMQ.from_url(url, ns="disk"))
        else:
            rsmq = RSMQ.from_url(url, ns="disk")
        rsmq.create_queue("q", exist_ok=True)
        with refused(NotPossible, text):
            rsmq.send_message("q", "a", confirm=Confirm(fsync=True))
        assert rsmq.count_messages("q").visible == 0
        rsmq.close()
        runner.close()


def test_confirmed_messages_survive_the_loss_of_the_primary(engine):
    """
    Plain sends are lost when a replica that lags takes over; confirmed ones are not.

    The replica is suspended now and then, so that only some sends are confirmed.
    """
    chance = random.Random(1)
    lost, sent = Counter(), Counter()
    for _ in range(math.ceil(scaled(1, 20) * ENGINE_SHARES[engine])):
        group = SentinelGroup(installed_engine_path(engine))
        group.start()
        try:
            _lose_primary(group, chance, sent, lost)
        finally:
            group.stop()
    print(f"acknowledged sends {dict(sent)}, of which lost {dict(lost)}")

    assert lost["plain"] > 0, "no plain send was lost, so the test shows nothing"
    assert lost["confirmed"] == 0


def _lose_primary(group, chance, total_sent, total_lost):
    """Kill the primary while the replica lags, and count the sends of each kind."""
    old, (replica,) = group.primary, group.replicas
    sent = {"plain": [], "confirmed": []}
    with RSMQ.from_url(group.url, ns="lost") as rsmq:
        rsmq.create_queue("q", maxsize=-1)
        for number in range(200):
            if number < 120 and number % 20 == 10:
                replica.freeze()
            if number < 120 and number % 20 == 0 and number:
                replica.thaw()
            # The last ones are more than the socket buffers hold, from which the replica would
            # still read them.
            kind = chance.choice(list(sent)) if number < 120 else "plain"
            copies = {"confirm": Confirm(replicas=1, timeout=0.02)} if kind == "confirmed" else {}
            body = f"{number}:{'x' * 200_000}"
            try:
                rsmq.send_message("q", body, **copies)
            except NotReplicated:
                continue
            sent[kind].append(number)
        assert sent["confirmed"], "no send was confirmed"
        old.kill()
        replica.thaw()
        group.wait_until_promoted(old)
        bodies = rsmq.peek_messages("q", 0, 1000)
        survived = {int(each.body.partition(":")[0]) for each in bodies}
    for kind, numbers in sent.items():
        total_sent[kind] += len(numbers)
        total_lost[kind] += len(set(numbers) - survived)


def test_the_wait_for_replicas_is_as_long_as_asked(server, monkeypatch):
    """The calls of an event loop wait in steps; together these take no longer."""
    asked = []

    def record(confirm, seconds):
        asked.append(seconds)
        return wait_command(confirm, seconds)

    monkeypatch.setattr(group_commit, "wait_command", record)

    async def send():
        async with AsyncRSMQ.from_url(server.url, ns="waits") as rsmq:
            await rsmq.create_queue("q")
            with pytest.raises(NotReplicated):
                await rsmq.send_message("q", "a", confirm=Confirm(replicas=1, timeout=0.25))
            asked.clear()
            with pytest.raises(NotReplicated):
                await rsmq.send_message("q", "b", confirm=Confirm(replicas=1, timeout=0.25))
            assert sum(asked) < 0.35
            await rsmq.delete_queue("q")

    asyncio.run(send())
