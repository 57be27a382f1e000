"""Clients that have waited, and are freed without being closed: nothing of them stays."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from rsmq import RSMQ, AsyncRSMQ
from rsmq.waiting import watcher_state
from tests.nodes import wait_until

CLIENTS = 5


@pytest.fixture(autouse=True)
def _endless(monkeypatch):
    """Watchers without waiters don't end by themselves."""
    monkeypatch.setattr(watcher_state, "IDLE_SECONDS", 100_000.0)


def names_of_threads():
    return [each.name for each in threading.enumerate() if each.name.startswith("rsmq-")]


def connections(raw):
    return raw.info("clients")["connected_clients"]


def test_freed_clients_leave_no_thread_and_no_connection(server, raw, ns):
    with RSMQ.from_url(server.url, ns=ns) as client:
        client.create_queue("q")
    threads, before = len(names_of_threads()), connections(raw)
    clients = [RSMQ.from_url(server.url, ns=ns) for _ in range(CLIENTS)]
    for each in clients:
        assert each.receive_message("q", wait=0.05) is None
    assert len(names_of_threads()) >= CLIENTS
    del each
    clients.clear()
    gc.collect()
    wait_until(lambda: len(names_of_threads()) <= threads)
    gc.collect()
    wait_until(lambda: connections(raw) <= before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_freed_clients_leave_no_task(server, ns):
    async def main():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as client:
            await client.create_queue("q")
        clients = [AsyncRSMQ.from_url(server.url, ns=ns) for _ in range(CLIENTS)]
        for each in clients:
            assert await each.receive_message("q", wait=0.05) is None
        assert len(asyncio.all_tasks()) > CLIENTS
        del each
        clients.clear()
        gc.collect()
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0.001)

    asyncio.run(main())
    gc.collect()  # of connections for calls, which stay until the loop ends, with warnings


def test_a_receive_that_waits_when_its_client_is_freed_gets_its_message(server, raw, ns):
    """For example one by the watcher, which packages may keep longer than the client."""
    with RSMQ.from_url(server.url, ns=ns) as client:
        client.create_queue("q")
        freed = RSMQ.from_url(server.url, ns=ns)
        assert freed.receive_message("q", wait=0.05) is None
        watcher = freed.watcher
        del freed
        gc.collect()
        found = []

        def receive():
            message = client.receive_message("q")
            return [message] if message else []

        thread = threading.Thread(
            target=lambda: found.extend(
                watcher.wait(receive, lambda _: None, [], [f"{ns}:q".encode()], None)
            )
        )
        thread.start()
        client.send_message("q", "m")
        thread.join()
        assert [each.body for each in found] == ["m"]
        wait_until(lambda: watcher._thread is None)
