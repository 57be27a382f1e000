"""Workers on a set of six cells on three servers, of which some are down or hang."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from contextlib import closing, contextmanager

import pytest

from rsmq import Cells, CellsMismatch, InvalidFormat, WorkerExists, WorkerReplaced
from rsmq._sync import membership
from rsmq.errors import show_type
from rsmq.waiting import schedule
from rsmq.wire.cells import cell_of_key, name_of_cell, split_id
from rsmq.worker import Middleware, Worker, held_by, list_workers
from rsmq.worker.loop import worker_loop as loop
from rsmq.worker.places import cell_access, cell_opener
from tests.servers import Server, redis_7
from tests.workers.polling import loop_of, state_of, wait_until

CELLS, SERVERS = 6, 3
_numbers = itertools.count()


class Set:
    """Three servers with two cells each. They keep their data when they are killed."""

    def __init__(self):
        options = "--appendonly", "yes", "--appendfsync", "always"
        self.servers = [Server(redis_7(), *options) for _ in range(SERVERS)]
        self.urls = [self.servers[cell % SERVERS].url for cell in range(CELLS)]

    def server_of(self, cell):
        return self.servers[cell % SERVERS]

    def stop(self):
        for server in self.servers:
            server.stop()


@pytest.fixture(scope="module")
def of_servers():
    made = Set()
    yield made
    made.stop()


class SetOfTest:
    """The set of one test, with its clients and workers."""

    def __init__(self, of_servers):
        self.servers = of_servers
        self.ns = f"wc{next(_numbers)}"
        self._workers, self._clients = [], []
        self.cells = self.open()
        #: What the test itself sends: on a busy machine, too.
        self._sender = self.open(socket_timeout=60, retry_deadline=60)

    def open(self, **options):
        options = {"socket_timeout": 0.5, "retry_deadline": 1, **options}
        client = Cells.from_url(self.servers.urls, cells=CELLS, ns=self.ns, **options)
        self._clients.append(client)
        return client

    def make_worker(self, **options):
        worker = Worker(options.pop("client", None) or self.open(), **{"grace": 5, **options})
        self._workers.append(worker)
        return worker

    def namespace(self, cell):
        return name_of_cell(self.ns, cell)

    @contextmanager
    def raw(self, cell):
        with self.servers.server_of(cell).raw(decode_responses=True) as raw:
            yield raw

    def keys(self, part):
        """Return the keys of all cells that contain a text, by cell, without the namespace."""
        found = {}
        for cell in range(CELLS):
            with self.raw(cell) as raw:
                names = raw.keys(f"{self.namespace(cell)}*{part}*")
            if names:
                found[cell] = sorted(name.removeprefix(self.namespace(cell)) for name in names)
        return found

    def in_flight(self, name, cell):
        """Return the ids that are recorded as in flight in a cell, from the raw key."""
        with self.raw(cell) as raw:
            return sorted(id for id in raw.hkeys(f"{self.namespace(cell)}:x:held:{name}") if id)

    def send_to(self, cell, *bodies, queue="q"):
        """Send messages to one cell, and return their ids."""
        return [
            f"{cell}-{id}" for id in self._sender.cells[cell].send_messages(queue, list(bodies))
        ]

    def send_to_all(self, queue="q"):
        """Send a message to each cell: its number. Return their ids."""
        return [self.send_to(cell, str(cell), queue=queue)[0] for cell in range(CELLS)]

    def count(self, queue="q"):
        return sum(client.get_queue_attributes(queue).messages for client in self.cells.cells)

    def close(self):
        for worker in self._workers:
            worker.stop(0)
        for client in self._clients:
            client.close()
        for server in self.servers.servers:
            with server.raw() as raw:
                raw.flushall()


@pytest.fixture
def of_test(of_servers):
    made = SetOfTest(of_servers)
    made.cells.create_queue("q")
    made.cells.create_queue("dead")
    yield made
    made.close()


@pytest.fixture
def cells(of_test):
    return of_test.cells


def test_a_worker_receives_while_no_thread_can_be_started_to_wait(of_test, cells, monkeypatch):
    start = threading.Thread.start
    refused = []

    def refuse(self):
        if self.name == "rsmq-watcher":
            refused.append(self)
            raise RuntimeError("can't start new thread")
        start(self)

    handled = []
    worker = of_test.make_worker()
    worker.listener("q")(handled.append)
    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", refuse)
        worker.start()
        wait_until(lambda: refused)
        of_test.send_to(3, "1")
        wait_until(lambda: handled == ["1"])
    for cell in range(CELLS):
        of_test.send_to(cell, "2")
    wait_until(lambda: handled == ["1", *"222222"])
    wait_until(lambda: of_test.count() == 0)


class Record(Middleware):
    """Records hooks with the ids of messages."""

    def __init__(self):
        self.lost = []
        self.deleted = []

    def lease_lost(self, message, reason):
        self.lost.append((message.id, reason))

    def after_delete(self, messages):
        self.deleted += [message.id for message in messages]


def name_with_home(cell):
    """Return the name of a worker whose home is this cell."""
    return next(name for n in itertools.count() if cell_of_key(name := f"w{n}", CELLS) == cell)


@pytest.fixture
def down(of_servers):
    """Kill the server of a cell; it is started again after the test."""
    killed = []

    def kill(cell):
        server = of_servers.server_of(cell)
        server.kill()
        killed.append(server)
        return server

    yield kill
    for server in killed:
        if server.process.poll() is not None:
            server.start()


@pytest.fixture
def frozen(of_servers):
    """Freeze the server of a cell, until the end of the test at the latest."""
    stopped = []

    def freeze(cell):
        pid = of_servers.server_of(cell).process.pid
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)
        return lambda: os.kill(pid, signal.SIGCONT)

    yield freeze
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


def test_messages_of_all_cells_are_handled_and_deleted(of_test):
    record, handled = Record(), {}
    worker = of_test.make_worker(middleware=[record])

    @worker.listener("q")
    def handle(body, message):
        handled[message.id] = body, message.cell, message.attempt

    ids = of_test.send_to_all()
    with worker:
        wait_until(lambda: worker.numbers.handled == CELLS)
    assert handled == {id: (str(cell), cell, 1) for cell, id in enumerate(ids)}
    assert sorted(record.deleted) == sorted(ids)
    assert of_test.count() == 0


def test_a_message_that_arrives_in_an_idle_cell_is_received_at_once(of_test):
    handled = []
    worker = of_test.make_worker()
    worker.listener("q")(handled.append)
    with worker:
        wait_until(lambda: state_of(worker).queues["q"].is_waiting)
        for number in range(3 * CELLS):
            of_test.send_to(number % CELLS, str(number))
            wait_until(lambda number=number: len(handled) == number + 1)
    assert handled == [str(number) for number in range(3 * CELLS)]


def test_the_name_is_stored_in_the_home_and_where_messages_are_received(of_test):
    name, release = name_with_home(4), threading.Event()
    worker = of_test.make_worker(name=name)
    worker.listener("q")(lambda body: release.wait(20))
    ids = [of_test.send_to(cell, "x")[0] for cell in (1, 2)]
    with worker:
        wait_until(lambda: state_of(worker).running == 2)
        records = {cell: [f":x:held:{name}"] for cell in (1, 2, 4)}
        assert of_test.keys(":x:held") == records
        assert of_test.keys(":x:workers") == {4: [":x:workers"]}
        assert {cell: of_test.in_flight(name, cell) for cell in (1, 2, 4)} == {
            1: [split_id(ids[0], CELLS)[1]],
            2: [split_id(ids[1], CELLS)[1]],
            4: [],
        }
        (found,) = list_workers(of_test.cells.cells[4])
        wait_until(lambda: list_workers(of_test.cells.cells[4])[0].queues == {"q": 2})
        assert (found.name, found.alive) == (name, True)
        assert held_by(of_test.cells.cells[1], name) == {"q": [split_id(ids[0], CELLS)[1]]}
        release.set()
    assert of_test.keys(":x:held") == of_test.keys(f"x:workers:{name}") == {}
    with of_test.raw(4) as raw:
        assert raw.hgetall(f"{of_test.namespace(4)}:x:workers") == {}


def test_messages_that_fail_are_retried_and_die_in_their_cell(of_test, cells):
    attempts = []
    worker = of_test.make_worker()

    @worker.listener("q", max_retries=1, backoff=0.01, dead_letter_queue="dead")
    def handle(body, message):
        attempts.append((message.id, message.attempt))
        raise ValueError(body)

    ids = of_test.send_to_all()
    with worker:
        wait_until(lambda: worker.numbers.dead == CELLS)
    assert sorted(attempts) == sorted((id, attempt) for id in ids for attempt in (1, 2))
    for cell in range(CELLS):
        with of_test.raw(cell) as raw:
            dead = raw.zrange(f"{of_test.namespace(cell)}:dead", 0, -1)
        assert dead == [split_id(ids[cell], CELLS)[1]]
    assert {each.id: each.reason.exception for each in cells.peek_messages("dead")} == {
        id: f"ValueError: {cell}" for cell, id in enumerate(ids)
    }


def test_a_delivery_is_a_receipt_of_its_cell(of_test, cells):
    results = []
    worker = of_test.make_worker()

    @worker.listener("q")
    def handle(body, message):
        results.append(cells.change_message_visibility(message, 60))
        results.append(cells.delete_message(message))
        results.append(cells.delete_message(message.queue, message.id))

    of_test.send_to(3, "x")
    with worker:
        wait_until(lambda: worker.numbers.received == 1 and len(results) == 3)
    assert results == [True, True, False]


def test_batches_are_of_one_cell(of_test):
    batches = []
    worker = of_test.make_worker()

    @worker.listener("q", batch=10, backoff=100)
    def handle(bodies, messages):
        batches.append({message.cell for message in messages})
        messages[0].fail(ValueError("x"))

    for cell in range(CELLS):
        of_test.send_to(cell, *"abcd")
    with worker:
        wait_until(lambda: worker.numbers.handled == 3 * CELLS)
    assert all(len(of_batch) == 1 for of_batch in batches)
    assert worker.numbers.retried == CELLS


def test_priorities_count_within_a_cell(of_test, cells):
    cells.create_queue("high")
    begun, release = [], threading.Event()
    worker = of_test.make_worker(concurrency=1)

    @worker.listener("q")
    def handle(body):
        begun.append(body)
        release.wait(20)

    worker.listener("high", priority=5)(begun.append)
    of_test.send_to(2, "first", "low")
    with worker:
        wait_until(lambda: begun)
        of_test.send_to(2, "high", queue="high")
        time.sleep(0.1)  # both queues of the cell have a due message now
        release.set()
        wait_until(lambda: len(begun) == 3)
    assert begun == ["first", "high", "low"]


def test_a_strict_worker_begins_a_higher_priority_of_all_cells_first(of_test, cells):
    cells.create_queue("high")
    begun = []
    worker = of_test.make_worker(concurrency=8, strict_priority=True)
    worker.listener("q")(lambda _: begun.append("low"))
    worker.listener("high", priority=1)(lambda _: begun.append("high"))
    for cell in range(CELLS):
        of_test.send_to(cell, *"abcd")
        of_test.send_to(cell, *"abc", queue="high")
    with worker:
        wait_until(lambda: len(begun) == 7 * CELLS)

    # A thread may record its call after seven later ones have recorded theirs.
    assert begun[: 3 * CELLS].count("low") <= 7


def test_calls_of_all_cells_follow_the_weights(of_test, cells):
    cells.create_queue("r")
    begun = []
    worker = of_test.make_worker(concurrency=4)
    worker.listener("q", weight=3)(lambda _: begun.append("q"))
    worker.listener("r", weight=1)(lambda _: begun.append("r"))
    for cell in range(CELLS):
        of_test.send_to(cell, *["x"] * 300)
        of_test.send_to(cell, *["x"] * 300, queue="r")
    with worker:
        wait_until(lambda: len(begun) >= 2000)

    assert 0.70 * 2000 <= begun[:2000].count("q") <= 0.80 * 2000


def test_a_listener_starts_and_stops_in_all_cells(of_test, cells):
    got = []
    worker = of_test.make_worker()
    worker.listener("q", active=False)(got.append)
    of_test.send_to_all()
    with worker:
        worker.start_listener("q")
        wait_until(lambda: len(got) == CELLS)
        worker.stop_listener("q")
        of_test.send_to_all()
        worker.start_listener("q")
        wait_until(lambda: len(got) == 2 * CELLS)
        of_test.send_to_all()
        wait_until(lambda: len(got) == 3 * CELLS)
    assert of_test.count() == 0


def test_async_handlers_have_an_asyncio_client_of_the_set(of_test, cells):
    cells.create_queue("out")
    worker = of_test.make_worker()

    @worker.listener("q")
    async def handle(body, message):
        await worker.aio.send_message("out", f"{body} {message.cell}", key="k")

    of_test.send_to_all()
    with worker:
        wait_until(lambda: worker.numbers.handled == CELLS)
    found = cells.peek_messages("out", 0, 10)
    assert {split_id(each.id, CELLS)[0] for each in found} == {cell_of_key("k", CELLS)}
    assert sorted(each.body for each in found) == [f"{cell} {cell}" for cell in range(CELLS)]


def test_create_makes_the_queues_in_each_cell(of_test):
    worker = of_test.make_worker()
    worker.listener("new", create=True, max_retries=0, dead_letter_queue="new-dead")(print)
    with worker:
        pass
    queues = {cell: [":new-dead:Q", ":new:Q"] for cell in range(CELLS)}
    assert of_test.keys("new") == queues


def test_a_queue_that_is_missing_in_one_cell_is_waited_for_there(of_test, caplog):
    handled = []
    worker = of_test.make_worker(name=name_with_home(0))
    worker.listener("q")(handled.append)
    of_test.cells.cells[3].delete_queue("q")
    with worker:
        of_test.send_to(1, "one")
        wait_until(lambda: handled == ["one"])
        of_test.cells.cells[3].create_queue("q")
        of_test.send_to(3, "three")
        wait_until(lambda: handled == ["one", "three"])


def test_a_queue_that_is_deleted_in_one_cell_is_created_again_there(of_test):
    handled = []
    worker = of_test.make_worker(name=name_with_home(0))
    worker.listener("q", create=True)(handled.append)
    with worker:
        of_test.send_to(3, "before")
        wait_until(lambda: handled == ["before"])
        of_test.cells.cells[3].delete_queue("q")
        with of_test.raw(3) as raw:
            wait_until(lambda: raw.exists(f"{of_test.namespace(3)}:q:Q"))
            assert raw.sismember(f"{of_test.namespace(3)}:QUEUES", "q")
        of_test.send_to(3, "after")
        wait_until(lambda: handled == ["before", "after"])
        assert worker.health().is_ready


def test_a_worker_is_not_ready_while_a_queue_is_missing_in_all_cells(of_test, monkeypatch):
    monkeypatch.setattr(schedule, "SAFETY_SECONDS", 0.2)  # then it looks at a cell in any case
    worker = of_test.make_worker()
    worker.listener("q")(print)
    with worker:
        of_test.cells.cells[3].delete_queue("q")
        wait_until(lambda: worker.health().is_ready)
        of_test.cells.delete_queue("q")
        wait_until(lambda: worker.health().missing_queues == ("q",))
        assert not worker.health().is_ready
        of_test.cells.create_queue("q")
        wait_until(lambda: worker.health().is_ready)


def test_a_paused_queue_is_received_from_again_after_it_was_resumed(of_test, cells):
    handled = []
    worker = of_test.make_worker()
    worker.listener("q")(handled.append)
    cells.pause_queue("q")
    of_test.send_to_all()
    with worker:
        time.sleep(1.2)  # longer than a heartbeat
        assert handled == []
        cells.resume_queue("q")
        wait_until(lambda: len(handled) == CELLS)


def test_until_empty_counts_all_cells(of_test, cells):
    attempts = []
    worker = of_test.make_worker()

    @worker.listener("q", max_retries=2, backoff=0.05, drop=True)
    def handle(body, message):
        attempts.append(body)
        if message.attempt < 3:
            raise ValueError(body)

    of_test.send_to_all()
    worker.run(until_empty=True)
    assert sorted(attempts) == sorted(3 * [str(cell) for cell in range(CELLS)])
    assert of_test.count() == 0


# A worker of the same name.


class Suspension(Middleware):
    """A worker whose loop stands still before a receive, while it is suspended."""

    def __init__(self):
        self.continues = threading.Event()
        self.continues.set()
        self.received = []

    def before_receive(self, queues):
        self.continues.wait(20)

    def after_receive(self, queue, messages):
        self.received += [message.id for message in messages]


class Dying:
    """A worker that ends like a killed process: it releases and unregisters nothing."""

    def __init__(self, of_test, name):
        self.began = threading.Semaphore(0)
        self.ends = threading.Event()
        self.worker = of_test.make_worker(name=name)

        @self.worker.listener("q", vt=600)
        def handle(body):
            self.began.release()
            self.ends.wait(30)

    def start(self, number):
        self.worker.start()
        for _ in range(number):
            assert self.began.acquire(timeout=10)

    def die(self):
        """End the loop without a shutdown, and the handlers."""
        running = loop_of(self.worker)
        running._shut_down = lambda: None
        running.stop(0)
        assert running.finished.wait(10)
        self.ends.set()


@pytest.fixture
def short_life(monkeypatch):
    """Let a worker count as dead after half a second without a heartbeat."""
    for module in (loop, cell_access):
        if hasattr(module, "TTL"):
            monkeypatch.setattr(module, "TTL", 0.5)
    monkeypatch.setattr("rsmq.worker.registry.TTL", 0.5)
    monkeypatch.setattr(loop, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr("rsmq.worker.registry.HEARTBEAT_SECONDS", 0.1)


def test_a_successor_takes_the_messages_of_all_cells_over(of_test, short_life):
    name = name_with_home(2)
    predecessor, handled = Dying(of_test, name), []
    ids = of_test.send_to_all()
    predecessor.start(CELLS)
    predecessor.die()
    assert all(of_test.in_flight(name, cell) for cell in range(CELLS))
    successor = of_test.make_worker(name=name)
    successor.listener("q", vt=600)(lambda body, message: handled.append(message.id))
    with successor:
        wait_until(lambda: successor.numbers.handled == CELLS)
    assert sorted(handled) == sorted(ids)
    assert of_test.keys(":x:held") == {}


def test_a_name_that_lives_is_refused(of_test):
    first = of_test.make_worker(name="same")
    second = of_test.make_worker(name="same")
    for worker in (first, second):
        worker.listener("q")(print)
    with first, pytest.raises(WorkerExists):
        second.start()


def test_a_replaced_worker_ends_and_leaves_nothing_hidden_in_other_cells(of_test):
    """As after a suspension: it receives in a cell where its successor has not received yet."""
    home, cell = 0, 4
    name, handled = name_with_home(home), []
    of_zombie, of_successor = Suspension(), Suspension()
    zombie = of_test.make_worker(name=name, middleware=[of_zombie])
    zombie.listener("q", vt=600)(lambda body: time.sleep(2))
    zombie.start()
    wait_until(lambda: state_of(zombie).queues["q"].is_waiting)
    of_zombie.continues.clear()
    of_successor.continues.clear()  # the zombie is faster
    ids = of_test.send_to(cell, "a", "b")
    with of_test.raw(home) as raw:  # its sign of life has expired
        raw.hdel(f"{of_test.namespace(home)}:x:workers", name)
    successor = of_test.make_worker(name=name, middleware=[of_successor])
    successor.listener("q", vt=600)(lambda body, message: handled.append(message.id))
    successor.start()
    of_zombie.continues.set()
    wait_until(lambda: sorted(of_zombie.received) == sorted(ids))
    of_successor.continues.set()
    wait_until(lambda: state_of(zombie).has_ended)
    assert isinstance(state_of(zombie).failure, WorkerReplaced)
    wait_until(lambda: sorted(handled) == sorted(ids))
    successor.stop()
    assert of_test.keys(":x:held") == {}


def test_the_home_decides_who_has_a_cell(of_test):
    """The token of a former worker in a cell, with its messages, gives way to that of the home."""
    name, handled = name_with_home(0), []
    worker = of_test.make_worker(name=name)
    worker.listener("q", vt=600)(lambda body, message: handled.append(message.id))
    worker.start()
    wait_until(lambda: state_of(worker).queues["q"].is_waiting)
    ids = of_test.send_to(5, "in flight of the former")
    with of_test.raw(5) as raw:  # the former worker receives before it learns of its successor
        raw.hset(f"{of_test.namespace(5)}:x:held:{name}", "", "former")
    ids += of_test.send_to(5, "later")
    wait_until(lambda: sorted(handled) == sorted(ids))
    with of_test.raw(5) as raw:
        token = raw.hget(f"{of_test.namespace(5)}:x:held:{name}", "")
    with of_test.raw(0) as raw:
        assert token == raw.hget(f"{of_test.namespace(0)}:x:held:{name}", "")
    worker.stop()
    assert of_test.keys(":x:held") == {}


def test_messages_of_a_former_worker_in_a_claimed_cell_are_released(of_test):
    name, handled = name_with_home(0), []
    of_worker = Suspension()
    worker = of_test.make_worker(name=name, middleware=[of_worker])
    worker.listener("q", vt=600)(
        lambda body, message: handled.append((message.id, message.attempt))
    )
    worker.start()
    wait_until(lambda: state_of(worker).queues["q"].is_waiting)
    of_worker.continues.clear()  # the former worker is faster
    (hidden,) = of_test.send_to(5, "hidden")
    message = of_test.cells.cells[5].receive_message("q", vt=600)
    with of_test.raw(5) as raw:
        key = f"{of_test.namespace(5)}:x:held:{name}"
        raw.hset(key, mapping={"": "former", message.id: "1:q"})
    of_worker.continues.set()
    (later,) = of_test.send_to(5, "later")
    wait_until(lambda: len(handled) == 2)
    assert {id for id, _ in handled} == {hidden, later}
    worker.stop()


# Servers that are down.


def test_other_cells_are_served_while_a_server_is_down(of_test, down):
    handled, record = [], Record()
    worker = of_test.make_worker(name=name_with_home(0), middleware=[record])
    worker.listener("q")(handled.append)
    with worker:
        server = down(1)
        for cell in (0, 2, 3, 5):
            of_test.send_to(cell, str(cell))
            wait_until(lambda cell=cell: str(cell) in handled)
        server.start()
        for cell in (1, 4):
            of_test.send_to(cell, str(cell))
            wait_until(lambda cell=cell: str(cell) in handled)
    assert sorted(handled) == [str(cell) for cell in range(CELLS)]
    assert record.lost == []
    assert of_test.count() == 0


def test_outcomes_of_a_server_that_is_down_are_written_when_it_is_back(of_test, down):
    begun, release = [], threading.Event()
    worker = of_test.make_worker(name=name_with_home(0))

    @worker.listener("q", vt=60)
    def handle(body):
        begun.append(body)
        release.wait(20)

    of_test.send_to_all()
    with worker:
        wait_until(lambda: len(begun) == CELLS)
        server = down(1)
        release.set()
        wait_until(lambda: worker.numbers.handled == CELLS - 2)
        server.start()
        wait_until(lambda: worker.numbers.handled == CELLS)
    assert of_test.count() == 0
    assert sorted(begun) == [str(cell) for cell in range(CELLS)]


def test_a_worker_starts_while_a_server_is_down_and_takes_over_when_it_is_back(
    of_test, down, short_life
):
    name = name_with_home(0)
    predecessor, handled = Dying(of_test, name), []
    ids = of_test.send_to_all()
    predecessor.start(CELLS)
    predecessor.die()
    server = down(1)
    successor = of_test.make_worker(name=name)
    successor.listener("q", vt=600)(lambda body, message: handled.append(message.id))
    with successor:
        wait_until(lambda: successor.numbers.handled == CELLS - 2)
        server.start()
        wait_until(lambda: successor.numbers.handled == CELLS)
    assert sorted(handled) == sorted(ids)


def test_a_worker_without_a_name_continues_while_its_home_is_down(of_test, down):
    handled = []
    worker = of_test.make_worker()
    worker.listener("q")(handled.append)
    with worker:
        (home,) = of_test.keys(":x:workers")
        server = down(home)
        others = [cell for cell in range(CELLS) if cell % SERVERS != home % SERVERS]
        time.sleep(1.2)  # longer than a heartbeat
        for cell in others:
            of_test.send_to(cell, str(cell))
        wait_until(lambda: len(handled) == len(others))
        server.start()


@pytest.fixture
def short_sign_of_life(monkeypatch):
    """The sign of life of a worker lasts for half a second."""
    monkeypatch.setattr(loop, "TTL", 0.5)
    monkeypatch.setattr(loop, "HEARTBEAT_SECONDS", 0.1)


def visible(of_test, cell):
    return of_test.cells.cells[cell].get_queue_attributes("q").visible_messages


@pytest.mark.usefixtures("short_sign_of_life")
def test_a_worker_with_a_name_receives_nothing_while_its_home_is_away(of_test, down):
    """Another worker could have its name by now, and only the home has the answer."""
    handled = []
    worker = of_test.make_worker(name=name_with_home(1))
    worker.listener("q", vt=600)(handled.append)
    with worker:
        server = down(1)
        time.sleep(1.0)  # longer than the sign of life lasts
        of_test.send_to(0, "x")
        time.sleep(0.5)
        assert handled == []
        assert visible(of_test, 0) == 1
        assert of_test.in_flight(worker.name, 0) == []

        other = of_test.make_worker(name=name_with_home(2))
        seen = []
        other.listener("q", vt=600)(
            lambda body, message: seen.append((body, message.receive_count))
        )
        with other:
            wait_until(lambda: seen == [("x", 1)])
        of_test.send_to(0, "y")
        time.sleep(0.3)
        assert handled == []
        server.start()
        wait_until(lambda: handled == ["y"])


def start_blocked(of_test, worker):
    """
    Start a worker, and let a call block one of its slots. Return the list of handled bodies, and a
    function that ends the call.
    """
    handled, release, begun = [], threading.Event(), threading.Event()

    @worker.listener("q", vt=600, max_retries=9, drop=True)
    def handle(body):
        if body == "block":
            begun.set()
            release.wait(30)
        handled.append(body)

    of_test.send_to(0, *[f"quick {number}" for number in range(20)])
    worker.start()
    wait_until(lambda: len(handled) == 20)
    handled.clear()
    of_test.send_to(0, "block", *map(str, range(5)))
    assert begun.wait(10)
    return handled, release.set


@pytest.mark.usefixtures("short_sign_of_life")
def test_a_worker_whose_home_is_away_releases_the_messages_that_wait_for_a_slot(of_test, down):
    worker = of_test.make_worker(name=name_with_home(1), concurrency=1)
    handled, release = start_blocked(of_test, worker)
    wait_until(lambda: len(of_test.in_flight(worker.name, 0)) == 6)
    server = down(1)
    wait_until(lambda: len(of_test.in_flight(worker.name, 0)) == 1)
    assert visible(of_test, 0) == 5

    other = of_test.make_worker(name=name_with_home(2))
    seen = []
    other.listener("q", vt=600)(lambda body, message: seen.append((body, message.attempt)))
    with other:
        wait_until(lambda: len(seen) == 5)
    assert sorted(seen) == [(str(number), 1) for number in range(5)]
    release()  # a call that has begun is settled
    wait_until(lambda: of_test.in_flight(worker.name, 0) == [])
    assert handled == ["block"]
    server.start()
    of_test.send_to_all()
    wait_until(lambda: len(handled) == 1 + CELLS)
    wait_until(lambda: of_test.count() == 0)
    assert worker.numbers.lost == 0


@pytest.mark.usefixtures("short_sign_of_life")
def test_a_worker_whose_home_is_away_releases_messages_in_quarantine(of_test, down):
    """It makes all calls again when the home is back, also those in quarantine."""
    worker = of_test.make_worker(name=name_with_home(1), concurrency=2)
    handled, release = start_blocked(of_test, worker)
    wait_until(lambda: len(handled) == 5)
    key = f"{of_test.namespace(0)}:q"
    with of_test.raw(0) as raw:
        (id,) = of_test.cells.cells[0].send_messages("q", ["suspect"], delay=0.2)
        raw.hset(f"{key}:Q", mapping={f"{id}:rc": 11, f"{id}:fr": 1})
        wait_until(lambda: len(of_test.in_flight(worker.name, 0)) == 2)
        server = down(1)
        wait_until(lambda: len(of_test.in_flight(worker.name, 0)) == 1)
        assert visible(of_test, 0) == 1
        assert raw.hget(f"{key}:x:unbegun", id) == "1"
        assert raw.hgetall(f"{key}:x:alone") == {}
        release()
        wait_until(lambda: of_test.in_flight(worker.name, 0) == [])
        assert "suspect" not in handled
        server.start()
        of_test.send_to_all()
        wait_until(lambda: len(handled) == 5 + 1 + 1 + CELLS)
        wait_until(lambda: of_test.count() == 0)
        assert handled.count("suspect") == 1
        assert raw.hgetall(f"{key}:x:alone") == {}


def test_a_server_that_hangs_does_not_stop_the_other_cells(of_test, frozen):
    handled, record = [], Record()
    worker = of_test.make_worker(name=name_with_home(0), middleware=[record])
    worker.listener("q", vt=30)(handled.append)
    with worker:
        thaw = frozen(1)
        for number in range(20):
            of_test.send_to((0, 2, 3, 5)[number % 4], str(number))
        wait_until(lambda: len(handled) == 20)
        thaw()
        of_test.send_to(1, "thawed")
        wait_until(lambda: "thawed" in handled)
    assert record.lost == []
    assert len(handled) == 21


def test_a_stop_while_a_server_is_down_releases_the_messages_of_the_others(of_test, down, caplog):
    begun = threading.Semaphore(0)
    worker = of_test.make_worker(name=name_with_home(0))

    @worker.listener("q", vt=600)
    def handle(body):
        begun.release()
        time.sleep(3)

    of_test.send_to_all()
    worker.start()
    for _ in range(CELLS):
        assert begun.acquire(timeout=10)
    server = down(1)
    worker.stop(0.2)
    for cell in (0, 2, 3, 5):
        assert of_test.cells.cells[cell].get_queue_attributes("q").visible_messages == 1
    assert "could not release its messages in cell" in caplog.text
    server.start()
    assert of_test.cells.cells[1].get_queue_attributes("q").visible_messages == 0


def test_cells_that_fail_are_waited_for_when_they_are_tried_again(of_test):
    """Otherwise a lane whose servers all fail at this moment would wait for nothing, forever."""
    worker = of_test.make_worker()
    worker.listener("q")(print)
    with worker:
        of_loop = loop_of(worker)
        (lane,) = of_loop._lanes
        wait_until(lambda: lane.is_waiting)
        of_loop._prefetcher.plan = lambda now: None  # only the test looks for cells
        until = time.monotonic() + 0.5
        for cell in worker._access.open_cells.values():
            cell.retry_at = lambda: until if time.monotonic() < until else 0.0
        lane.arrivals.stop()
        assert lane.arrivals.next_due() is None
        assert lane.is_waiting
        wait_until(lambda: not lane.is_waiting)
        assert time.monotonic() >= until
        assert lane.arrivals.next_due() is None
        waiters = lane.arrivals._waiters.values()
        assert sum(len(waiter.queues) for waiter in waiters) == CELLS
        del of_loop._prefetcher.plan


def test_a_replaced_worker_takes_no_cell_back(of_test, down, short_life):
    """A cell that was down when it started is back, and its successor works there."""
    home, cell = 0, 1
    name, handled, release = name_with_home(home), [], threading.Event()
    server = down(cell)
    zombie = of_test.make_worker(name=name)
    zombie.listener("q", vt=600)(print)
    zombie.start()
    of_loop = loop_of(zombie)
    wait_until(lambda: state_of(zombie).queues["q"].is_waiting)
    of_loop._next_heartbeat_at = time.monotonic() + 3600
    with of_test.raw(home) as raw:  # its sign of life has expired
        wait_until(lambda: not raw.hdel(f"{of_test.namespace(home)}:x:workers", name), 1)
    server.start()
    successor = of_test.make_worker(name=name)

    @successor.listener("q", vt=600)
    def handle(body, message):
        handled.append((message.id, message.receive_count))
        release.wait(20)

    successor.start()
    (id,) = of_test.send_to(cell, "x")
    wait_until(lambda: handled)
    of_loop._access.retry_now()
    of_loop._next_heartbeat_at = 0.0
    of_loop._wake_up.set()
    wait_until(lambda: state_of(zombie).has_ended)
    assert isinstance(state_of(zombie).failure, WorkerReplaced)
    assert of_test.in_flight(name, cell) == [split_id(id, CELLS)[1]]
    release.set()
    wait_until(lambda: successor.numbers.handled == 1)
    assert handled == [(id, 1)]
    successor.stop()


def test_a_broken_key_of_one_cell_stops_neither_the_others_nor_the_heartbeat(of_test, short_life):
    handled = []
    worker = of_test.make_worker(name=name_with_home(0))
    worker.listener("q", create=True)(handled.append)
    with of_test.raw(3) as raw:  # on the server of the home
        raw.delete(f"{of_test.namespace(3)}:q:Q")
        raw.set(f"{of_test.namespace(3)}:q:Q", "not a hash")
    with worker:
        for number in range(6):
            of_test.send_to((0, 1, 2, 4, 5, 0)[number], str(number))
            time.sleep(0.2)
        wait_until(lambda: len(handled) == 6)
        assert worker.health().heartbeat_age_seconds < 5
        # On a busy machine it may count as dead for a moment.
        wait_until(lambda: [each.alive for each in list_workers(of_test.cells.cells[0])] == [True])


# Wrong use.


def test_a_cell_of_another_set_ends_the_start(of_test, of_servers):
    other = Cells.from_url(of_servers.urls[:1], cells=3, ns=of_test.ns)
    worker = Worker(other)
    worker.listener("q")(print)
    with pytest.raises(CellsMismatch):
        worker.start()
    other.close()


@pytest.mark.parametrize("is_home", [True, False])
def test_a_worker_ends_if_a_cell_belongs_to_another_set_by_now(of_test, monkeypatch, is_home):
    monkeypatch.setattr(membership, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(cell_opener, "ROUND_SECONDS", 1.0)
    monkeypatch.setattr(loop, "HEARTBEAT_SECONDS", 0.1)
    handled = []
    worker = of_test.make_worker(name=name_with_home(2))
    worker.listener("q")(handled.append)
    cell = 2 if is_home else 5

    def replace():
        wait_until(lambda: of_test.keys("x:workers"))
        with of_test.raw(cell) as raw:
            raw.hset(f"{of_test.namespace(cell)}:x:cell", "set", "other")

    threading.Thread(target=replace).start()
    with pytest.raises(CellsMismatch, match=f"cell {cell} of 6 of the set other"):
        worker.run()
    of_test.send_to(cell, "x")
    time.sleep(0.3)
    assert handled == []


def test_a_worker_ends_if_the_server_of_a_cell_was_replaced(of_test, down):
    """It notices that at its first call there, and not only a minute later."""
    handled = []
    worker = of_test.make_worker(name=name_with_home(0))
    worker.listener("q")(handled.append)

    def replace():
        wait_until(lambda: of_test.keys("x:workers"))
        of_test.send_to(2, "warm")
        wait_until(lambda: handled == ["warm"])
        with of_test.raw(2) as raw:  # the server keeps its data
            raw.hset(f"{of_test.namespace(2)}:x:cell", "set", "other")
        server = down(2)
        wait_until(lambda: state_of(worker).has_failing_server)
        of_test.send_to(1, "other cell")
        wait_until(lambda: handled == ["warm", "other cell"])
        server.start()

    thread = threading.Thread(target=replace)
    thread.start()
    with pytest.raises(CellsMismatch, match="of the set other"):
        worker.run()
    thread.join()


def test_a_worker_refuses_other_objects():
    with pytest.raises(InvalidFormat, match="Pass an RSMQ") as caught:
        Worker("redis://")
    assert caught.value.value == show_type("redis://")


# Webhooks, traces and metrics.


def test_a_webhook_pushes_the_messages_of_all_cells(of_test):
    from tests.push.conftest import SECRET
    from tests.push.receiver import Receiver, reply

    with closing(Receiver()) as receiver:
        receiver.answer = lambda request: reply(500 if request.body == b"2" else 204)
        worker = of_test.make_worker()
        worker.webhook(
            "q", receiver.url, secret=SECRET, allow_http=True, allow="127.0.0.1",
            max_retries=1, backoff=0.01,
        )  # fmt: skip
        ids = of_test.send_to_all()
        with worker:
            wait_until(lambda: worker.numbers.handled == CELLS - 1 and worker.numbers.dead == 1)
    requests = {request.headers["webhook-id"]: request.body for request in receiver.requests}
    assert requests == {id: str(cell).encode() for cell, id in enumerate(ids)}
    # The state of the target is in one cell.
    assert list(of_test.keys(":x:push")) == [cell_of_key("q", CELLS)]
    (dead,) = of_test.cells.peek_messages("q-dead")
    assert (dead.id, dead.reason.status) == (ids[2], 500)


def test_traces_and_metrics_of_cells(of_test):
    from prometheus_client import CollectorRegistry

    from rsmq.metrics import Metrics
    from rsmq.opentelemetry import TracingMiddleware

    metrics = Metrics(registry=CollectorRegistry())
    worker = of_test.make_worker(middleware=[metrics, TracingMiddleware()])
    worker.listener("q")(print)
    of_test.send_to_all()
    with worker:
        wait_until(lambda: worker.numbers.handled == CELLS)
    assert worker.find(Metrics).snapshot()
