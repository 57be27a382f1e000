"""Bridges from and to queues of SQS, which ``rsmq web`` has in another namespace."""

from __future__ import annotations

import json
import random
from collections import Counter
from urllib.parse import urlsplit

import pytest
import redis.exceptions as redis_errors

from rsmq import BYTES, RSMQ, TEXT, MessageTooLong, QueueNotFound
from rsmq.codecs import EnvelopeCodec
from rsmq.migrate import Bridge, NotPossible
from rsmq.migrate.amazon_sqs import FromSqs, SqsQueue, ToSqs
from tests.migrate.break_point import BreakingProxy, BreakPoint
from tests.scale import scaled
from tests.web.sqs.conftest import SqsProcess, boto

CONNECTION_ERRORS = (redis_errors.ConnectionError, redis_errors.TimeoutError)
_BINARY = {"DataType": "Binary.png", "BinaryValue": b"\0\xff"}
ATTRIBUTES = {
    "colour": {"DataType": "String", "StringValue": "red"},
    "size": {"DataType": "Number", "StringValue": "17"},
    "image": _BINARY,
}
TRACE = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-2"}}
FIFO = {"FifoQueue": "true"}
#: How many kills a test makes, of all possible ones.
BREAKS = scaled(6, 1000)


@pytest.fixture(autouse=True)
def _settings(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr("rsmq.migrate.amazon_sqs._WAIT_SECONDS", 0)


@pytest.fixture(scope="module")
def sqs_url(server):
    """Start ``rsmq web`` with the namespace sqs."""
    web = SqsProcess(server, "sqs")
    yield web.url
    web.stop()


@pytest.fixture
def sqs(sqs_url, server):
    """Return a client of SQS; the fixture removes its queues."""
    client = boto(sqs_url)
    yield client
    client.close()
    with server.raw() as raw:
        for key in raw.scan_iter("sqs:*"):
            if key != b"sqs:x:sqs_key":
                raw.unlink(key)


@pytest.fixture
def stored(server):
    """Return the client of the queues of SQS."""
    with RSMQ.from_url(server.url, ns="sqs") as client:
        yield client


def create(sqs, fifo):
    """Create a queue, and return its name."""
    name = "q.fifo" if fifo else "q"
    sqs.create_queue(QueueName=name, Attributes=FIFO if fifo else {})
    return name


def open_proxies(server, sqs_url, break_point):
    """Return proxies for Redis and for ``rsmq web``, which break at the same request."""
    ports = server.port, urlsplit(sqs_url).port
    return [BreakingProxy(each, break_point) for each in ports]


def choose_breaks(requests):
    """Yield requests at which a bridge is killed: before they are sent, or before the answer."""
    kinds = [BreakPoint(n, executed=each) for n in range(1, requests + 1) for each in (False, True)]
    return random.Random(7).sample(kinds, min(BREAKS, len(kinds)))


def drain(side):
    side.begin()
    while side.step(10):
        pass


def receive_all(sqs, queue):
    """Receive and delete all messages."""
    found = []
    while received := sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
    ).get("Messages"):  # fmt: skip
        found += received
        for each in received:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])
    return found


@pytest.mark.parametrize("fifo", [False, True])
def test_a_message_goes_to_a_queue_and_back_with_all_that_it_has(sqs, sqs_url, local, fifo):
    name = create(sqs, fifo)
    order = {"MessageGroupId": "g-1"}
    if fifo:
        order["MessageDeduplicationId"] = "once"
    sqs.send_message(
        QueueUrl=name, MessageBody='{"a": 1}', MessageAttributes=ATTRIBUTES,
        MessageSystemAttributes=TRACE, **order,
    )  # fmt: skip
    side = FromSqs(SqsQueue(name, sqs_url), local, "here")
    assert Bridge(side, limit=1).run() == 1
    assert receive_all(sqs, name) == []

    (here,) = local.rsmq.peek_messages("here", 0, 10)
    meta = {"types": {"size": "Number", "image": "Binary.png"}, "trace": "Root=1-2"}
    meta |= {"dedup": "once"} if fifo else {"group": "g-1"}
    assert json.loads(here.raw)["body"] == {"a": 1}
    headers = dict(here.headers)
    assert json.loads(headers.pop("sqs:meta")) == meta
    assert headers == {"colour": "red", "size": "17", "image": "AP8="}
    assert here.group == ("g-1" if fifo else None)

    back = ToSqs(local, "here", SqsQueue(name, sqs_url))
    assert Bridge(back, limit=1).run() == 1
    assert local.rsmq.get_queue_attributes("here").messages == 0
    (again,) = receive_all(sqs, name)
    assert (again["Body"], again["MessageAttributes"]) == ('{"a": 1}', ATTRIBUTES)
    assert again["Attributes"]["MessageGroupId"] == "g-1"
    assert again["Attributes"]["AWSTraceHeader"] == "Root=1-2"
    if fifo:
        assert again["Attributes"]["MessageDeduplicationId"] == here.id


