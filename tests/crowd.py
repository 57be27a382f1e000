"""
Concurrent callers of one client, on a Redis Cluster or a Sentinel group that a test breaks.

The callers are threads of a synchronous client, or tasks of an asyncio client. Their work is
written once, as async functions that get the client.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import redis.exceptions as redis_errors

from rsmq import RSMQ, AsyncPartitions, AsyncRSMQ
from rsmq.waiting.tracking import GROUP_CHECK_SECONDS
from tests.blocking import Blocking
from tests.clusters import Cluster
from tests.ledger import VT, Ledger
from tests.nodes import Node, wait_until

#: The errors after which a call may have run, or not.
LOST = (redis_errors.ConnectionError, redis_errors.TimeoutError)

ASYNC_CLIENTS = (AsyncRSMQ, AsyncPartitions)

#: Less than the 15 seconds after which a waiting receive looks without a reason.
WITHIN_SECONDS = 12

_JOIN_SECONDS = 50
_log = logging.getLogger("tests.crowd")
_numbers = itertools.count()


class AwaitedClient:
    """A client of either kind whose methods are awaited."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._client, name)

        async def call(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            return await result if inspect.isawaitable(result) else result

        return call

    async def sleep(self, seconds: float) -> None:
        pause = asyncio.sleep if isinstance(self._client, ASYNC_CLIENTS) else time.sleep
        result: object = pause(seconds)
        if inspect.isawaitable(result):
            await result


#: Two times of the monotonic clock.
Window = tuple[float, float]

Work = Callable[[AwaitedClient], Coroutine[Any, Any, None]]


class Crowd:
    """Callers that run at the same time until their work ends. They start at once."""

    def __init__(self, client: Any, works: tuple[Work, ...]) -> None:
        """
        Start the callers.

        Args:
            client: a client that only this crowd uses; it is closed at the end.
            works: the work of each caller.
        """
        self._client = client
        self._works = works
        self._failures: list[BaseException] = []
        if isinstance(client, ASYNC_CLIENTS):
            targets: list[Callable[[], object]] = [lambda: asyncio.run(self._run_tasks())]
        else:
            targets = [partial(_run_without_loop, work, client) for work in works]
        self._threads = [
            threading.Thread(target=self._record_failure, args=(target,), daemon=True)
            for target in targets
        ]
        for thread in self._threads:
            thread.start()

    async def _run_tasks(self) -> None:
        async with self._client as client:
            await asyncio.gather(*(work(AwaitedClient(client)) for work in self._works))

    def _record_failure(self, run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - join raises it
            self._failures.append(error)

    def join(self, seconds: float = _JOIN_SECONDS) -> None:
        """Wait until all work has ended, and close the client. Raise the error of a work."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._failures:
            raise self._failures[0]
        assert not any(thread.is_alive() for thread in self._threads), "a call does not return"
        if not isinstance(self._client, ASYNC_CLIENTS):
            self._client.close()


def _run_without_loop(work: Work, client: RSMQ) -> None:
    """Run an async function that never suspends."""
    try:
        work(AwaitedClient(client)).send(None)
    except StopIteration:
        return
    raise AssertionError("the work of a thread was suspended")


class Namespace:
    """
    A namespace on a group of servers, and the clients that a test opens there.

    Attributes:
        mode: "sync" or "asyncio", the kind of the clients.
        url: the URL of the group.
        ns: the namespace.
    """

    def __init__(self, mode: str, url: str) -> None:
        self.mode = mode
        self.url = url
        self.ns = f"{{g{next(_numbers)}}}"
        self.runner = asyncio.Runner() if mode == "asyncio" else None
        self._closing: list[Callable[[], object]] = []

    def make_client(self, **options: Any) -> RSMQ | AsyncRSMQ:
        """Return a client that the caller closes."""
        kind = RSMQ if self.runner is None else AsyncRSMQ
        return kind.from_url(options.pop("url", self.url), ns=self.ns, **options)

    def open_client(self, **options: Any) -> Any:
        """Return a client whose methods block, of either kind."""
        return self.wrap(self.make_client(**options))

    def wrap(self, client: RSMQ | AsyncRSMQ) -> Any:
        """Return a client whose methods block; it is closed after the test."""
        blocking: Any = client if self.runner is None else Blocking(self.runner, client)
        self._closing.append(blocking.close)
        return blocking

    def start(self, *works: Work, client: Any = None, **options: Any) -> Crowd:
        """Start callers of a new client with these options, or of ``client``."""
        return Crowd(client or self.make_client(**options), works)

    def close(self) -> None:
        for close in reversed(self._closing):
            close()
        if self.runner is not None:
            self.runner.close()


@dataclass
class Calls:
    """
    The record of calls.

    Attributes:
        returned: the results, by the label of the call.
        returned_at: the times of the results.
        errors: the errors, by the label of the call.
        longest: the seconds of the longest call.
    """

    returned: dict[Any, Any] = field(default_factory=dict)
    returned_at: dict[Any, float] = field(default_factory=dict)
    errors: dict[Any, Exception] = field(default_factory=dict)
    longest: float = 0.0

    async def make(self, label: Any, call: Awaitable[Any]) -> Any:
        """Make a call, and return its result, or None if it raises."""
        begin = time.monotonic()
        try:
            result = await call
            self.returned_at[label] = time.monotonic()
            self.returned[label] = result
        except Exception as error:  # noqa: BLE001 - the test judges it
            self.errors[label] = error
            return None
        finally:
            self.longest = max(self.longest, time.monotonic() - begin)
        return result

    def assert_only_ambiguous_errors(self) -> None:
        """Assert that each error says that the call may have run."""
        for label, error in self.errors.items():
            assert isinstance(error, LOST), (label, error)
            assert "may have run the call, or not" in str(error), (label, error)

    def log(self) -> None:
        """Log the numbers of calls and errors, and the longest call: for pytest --log-file."""
        kinds = Counter(type(error).__name__ for error in self.errors.values())
        _log.info(
            "%d returned, errors %s, longest %.1f s", len(self.returned), dict(kinds), self.longest
        )


class Sending:
    """
    Senders of distinct bodies to the queue "q".

    Attributes:
        calls: the record; its labels are the bodies.
        stops: True ends the senders.
        unreplicated: from when to when a server acknowledged what its replica may not have.
    """

    def __init__(self, *, dedup: bool = False) -> None:
        self.calls = Calls()
        self.stops = False
        self.unreplicated: Window | None = None
        self._dedup = dedup
        self._senders = 0

    def works(self, senders: int = 4) -> list[Work]:
        """Return the work of callers."""
        self._senders = senders
        return [partial(self._send, part) for part in range(senders)]

    async def _send(self, part: int, client: AwaitedClient) -> None:
        for number in itertools.count():
            if self.stops:
                return
            body = f"{part}-{number}"
            options = {"dedup_id": body} if self._dedup else {}
            await self.calls.make(body, client.send_message("q", body, **options))
            await client.sleep(0.005)

    @property
    def is_warm(self) -> bool:
        """Whether the servers know the scripts, and each sender has a connection."""
        returned = list(self.calls.returned)
        parts = {body.partition("-")[0] for body in returned}
        return len(returned) >= 20 and len(parts) == self._senders

    def assert_stored_once(self, raw: Any, ns: str) -> None:
        """Assert that each acknowledged body is stored once, and that no body is stored twice."""
        stored = {id: body.decode() for id, body in bodies(raw, ns, "q").items()}
        texts = sorted(stored.values())
        assert len(texts) == len(set(texts)), "a body is stored twice"
        begin, end = self.unreplicated or (0.0, 0.0)
        for body, id in self.calls.returned.items():
            is_undone = id not in stored and begin <= self.calls.returned_at[body] <= end
            assert is_undone or stored.get(id) == body, (id, body, stored.get(id))
        self.calls.assert_only_ambiguous_errors()


class Traffic:
    """
    Producers and consumers of a queue, who record their calls in a ledger.

    Attributes:
        queue: the name of the queue, which nothing else uses.
        ledger: the ledger.
        calls: all calls, to see their errors.
        ids: the ids under which each body was received.
        unreplicated: from when to when servers acknowledged what their replica may not have. Redis
            sends a reply before its replica has the change, so a kill may undo these calls.
        pause_seconds: how long a producer waits between two sends; a test may make it longer.
    """

    def __init__(self, queue: str = "q") -> None:
        self.pause_seconds = 0.002
        self.queue = queue
        self.ledger = Ledger()
        self.calls = Calls()
        self._bodies: set[str] = set()
        self.ids: dict[str, set[str]] = {}
        self.unreplicated: list[Window] = []
        self.acknowledged: list[tuple[float, str]] = []
        self._stops = False
        self._producing = 0
        self.lock = threading.Lock()

    def works(self, producers: int, consumers: int) -> list[Work]:
        """Return the work of callers."""
        self._producing = producers
        return [
            *(partial(self._produce, part) for part in range(producers)),
            *(partial(self._consume, part) for part in range(consumers)),
        ]

    def stop(self) -> None:
        """Let producers stop; consumers stop when the queue is empty."""
        self._stops = True

    async def _produce(self, part: int, client: AwaitedClient) -> None:
        for number in itertools.count():
            if self._stops:
                break
            body = f"{self.queue}-{part}-{number}"
            self._bodies.add(body)
            id = await self.calls.make(("send", body), client.send_message(self.queue, body))
            with self.lock:
                if id is None:
                    self.ledger.unknown += 1
                else:
                    self.ledger.sent[id] = body
                    self.acknowledged.append((time.monotonic(), id))
            await client.sleep(self.pause_seconds)
        with self.lock:
            self._producing -= 1

    async def _consume(self, part: int, client: AwaitedClient) -> None:
        for number in itertools.count():
            label = f"{part}-{number}"
            is_ended = self._producing == 0
            begin = time.monotonic()
            call = client.receive_message(self.queue, vt=VT)
            message = await self.calls.make(("receive", label), call)
            if message is None:
                if is_ended and ("receive", label) in self.calls.returned:
                    left = await self.calls.make(
                        ("count", label), client.count_messages(self.queue)
                    )
                    if left is not None and not left.visible + left.in_flight:
                        return
                await client.sleep(0.05)
                continue
            with self.lock:
                self.ledger.record_receive(message, begin, time.monotonic())
                self.ids.setdefault(message.body, set()).add(message.id)
                self.acknowledged.append((time.monotonic(), message.id))
            call = client.delete_message(message)
            if await self.calls.make(("delete", label), call):
                with self.lock:
                    self.ledger.deleted[message.id] = time.monotonic()
                    self.acknowledged.append((time.monotonic(), message.id))

    @property
    def undone(self) -> set[str]:
        """The messages of acknowledged calls that a kill may have undone."""
        windows = self.unreplicated
        return {
            id for at, id in self.acknowledged if any(begin <= at <= end for begin, end in windows)
        }

    def assert_exact(self, raw: Any, *namespaces: str) -> None:
        """
        Assert that nothing was lost or doubled, and that errors are ambiguous.

        Args:
            raw: the keys.
            namespaces: the namespaces of the queue.
        """
        self.calls.assert_only_ambiguous_errors()
        ledger = self.ledger
        undone = self.undone
        problems = [text for text in ledger.problems if text.partition(" ")[0] not in undone]
        assert problems == [], problems
        assert ledger.lost <= undone, ledger.lost - undone
        doubled = {body: ids for body, ids in self.ids.items() if len(ids) > 1}
        assert doubled == {}, doubled
        assert self.ids.keys() <= self._bodies, "messages of other producers"
        assert ledger.unexpected <= ledger.unknown, ledger.unexpected
        for ns in namespaces:
            assert raw.zcard(f"{ns}:{self.queue}") == 0
            assert [name for name in raw.hkeys(f"{ns}:{self.queue}:Q") if len(name) >= 32] == []
        stored = sum(int(raw.hget(f"{ns}:{self.queue}:Q", "totalsent")) for ns in namespaces)
        least, most = len(ledger.sent) - len(undone), len(ledger.sent) + ledger.unknown
        assert least <= stored <= most, (least, stored, most)
        # Only sends and receives are not repeated without end.
        assert {kind for kind, _label in self.calls.errors} <= {"send", "receive"}


def run_traffic(
    place: Namespace, cluster: Cluster, fault: Callable[[Cluster, str], Window | None]
) -> Traffic:
    """Send, receive and delete while the cluster changes, and return the record."""
    traffic = Traffic()
    crowd = place.start(*traffic.works(producers=3, consumers=3))
    wait_until(lambda: len(traffic.ledger.deleted) >= 50)
    if window := fault(cluster, place.ns):
        traffic.unreplicated.append(window)
    count = len(traffic.ledger.deleted)
    wait_until(lambda: len(traffic.ledger.deleted) >= count + 20)
    cluster.heal()
    traffic.stop()
    crowd.join()
    traffic.assert_exact(cluster.raw, place.ns)
    return traffic


class Waiters:
    """Receives that wait, each for one message."""

    def __init__(self, count: int = 4) -> None:
        self.calls = Calls()
        self.stops = False
        self._count = count

    def works(self) -> list[Work]:
        """Return the work of callers."""
        return [partial(self._wait, part) for part in range(self._count)]

    async def _wait(self, part: int, client: AwaitedClient) -> None:
        number = 0
        while not self.stops:
            call = client.receive_message("q", vt=1000, wait=40)
            message = await self.calls.make((part, number), call)
            if message is not None:
                await self.calls.make((part, number, "delete"), client.delete_message(message))
            number += 1

    @property
    def bodies(self) -> list[str]:
        """The bodies that were received, sorted."""
        messages = [each for each in list(self.calls.returned.values()) if each not in (None, True)]
        return sorted(message.body for message in messages)


def command_counts(node: Node) -> dict[str, int]:
    """Return how often clients have sent each command to a server, without those of replicas."""
    stats = node.ask("INFO", "commandstats")
    counts = {name.removeprefix("cmdstat_"): value["calls"] for name, value in stats.items()}
    for name in ("info", "replconf", "psync", "ping"):
        counts.pop(name, None)
    return counts


def window_of_stop(written_until: float) -> Window:
    """
    Return when a server, which stopped just now, may have acknowledged what its replica lacks.

    Callers may read its last replies a little later, but long before it is replaced.

    Args:
        written_until: the replica has what the server had written until this time.
    """
    return written_until, time.monotonic() + 0.5


def script_calls(node: Node) -> int:
    """Return how many scripts clients have sent to a server."""
    counts = command_counts(node)
    return counts.get("evalsha", 0) + counts.get("eval", 0)


def bodies(raw: Any, ns: str, queue: str) -> dict[str, bytes]:
    """Return the stored body of each id."""
    fields = raw.hgetall(f"{ns}:{queue}:Q")
    return {id.decode(): body for id, body in fields.items() if len(id) == 32}


def ids_in_order(raw: Any, ns: str, queue: str) -> list[str]:
    """Return the ids of a queue in the order of delivery."""
    return [id.decode() for id in raw.zrange(f"{ns}:{queue}", 0, -1)]


def wait_until_tracked(node: Node) -> None:
    """Wait until a client tracks keys on a node, and nothing else happens there."""
    wait_until(
        lambda: any("t" in each["flags"] for each in node.ask("CLIENT LIST")),
        failure=f"no client tracks keys on {node}",
    )
    state: list[tuple[float, int]] = []

    def is_quiet() -> bool:
        state.append((time.monotonic(), script_calls(node)))
        return any(at < state[-1][0] - 0.7 and count == state[-1][1] for at, count in state[-60:-1])

    wait_until(is_quiet, failure="the waiters poll")


def assert_no_commands(node: Node, seconds: float) -> None:
    """Assert that the only client of a node sends nothing for some seconds but its checks."""
    # Of this test, and of Sentinels.
    ignored = {"client|list", "cluster|nodes", "cluster|info"}
    ignored |= {"publish", "subscribe", "client|setname"}
    before = command_counts(node)
    time.sleep(seconds)
    after = command_counts(node)
    checks = after.pop("time", 0) - before.get("time", 0)
    assert checks <= 1 + seconds // GROUP_CHECK_SECONDS
    changed = {name for name in after if after[name] != before.get(name) and name not in ignored}
    assert changed == set(), changed


def wait_until_quiet(node: Node, seconds: float) -> None:
    """
    Wait until the only client of a node sends nothing for some seconds but its checks.

    A thread that waits for a server that hangs receives once more when its time-out ends.
    """

    def is_quiet() -> bool:
        with suppress(AssertionError):
            assert_no_commands(node, seconds)
            return True
        return False

    wait_until(is_quiet, failure="the waiters send commands all the time")


def expect_wake_ups(waiters: Waiters, client: Any, label: str) -> None:
    """Send messages, and wait until each of them has woken a waiter."""
    expected = sorted([*waiters.bodies, *(f"{label} {number}" for number in range(3))])
    for number in range(3):
        client.send_message("q", f"{label} {number}")
    wait_until(
        lambda: waiters.bodies == expected,
        WITHIN_SECONDS,
        lambda: f"after {label} these were received: {waiters.bodies}",
    )
