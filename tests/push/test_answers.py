"""The answers of targets: the outcome of the message, and the state that all processes share."""

from __future__ import annotations

import asyncio
import json
import socket
from email.utils import formatdate

import pytest

from rsmq import InvalidFormat
from rsmq.webhooks.addresses import AddressRules, parse_ranges
from rsmq.webhooks.http_client import TIMEOUT_SECONDS, PushClient
from rsmq.webhooks.shared_breaker import list_targets, resume_target
from rsmq.webhooks.targets import parse_target
from rsmq.worker import Worker
from tests.push.conftest import LOCAL, dead_letters, wait_until
from tests.push.receiver import OK, Reply, reply
from tests.scale import WAIT_SECONDS


def run(worker):
    worker.run(until_empty=True, timeout=WAIT_SECONDS)


def stored_state(raw, ns):
    """Return the only stored state."""
    [state] = raw.hvals(f"{ns}:x:push") or [b"{}"]
    return json.loads(state)


def resume(rsmq):
    for field, _ in list_targets(rsmq):
        assert resume_target(rsmq, field)


@pytest.mark.parametrize(
    "answer",
    [
        reply(200), reply(201, b"made"), reply(226, b"x"), reply(200, b"x" * 1_000_000),
        reply(200, b"abc", length=100, close=True), reply(200, b"abc", length=1),
        reply(200, b"abc", length=10**12, close=True),
        Reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", close=True),
        Reply(b"HTTP/1.0 200 OK\r\n\r\nto the end", close=True),
        reply(200, b"not gzip", headers=["Content-Encoding: gzip"]),
        Reply(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
    ],
)  # fmt: skip
def test_a_2xx_deletes_the_message_whatever_follows_the_status_line(
    raw, ns, rsmq, receiver, make_worker, answer
):
    receiver.answer = lambda _: answer
    rsmq.send_message("q", "x")
    run(make_worker(receiver.url, max_retries=0))

    assert raw.zcard(f"{ns}:q") == raw.zcard(f"{ns}:q-dead") == 0
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("answer", "status", "text", "body"),
    [
        (reply(500, b"oh"), 500, "500 Internal Server Error", "oh"),
        (
            reply(500, b"\xff" + b"x" * 5000),
            500,
            "500 Internal Server Error",
            "\ufffd" + "x" * 2047,
        ),
        (reply(500, b"abc", length=99, close=True), 500, "500 Internal Server Error", "abc"),
        (reply(302, headers=["Location: http://127.0.0.1:1/"]), 302, "302 Found", ""),
        (reply(304), 304, "304 Not Modified", ""),
        (reply(404), 404, "404 Not Found", ""),
        (reply(429), 429, "429 Too Many Requests", ""),
        (reply(503, headers=["Retry-After: soon"]), 503, "503 Service Unavailable", ""),
        (Reply(b"HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n"), 599, "599", ""),
        (Reply(b"", close=True), None, "the connection was closed before an answer", ""),
        (Reply(b"220 mail\r\n\r\n", close=True), None, "the answer is not HTTP: ...", ""),
        (
            Reply(b"HTTP/1.1 200", close=True),
            None,
            "the connection was closed before an answer",
            "",
        ),
    ],
)
def test_any_other_answer_is_an_attempt_that_failed_and_the_dead_letter_has_it(
    raw, ns, rsmq, receiver, make_worker, answer, status, text, body
):
    receiver.answer = lambda _: answer
    id = rsmq.send_message("q", "x")
    run(make_worker(receiver.url, max_retries=1))
    reason = dead_letters(rsmq)[id].reason
    stored = json.loads(raw.hget(f"{ns}:q-dead:x:reasons", id).partition(b":")[2])

    assert len(receiver.requests) == 2
    assert (reason.status, reason.answer) == (status, body)
    if text.endswith("..."):
        assert reason.exception.startswith(f"PushFailed: {text[:-3]}")
    else:
        assert reason.exception == f"PushFailed: {text}"
    assert reason.text == "PushFailed on attempt 2, the last"
    assert reason.attempts == 2
    assert reason.traceback is None
    assert (stored["status"], stored["answer"]) == (status, body)
    assert raw.zcard(f"{ns}:q") == 0


def test_a_server_that_is_away(rsmq, receiver, make_worker):
    receiver.stop()
    id = rsmq.send_message("q", "x")
    run(make_worker(receiver.url, max_retries=0))
    reason = dead_letters(rsmq)[id].reason

    assert reason.exception == "PushFailed: no connection: Connection refused"
    assert reason.status is None


