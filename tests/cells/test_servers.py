"""Sets of cells on several servers, of which some are down, and on a Redis Cluster."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress

import pytest
import redis.exceptions as redis_errors

from rsmq import Cells, CellsMismatch, InvalidValue, PartlyDone
from rsmq._sync.engine import CellEngine
from rsmq.cells.engine import AsyncCellEngine
from rsmq.cells.failures import Failures
from rsmq.wire.cells import cell_of_key
from tests.cells.conftest import Place
from tests.clusters import slot_of
from tests.crowd import Crowd, Traffic, command_counts, window_of_stop
from tests.nodes import wait_until, wait_until_in_step
from tests.scale import scaled
from tests.servers import Server, redis_7


class Servers:
    """Three servers, each with two of six cells, and their keys as those of one."""

    def __init__(self):
        self.servers = [Server(redis_7()) for _ in range(3)]
        self.urls = [self.servers[index % 3].url for index in range(6)]

    def of_cell(self, cell):
        return self.servers[cell % 3]

    def stop(self):
        for server in self.servers:
            server.stop()


@pytest.fixture(scope="module")
def servers():
    started = Servers()
    yield started
    started.stop()


class SpreadPlace(Place):
    """A set of cells on three servers."""

    def __init__(self, mode, servers):
        super().__init__(mode, servers.urls, None)
        self.servers = servers

    def raw_of(self, cell):
        return self.servers.of_cell(cell).raw()

    def count(self, cell):
        """Return the number of stored messages of a cell."""
        with self.raw_of(cell) as raw:
            return raw.zcard(f"{self.cell(cell)}:q")

    def open(self, **options):
        options = {"retry_deadline": 1, "socket_timeout": 0.5, **options}
        return super().open(**options)


@pytest.fixture
def spread(mode, servers):
    place = SpreadPlace(mode, servers)
    yield place
    place.close()
    for server in servers.servers:
        with server.raw() as raw:
            raw.flushall()


@pytest.fixture
def cells(spread):
    client = spread.open()
    client.create_queue("q")
    return client


@pytest.fixture
def down(servers):
    """Stop the server of the cells 1 and 4. It keeps nothing."""
    server = servers.of_cell(1)
    with server.raw() as raw:
        raw.save()
    server.kill()
    yield server
    server.start()


def test_cells_are_spread_over_the_servers(spread, cells):
    for number in range(12):
        cells.send_message("q", str(number))
    assert [spread.count(cell) for cell in range(6)] == [2] * 6
    assert sorted(message.body for message in cells.receive_messages("q", 20)) == sorted(
        map(str, range(12))
    )


@pytest.mark.parametrize("order", [(1, 2, 0), (1, 0, 2), (0, 2, 1)])
def test_servers_in_another_order_are_refused(spread, cells, servers, order):
    def keys():
        found = []
        for server in servers.servers:
            with server.raw() as raw:
                found.append(sorted(raw.keys()))
        return found

    cells.send_message("q", "x")
    before = keys()
    other = spread.open(url=[servers.servers[order[cell % 3]].url for cell in range(6)])
    with pytest.raises(CellsMismatch, match=r"is cell \d of 6 .* on the server"):
        other.create_queue("q", exist_ok=True)
    with pytest.raises(CellsMismatch):
        other.receive_message("q", wait=1)
    assert keys() == before


def test_a_server_may_have_several_addresses(spread, cells, servers):
    """Also for a new set, whose cells have no records."""
    urls = [
        server.url.replace("127.0.0.1", host)
        for server in servers.servers[:2]
        for host in ("127.0.0.1", "localhost")
    ]
    for ns in (f"{spread.ns}-new", spread.ns):
        url = (
            [*urls, urls[0], urls[2]]
            if ns != spread.ns
            else [each.replace("127.0.0.1", "localhost") for each in servers.urls]
        )
        client = spread.open(ns=ns, url=url)
        client.create_queue("q", exist_ok=True)
        sent = [client.send_message("q", "x") for _ in range(6)]
        assert sorted(message.id for message in client.receive_messages("q", 9)) == sorted(sent)


def test_sends_without_a_key_go_to_the_next_cell(spread, cells, down):
    found = [cells.send_message("q", str(number)) for number in range(12)]
    assert {int(id.partition("-")[0]) for id in found} == {0, 2, 3, 5}
    key = next(key for key in map(str, range(99)) if cell_of_key(key, 6) == 4)
    with pytest.raises(redis_errors.ConnectionError):
        cells.send_message("q", "x", key=key)
    with pytest.raises(redis_errors.ConnectionError):
        cells.send_message("q", "x", dedup_id=key)


def test_a_server_that_hangs_is_not_asked_by_each_call(spread, cells, servers, monkeypatch):
    """Each of them would wait for its time-out."""
    failures = []
    note = Failures.note
    monkeypatch.setattr(
        Failures, "note", lambda self, *failure: (failures.append(failure), note(self, *failure))
    )
    with servers.of_cell(1).raw() as raw:
        pid = raw.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(40):
            with suppress(redis_errors.TimeoutError):
                cells.send_message("q", "x")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert 1 <= len(failures) <= 10


@pytest.mark.parametrize("is_checked", [True, False])
@pytest.mark.parametrize("has_key", [True, False])
def test_a_timeout_ends_a_send_to_a_server_that_hangs(
    spread, cells, servers, monkeypatch, is_checked, has_key
):
    """The check of its cell included. No other server is left alone because of it."""
    failures = []
    note = Failures.note
    monkeypatch.setattr(
        Failures, "note", lambda self, *failure: (failures.append(failure), note(self, *failure))
    )
    client = spread.open(retry_deadline=3600, socket_timeout=3600)
    for _ in range(6 * is_checked):
        client.send_message("q", "warm")
    before = [spread.count(cell) for cell in range(6)]
    key = next(key for key in map(str, range(99)) if cell_of_key(key, 6) == 1)
    with servers.of_cell(1).raw() as raw:
        pid = raw.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    errors = []
    try:
        for _ in range(1 if has_key else 6):
            try:
                client.send_message("q", "x", key=key if has_key else None, timeout=0.3)
            except redis_errors.TimeoutError as error:
                errors.append(error)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert errors
    assert all("within timeout=0.3" in error.__notes__[0] for error in errors)
    assert len({server for server, _ in failures}) <= 1
    with servers.of_cell(1).raw() as raw:
        wait_until(raw.ping)
    for cell in (0, 2, 3, 5):
        assert spread.count(cell) >= before[cell]
    assert client.send_message("q", "y", key=key, timeout=3600)


def test_a_timeout_that_is_not_a_positive_number_is_refused_by_cells(spread, cells):
    for send in (
        lambda **options: cells.send_message("q", "x", **options),
        lambda **options: cells.send_message("q", "x", key="k", **options),
        lambda **options: cells.send_messages("q", ["x"], **options),
        lambda **options: cells.publish(["q"], "x", **options),
    ):
        with pytest.raises(InvalidValue, match=r"timeout must be between 0\.001 and 86400"):
            send(timeout=0)
    assert [spread.count(cell) for cell in range(6)] == [0] * 6


def test_receives_look_at_the_other_cells(spread, cells, down):
    sent = [cells.send_message("q", str(number)) for number in range(5)]
    found = cells.receive_messages("q", 10)
    assert sorted(message.id for message in found) == sorted(sent)
    assert sorted(cells.delete_messages(found)) == sorted(sent)
    with pytest.raises(PartlyDone) as caught:
        cells.receive_message("q")
    assert caught.value.cells == (1, 4)
    assert "ConnectionError" in caught.value.errors[1]
    with pytest.raises(PartlyDone):
        cells.receive_message("q", wait=0.5)


def test_a_message_is_found_by_its_bare_id(spread, cells, down):
    """Cells that can't be reached are reported only if the message is in none of the others."""
    key = next(key for key in map(str, range(99)) if cell_of_key(key, 6) == 2)
    bare = cells.send_message("q", "x", key=key).removeprefix("2-")
    cells = spread.open(retry_deadline=0)
    assert cells.get_message("q", bare).id == f"2-{bare}"
    assert cells.change_message_visibility("q", bare, 60) is True
    with spread.raw_of(2) as raw:
        assert raw.zrange(f"{spread.cell(2)}:q", 0, -1) == [bare.encode()]
    assert cells.delete_message("q", bare) is True
    assert spread.count(2) == 0
    for call in (cells.get_message, cells.delete_message):
        with pytest.raises(PartlyDone) as caught:
            call("q", bare)
        assert caught.value.cells == (1, 4)


