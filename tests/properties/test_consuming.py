"""
Random loops with consume and processing, with time that passes between messages.

Time passes for the client by a clock that moves by hand, and for the server by the scores.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq import RSMQ, AsyncRSMQ
from rsmq._sync import consuming as synchronous
from rsmq.operations import batches
from rsmq.transport import memory
from rsmq.waiting import consuming as asynchronous
from tests.blocking import Blocking
from tests.scale import scaled

_numbers = itertools.count()


class Boom(Exception):
    """An exception of the loop."""


#: For each message: what the loop does with it, and how many seconds that takes. The visibility
#: timeouts below are so different from the sums of these that the duration of the test cannot
#: matter.
WORK = st.tuples(
    st.sampled_from(["process", "fail", "delete", "keep", "break", "raise"]),
    st.sampled_from([0, 0, 30, 70]),
)
VT = st.sampled_from([50, 95, 1000])


class Loop:
    """A loop over two queues, and what the test observes."""

    def __init__(self, client, raw, monkeypatch):
        self.client, self.raw = client, raw
        self.now = 0.0
        self.kept, self.deleted = set(), set()
        for module in (asynchronous, synchronous, batches):
            monkeypatch.setattr(module, "monotonic", lambda: self.now)

    def scores(self):
        return {
            id.decode(): score
            for queue in ("p", "q")
            for id, score in self.raw.zrange(f"rsmq:{queue}", 0, -1, withscores=True)
        }

    def server_ms(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def elapse(self, seconds):
        self.now += seconds
        for queue in ("p", "q"):
            for id, score in self.raw.zrange(f"rsmq:{queue}", 0, -1, withscores=True):
                self.raw.zadd(f"rsmq:{queue}", {id: score - seconds * 1000})

    def run(self, work, **options):
        """Run the loop until its work is done; the last work is to leave it."""
        with self.client.consume(["p", "q"], wait=0, **options) as messages:
            for action, seconds in work:
                message = next(messages, None)
                if message is None:
                    break
                # The lease has not ended: no other consumer can have received the message.
                assert self.scores()[message.id] > self.server_ms()
                count = self.raw.hget(f"rsmq:{message.queue}:Q", f"{message.id}:rc")
                assert int(count) == message.receive_count
                self.kept.discard(message.id)
                self.elapse(seconds)
                if self.do(action, message):
                    break

    def do(self, action, message):
        if action == "process":
            with self.client.processing(message):
                pass
            self.deleted.add(message.id)
        elif action == "delete":
            assert self.client.delete_message(message)
            self.deleted.add(message.id)
        elif action == "fail":
            with pytest.raises(Boom), self.client.processing(message):
                raise Boom
        else:
            self.kept.add(message.id)
            if action == "raise":
                raise Boom
        return action == "break"


@pytest.fixture(params=["sync", "asyncio"], scope="module")
def connect(request):
    """A function that opens a client on a new, empty Redis."""
    runner = asyncio.Runner() if request.param == "asyncio" else None

    def connect(url):
        if runner is None:
            return RSMQ.from_url(url)
        return Blocking(runner, AsyncRSMQ.from_url(url))

    yield connect
    if runner is not None:
        runner.close()


@settings(max_examples=scaled(80, 2000), deadline=None)
@given(
    vts=st.tuples(VT, VT),
    vt=st.none() | VT,
    sent=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    batch=st.integers(1, 8),
    work=st.lists(WORK, max_size=20),
)
def test_only_kept_messages_are_in_flight_after_the_loop(connect, vts, vt, sent, batch, work):
    url = f"memory://consuming-{next(_numbers)}"
    client, raw = connect(url), memory.client(url)
    ids = set()
    for queue, queue_vt, number in zip(("p", "q"), vts, sent, strict=True):
        client.create_queue(queue, vt=queue_vt)
        ids.update(client.send_messages(queue, ["m"] * number))
    with pytest.MonkeyPatch.context() as monkeypatch:
        loop = Loop(client, raw, monkeypatch)
        try:
            loop.run(work, batch=batch, vt=vt)
        except Boom:
            assert "raise" in [action for action, _ in work]

    now, scores = loop.server_ms(), loop.scores()
    assert scores.keys() == ids - loop.deleted
    assert {id for id in scores if scores[id] > now} <= loop.kept
    client.close()
    raw.close()