def test_a_new_target_queue_has_the_settings_of_the_source(sqs, sqs_url, local, raw, ns):
    attributes = {
        "VisibilityTimeout": "7",
        "DelaySeconds": "2",
        "MessageRetentionPeriod": "600",
    }
    sqs.create_queue(QueueName="q", Attributes=attributes)
    sqs.send_message(QueueUrl="q", MessageBody="plain", DelaySeconds=0)
    drain(FromSqs(SqsQueue(f"{sqs_url}/000000000000/q", sqs_url), local, "here"))
    fields = raw.hgetall(f"{ns}:here:Q")
    assert (fields[b"vt"], fields[b"delay"], fields[b"maxsize"]) == (b"7", b"2", b"-1")
    assert fields[b"x:keep"] == b"600"
    (message,) = local.rsmq.peek_messages("here", 0, 10)
    assert (message.raw, message.state) == (b"plain", "visible")


@pytest.mark.slow
@pytest.mark.parametrize("fifo", [False, True])
def test_a_bridge_from_sqs_that_is_killed_at_any_request_loses_and_doubles_nothing(
    sqs, sqs_url, server, raw, ns, stored, fifo
):
    name = create(sqs, fifo)
    bodies = [f"{number % 3} {number}" for number in range(12)]

    def run(break_point):
        """Run the bridge, and return whether it reached its end."""
        proxies = [
            BreakingProxy(port, break_point) for port in (server.port, urlsplit(sqs_url).port)
        ]
        target = proxies[0].connect(ns)
        queue = SqsQueue(name, f"http://127.0.0.1:{proxies[1].port}")
        try:
            drain(FromSqs(queue, target, "here"))
        except CONNECTION_ERRORS:
            return False
        finally:
            queue.close()
            for each in (target, *proxies):
                each.close()
        return True

    def run_with_break(break_point):
        raw.unlink(*(raw.keys(f"{ns}:*") or ["none"]))
        for body in bodies:
            order = {"MessageGroupId": body[0]}
            order["MessageDeduplicationId"] = (
                f"{body}-{break_point.request}-{break_point.executed}".replace(" ", "-")
            )
            sqs.send_message(QueueUrl=name, MessageBody=body, **(order if fifo else {}))
        assert run(break_point) is not break_point.has_broken
        qname = "q_fifo" if fifo else "q"
        while stored.get_queue_attributes(qname).messages:
            stored.release_all_messages(qname)  # as after a minute
            assert run(BreakPoint())
        with RSMQ.from_url(server.url, ns=ns, codec=EnvelopeCodec(TEXT)) as queues:
            found = [(each.group, each.body) for each in queues.peek_messages("here", 0, 100)]
        assert sorted(body for _, body in found) == sorted(bodies)
        if fifo:
            assert all(group == body[0] for group, body in found)
            in_group = {group: [each[1] for each in found if each[0] == group] for group in "012"}
            assert in_group == {group: bodies[int(group) :: 3] for group in "012"}
        assert receive_all(sqs, name) == []
        return break_point.count

    requests = run_with_break(BreakPoint())
    assert requests > 6
    for break_point in choose_breaks(requests):
        run_with_break(break_point)


@pytest.mark.slow
@pytest.mark.parametrize("fifo", [False, True])
def test_a_bridge_to_sqs_that_is_killed_at_any_request_loses_nothing_and_doubles_none_of_fifo(
    sqs, sqs_url, server, raw, ns, fifo
):
    name = create(sqs, fifo)
    bodies = [f"{number % 3} {number}" for number in range(12)]

    def run(break_point):
        proxies = [
            BreakingProxy(port, break_point) for port in (server.port, urlsplit(sqs_url).port)
        ]
        source = proxies[0].connect(ns)
        queue = SqsQueue(name, f"http://127.0.0.1:{proxies[1].port}")
        try:
            drain(ToSqs(source, "here", queue))
        except CONNECTION_ERRORS:
            return False
        finally:
            queue.close()
            for each in (source, *proxies):
                each.close()
        return True

    def run_with_break(break_point):
        raw.unlink(*(raw.keys(f"{ns}:*") or ["none"]))
        with RSMQ.from_url(server.url, ns=ns) as queues:
            queues.create_queue("here")
            queues.send_messages(
                "here", bodies, groups=[each[0] for each in bodies] if fifo else None
            )
            is_done = run(break_point)
            assert is_done is not break_point.has_broken
            if not is_done:
                queues.release_all_messages("here")  # as after a minute
                assert run(BreakPoint())
            assert queues.get_queue_attributes("here").messages == 0
        found = [each["Body"] for each in receive_all(sqs, name)]
        counts = Counter(found)
        assert counts.keys() == set(bodies)
        if fifo:
            by_group = {group: [each for each in found if each[0] == group] for group in "012"}
            assert by_group == {group: bodies[int(group) :: 3] for group in "012"}
        else:
            assert max(counts.values()) <= 2
        return break_point.count

    requests = run_with_break(BreakPoint())
    assert requests > 6
    for break_point in choose_breaks(requests):
        run_with_break(break_point)