def test_messages_of_a_server_without_memory_are_received(spread, cells, monkeypatch):
    """Receives and deletes free its memory, also while sends leave it alone."""
    monkeypatch.setattr("rsmq.cells.failures._FIRST_SECONDS", 60)
    monkeypatch.setattr("rsmq.cells.failures._LONGEST_SECONDS", 60)
    key = next(key for key in map(str, range(99)) if cell_of_key(key, 6) == 4)
    sent = cells.send_message("q", "x", key=key)
    with spread.raw_of(4) as raw:
        raw.config_set("maxmemory", 1)
        try:
            with pytest.raises(redis_errors.OutOfMemoryError):
                cells.send_message("q", "y", key=key)
            while (message := cells.receive_message("q", wait=1)).cell != 4:
                cells.delete_message(message)
            assert message.id == sent
            assert cells.delete_message(message)
            assert spread.count(4) == 0
        finally:
            raw.config_set("maxmemory", 0)


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("maxmemory", redis_errors.OutOfMemoryError),
        ("min-replicas-to-write", redis_errors.ResponseError),
    ],
)
def test_sends_without_a_key_pass_over_servers_that_refuse_writes(
    spread, cells, servers, setting, error
):
    with ExitStack() as stack:
        raws = [stack.enter_context(server.raw()) for server in servers.servers]
        try:
            raws[1].config_set(setting, 1)
            sent = [cells.send_message("q", "x") for _ in range(12)]
            assert {int(id.partition("-")[0]) for id in sent} == {0, 2, 3, 5}
            assert spread.count(1) == spread.count(4) == 0
            for raw in raws:
                raw.config_set(setting, 1)
            with pytest.raises(error, match="This step changed nothing"):
                cells.send_message("q", "y")
            assert sum(spread.count(cell) for cell in range(6)) == 12
        finally:
            for raw in raws:
                raw.config_set(setting, 0)