def test_a_host_that_is_not_found(rsmq, make_worker, monkeypatch):
    real = socket.getaddrinfo

    def getaddrinfo(host, *arguments, **options):
        if host == "hooks.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    id = rsmq.send_message("q", "x")
    run(make_worker("http://hooks.example/", max_retries=0))

    assert dead_letters(rsmq)[id].reason.exception == (
        "PushFailed: the host 'hooks.example' was not found"
    )


def test_a_service_that_is_not_http_and_returns_the_request(rsmq, receiver, make_worker):
    """The body looks like an answer; it is not one."""
    body = "x\r\nHTTP/1.1 200 OK\r\n\r\n"
    receiver.answer = lambda request: Reply(request.line.encode() + b"\r\n" + request.body)
    id = rsmq.send_message("q", body)
    run(make_worker(receiver.url, max_retries=0))

    assert dead_letters(rsmq)[id].reason.status is None


def test_an_answer_that_breaks_off_in_its_status_line_is_an_attempt_that_failed(
    raw, ns, rsmq, receiver, make_worker
):
    """The connection was used before. The target has had the request, so it is not sent again."""
    receiver.answer = lambda request: (
        OK if request.body == b"first" else Reply(b"HTTP/1.1 20", close=True)
    )
    with make_worker(receiver.url, concurrency=1, max_retries=0):
        rsmq.send_message("q", "first")
        wait_until(lambda: receiver.answered)
        rsmq.send_message("q", "second")
        wait_until(lambda: raw.zcard(f"{ns}:q-dead"))
    assert [each.connection for each in receiver.requests] == [1, 1]


def test_a_worker_that_stops_waits_for_its_pushes(raw, ns, rsmq, receiver, make_worker):
    receiver.answer = lambda _: reply(200, delay=0.3)
    rsmq.send_message("q", "x")
    worker = make_worker(receiver.url, max_retries=0)
    with worker:
        wait_until(lambda: receiver.requests)
    assert receiver.answered
    assert raw.zcard(f"{ns}:q") == raw.zcard(f"{ns}:q-dead") == 0
    assert len(receiver.requests) == 1


def test_a_push_that_does_not_end_in_the_grace_period_costs_no_failure_and_is_repeated(
    raw, ns, rsmq, receiver, make_worker
):
    receiver.answer = lambda _: reply(200, delay=60)
    id = rsmq.send_message("q", "x")
    with make_worker(receiver.url, max_retries=1) as worker:
        wait_until(lambda: receiver.requests)
        worker.stop(0.1)
    assert stored_state(raw, ns)["failures"] == 0
    assert raw.zcard(f"{ns}:q") == 1
    receiver.answer = lambda _: OK
    run(make_worker(receiver.url))

    assert [each.headers["webhook-id"] for each in receiver.requests] == [id] * 2
    assert raw.zcard(f"{ns}:q") == 0


def test_a_failed_message_is_pushed_again_after_its_back_off(raw, ns, rsmq, receiver, make_worker):
    receiver.answer = lambda _: reply(500)
    id = rsmq.send_message("q", "x")
    with make_worker(receiver.url, backoff=3600):
        wait_until(lambda: raw.zscore(f"{ns}:q", id) > raw.time()[0] * 1000 + 1_800_000)
    assert raw.hget(f"{ns}:q:Q", f"{id}:rc") == b"1"
    assert stored_state(raw, ns)["failures"] == 1


async def post(receiver, seconds):
    rules = AddressRules(parse_ranges("127.0.0.0/8"))
    client = PushClient(
        parse_target(receiver.url, allow_http=True, rules=rules), rules, {}, timeout=seconds
    )
    try:
        return await client.post(b"x", {})
    finally:
        await client.close()


def post_now(receiver, seconds):
    return asyncio.run(post(receiver, seconds))


@pytest.mark.parametrize(
    "answer",
    [
        reply(200, delay=30),
        # Each byte comes in time; all of them together do not.
        reply(200, headers=["X: " + "x" * 500], drip=0.05),
    ],
)
def test_the_time_for_a_push_is_limited_in_all(receiver, answer):
    receiver.answer = lambda _: answer
    found = post_now(receiver, 0.4)

    assert (found.status, found.text) == (None, "no answer within 0.4 seconds")
    assert TIMEOUT_SECONDS == 10


