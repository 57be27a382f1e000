"""Look-ups of host names: a host that is not found in time delays only its own target."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from rsmq.webhooks.lookups import look_up
from tests.push.conftest import LOCAL, wait_until

#: More than the threads that event loops have for look-ups, on any machine.
_MANY = 40


class Names:
    """
    A resolver in place of the system's, for names of .example.

    Attributes:
        lookups: the hosts that were looked up.
        answers: is set when slow.example is to be answered.
        failures: the hosts that are not found.
    """

    def __init__(self):
        self.lookups = []
        self.answers = threading.Event()
        self.failures = set()
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host, port, *arguments, **options):
        if not str(host).endswith(".example"):  # Redis
            return self._real(host, port, *arguments, **options)
        self.lookups.append(host)
        if host == "slow.example":
            self.answers.wait()
        if host in self.failures:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port or 0))]


@pytest.fixture
def names(monkeypatch):
    made = Names()
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)
    yield made
    made.answers.set()


def test_a_slow_look_up_delays_no_other_target(rsmq, make_receiver, make_worker, names):
    slow, healthy = make_receiver(), make_receiver()
    rsmq.create_queue("healthy")
    worker = make_worker(f"http://slow.example:{slow.port}/", concurrency=3 * _MANY)
    worker.webhook("healthy", f"http://healthy.example:{healthy.port}/", **LOCAL)
    rsmq.send_messages("q", ["x"] * _MANY)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: rsmq.count_messages("q").in_flight == _MANY)
        wait_until(lambda: "slow.example" in names.lookups)
        rsmq.send_messages("healthy", ["x"] * _MANY)
        wait_until(lambda: len(healthy.requests) == _MANY)

        assert slow.requests == []
        assert names.lookups.count("slow.example") == 1
    finally:
        names.answers.set()
        worker.stop()
        thread.join()


def test_calls_share_a_look_up_that_runs(names):
    async def run():
        calls = [asyncio.ensure_future(look_up("slow.example", 0)) for _ in range(3)]
        while not names.lookups:
            await asyncio.sleep(0.001)
        calls[0].cancel()
        late = asyncio.ensure_future(look_up("slow.example", 0))
        await asyncio.sleep(0)
        names.answers.set()
        results = await asyncio.gather(*calls, late, return_exceptions=True)
        again = await look_up("slow.example", 0)
        return results, again

    (cancelled, *results), again = asyncio.run(run())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [[each.text for each in found] for found in [*results, again]] == [["127.0.0.1"]] * 4
    assert names.lookups == ["slow.example"] * 2


def test_a_look_up_that_fails_is_not_remembered(names):
    names.failures.add("hooks.example")

    async def run():
        calls = (look_up("hooks.example", 0) for _ in range(2))
        results = await asyncio.gather(*calls, return_exceptions=True)
        names.failures.clear()
        return results, await look_up("hooks.example", 0)

    results, found = asyncio.run(run())
    assert [type(each) for each in results] == [socket.gaierror] * 2
    assert [each.text for each in found] == ["127.0.0.1"]
    assert len(names.lookups) == 2


def test_a_look_up_ends_after_its_event_loop(names):
    async def run():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(look_up("slow.example", 0), 0.01)

    asyncio.run(run())
    threads = [each for each in threading.enumerate() if each.name == "rsmq-lookup"]
    names.answers.set()
    for each in threads:
        each.join()


def test_a_thread_that_can_not_be_started_fails_the_look_up(names, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    async def run():
        with monkeypatch.context() as patch, pytest.raises(OSError, match="no thread"):
            patch.setattr(threading.Thread, "start", refuse)
            await look_up("hooks.example", 0)
        return await look_up("hooks.example", 0)

    assert len(asyncio.run(run())) == 1