def test_waits_are_woken_by_the_other_cells(spread, cells, down):
    sent = cells.send_message("q", "x", delay=0.5)
    assert cells.receive_message("q", wait=20).id == sent


def test_a_wait_finds_the_messages_of_a_server_that_is_back(spread, cells):
    key = next(key for key in map(str, range(99)) if cell_of_key(key, 6) == 4)
    server = spread.servers.of_cell(1)
    cells.send_message("q", "x", key=key)
    with server.raw() as raw:
        raw.save()
    server.kill()
    with pytest.raises(PartlyDone):
        cells.receive_message("q", wait=0.5)
    server.start()
    assert cells.receive_message("q", wait=20).body == "x"


def test_calls_in_all_cells_are_completed_later(spread, cells):
    server = spread.servers.of_cell(1)
    with server.raw() as raw:
        raw.save()
    server.kill()
    with pytest.raises(PartlyDone) as caught:
        cells.set_queue_attributes("q", vt=9)
    assert caught.value.cells == (1, 4)
    assert [each.vt for each in caught.value.result] == [9] * 4
    server.start()
    assert cells.set_queue_attributes("q", vt=9).vt == 9
    with server.raw() as raw:
        assert raw.hget(f"{spread.cell(4)}:q:Q", "vt") == b"9"


def test_deletes_in_several_cells_report_those_that_are_down(spread, cells):
    for number in range(6):
        cells.send_message("q", str(number))
    found = cells.receive_messages("q", 6)
    server = spread.servers.of_cell(1)
    with server.raw() as raw:
        raw.save()
    server.kill()
    with pytest.raises(PartlyDone) as caught:
        cells.delete_messages(found)
    assert caught.value.cells == (1, 4)
    assert sorted(caught.value.result) == sorted(
        message.id for message in found if message.cell not in (1, 4)
    )
    server.start()
    assert sorted(cells.delete_messages(found)) == sorted(
        message.id for message in found if message.cell in (1, 4)
    )


@pytest.mark.parametrize("hangs", [False, True])
def test_calls_in_several_cells_wait_for_a_server_once(spread, cells, hangs, monkeypatch):
    """Not once for each of its cells, of which there may be hundreds."""
    asked = []

    def record(engine, name):
        get = getattr(engine, name)
        monkeypatch.setattr(
            engine, name, lambda self, cell: (asked.append((name, cell)), get(self, cell))[1]
        )

    for engine in (CellEngine, AsyncCellEngine):
        record(engine, "client")
        record(engine, "prompt_client")
    cells.close()
    cells = spread.open(retry_deadline=1.5, socket_timeout=1.0)
    cells.list_queues()
    server = spread.servers.of_cell(1)
    with server.raw() as raw:
        raw.save()
        pid = raw.info("server")["process_id"]
    if hangs:
        os.kill(pid, signal.SIGSTOP)
    else:
        server.kill()
    calls = [
        lambda: cells.create_queue("q", exist_ok=True),
        lambda: cells.delete_messages("q", ["a" * 32]),
        lambda: cells.sweep_dead_letters("q"),
    ]
    for call in calls[:1] if hangs else calls:
        asked.clear()
        with pytest.raises(PartlyDone) as caught:
            call()
        assert caught.value.cells == (1, 4)
        assert ("client", 1) in asked
        assert ("client", 4) not in asked
        assert (("prompt_client", 4) in asked) is not hangs
    if hangs:
        os.kill(pid, signal.SIGCONT)
    else:
        server.start()