@pytest.mark.parametrize("body", [b"", b"\0", b"\xff"])
def test_a_body_that_sqs_cannot_carry_ends_the_bridge_and_stays_visible(sqs, sqs_url, local, body):
    create(sqs, fifo=False)
    local.rsmq.create_queue("here")
    id = local.rsmq.send_message("here", body, codec=BYTES)
    side = ToSqs(local, "here", SqsQueue("q", sqs_url))
    with pytest.raises(NotPossible, match=f"can't carry the body of message '{id}' of 'here'"):
        Bridge(side, limit=1).run()
    assert receive_all(sqs, "q") == []
    (message,) = local.rsmq.peek_messages("here", 0, 10)
    assert (message.raw, message.state) == (body, "visible")


@pytest.mark.parametrize(
    "headers", [{"AWS.x": "y"}, {f"h{number}": "x" for number in range(11)}, {"a": "\0"}, {"a": ""}]
)
def test_headers_that_are_no_attributes_go_in_the_body(sqs, sqs_url, local, headers):
    create(sqs, fifo=False)
    local.rsmq.create_queue("here")
    text = json.dumps({"headers": headers, "body": "b"})
    local.rsmq.send_message("here", text)
    drain(ToSqs(local, "here", SqsQueue("q", sqs_url)))
    assert [each["Body"] for each in receive_all(sqs, "q")] == [text]


def test_messages_without_a_group_go_to_groups_of_their_own(sqs, sqs_url, local):
    name = create(sqs, fifo=True)
    local.rsmq.create_queue("here")
    ids = local.rsmq.send_messages("here", ["a", "b"])
    drain(ToSqs(local, "here", SqsQueue(name, sqs_url)))
    received = receive_all(sqs, name)
    assert [each["Attributes"]["MessageGroupId"] for each in received] == ids


def test_large_messages_go_in_several_requests(sqs, sqs_url, local):
    create(sqs, fifo=False)
    local.rsmq.create_queue("here", maxsize=-1)
    bodies = [letter * 400_000 for letter in "abcd"]
    local.rsmq.send_messages("here", bodies)
    assert Bridge(ToSqs(local, "here", SqsQueue("q", sqs_url)), limit=4).run() == 4
    assert [each["Body"] for each in receive_all(sqs, "q")] == bodies


def test_a_message_that_the_target_refuses_is_released_at_sqs(sqs, sqs_url, local):
    create(sqs, fifo=False)
    local.rsmq.create_queue("here", maxsize=1024)
    sqs.send_message(QueueUrl="q", MessageBody="x" * 2000)
    with pytest.raises(MessageTooLong):
        Bridge(FromSqs(SqsQueue("q", sqs_url), local, "here"), limit=1).run()
    assert len(receive_all(sqs, "q")) == 1


def test_a_message_that_sqs_refuses_is_released(sqs, sqs_url, local):
    sqs.create_queue(QueueName="q", Attributes={"MaximumMessageSize": "1024"})
    local.rsmq.create_queue("here")
    local.rsmq.send_messages("here", ["small", "x" * 2000])
    with pytest.raises(NotPossible, match="SQS refuses a message: InvalidParameterValue"):
        Bridge(ToSqs(local, "here", SqsQueue("q", sqs_url)), limit=2).run()
    assert [each["Body"] for each in receive_all(sqs, "q")] == ["small"]
    (left,) = local.rsmq.peek_messages("here", 0, 10)
    assert (len(left.raw), left.state) == (2000, "visible")


def test_queues_that_are_missing_are_named(sqs, sqs_url, local):
    with pytest.raises(NotPossible, match=r"about 'none'.*NonExistentQueue"):
        Bridge(FromSqs(SqsQueue("none", sqs_url), local, "here")).run()
    create(sqs, fifo=False)
    with pytest.raises(QueueNotFound, match="'here'"):
        Bridge(ToSqs(local, "here", SqsQueue("q", sqs_url))).run()


def test_a_server_that_is_away_is_tried_again(sqs, sqs_url, local):
    proxy = BreakingProxy(urlsplit(sqs_url).port, BreakPoint())
    create(sqs, fifo=False)
    side = FromSqs(SqsQueue("q", f"http://127.0.0.1:{proxy.port}"), local, "here")
    bridge = Bridge(side, limit=1)
    proxy._break_point.request = proxy._break_point.count + 3
    begin = side.begin

    def begin_again():
        if bridge.reconnects:  # the server is back
            proxy._break_point.request = 0
            sqs.send_message(QueueUrl="q", MessageBody="a")
        begin()

    side.begin = begin_again
    assert bridge.run() == 1
    assert bridge.reconnects == 1
    proxy.close()
