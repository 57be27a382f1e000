"""Waiting receives: they look only at cells that have messages."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from itertools import pairwise

import pytest

from rsmq import Cells, ClientClosed, QueueNotFound
from rsmq.transport.topology.address import Address
from rsmq.waiting.asyncio_ import AsyncWatcher
from rsmq.waiting.cells.asyncio_ import AsyncCellWaiter
from rsmq.waiting.cells.queues import CellQueues
from rsmq.waiting.cells.threads import CellWaiter
from rsmq.waiting.cells.watchers import AnyCellWatchers, ServerWatchers
from rsmq.waiting.schedule import LONGEST_DUE_SECONDS, SECONDS_PER_READ, Schedule, Waiter
from rsmq.waiting.watcher_state import WatcherState
from rsmq.wire.cells import name_of_cell
from rsmq.wire.keys import Namespace
from tests.cells.conftest import Place
from tests.proxy import Proxy
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until


def receives(raw):
    """Return the number of scripts that the server has run."""
    stats = raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))


def in_thread(call):
    """Start a call in a thread; return the thread and the list for its result."""
    results = []

    def run():
        try:
            results.append(call())
        except Exception as error:  # noqa: BLE001 - the test judges it
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, results


@pytest.fixture
def sender(place, cells):
    """A synchronous client of the same set, for the main thread while another one waits."""
    with Cells.from_url(place.url, ns=place.ns, cells=place.number) as sender:
        yield sender


@pytest.mark.parametrize("count", [1, 20])
def test_a_wait_ends_with_the_first_message(place, cells, sender, count):
    sender.send_message("q", "warm")
    cells.delete_message(cells.receive_message("q", wait=5))
    for number in range(count):
        thread, results = in_thread(lambda: cells.receive_message("q", wait=30))
        time.sleep(0.01)
        sender.send_message("q", str(number))
        thread.join(20)
        assert results[0].body == str(number)
        assert cells.delete_message(results[0])


def test_a_wait_gets_a_message_when_the_limits_of_its_cell_allow_it(place, cells, sender):
    assert sender.set_queue_limits("q", max_running=1).max_running == 1
    for body in "abc":
        sender.send_message("q", body, key="k")
    first = cells.receive_message("q", wait=30)
    assert cells.receive_messages("q", 5) == []
    thread, results = in_thread(lambda: cells.receive_message("q", wait=60))
    assert sender.delete_message(first)
    thread.join(60)
    assert results[0].body == "b"

    sender.set_queue_limits("q", rate="9/s")
    assert cells.receive_message("q", wait=60).body == "c"
    sender.send_message("q", "d", key="k")
    assert cells.receive_message("q", wait=60).body == "d"


def test_a_wait_without_a_message_ends_at_its_deadline(cells):
    assert cells.receive_message("q", wait=0.2) is None
    assert cells.receive_messages("q", 5, wait=0.2) == []


def test_idle_waits_cost_no_command(place, cells, sender):
    sender.send_message("q", "warm")
    cells.delete_message(cells.receive_message("q", wait=5))
    thread, results = in_thread(lambda: cells.receive_message("q", wait=3))
    time.sleep(0.5)
    before = place.raw.info("stats")["total_commands_processed"]
    time.sleep(2)
    after = place.raw.info("stats")["total_commands_processed"]
    thread.join(20)
    assert results == [None]
    assert after - before <= 2  # this test's own


def test_a_look_for_each_batch(place, cells, sender):
    """Without the reports of the server, most looks would be at empty cells."""
    sender.send_message("q", "warm")
    cells.delete_messages(cells.receive_messages("q", 10, wait=5))  # the server gets the script
    for _ in range(30):
        sender.send_messages("q", ["x"] * 10)
    before = receives(place.raw)
    found = 0
    while found < 300:
        found += len(cells.receive_messages("q", 10, wait=5))
    assert receives(place.raw) - before == 30


def test_delayed_messages_end_a_wait(cells, sender):
    sender.send_message("q", "later", delay=0.5)
    assert cells.receive_message("q", wait=20).body == "later"


def test_invisible_messages_end_a_wait_when_they_return(cells, sender):
    sender.send_message("q", "again")
    assert cells.receive_message("q", vt=0.5).receive_count == 1
    assert cells.receive_message("q", wait=20).receive_count == 2


def test_no_cell_starves(cells, sender):
    """Each cell has one message; one cell gets more messages all the time."""
    for number in range(6):
        sender.cells[number].send_message("q", "one")
    busy = sender.cells[2]
    seen = set()
    for _ in range(30):
        busy.send_message("q", "more")
        message = cells.receive_message("q", wait=5)
        seen.add((message.cell, message.body))
        cells.delete_message(message)
    assert {cell for cell, _ in seen} == set(range(6))


def test_a_cell_that_is_always_full_does_not_hide_the_others(place, cells, sender):
    """A wait is woken by other cells only if a receive waits at times."""
    sender.cells[2].send_messages("q", ["x"] * 200)
    for _ in range(30):
        cells.delete_message(cells.receive_message("q", wait=5))
    sender.cells[4].send_message("q", "other")
    deadline = time.monotonic() + WAIT_SECONDS
    while cells.receive_message("q", vt=0, wait=5).body != "other":
        assert time.monotonic() < deadline
    assert place.raw.hget(f"{place.cell(4)}:q:Q", "totalrecv") == b"1"


def test_the_first_queue_of_any_cell_has_priority(cells, sender):
    sender.create_queue("urgent")
    sender.send_message("q", "warm")
    cells.delete_message(cells.receive_message(["urgent", "q"][1], wait=5))
    for _ in range(12):
        sender.send_message("q", "q")
    for number in range(3):
        sender.cells[number].send_message("urgent", "u")
    time.sleep(0.1)
    found = [cells.receive_messages(["urgent", "q"], 1, wait=5)[0].body for _ in range(15)]
    assert sorted(found) == ["q"] * 12 + ["u"] * 3


# Threads; test_interruptions.py has concurrent tasks.
@pytest.mark.parametrize("mode", ["sync"])
def test_many_waits_share_connections(place, cells, sender):
    def tracking():
        return {client["id"] for client in place.raw.client_list() if "t" in client["flags"]}

    before = tracking()
    sender.send_message("q", "warm")
    cells.delete_message(cells.receive_message("q", wait=5))
    waits = [in_thread(lambda: cells.receive_message("q", wait=20)) for _ in range(8)]
    time.sleep(0.3)
    of_waits = tracking() - before
    for number in range(8):
        sender.send_message("q", str(number))
    for thread, _ in waits:
        thread.join(30)
    assert sorted(results[0].body for _, results in waits) == sorted(map(str, range(8)))
    assert len(of_waits) == 1


def test_looks_without_a_reason_reach_all_cells():
    """Each is at one cell, in case that a report was lost."""
    schedule = Schedule(collects_due=True)
    schedule.start_tracking(0)
    waiter = Waiter(tuple(b"%d" % number for number in range(6)), lambda: None)
    now, reasons = 0.0, set()
    for _ in range(200):
        schedule.add(waiter, now)
        for queue in tuple(schedule.to_read):
            schedule.to_read.discard(queue)
            schedule.note_first_due(queue, None, now)
        while not waiter.is_awake:
            now = schedule.next_wake_up()
            schedule.wake_due(now)
        schedule.remove(waiter)
        schedule.note_look(waiter.reason, now, is_drained=True)
        waiter.empty_receives += 1
        reasons.add(waiter.reason)
    assert reasons == set(waiter.queues)
    assert 15 * 200 <= now <= 30 * 200


def read(schedule: Schedule, queue: bytes, now: float) -> None:
    """Let a waiter come, and the server reply that the queue has a message that is due."""
    waiter = Waiter((queue,), lambda: None)
    schedule.add(waiter, now)
    schedule.note_first_due(queue, 0.0, now)
    schedule.to_read.clear()
    schedule.remove(waiter)


def look(schedule: Schedule, now: float, *, is_drained: bool) -> bool:
    """Look at the first queue that is due, after a read if there is none; return whether it was."""
    is_read = not schedule.due
    if is_read:
        read(schedule, b"q", now)
    schedule.note_look(next(iter(schedule.due)), now, is_drained=is_drained)
    return is_read


def tracking_schedule() -> Schedule:
    schedule = Schedule(collects_due=True)
    schedule.start_tracking(0)
    return schedule


def test_a_queue_that_has_more_messages_is_looked_at_without_a_read():
    schedule = tracking_schedule()
    results = [look(schedule, 0.0, is_drained=number % 10 == 9) for number in range(50)]
    assert [number for number, is_read in enumerate(results) if is_read] == [0, 10, 20, 30, 40]


def test_a_queue_that_always_has_messages_is_read_at_times():
    """So that it does not hide other queues, which are read at the same time."""
    schedule = tracking_schedule()
    seconds_per_look = SECONDS_PER_READ / 20
    looks = [look(schedule, 9 + n * seconds_per_look, is_drained=False) for n in range(200)]
    reads = [number for number, is_read in enumerate(looks) if is_read]
    assert len(reads) > 8
    assert {after - before for before, after in pairwise(reads)} <= {21, 22}


def test_a_change_of_an_empty_queue_needs_no_read():
    """It is a new message, and the next receive looks for it, whether or not a waiter is left."""
    schedule = tracking_schedule()
    waiter = Waiter((b"q",), lambda: None)
    schedule.add(waiter, 0)
    schedule.note_first_due(b"q", None, 0)
    schedule.remove(waiter)
    schedule.to_read.clear()
    schedule.note_change(b"q", 1)
    assert list(schedule.due) == [b"q"]
    assert schedule.to_read == set()


def test_a_change_before_the_reply_to_a_read_needs_no_other_read():
    schedule = tracking_schedule()
    waiter = Waiter((b"q",), lambda: None)
    schedule.add(waiter, 0)
    schedule.to_read.clear()  # it is sent
    schedule.note_change(b"q", 0)
    assert schedule.to_read == set()
    schedule.remove(waiter)
    schedule.note_first_due(b"q", 0.0, 0)
    assert list(schedule.due) == [b"q"]
    schedule.note_change(b"q", 0)  # this one was not included
    schedule.add(waiter, 0)
    assert schedule.to_read == {b"q"}


def test_a_change_before_the_reply_to_a_read_ends_the_pause_after_empty_receives():
    schedule = tracking_schedule()
    waiter = Waiter((b"q",), lambda: None)
    schedule.add(waiter, 0)
    schedule.note_first_due(b"q", 0.0, 0)
    waiter.empty_receives = 3
    schedule.note_look(b"q", 0, is_drained=True)
    schedule.add(waiter, 0)
    schedule.to_read.clear()  # it is sent
    schedule.note_change(b"q", 0)
    schedule.note_first_due(b"q", 0.0, 0)
    assert waiter.is_awake


def test_queues_at_which_no_receive_looks_leave_the_due_ones():
    """For example a queue for one reply, whose receive has ended before the reply was sent."""
    schedule = tracking_schedule()
    for number in range(1000):
        queue = b"reply%d" % number
        waiter = Waiter((queue,), lambda: None)
        schedule.add(waiter, number)
        schedule.note_first_due(queue, None, number)
        schedule.remove(waiter)
        schedule.note_change(queue, number)
        assert queue in schedule.due
        assert len(schedule.due) <= LONGEST_DUE_SECONDS + 2
    last = Waiter((queue,), lambda: None)
    schedule.add(last, 2000)
    assert schedule.due == {}
    schedule.note_first_due(queue, 0.0, 2000)
    assert last.is_awake


class FakeCaller:
    """A caller that knows the server of each cell."""

    def __init__(self):
        self.moved = set()

    def address_of(self, key):
        return Address("new" if key in self.moved else "old", 6379)


class FakeWatchers(AnyCellWatchers):
    """Watchers without connections."""

    def __init__(self, cells):
        super().__init__(cells)
        self.servers = ServerWatchers()

    def _current(self):
        return self.servers

    def _make_watcher(self, cell):
        caller, namespace = self._cells[cell]
        return AsyncWatcher(caller, (namespace,), collects_due=True)


def test_a_cell_that_has_moved_is_not_due_on_its_previous_server():
    """Otherwise each receive would look at it: looks are noted by the new server's watcher."""
    caller = FakeCaller()
    cells = [(caller, Namespace(name_of_cell("ns", cell))) for cell in range(2)]
    watchers = FakeWatchers(cells)
    queues = CellQueues([namespace for _, namespace in cells], ["q"])
    schedule = watchers.of_cell(1)._state.schedule
    schedule.start_tracking(0)
    schedule.add(Waiter(queues.by_cell[1], lambda: None), 0)
    schedule.note_first_due(queues.by_cell[1][0], 0.0, 0)
    assert list(watchers.due_cells(queues)) == [1]
    caller.moved.add(cells[1][1].queues)
    watchers.note_failure()  # the next call finds the new server
    watchers.note_look(queues, 1, is_drained=True)
    assert list(watchers.due_cells(queues)) == []