def test_all_servers_down(spread, cells, servers):
    for server in servers.servers:
        server.kill()
    for call in (
        lambda: cells.send_message("q", "x"),
        lambda: cells.receive_message("q"),
        lambda: cells.receive_message("q", wait=None),
        lambda: cells.count_messages("q"),
    ):
        with pytest.raises(redis_errors.ConnectionError):
            call()
    for server in servers.servers:
        server.start()


def test_a_hung_server_stores_nothing_twice(spread, cells, servers):
    """A send that may have run is not repeated in another cell."""
    for _ in range(6):
        cells.send_message("q", "warm")  # each server gets the script
    with servers.of_cell(1).raw() as raw:
        pid = raw.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    errors = []
    for number in range(6):
        try:
            cells.send_message("q", str(number))
        except redis_errors.TimeoutError as error:
            errors.append(str(error))
    os.kill(pid, signal.SIGCONT)
    # A send that could not connect has gone to the next cell.
    assert len(errors) in (1, 2)
    assert all("may have run the call, or not" in text for text in errors)
    wait_until(lambda: sum(spread.count(cell) for cell in range(6)) == 12)
    found = []
    while len(found) < 12:
        found += [message.body for message in cells.receive_messages("q", 20, wait=20)]
    assert sorted(found) == [*map(str, range(6)), *["warm"] * 6]


def test_a_send_that_has_timed_out_runs_before_later_calls_or_never(spread, cells, servers):
    """It is not stored in a queue that is created after it."""
    key = next(key for key in map(str, range(99)) if cell_of_key(key, 6) == 4)
    cells.send_message("q", "warm", key=key)
    with servers.of_cell(4).raw() as raw:
        pid = raw.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        for number in range(3):
            with pytest.raises(redis_errors.TimeoutError):
                cells.send_message("q", str(number), key=key)
    finally:
        os.kill(pid, signal.SIGCONT)
    cells.delete_queue("q")
    cells.create_queue("q")
    cells.send_message("q", "last", key=key)
    time.sleep(0.3)
    with servers.of_cell(4).raw() as raw:
        fields = raw.hgetall(f"{spread.cell(4)}:q:Q")
        (id,) = raw.zrange(f"{spread.cell(4)}:q", 0, -1)
        assert (fields[b"totalsent"], fields[id]) == (b"1", b"last")


def test_a_server_that_was_replaced_is_noticed_at_the_first_call(spread, cells, servers):
    """The new one has the cells of another set."""
    key = next(key for key in map(str, range(99)) if cell_of_key(key, 6) == 4)
    cells.send_message("q", "x", key=key)
    server = servers.of_cell(4)
    record = f"{spread.cell(4)}:x:cell"
    with server.raw() as raw:
        raw.hset(record, "set", "other")
        raw.save()
    server.kill()
    with pytest.raises(redis_errors.ConnectionError):
        cells.send_message("q", "x", key=key)
    server.start()
    with pytest.raises(CellsMismatch, match="cell 4 of 6 of the set other"):
        cells.send_message("q", "x", key=key)
    assert spread.count(4) == 1


def test_a_pop_whose_reply_is_lost_raises(spread, cells, servers):
    """Another cell may have messages, but the lost ones exist nowhere else."""
    for _ in range(6):
        cells.send_message("q", "warm")
    while cells.pop_message("q"):
        pass
    keys = {cell_of_key(str(number), 6): str(number) for number in range(99)}
    for cell in range(6):
        cells.send_message("q", "x", key=keys[cell])
    with servers.of_cell(1).raw() as raw:
        pid = raw.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    popped = []
    try:
        with pytest.raises(redis_errors.TimeoutError, match="may have run the call, or not"):
            popped.extend(cells.pop_message("q") for _ in range(6))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert len(popped) < 6


