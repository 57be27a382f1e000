"""An exception at any point of the transport gives no call the reply of another one."""

from __future__ import annotations

import asyncio
import asyncio.selector_events
import gc
import itertools

import pytest
import redis
import redis.asyncio

from rsmq import RSMQ, AsyncRSMQ, ClientClosed, Confirm, NotReplicated
from rsmq.transport import commands, packing
from rsmq.transport.asyncio_ import (
    attempts,
    cancellation,
    group_commit,
    lent,
    multiplexed,
    multiplexed_caller,
    requests,
)
from tests.bytecodes import Raised, raising, signal_at
from tests.lent import LendingAsyncRedis
from tests.scale import scaled

# For a coroutine that an exception keeps from being awaited, and a socket from being closed.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CALLS = 3
#: Ends the calls whose exception was raised where nothing can notice it.
TIMEOUT_SECONDS = 0.5


CONNECTION = multiplexed.__file__, requests.__file__
ERRORS = (Raised, KeyboardInterrupt, redis.RedisError, ClientClosed)


class Loop:
    """An event loop that a program runs again after an exception has ended it."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda *_: None)

    def run(self, *coroutines):
        """Run coroutines at the same time, and return their results and exceptions."""
        tasks = [self._loop.create_task(each) for each in coroutines]
        while not all(each.done() for each in tasks):
            try:
                self._loop.run_until_complete(asyncio.wait(tasks))
            except (Raised, KeyboardInterrupt, RuntimeError):  # RuntimeError: stopped too early
                continue
        return [each.exception() or each.result() for each in tasks]

    def run_in_order(self, *coroutines):
        """Run coroutines one after another, and return their results and exceptions."""
        return [self.run(each)[0] for each in coroutines]

    def close(self):
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
        gc.collect()  # connections that were being opened, with a warning


class Calls:
    """Calls whose results show whether they are their own."""

    def __init__(self, raw, ns, loop, size):
        self._raw = raw
        self._ns = ns
        self._loop = loop
        self._numbers = itertools.count()
        self._padding = "." * size
        with RSMQ(raw, ns=ns) as client:
            client.create_queue("written", maxsize=-1)
            client.create_queue("read")
            self._ids = [client.send_message("read", f"body {each}") for each in range(CALLS)]

    def check(self, client, *others, run=None):
        """
        Make calls, and return whether each has returned, with its own result.

        They are made at the same time, or as ``run`` runs them.
        """
        bodies = [f"sent {next(self._numbers)}{self._padding}" for _ in range(CALLS)]
        found = (run or self._loop.run)(
            *(client.get_message("read", id) for id in self._ids),
            *(client.send_message("written", body) for body in bodies),
            *others,
        )
        found = [each.result if isinstance(each, NotReplicated) else each for each in found]
        stored = self._raw.hgetall(f"{self._ns}:written:Q")
        self._raw.delete(f"{self._ns}:written")
        for id in stored:
            if len(id) == 32:
                self._raw.hdel(f"{self._ns}:written:Q", id)
        for number, result in enumerate(found[: 2 * CALLS]):
            if isinstance(result, BaseException):
                assert isinstance(result, ERRORS), result
            elif number < CALLS:
                assert result.body == f"body {number}"
            else:
                assert stored[result.encode()].decode() == bodies[number - CALLS]
        assert all(list(stored.values()).count(body.encode()) <= 1 for body in bodies)
        return not any(isinstance(each, BaseException) for each in found)


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def connect(server, ns):
    return lambda: AsyncRSMQ.from_url(server.url, ns=ns, socket_timeout=TIMEOUT_SECONDS)


@pytest.mark.parametrize("kind", [Raised, KeyboardInterrupt])
@pytest.mark.parametrize("size", [1, 150_000], ids=["small", "large"])
def test_each_call_gets_its_own_reply_or_an_error(connect, raw, ns, loop, kind, size):
    calls = Calls(raw, ns, loop, size)
    client = connect()
    for number in itertools.count(1):
        assert any(calls.check(client) for _ in range(10))
        with raising(kind, number, *CONNECTION) as raised:
            calls.check(client)
        if not raised:
            break
    loop.run(client.close())
    assert number > 50  # else they were not counted


@pytest.mark.parametrize("kind", [Raised, KeyboardInterrupt])
def test_each_of_the_calls_in_a_row_gets_its_own_reply_or_an_error(connect, raw, ns, loop, kind):
    """Calls that are made one after another are written at once."""
    calls = Calls(raw, ns, loop, 1)
    client = connect()
    for number in itertools.count(1):
        assert any(calls.check(client, run=loop.run_in_order) for _ in range(10))
        with raising(kind, number, *CONNECTION, packing.__file__) as raised:
            calls.check(client, run=loop.run_in_order)
        if not raised:
            break
    loop.run(client.close())
    assert number > 50


@pytest.mark.parametrize("kind", [Raised, KeyboardInterrupt])
def test_each_call_gets_its_own_reply_or_an_error_while_connections_are_opened_and_closed(
    connect, raw, ns, loop, kind, monkeypatch
):
    monkeypatch.setattr(multiplexed, "INTERRUPTION_GRACE_SECONDS", 0.1)
    calls = Calls(raw, ns, loop, 1)
    for number in itertools.count(1):
        client = connect()
        with raising(kind, number, *CONNECTION) as raised:
            calls.check(client)
            calls.check(client, client.close())
        if not raised:
            break
        loop.run(client.close())
    assert number > 50


AROUND = tuple(
    each.__file__ for each in (attempts, cancellation, commands, group_commit, lent,
                               multiplexed_caller)
)  # fmt: skip


@pytest.mark.parametrize("kind", [Raised, KeyboardInterrupt])
@pytest.mark.parametrize(
    "options", [{}, {"confirm": Confirm(replicas=1, timeout=0.001)}], ids=["plain", "confirmed"]
)
@pytest.mark.parametrize("is_own", [True, False], ids=["own", "lent"])
def test_each_call_gets_its_own_reply_or_an_error_above_the_connection(
    server, raw, ns, loop, kind, options, is_own
):
    calls = Calls(raw, ns, loop, 1)
    raw.config_set("hz", 500)  # else each wait for replicas takes a tenth of a second
    # scripts/test raises one of the kinds at each line, in turns; the soak raises both.
    step = scaled(2, 1)
    for number in itertools.count(1 if kind is Raised else step, step):
        inner = LendingAsyncRedis(port=server.port, socket_timeout=TIMEOUT_SECONDS)
        client = (
            AsyncRSMQ.from_url(server.url, ns=ns, socket_timeout=TIMEOUT_SECONDS, **options)
            if is_own
            else AsyncRSMQ(inner, ns=ns, **options)
        )
        with raising(kind, number, *AROUND) as raised:
            calls.check(client)
        assert any(calls.check(client) for _ in range(10)), raised
        loop.run(client.close(), inner.aclose())
        if not raised:
            break
    assert number > 50


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("in_order", [False, True], ids=["together", "in order"])
def test_each_call_gets_its_own_reply_or_an_error_after_a_signal(connect, raw, ns, loop, in_order):
    """Signal handlers also run inside asyncio: between reading data and handing it over, too."""
    calls = Calls(raw, ns, loop, 1)
    client = connect()
    run = loop.run_in_order if in_order else loop.run
    files = *CONNECTION, packing.__file__, asyncio.selector_events.__file__
    for number in itertools.count(1, scaled(17, 1)):
        assert any(calls.check(client, run=run) for _ in range(10))
        with signal_at(number, *files, handler=interrupt) as raised:
            calls.check(client, run=run)
        if not raised:
            break
    loop.run(client.close())
    assert number > 500
