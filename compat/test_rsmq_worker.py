"""npm's rsmq-worker and ours on one queue, and what docs/from-rsmq-worker.md says of it."""

from __future__ import annotations

import json
import subprocess
import threading
import time

import pytest

from compat.peers import FOLDER
from rsmq import RSMQ
from rsmq.worker import Retry, Worker
from tests.scale import WAIT_SECONDS

#: npm's worker asks for the next message at once, and hides a message for long.
BUSY = {"interval": [0, 0.01], "invisibletime": 60, "timeout": 0}
#: It has a message again as soon as it has failed.
IMPATIENT = {"interval": [0, 0.01], "invisibletime": 0, "timeout": 0}


def wait_until(condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class NodeWorker:
    """A process of npm's rsmq-worker, and the events that it has reported."""

    def __init__(self, port, ns, queue, **options):
        self.events = []
        self._process = subprocess.Popen(
            ["node", FOLDER / "node" / "worker.js", str(port), ns, queue, json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        self.events.extend(json.loads(line) for line in self._process.stdout)

    def call(self, op, *args):
        self._process.stdin.write(json.dumps({"op": op, "args": args}) + "\n")
        self._process.stdin.flush()

    def found(self, event):
        """The events of a kind."""
        return [each for each in list(self.events) if each["event"] == event]

    def wait_for(self, event, number=1):
        wait_until(lambda: len(self.found(event)) >= number)
        return self.found(event)

    def end(self):
        """End it, and return the rest of its events."""
        if self._process.stdin.closed:
            return
        self._process.stdin.close()
        assert self._process.wait(WAIT_SECONDS) == 0
        self._reader.join(WAIT_SECONDS)
        self._process.stdout.close()


@pytest.fixture
def rsmq(server, ns):
    with RSMQ.from_url(server.url, ns=ns) as rsmq:
        yield rsmq


@pytest.fixture
def start_node(server, ns):
    started = []

    def start(queue, **options):
        started.append(NodeWorker(server.port, ns, queue, **options))
        return started[-1]

    yield start
    for each in started:
        each.end()


def test_both_workers_share_a_queue_and_each_message_is_handled_once(rsmq, keys, start_node):
    rsmq.create_queue("q", vt=60)
    ours = []
    theirs_works = threading.Event()
    worker = Worker(rsmq, concurrency=2)

    @worker.listener("q", max_retries=0, drop=True)
    def handle(body):
        theirs_works.wait(WAIT_SECONDS)
        ours.append(body)

    bodies = [f"m{number}" for number in range(300)]
    rsmq.send_messages("q", bodies[:200])
    with worker:
        node = start_node("q", **BUSY)
        node.call("start")
        node.wait_for("message")
        theirs_works.set()
        for body in bodies[200:]:
            node.call("send", body, 0)
        node.wait_for("new", 100)
        wait_until(lambda: len(ours) + len(node.found("message")) >= 300)
        wait_until(lambda: rsmq.get_queue_attributes("q").messages == 0)
    node.call("stop")
    node.wait_for("stopped")
    node.end()
    theirs = [each["body"] for each in node.found("message")]

    assert sorted(ours + theirs) == sorted(bodies)
    assert ours
    assert theirs
    attributes = rsmq.get_queue_attributes("q")
    assert (attributes.total_sent, attributes.total_received) == (300, 300)


def test_a_message_that_one_keeps_is_handled_by_the_other(rsmq, start_node):
    """next(false) there, Retry here: the receive count is shared."""
    rsmq.create_queue("q", vt=60)
    rsmq.send_message("q", "keep")
    node = start_node("q", maxReceiveCount=1_000_000, **IMPATIENT)
    node.call("start")
    node.wait_for("message")
    attempts = []
    worker = Worker(rsmq)

    @worker.listener("q", retry_forever=True)
    def handle(body, message):
        attempts.append(message.attempt)
        if len(attempts) < 3:
            raise Retry(after=0)

    with worker:
        wait_until(lambda: rsmq.get_queue_attributes("q").messages == 0)
    assert attempts == sorted(set(attempts))
    assert attempts[0] >= 2, "npm's worker had it first"


def test_limits_are_the_same_number_of_calls(rsmq, keys, start_node):
    """maxReceiveCount there is max_retries + 1 here; npm's worker deletes what exceeds it."""
    rsmq.create_queue("theirs", vt=0)
    rsmq.create_queue("ours", vt=60)
    id = rsmq.send_message("theirs", "fail")
    rsmq.send_message("ours", "fail")
    node = start_node("theirs", maxReceiveCount=3, **IMPATIENT)
    node.call("start")
    exceeded = node.wait_for("exceeded")
    node.wait_for("deleted")
    node.wait_for("message", 3)
    calls = []
    worker = Worker(rsmq)

    @worker.listener("ours", max_retries=3 - 1, drop=True, backoff=0)
    def handle(body):
        calls.append(body)
        raise ValueError(body)

    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    wait_until(lambda: rsmq.get_queue_attributes("theirs").messages == 0)
    node.end()

    assert exceeded == [{"event": "exceeded", "id": id, "count": 3}]
    assert len(node.found("message")) == len(calls) == 3
    assert len(node.found("error")) == 3


def test_an_exempt_message_exceeds_no_limit(rsmq, start_node):
    rsmq.create_queue("q", vt=0)
    id = rsmq.send_message("q", "exempt")
    node = start_node("q", maxReceiveCount=2, **IMPATIENT)
    node.call("start")
    node.wait_for("message", 5)
    node.call("stop")
    node.wait_for("stopped")

    assert node.found("exceeded") == node.found("deleted") == []
    assert rsmq.get_message("q", id).receive_count >= 5


@pytest.mark.parametrize(
    ("body", "event"), [("fail", "error"), ("throw", "error"), ("hang", "timeout")]
)
def test_a_message_that_fails_there_stays_hidden_for_the_invisibletime(
    rsmq, keys, start_node, body, event
):
    rsmq.create_queue("q", vt=5)
    node = start_node("q", interval=[0, 0.01], invisibletime=600, timeout=50)
    node.wait_for("ready")
    node.call("send", body, 0)
    node.call("start")
    [reported] = node.wait_for(event)

    message = rsmq.get_message("q", reported["id"])
    assert message.receive_count == 1
    assert message.state == "in_flight"
    assert node.found("deleted") == []