def test_a_lost_reply_to_a_read_hides_no_change():
    schedule = tracking_schedule()
    waiter = Waiter((b"q",), lambda: None)
    schedule.add(waiter, 0)
    schedule.to_read.clear()
    schedule.stop_tracking(0)
    schedule.start_tracking(0)
    assert schedule.to_read == {b"q"}
    schedule.note_first_due(b"q", None, 0)
    schedule.note_change(b"q", 0)
    assert waiter.is_awake


def test_queues_that_have_more_messages_take_turns():
    schedule = tracking_schedule()
    for queue in (b"a", b"b", b"c"):
        read(schedule, queue, 0.0)
    order = []
    for _ in range(6):
        queue = next(iter(schedule.due))
        order.append(queue)
        schedule.note_look(queue, 0.0, is_drained=False)
    assert order == [b"a", b"b", b"c"] * 2


class WokenAtOnce:
    """A watcher that wakes each waiter at once."""

    def __init__(self):
        self.received = self.interrupted = 0

    def add(self, waiter):
        (waiter.reason,) = waiter.queues
        waiter.wake()

    def leave(self, waiter):
        return True

    def note_receive(self, waiter):
        self.received += 1
        waiter.is_awake = False

    def remove(self, waiter):
        self.interrupted += waiter.is_awake


