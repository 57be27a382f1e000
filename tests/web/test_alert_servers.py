"""Alerts of real servers: two of them, and servers that are killed while they send."""

import json
import signal

import pytest

from rsmq.explain.alerts.record_operations import set_target_in_steps
from tests.push.conftest import wait_until
from tests.push.receiver import OK, Receiver, reply
from tests.web.alert_place import events_of
from tests.web.test_command import start  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

_OPTIONS = ("--no-auth", "--no-record", "--push-allow", "127.0.0.0/8", "--push-allow-http")


def _fields(raw, ns, part):
    found = raw.hgetall(f"{ns}:x:alerts").items()
    return {name.decode(): json.loads(value) for name, value in found if name.startswith(part)}


def test_a_server_that_is_killed_while_it_sends_lets_no_other_repeat_it(
    start,  # noqa: F811
    raw,
    rsmq,
    ns,
):
    receiver = Receiver(lambda _: reply(200, delay=1000))
    rsmq.create_queue("orders")
    rsmq.send_message("orders", "m")
    rsmq.pause_queue("orders")
    rsmq.run_steps(set_target_in_steps(rsmq.namespace, "ops", receiver.url, "webhook", None))
    servers = [start(*_OPTIONS), start(*_OPTIONS)]
    wait_until(lambda: receiver.requests)
    [claimed] = _fields(raw, ns, b"message:").values()
    assert claimed["claimed_ms"] > 0
    for each in servers:
        each.stop(signal.SIGKILL)
    receiver.answer = lambda _: OK
    # A minute has passed since the claim, and the step is due.
    [field] = _fields(raw, ns, b"message:")
    claimed["claimed_ms"] -= 60_000
    raw.hset(f"{ns}:x:alerts", mapping={field: json.dumps(claimed), "step": "1:killed"})
    start(*_OPTIONS)
    status = wait_until(lambda: _fields(raw, ns, b"status:").get("status:ops"))
    assert status["lost"] == 1
    assert _fields(raw, ns, b"message:") == {}
    assert events_of(receiver) == [("alert.begin", "orders")]
    assert "alert:paused:orders" in _fields(raw, ns, b"alert:")
    receiver.close()
