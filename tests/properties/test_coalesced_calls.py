"""Random programs of concurrent calls end as the same calls one by one."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq import AsyncRSMQ, Message, RSMQError
from tests.scale import scaled

QUEUES = ("q", "p", "missing")
MAXSIZE = 9500
_numbers = itertools.count()

queues = st.sampled_from(["q", "q", "q", "p", "missing"])
#: Calls of a kind on a queue: the numbers choose their bodies, messages or times.
runs = st.tuples(
    st.sampled_from(["send", "send", "receive", "delete", "delete id", "change", "pop"]),
    queues,
    st.lists(st.integers(0, 11), min_size=1, max_size=8),
)
#: The runs of several turns of the event loop.
programs = st.lists(st.lists(runs, min_size=1, max_size=5), min_size=1, max_size=6)

#: Small bodies, large ones that are sent in two steps, and one that is too long.
SIZES = (1, 1, 1, 1, 1, 20, 9000, 9000, 9100, MAXSIZE + 1, 1, 1)
DELAYS = (None, None, None, None, 0, 100, None, None, None, None, 200, None)
#: Without 0: two messages that become visible in the same millisecond have no order of their own.
HIDDEN = (None, None, None, 150, 100, 100, 200, 200, None, None, None, 150)


class Side:
    """One of two clients that run the same program, and what it knows of its messages."""

    def __init__(self, client, ns):
        self.client = client
        self.ns = ns
        self.ids = ["i" * 32]
        self.received = []
        self._bodies = itertools.count()

    def start(self, name, queue, number):
        """Return a coroutine that makes a call; it depends only on earlier turns."""
        client = self.client
        if name == "send":
            body = f"{next(self._bodies)} ".ljust(SIZES[number], ".")
            return client.send_message(queue, body, delay=DELAYS[number])
        if name == "receive":
            return client.receive_message(queue, vt=HIDDEN[number])
        if name == "pop":
            return client.pop_message(queue)
        if name == "delete id" or not self.received:
            return client.delete_message(queue, self.ids[number % len(self.ids)])
        message = self.received[-1 - number % len(self.received)]
        if name == "delete":
            return client.delete_message(message)
        return client.change_message_visibility(message, HIDDEN[number] or 100)

    async def run_together(self, calls):
        started = [self.start(*call) for call in calls]
        return self.note(await asyncio.gather(*started, return_exceptions=True))

    async def run_one_by_one(self, calls):
        started = [self.start(*call) for call in calls]
        return self.note(
            [*[(await asyncio.gather(each, return_exceptions=True))[0] for each in started]]
        )

    def note(self, results):
        """Keep ids and messages for later turns, and return the results without ids."""
        self.ids += [each for each in results if isinstance(each, str)]
        self.received += [each for each in results if isinstance(each, Message)]
        return [self.describe(each) for each in results]

    def describe(self, result):
        if isinstance(result, Message):
            return result.queue, result.body, result.receive_count, self.ids.index(result.id)
        if isinstance(result, str):
            return "sent", len(result)
        if isinstance(result, RSMQError):
            return type(result), str(result).replace(self.ns, "")
        assert result is None or isinstance(result, bool), result
        return result

    def state(self, raw):
        """Return keys without ids and times: visible messages in order, hidden ones, the rest."""
        seconds, _ = raw.time()
        found = {}
        for queue in QUEUES:
            fields = raw.hgetall(f"{self.ns}:{queue}:Q")
            rows = []
            for id, score in raw.zrange(f"{self.ns}:{queue}", 0, -1, withscores=True):
                received = fields.pop(id + b":fr", b"")
                rows.append(
                    (fields.pop(id), fields.pop(id + b":rc", b"0"), bool(received),
                     max(round((score / 1000 - seconds) / 50), 0))
                )  # fmt: skip
            for field in (b"created", b"modified"):
                fields.pop(field, None)
            visible = [row for row in rows if not row[-1]]
            found[queue] = visible, sorted(row for row in rows if row[-1]), fields
        return found


@pytest.mark.slow
@settings(
    max_examples=scaled(80, 3000),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(program=programs)
def test_calls_together_end_as_calls_one_by_one(server, raw, program):
    namespaces = [f"together{next(_numbers)}" for _ in range(2)]

    async def main():
        async with (
            AsyncRSMQ.from_url(server.url, ns=namespaces[0]) as first,
            AsyncRSMQ.from_url(server.url, ns=namespaces[1]) as second,
        ):
            together, alone = Side(first, namespaces[0]), Side(second, namespaces[1])
            for client in (first, second):
                for queue in ("q", "p"):
                    await client.create_queue(queue, vt=100, maxsize=MAXSIZE)
            for side in (together, alone):
                for call in (
                    ("send", "q", 0),
                    ("receive", "q", 4),
                    ("delete id", "q", 0),
                    ("pop", "q", 0),
                ):
                    await side.run_one_by_one([call])
                await side.run_one_by_one([("change", "q", 4)])
            for turn in program:
                calls = [(name, queue, each) for name, queue, numbers in turn for each in numbers]
                assert await together.run_together(calls) == await alone.run_one_by_one(calls)
                assert together.state(raw) == alone.state(raw)

    try:
        asyncio.run(main())
    finally:
        for ns in namespaces:
            for key in raw.keys(f"{ns}:*"):
                raw.unlink(key)