class TwoServers:
    """The watchers of two servers with one cell each."""

    def __init__(self):
        self.watchers = [WokenAtOnce(), WokenAtOnce()]

    def groups(self):
        return [(watcher, [cell]) for cell, watcher in enumerate(self.watchers)]

    def release_idle_connections(self):
        pass


@pytest.mark.parametrize("kind", [CellWaiter, AsyncCellWaiter])
def test_a_receive_from_one_cell_does_not_use_up_the_wake_up_of_another(kind):
    """Otherwise the other waiters of that cell would sleep for another second."""
    servers = TwoServers()
    queues = CellQueues([Namespace(name_of_cell("x", cell)) for cell in range(2)], ["q"])

    async def wait():
        waiter = kind(servers, queues)
        cells = waiter.wait(5)
        assert (cells if kind is CellWaiter else await cells) == [0, 1]
        waiter.note_receive({1})
        waiter.close()

    if kind is CellWaiter:
        with suppress(StopIteration):
            wait().send(None)
    else:
        asyncio.run(wait())
    assert [watcher.received for watcher in servers.watchers] == [0, 1]
    assert [watcher.interrupted for watcher in servers.watchers] == [1, 0]


def test_a_short_wait_finds_a_message_before_the_server_can_report_it(place, cells, server):
    """The link is so slow that the wait is over before the first report arrives."""
    sent = [cells.send_message("q", str(number)) for number in range(24)]
    proxy = Proxy(server.port)
    proxy.delay = 0.03
    slow = place.open(url=f"redis://127.0.0.1:{proxy.port}/0")
    assert slow.count_messages("q").visible == 24
    received = [slow.receive_message("q", wait=0.02) for _ in sent]
    assert sorted(message.id for message in received) == sorted(sent)
    slow.close()
    proxy.close()


