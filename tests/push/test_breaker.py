"""The circuit breaker of a target, shared by workers: raw state, attempts, the trial."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from rsmq import RSMQ
from rsmq.webhooks.addresses import AddressRules
from rsmq.webhooks.operations import change_push_target
from rsmq.webhooks.shared_breaker import SharedBreaker, list_targets, remove_target, resume_target
from rsmq.webhooks.targets import parse_target
from rsmq.worker.state import lane
from tests.push.conftest import LOCAL, wait_until
from tests.push.receiver import OK, reply
from tests.push.test_answers import stored_state
from tests.scale import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
HOUR_MS = 3_600_000
TARGET = parse_target("https://example.org/", allow_http=False, rules=AddressRules())


def change_state(raw, ns, **fields):
    """Change fields of the only stored state, as another process would."""
    [field] = raw.hkeys(f"{ns}:x:push")
    raw.hset(f"{ns}:x:push", field, json.dumps(stored_state(raw, ns) | fields))


def server_ms(raw):
    seconds, microseconds = raw.time()
    return seconds * 1000 + microseconds // 1000


def attempts_begun(raw, ns, id):
    """Return how many attempts of a message are stored: its receives that began a push."""
    receives = int(raw.hget(f"{ns}:q:Q", f"{id}:rc") or 0)
    return receives - int(raw.hget(f"{ns}:q:x:unbegun", id) or 0)


def handle_other_messages(rsmq, worker, count=20):
    """Return a function that sends messages of another queue, and waits until it has them all."""
    handled = []
    worker.listener("other", drop=True, create=True)(handled.append)

    def exchange():
        for _ in range(count):
            seen = len(handled)
            rsmq.send_message("other", "x")
            wait_until(lambda: len(handled) > seen)  # noqa: B023 - called in the same turn

    return exchange


def test_it_opens_after_ten_failures_and_costs_no_further_attempt(
    raw, ns, rsmq, receiver, make_worker
):
    receiver.answer = lambda _: reply(500, b"oh")
    ids = rsmq.send_messages("q", [str(number) for number in range(100)])
    with make_worker(receiver.url, concurrency=1, backoff=3600):
        state = wait_until(lambda: (s := stored_state(raw, ns)).get("state") == "open" and s)
        change_state(raw, ns, until_ms=server_ms(raw) + HOUR_MS)
        wait_until(lambda: raw.hlen(f"{ns}:x:workers") and not in_flight(raw, ns))
    requests = len(receiver.requests)

    assert (state["queue"], state["url"], state["answer"]) == (
        "q", receiver.url, "500 Internal Server Error",
    )  # fmt: skip
    assert (state["failures"], state["openings"], state["owner"]) == (0, 1, "")
    assert requests in (10, 11)  # the trial may have begun
    assert sum(attempts_begun(raw, ns, id) for id in ids) == requests
    assert raw.zcard(f"{ns}:q") == 100
    assert raw.hget(f"{ns}:q:Q", "x:paused") is None


def in_flight(raw, ns):
    """Return how many messages the workers have in flight."""
    return sum(raw.hlen(key) - 1 for key in raw.keys(f"{ns}:x:held:*"))


def test_nothing_is_received_while_it_is_open(raw, ns, rsmq, receiver, make_worker):
    worker = make_worker(receiver.url)
    exchange = handle_other_messages(rsmq, worker)
    with worker:
        wait_until(lambda: stored_state(raw, ns).get("state") == "closed")
        change_state(raw, ns, state="open", openings=1, until_ms=server_ms(raw) + HOUR_MS)
        # The worker reads the state once a second at least, and then handles this.
        rsmq.send_message("other", "x")
        wait_until(lambda: "open" in states_of(worker))
        id = rsmq.send_message("q", "x")
        exchange()
        assert raw.hget(f"{ns}:q:Q", f"{id}:rc") is None
        assert receiver.requests == []
        [(field, _)] = list_targets(rsmq)
        assert resume_target(rsmq, field)
        wait_until(lambda: not raw.zcard(f"{ns}:q"))
    assert len(receiver.requests) == 1


def states_of(worker):
    return [each.breaker.state for each in worker._webhooks]


def test_one_process_tries_one_message_after_each_pause(server, ns, raw, rsmq, receiver):
    receiver.answer = lambda _: reply(500)
    rsmq.create_queue("q")
    rsmq.send_messages("q", [str(number) for number in range(50)])
    command = [sys.executable, str(Path(__file__).with_name("pusher.py"))]
    processes = [
        subprocess.Popen([*command, server.url, ns, receiver.url], env={"PYTHONPATH": str(ROOT)})
        for _ in range(2)
    ]
    try:
        # The pushes that began before it opened have ended.
        wait_until(lambda: stored_state(raw, ns).get("openings", 0) >= 1)
        wait_until(lambda: stored_state(raw, ns)["openings"] >= 2)
        before = len(receiver.requests)
        change_state(raw, ns, until_ms=server_ms(raw))
        wait_until(lambda: stored_state(raw, ns)["openings"] >= 3)
        assert len(receiver.requests) == before + 1
        receiver.answer = lambda _: OK
        change_state(raw, ns, until_ms=server_ms(raw))
        wait_until(lambda: not raw.zcard(f"{ns}:q"))
    finally:
        for process in processes:
            process.terminate()
        codes = [process.wait(WAIT_SECONDS) for process in processes]
    assert codes == [0, 0]
    assert raw.zcard(f"{ns}:q-dead") == 0
    assert stored_state(raw, ns)["state"] == "closed"


def test_a_trial_is_one_message(raw, ns, rsmq):
    shared = SharedBreaker("q", TARGET)
    shared.sync(rsmq)
    change_state(raw, ns, state="open", openings=1, until_ms=server_ms(raw) - 1)
    assert shared.allowance() is None
    shared.sync(rsmq)
    assert (stored_state(raw, ns)["state"], shared.allowance()) == ("trial", 1)
    permit = shared.permit()
    assert (shared.permit(), shared.allowance()) == (None, 0)
    shared.withdraw(permit)
    assert shared.allowance() == 1
    shared.report_success(shared.permit())
    assert shared.allowance() is None


def test_a_trial_whose_process_died_is_claimed_again(raw, ns, rsmq, receiver, make_worker):
    with make_worker(receiver.url):
        wait_until(lambda: stored_state(raw, ns).get("state") == "closed")
        change_state(raw, ns, state="trial", openings=3, owner="dead", until_ms=server_ms(raw) - 1)
        wait_until(lambda: stored_state(raw, ns)["owner"] not in ("", "dead"))
        rsmq.send_message("q", "x")
        wait_until(lambda: not raw.zcard(f"{ns}:q"))
        wait_until(lambda: stored_state(raw, ns)["state"] == "closed")


def test_failures_of_several_processes_are_in_a_row(server, ns, raw, rsmq, receiver, make_worker):
    receiver.answer = lambda _: reply(500)
    rsmq.send_messages("q", ["1", "2"])
    with (
        RSMQ.from_url(server.url, ns=ns) as client,
        make_worker(receiver.url, backoff=3600, concurrency=1),
        make_worker(receiver.url, backoff=3600, concurrency=1, client=client),
    ):
        for number in range(10):
            rsmq.send_message("q", str(number))
            wait_until(
                lambda n=number: (
                    (s := stored_state(raw, ns)).get("openings") or s.get("failures", 0) > n
                )
            )
        assert wait_until(lambda: stored_state(raw, ns)["openings"]) == 1
    assert len(receiver.requests) >= 10


def test_a_success_interrupts_the_row(raw, ns, rsmq, receiver, make_worker):
    receiver.answer = lambda request: OK if request.body == b"good" else reply(500)
    with make_worker(receiver.url, concurrency=1, backoff=3600):
        for _ in range(3):
            rsmq.send_messages("q", ["bad"] * 6)
            wait_until(lambda: stored_state(raw, ns).get("failures") == 6)
            rsmq.send_message("q", "good")
            wait_until(lambda: stored_state(raw, ns)["failures"] == 0)
    assert stored_state(raw, ns)["openings"] == 0


def test_a_release_of_a_message_in_quarantine_withdraws_its_run(
    raw, ns, rsmq, receiver, make_worker
):
    receiver.answer = lambda _: reply(429, headers=["Retry-After: 3600"])
    id = rsmq.send_message("q", "x")
    raw.hset(f"{ns}:q:Q", f"{id}:rc", 8)
    with make_worker(receiver.url, max_retries=0):
        wait_until(lambda: stored_state(raw, ns).get("state") == "paused")
        wait_until(lambda: raw.hget(f"{ns}:q:x:unbegun", id) == b"1")
    assert len(receiver.requests) == 1
    assert raw.hget(f"{ns}:q:Q", f"{id}:rc") == b"9"
    assert raw.hget(f"{ns}:q:x:alone", id) is None


def test_a_success_is_kept_until_redis_has_it(raw, ns, rsmq, monkeypatch):
    """The write of a success fails; then the failures of other processes are still interrupted."""
    shared = SharedBreaker("q", TARGET)
    shared.sync(rsmq)
    [field] = raw.hkeys(f"{ns}:x:push")
    raw.hset(f"{ns}:x:push", field, json.dumps(stored_state(raw, ns) | {"failures": 9}))
    shared.report_success(shared.permit())
    with monkeypatch.context() as patch:
        patch.setattr(rsmq, "run", raise_connection_error)
        with pytest.raises(redis.ConnectionError):
            shared.sync(rsmq)
    shared.sync(rsmq)

    assert stored_state(raw, ns)["failures"] == 0


def raise_connection_error(_operation):
    raise redis.ConnectionError("the server is away")


def test_a_state_is_replaced_only_if_it_is_the_expected_one(raw, ns, rsmq):
    key = f"{ns}:x:push"
    for expected, state, stored in (
        (b"ours", b"new", b""),
        (b"", b"new", b"new"),
        (b"ours", b"newer", b"new"),
        (b"", b"", b"new"),
        (b"ours", b"", b"new"),
        (b"new", b"newer", b"newer"),
        (b"newer", b"", b""),
    ):
        operation = change_push_target(rsmq.namespace, "f", expected, state)
        assert rsmq.run(operation)[1] == stored
        assert (raw.hget(key, "f") or b"") == stored


def test_each_queue_has_a_state_of_its_own(raw, ns, rsmq, receiver, make_worker):
    worker = make_worker(receiver.url)
    rsmq.create_queue("r")
    worker.webhook("r", receiver.url, **LOCAL)
    with worker:
        wait_until(lambda: raw.hlen(f"{ns}:x:push") == 2)
    assert [target.queue for _, target in list_targets(rsmq)] == ["q", "r"]


def test_a_target_is_removed(raw, ns, rsmq, receiver, make_worker):
    with make_worker(receiver.url):
        wait_until(lambda: raw.hlen(f"{ns}:x:push") == 1)
    [(field, _)] = list_targets(rsmq)

    assert not resume_target(rsmq, field)
    assert remove_target(rsmq, field)
    assert not remove_target(rsmq, field)
    assert not resume_target(rsmq, field)
    assert not raw.exists(f"{ns}:x:push")


def test_messages_are_pushed_though_the_state_cannot_be_shared(
    raw, ns, rsmq, receiver, make_worker, caplog
):
    raw.set(f"{ns}:x:push", "another type")
    rsmq.send_message("q", "x")
    make_worker(receiver.url).run(until_empty=True, timeout=WAIT_SECONDS)

    assert len(receiver.requests) == 1
    assert "the state of its target is not shared" in caplog.text


def test_an_invalid_state_is_replaced(raw, ns, rsmq, receiver, make_worker):
    with make_worker(receiver.url):
        wait_until(lambda: raw.hlen(f"{ns}:x:push") == 1)
        [field] = raw.hkeys(f"{ns}:x:push")
        raw.hset(f"{ns}:x:push", field, "not JSON")
        wait_until(lambda: raw.hget(f"{ns}:x:push", field) != b"not JSON")
    assert stored_state(raw, ns)["state"] == "closed"


def test_messages_that_wait_for_a_slot_are_released_when_it_opens(
    raw, ns, rsmq, receiver, make_worker, monkeypatch
):
    """One push hangs, the others wait for its slot; another process has opened the breaker."""
    monkeypatch.setattr(lane, "PREFETCH_SECONDS", 60)  # also if pushes take long
    receiver.answer = lambda _: reply(200, delay=0.01)
    rsmq.send_messages("q", ["fast"] * 300)
    with make_worker(receiver.url, concurrency=1):
        wait_until(lambda: raw.zcard(f"{ns}:q") < 250)  # so many are prefetched now
        receiver.answer = lambda _: reply(200, delay=5)
        wait_until(lambda: stored_state(raw, ns).get("state") == "closed")
        change_state(raw, ns, state="open", openings=1, until_ms=server_ms(raw) + HOUR_MS)
        wait_until(lambda: in_flight(raw, ns) == 1)
        [held] = raw.keys(f"{ns}:x:held:*")
        hanging = receiver.requests[-1].headers["webhook-id"].encode()
        assert any(hanging in field for field in raw.hkeys(held))  # its push has not ended
        assert raw.hlen(f"{ns}:q:x:unbegun") > 1
        receiver.stop()  # the push ends


@pytest.mark.parametrize("until_empty", [True, False])
def test_a_worker_starts_again_with_its_webhook(rsmq, receiver, make_worker, until_empty):
    worker = make_worker(receiver.url)
    for number in (1, 2):
        rsmq.send_message("q", str(number))
        if until_empty:
            worker.run(until_empty=True, timeout=WAIT_SECONDS)
        else:
            with worker:
                wait_until(lambda n=number: len(receiver.answered) == n)
    assert [each.body for each in receiver.requests] == [b"1", b"2"]
