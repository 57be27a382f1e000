"""A webhook that is made over HTTP: rsmq web pushes its messages, with faults and restarts."""

import json
import random
import signal
import urllib.request
from collections import Counter

import pytest

from tests.push.conftest import wait_until
from tests.push.receiver import OK, Receiver, Reply, reply
from tests.scale import scaled
from tests.web.test_command import start  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

_PUSH = ("--no-auth", "--push", "--push-allow", "127.0.0.0/8", "--push-allow-http")
_MOVED = reply(302, headers=["Location: http://127.0.0.1:1/"])
#: The answers to the attempts of a message, by its body; the last one is repeated.
_ANSWERS = {
    "good": [OK],
    "slow": [reply(204, delay=0.3)],
    "killed": [Reply(b"", close=True), OK],
    "error": [reply(500), OK],
    "closing": [reply(500, b"abc", length=100, close=True), OK],
    "moved": [_MOVED],
    "broken": [reply(500, b"no such customer")],
}


def _call(method, url, content):
    request = urllib.request.Request(
        url, json.dumps(content).encode(), {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_each_message_is_answered_or_dead_with_its_reason(start, rsmq, ns):  # noqa: F811
    attempts = Counter()

    def answer(request):
        id = request.headers["webhook-id"]
        attempts[id] += 1
        answers = _ANSWERS[request.body.decode()]
        return answers[min(attempts[id], len(answers)) - 1]

    receiver = Receiver(answer)
    web = start(*_PUSH)
    _call("PUT", f"{web.url}/queues/q", {})
    _call(
        "PUT", f"{web.url}/queues/q/subscribers/a",
        {"url": receiver.url, "max_retries": 2, "concurrency": 4},
    )  # fmt: skip
    # A killed process releases nothing.
    rsmq.set_queue_attributes("q-a", vt=2)
    kinds = {}
    chosen = random.Random(1).choices(list(_ANSWERS), k=scaled(14, 200))
    for part in (chosen[::2], chosen[1::2]):
        for kind in part:
            sent = _call("POST", f"{web.url}/queues/q/messages", {"body": kind})
            kinds[sent["id"]] = kind
        wait_until(lambda: receiver.answered)
        receiver.stop()
        web.stop(signal.SIGKILL)
        web = start(*_PUSH)
        receiver.start()

    def dead():
        return {each.id: each for each in rsmq.peek_messages("q-a-dead", count=1000)}

    def has_ended():
        if "q-a-dead" in rsmq.list_queues():
            return receiver.answered | set(dead()) >= set(kinds)
        return receiver.answered >= set(kinds)

    wait_until(has_ended)
    died = dead()
    # After a kill, the last attempt may be one without an answer.
    statuses = {"moved": {302, None}, "broken": {500, None}}
    for id, message in died.items():
        assert message.reason is not None, kinds[id]
        assert message.reason.status in statuses.get(kinds[id], {500, None}), kinds[id]
    # A redirect is not followed, and 500 is not success.
    assert {id for id, kind in kinds.items() if kind in statuses} <= set(died)
    receiver.close()