def test_a_deleted_queue_ends_a_wait(place, cells, sender):
    thread, results = in_thread(lambda: cells.receive_message("q", wait=30))
    time.sleep(0.5)
    sender.delete_queue("q")
    thread.join(25)
    assert isinstance(results[0], QueueNotFound)


@pytest.mark.parametrize("mode", ["sync"])
def test_closing_ends_a_wait(place, cells):
    thread, results = in_thread(lambda: cells.receive_message("q", wait=30))
    time.sleep(0.3)
    cells.close()
    thread.join(10)
    assert isinstance(results[0], ClientClosed)


def test_waits_without_tracking_poll(place, cells, sender):
    user = f"{place.ns}-user"
    place.raw.execute_command(
        "ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", "-client|tracking"
    )
    client = place.open(url=place.url.replace("redis://", f"redis://{user}:secret@"))
    assert client.receive_message("q", wait=0.2) is None
    thread, results = in_thread(lambda: client.receive_message("q", wait=30))
    time.sleep(0.3)
    sender.send_message("q", "found")
    thread.join(25)
    assert results[0].body == "found"
    found = [sender.send_message("q", str(number)) for number in range(12)]
    got = [client.receive_message("q", wait=20).id for _ in range(12)]
    assert sorted(got) == sorted(found)
    place.raw.execute_command("ACL", "DELUSER", user)