def test_the_body_of_a_2xx_is_not_waited_for(receiver):
    receiver.answer = lambda _: reply(200, b"abc", length=1000)

    assert post_now(receiver, 3600).status == 200


def test_64_kib_of_an_answer_are_read(receiver):
    receiver.answer = lambda _: reply(500, b"x" * 70_000, length=10**9)
    found = post_now(receiver, 3600)

    assert (found.status, found.body) == (500, b"x" * 2048)


@pytest.mark.parametrize(
    ("status", "retry_after"), [(429, "3600"), (503, None)], ids=["seconds", "date"]
)
def test_retry_after_pauses_the_target_and_is_not_an_attempt(
    raw, ns, rsmq, receiver, make_worker, status, retry_after
):
    now = raw.time()[0]
    header = f"Retry-After: {retry_after or formatdate(now + 3600, usegmt=True)}"
    receiver.answer = lambda _: reply(status, headers=[header])
    id = rsmq.send_message("q", "x")
    with make_worker(receiver.url, max_retries=0, concurrency=1):
        wait_until(lambda: stored_state(raw, ns).get("state") == "paused")
        wait_until(lambda: raw.hget(f"{ns}:q:x:unbegun", id) == b"1")
        state = stored_state(raw, ns)
        assert now + 3590 < state["until_ms"] / 1000 < now + 3660
        assert state["answer"].startswith(str(status))
        assert raw.hget(f"{ns}:q:Q", "x:paused") is None
        receiver.answer = lambda _: OK
        resume(rsmq)
        wait_until(lambda: not raw.zcard(f"{ns}:q"))
    assert [each.headers["rsmq-receive-count"] for each in receiver.requests] == ["1", "2"]
    assert raw.zcard(f"{ns}:q-dead") == 0
    assert stored_state(raw, ns)["state"] == "closed"


def test_a_pause_is_at_most_24_hours_and_ends_by_itself(raw, ns, rsmq, receiver, make_worker):
    receiver.answer = lambda _: reply(429, headers=["Retry-After: 99999999"])
    rsmq.send_message("q", "x")
    now = raw.time()[0]
    with make_worker(receiver.url, max_retries=0, concurrency=1):
        wait_until(lambda: stored_state(raw, ns).get("state") == "paused")
        assert now + 86_390 < stored_state(raw, ns)["until_ms"] / 1000 < now + 86_460
        receiver.answer = lambda _: OK
        [field] = raw.hkeys(f"{ns}:x:push")
        raw.hset(
            f"{ns}:x:push", field, json.dumps(stored_state(raw, ns) | {"until_ms": now * 1000})
        )
        wait_until(lambda: not raw.zcard(f"{ns}:q"))
    assert stored_state(raw, ns)["state"] == "closed"


def test_410_ends_the_subscription_for_all_processes(raw, ns, rsmq, receiver, make_worker):
    receiver.answer = lambda _: reply(410)
    id = rsmq.send_message("q", "x")
    with make_worker(receiver.url, max_retries=0, concurrency=1):
        wait_until(lambda: raw.hget(f"{ns}:q:x:unbegun", id) == b"1")
        wait_until(lambda: stored_state(raw, ns).get("state") == "gone")
    second, handled = make_worker(receiver.url, max_retries=0), []
    second.listener("other", drop=True, create=True)(handled.append)
    with second:
        for number in range(20):  # it handles another queue, and receives nothing from this one
            rsmq.send_message("other", "x")
            wait_until(lambda n=number: len(handled) > n)
    assert len(receiver.requests) == 1
    assert raw.hget(f"{ns}:q:Q", f"{id}:rc") == b"1"
    assert raw.zcard(f"{ns}:q") == 1
    assert raw.zcard(f"{ns}:q-dead") == 0

    receiver.answer = lambda _: OK
    resume(rsmq)
    run(make_worker(receiver.url))

    assert raw.zcard(f"{ns}:q") == 0


def test_the_dead_letter_queue(raw, ns, rsmq, receiver, make_worker):
    receiver.answer = lambda _: reply(500)
    rsmq.create_queue("graves")
    rsmq.set_dead_letter_policy("q", "graves", 2)
    rsmq.send_message("q", "x")
    run(make_worker(receiver.url))

    assert raw.zcard(f"{ns}:graves") == 1
    assert len(receiver.requests) == 2
    assert not raw.exists(f"{ns}:q-dead:Q")
    with pytest.raises(InvalidFormat):
        Worker(rsmq).webhook("q", receiver.url, **LOCAL, dead_letter_queue="q")