def test_a_pop_goes_on_if_a_hung_server_has_not_been_asked_for_messages(
    spread, cells, servers, monkeypatch
):
    """The record of the cell is read first, and that removes no message."""
    keys = {cell_of_key(str(number), 6): str(number) for number in range(99)}
    for key in keys.values():
        cells.send_message("q", "x", key=key)
    monkeypatch.setattr("random.SystemRandom.randrange", lambda _, number: 3)  # it begins at cell 4
    client = spread.open()
    client.send_message("q", "x", key=keys[1])  # opens a connection to the server of cell 4
    with servers.of_cell(1).raw() as raw:
        pid = raw.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        popped = [client.pop_message("q") for _ in range(4)]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert {message.cell for message in popped} == {0, 2, 3, 5}


def test_the_first_client_needs_the_record_of_one_cell(spread, cells, down):
    """A set that exists can be used while the server of its first cells is down."""
    assert spread.open().send_message("q", "x")


def test_a_new_set_is_not_made_while_a_cell_is_down(spread, down):
    client = spread.open(ns=f"{spread.ns}-new")
    with pytest.raises(redis_errors.ConnectionError):
        client.send_message("q", "x")
    with spread.raw_of(0) as raw:
        assert raw.keys() == []


@pytest.fixture
def on_cluster(mode, cluster):
    place = Place(mode, cluster.url, cluster.raw, number=12)
    yield place
    place.close()
    cluster.heal()
    keys = cluster.raw.keys(f"{{{place.ns}.*")
    if keys:
        cluster.raw.unlink(*keys)


def test_a_cluster_has_the_cells_evenly(on_cluster, cluster):
    cells = on_cluster.open()
    cells.create_queue("q")
    nodes = [cluster.node_of(on_cluster.cell(index)) for index in range(12)]
    assert sorted(nodes.count(node) for node in cluster.masters) == [4, 4, 4]
    before = {node: command_counts(node).get("evalsha", 0) for node in cluster.masters}
    sent = [id for _ in range(12) for id in cells.send_messages("q", ["x"] * 5)]
    found = []
    while len(found) < 60:
        found += cells.receive_messages("q", 5, wait=10)
    assert sorted(message.id for message in found) == sorted(sent)
    after = {node: command_counts(node).get("evalsha", 0) for node in cluster.masters}
    calls = [after[node] - before[node] for node in cluster.masters]
    assert max(calls) <= 1.15 * sum(calls) / 3


def test_nothing_is_lost_or_doubled_while_a_master_is_killed(on_cluster, cluster):
    cells = on_cluster.open()
    for number in range(scaled(1, 25)):
        cells.create_queue(f"q{number}")
        run_traffic_through_a_kill(on_cluster, cluster, f"q{number}")
        cells.delete_queue(f"q{number}")


def run_traffic_through_a_kill(place, cluster, queue):
    traffic = Traffic(queue)
    crowd = Crowd(place.make_client(), tuple(traffic.works(producers=3, consumers=3)))
    wait_until(lambda: len(traffic.ledger.deleted) >= 50)
    node = cluster.node_of(place.cell(0))
    (replica,) = cluster.replicas_of(node)
    cells_there = {index for index in range(12) if cluster.node_of(place.cell(index)) == node}
    written_until = wait_until_in_step(node, lambda: [replica])
    node.kill()
    traffic.unreplicated = window_of_stop(written_until)
    # The cells of the other masters are used meanwhile.
    count = len(traffic.ledger.deleted)
    wait_until(lambda: len(traffic.ledger.deleted) >= count + 20)
    cluster.wait_until_promoted(replica)
    count = len(traffic.ledger.deleted)
    wait_until(lambda: len(traffic.ledger.deleted) >= count + 50)
    cluster.heal()
    traffic.stop()
    crowd.join()
    assert len(cells_there) == 4
    traffic.assert_exact(cluster.raw, *(place.cell(index) for index in range(12)))


def test_waits_survive_a_moved_slot(on_cluster, cluster):
    cells = on_cluster.open()
    cells.create_queue("q")
    with Cells.from_url(on_cluster.url, ns=on_cluster.ns, cells=12) as sender:
        sender.send_message("q", "warm")
        cells.delete_message(cells.receive_message("q", wait=10))
        slot = slot_of(on_cluster.cell(5))
        source = cluster.owner_of(slot)
        target = next(node for node in cluster.masters if node != source)
        cluster.move_slot(slot, target)
        sender.cells[5].send_message("q", "moved")
        assert cells.receive_message("q", wait=20).body == "moved"
        cluster.move_slot(slot, source)
        sender.cells[5].send_message("q", "back")
        assert cells.receive_message("q", wait=20).body == "back"