def test_a_broken_tracking_connection_is_replaced(place, cells, sender):
    sender.send_message("q", "warm")
    cells.delete_message(cells.receive_message("q", wait=5))
    thread, results = in_thread(lambda: cells.receive_message("q", wait=30))
    time.sleep(0.3)
    for client in place.raw.client_list():
        if "t" in client["flags"]:
            place.raw.client_kill_filter(_id=client["id"])
    wait_until(lambda: any("t" in client["flags"] for client in place.raw.client_list()))
    sender.send_message("q", "x")
    thread.join(20)
    assert results[0].body == "x"


def test_a_cancelled_watcher_delays_no_waiting_receive(server):
    """A program may cancel all other tasks, as test frameworks do."""

    async def main(place):
        async with place.make_client() as cells:
            await cells.create_queue("q")
            received = asyncio.ensure_future(cells.receive_message("q", wait=None))
            while not any("t" in client["flags"] for client in place.raw.client_list()):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # the waiter has read the queues
            for task in asyncio.all_tasks():
                if task.get_coro().__qualname__.startswith("AsyncWatcher."):
                    task.cancel()
            await asyncio.sleep(0.1)
            sent = await cells.send_message("q", "m")
            async with asyncio.timeout(12):  # shorter than SAFETY_SECONDS
                assert (await received).id == sent

    with server.raw() as raw:
        place = Place("asyncio", server.url, raw)
        asyncio.run(main(place))
        raw.unlink(*raw.keys(f"{{{place.ns}.*"))


def test_a_failed_watcher_ends_a_wait_with_an_error_and_the_next_wait_starts_it_again(
    cells, sender, monkeypatch
):
    def fail(self, now):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(WatcherState, "next_step", fail)
        thread, results = in_thread(lambda: cells.receive_message("q", wait=None))
        thread.join(12)
    assert str(results[0]) == "Waiting for messages has failed: MemoryError: "
    thread, results = in_thread(lambda: cells.receive_message("q", wait=None))
    sent = sender.send_message("q", "m")
    thread.join(12)
    assert results[0].id == sent
