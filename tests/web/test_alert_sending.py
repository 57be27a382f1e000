"""Alerts go out: one message at the begin of each, one at its end, from one of any servers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging

import pytest
from redis.exceptions import RedisError

from rsmq.explain.alerts.alert import Alert, AlertKind
from rsmq.explain.alerts.record_operations import (
    end_silence_in_steps,
    remove_target_in_steps,
    silence_in_steps,
)
from rsmq.explain.alerts.record_operations import test_target_in_steps as ask_for_test
from rsmq.explain.alerts.sender import AlertSender
from rsmq.explain.alerts.transitions import MAX_OPEN
from rsmq.operations.plain import plain_command
from rsmq.webhooks.proxy import Reach
from tests.push.conftest import SECRET
from tests.push.receiver import Receiver, reply
from tests.web.alert_place import REACH, AlertPlace, answered, bodies_of, events_of

_BEGIN, _END = "alert.begin", "alert.end"


@pytest.fixture
def place(queues):
    return AlertPlace(queues)


@pytest.fixture
def make_receiver():
    made = []

    def make(*arguments):
        made.append(Receiver(*arguments))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def receiver(make_receiver):
    return make_receiver()


async def test_an_alert_is_announced_once_when_it_begins_and_once_when_it_ends(place, receiver):
    await place.add_target(receiver)
    await place.begin("orders")
    for _ in range(3):
        await place.step()
    assert events_of(receiver) == [(_BEGIN, "orders")]
    fields = await place.fields()
    assert set(fields) == {"step", "target:ops", "status:ops", "alert:paused:orders"}
    assert fields["alert:paused:orders"]["gone_ms"] is None
    await place.end("orders")
    for _ in range(12):
        await place.step()
    assert events_of(receiver) == [(_BEGIN, "orders"), (_END, "orders")]
    assert set(await place.fields()) == {"step", "target:ops", "status:ops"}
    await place.begin("orders")
    await place.step()
    assert events_of(receiver)[2:] == [(_BEGIN, "orders")]
    first, last, again = (each["data"] for each in bodies_of(receiver))
    assert first["dedup_key"] == last["dedup_key"] == again["dedup_key"]
    assert (first["kind"], first["level"], first["queue"]) == ("paused", "warn", "orders")
    assert first["ended_ms"] is None
    assert last["ended_ms"] > first["begun_ms"] - 10 * 60_000


async def test_an_alert_that_comes_back_within_two_minutes_goes_on(place, receiver):
    await place.add_target(receiver)
    await place.begin("orders")
    await place.step()
    for _ in range(6):
        await place.end("orders")
        await place.step(100)
        assert (await place.fields("alert:"))["alert:paused:orders"]["gone_ms"] is not None
        await place.begin("orders")
        await place.step(100)
        assert (await place.fields("alert:"))["alert:paused:orders"]["gone_ms"] is None
    assert events_of(receiver) == [(_BEGIN, "orders")]


async def test_two_servers_make_one_step_and_send_one_message(place, receiver):
    await place.add_target(receiver)
    await place.begin("orders")
    servers = [place.sender, *(AlertSender(place.queues, REACH) for _ in range(4))]
    await asyncio.gather(*(each.step() for each in servers))
    await asyncio.gather(*(each.step() for each in servers))
    assert events_of(receiver) == [(_BEGIN, "orders")]
    owner = (await place.fields("step"))["step"].partition(":")[2]
    assert owner in {each._owner for each in servers}


async def test_a_server_that_was_too_slow_announces_nothing(place, receiver, monkeypatch):
    await place.add_target(receiver)
    await place.begin("orders")
    read = place.sender._read_alerts

    async def overtaken():
        found = await read()
        await place.queues.run(plain_command("HSET", place.namespace.alerts, "step", "1:other"))
        return found

    monkeypatch.setattr(place.sender, "_read_alerts", overtaken)
    await place.sender.step()
    assert receiver.requests == []
    assert await place.fields("alert:") == await place.fields("message:") == {}


async def test_a_message_whose_server_died_while_it_was_sent_is_not_sent_again(place, receiver):
    await place.add_target(receiver)
    await place.begin("orders", "mails")
    hanging = asyncio.Event()
    post = "rsmq.webhooks.http_client.PushClient.post"

    async def never(*_):
        hanging.set()
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(post, never)
        task = asyncio.create_task(place.sender.step())
        await hanging.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    claimed = [each for each in (await place.fields("message:")).values() if each["claimed_ms"]]
    [dead] = {each["alert"]["subject"] for each in claimed}
    other = AlertSender(place.queues, REACH)
    await place.step(15, other)
    assert receiver.requests == []  # the other message waits: it may follow this one
    await place.step(60, other)
    await place.step(15, other)
    (other_queue,) = {"orders", "mails"} - {dead}
    # The target hears of the loss, too.
    assert events_of(receiver) == [(_BEGIN, other_queue), (_BEGIN, "ops")]
    assert "An alert did not reach" in bodies_of(receiver)[1]["data"]["text"]
    status = (await place.fields("status:"))["status:ops"]
    assert status["lost"] == 1
    assert await place.fields("message:") == {}


@pytest.mark.parametrize("answer", [reply(500), reply(302, headers=["Location: /x"])])
async def test_a_failed_message_is_sent_again_with_back_off_and_then_given_up(
    place, receiver, http, answer
):
    receiver.answer = lambda _: answer
    await place.add_target(receiver)
    await place.begin("orders")
    await place.step()
    await place.step(1)
    assert len(receiver.requests) == 1
    found = (await http("GET", "/alerts")).json["alerts"]
    assert {each["kind"] for each in found} == {"paused", "not-recorded"}
    for failures in range(2, 4):
        await place.step(60)
        assert (await place.fields("status:"))["status:ops"]["failures"] == failures
    found = {each["kind"]: each for each in (await http("GET", "/alerts")).json["alerts"]}
    unsent = found["alerts-not-sent"]
    assert unsent["subject"] == "ops"
    assert str(answer.raw[9:12].decode()) in unsent["evidence"]
    ids = [each.headers["webhook-id"] for each in receiver.requests]
    assert ids == [ids[0]] * 3
    await place.step(3_600)
    await place.step(600)
    receiver.answer = lambda _: reply(200)
    await place.step(600)
    later = receiver.requests[3:]
    assert ids[0] not in {each.headers["webhook-id"] for each in later}
    assert events_of(receiver)[-1] == (_BEGIN, "ops")
    status = (await place.fields("status:"))["status:ops"]
    assert (status["failures"], status["lost"]) == (0, 1)


async def test_an_error_of_redis_ends_the_step_and_not_the_server(place, receiver, caplog):
    await place.add_target(receiver)
    await place.begin("orders")
    for error in (RedisError("away"), ZeroDivisionError("s3cret")):

        async def fail(*_, error=error):
            raise error

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rsmq.explain.alerts.sender._Round._take", fail)
            await place.pass_time(15)
            with pytest.raises(type(error)):
                await place.sender.step()
            await place.pass_time(15)
            async with AlertSender(place.queues, REACH) as sender:
                while "alerts are not sent" not in caplog.text:
                    await asyncio.sleep(0.005)
                assert not sender._task.done()
            assert "s3cret" not in caplog.text
            caplog.clear()
    await place.step()
    assert events_of(receiver) == [(_BEGIN, "orders")]


async def test_a_target_that_hangs_delays_no_other_one(place, make_receiver):
    hanging, good = make_receiver(lambda _: reply(200, delay=1000)), make_receiver()
    await place.add_target(hanging, "hanging")
    await place.add_target(good, "good")
    await place.begin("orders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rsmq.webhooks.http_client.PushClient.__init__.__kwdefaults__", {
            "proxy": None, "timeout": 0.2,
        })  # fmt: skip
        await place.step()
    assert events_of(good) == [(_BEGIN, "orders")]
    statuses = await place.fields("status:")
    assert statuses["status:hanging"]["answer"] == "no answer within 0.2 seconds"
    assert statuses["status:good"]["answer"] == "204 No Content"


async def test_a_private_address_is_refused_unless_it_is_allowed(queues, receiver, caplog):
    place = AlertPlace(queues, Reach.parse((), True, None))
    await place.add_target(receiver.url + "s3cret")
    await place.add_target("http://localhost:1/s3cret", "named")
    await place.begin("orders")
    with caplog.at_level(logging.DEBUG):
        await place.step()
    assert receiver.requests == []
    statuses = await place.fields("status:")
    assert "loopback" in statuses["status:ops"]["answer"]
    assert "no address that may be connected to" in statuses["status:named"]["answer"]
    assert "s3cret" not in caplog.text + json.dumps(statuses)
    https_only = AlertPlace(queues, Reach.parse("127.0.0.0/8", False, None))
    await https_only.step(60)
    assert "https" in (await place.fields("status:"))["status:ops"]["answer"]
    assert receiver.requests == []


async def test_a_webhook_is_signed_and_is_not_sent_without_its_secret(place, receiver, monkeypatch):
    await place.add_target(receiver, secret_env="ALERTS_SECRET")
    await place.begin("orders")
    await place.step()
    assert receiver.requests == []
    assert "ALERTS_SECRET" in (await place.fields("status:"))["status:ops"]["answer"]
    monkeypatch.setenv("ALERTS_SECRET", SECRET)
    await place.step(60)
    [request] = receiver.requests
    headers = request.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{signature}"
    assert headers["content-type"] == "application/json"
    assert SECRET not in json.dumps(await place.fields())


async def test_no_other_variable_than_a_routing_key_is_sent(place, receiver, monkeypatch):
    monkeypatch.setenv("RSMQ_PASSWORD", "s3cret")
    monkeypatch.setenv("PAGERDUTY_KEY", "r0uting")
    await place.add_target(receiver, "ops", "pagerduty", "PAGERDUTY_KEY")
    target = {**(await place.fields())["target:ops"], "secret_env": "RSMQ_PASSWORD"}
    stored = "target:ops", json.dumps(target)
    await place.queues.run(plain_command("HSET", place.namespace.alerts, *stored))
    await place.begin("orders")
    await place.step()
    assert receiver.requests == []
    status = (await place.fields())["status:ops"]
    assert "PAGERDUTY_" in status["answer"]
    assert "s3cret" not in json.dumps(await place.fields())


async def test_slack_and_pagerduty_get_their_formats(place, make_receiver, monkeypatch):
    slack, pagerduty = make_receiver(), make_receiver()
    monkeypatch.setenv("PAGERDUTY_KEY", "r0uting")
    await place.add_target(slack, "team", "slack")
    await place.add_target(pagerduty, "oncall", "pagerduty", "PAGERDUTY_KEY")
    await place.begin("orders")
    await place.step()
    await place.end("orders")
    for _ in range(10):
        await place.step()
    begin, end = (each["text"] for each in bodies_of(slack))
    name = place.namespace.name
    assert begin.startswith(f"*Check* in {name}: orders is paused, with 1 message.\nWorkers of")
    assert end.startswith(f"*Ended* in {name} after ")
    assert end.endswith(": orders is paused, with 1 message.")
    trigger, resolve = bodies_of(pagerduty)
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    key = f"rsmq/{name}/paused:orders"
    assert trigger["dedup_key"] == resolve["dedup_key"] == key
    assert trigger["routing_key"] == resolve["routing_key"] == "r0uting"
    payload = trigger["payload"]
    assert payload["summary"] == "orders is paused, with 1 message."
    assert (payload["severity"], payload["class"]) == ("warning", "paused")
    assert (payload["component"], payload["source"]) == ("orders", f"rsmq {name}")
    assert "webhook-id" not in pagerduty.requests[0].headers
    assert "r0uting" not in json.dumps(await place.fields())


async def test_a_silenced_alert_is_announced_when_the_silence_ends(place, receiver):
    await place.add_target(receiver)
    words = ("ann", "new workers", 3600)
    await place.queues.run_steps(silence_in_steps(place.namespace, "paused", "orders", words))
    stored = (await place.fields("silence:"))["silence:paused:orders"]
    assert (stored["by"], stored["why"]) == ("ann", "new workers")
    assert stored["until_ms"] - stored["created_ms"] == 3_600_000
    await place.begin("orders", "mails")
    await place.step()
    assert events_of(receiver) == [(_BEGIN, "mails")]
    await place.step(3_601)
    assert events_of(receiver)[1:] == [(_BEGIN, "orders")]
    assert await place.fields("silence:") == {}


async def test_an_end_during_a_silence_of_all_is_announced_after_it(place, receiver):
    await place.add_target(receiver)
    await place.begin("orders", "mails")
    await place.step()
    words = ("ann", "a move", 86_400)
    await place.queues.run_steps(silence_in_steps(place.namespace, "all", "", words))
    await place.end("orders", "mails")
    await place.begin("late")
    for _ in range(12):
        await place.step()
    await place.begin("mails")
    assert len(receiver.requests) == 2
    await place.queues.run_steps(end_silence_in_steps(place.namespace, "all", ""))
    for _ in range(12):
        await place.step()
    assert events_of(receiver)[2:] == [(_BEGIN, "late"), (_END, "orders")]


async def test_a_thousand_alerts_at_once_are_a_bounded_number_of_messages(
    place, receiver, monkeypatch
):
    names = [f"q{at:03}" for at in range(1000)]
    present = names

    async def read():
        return [Alert(AlertKind.PAUSED, "warn", each, "t", "e", None, each) for each in present]

    monkeypatch.setattr(place.sender, "_read_alerts", read)
    await place.add_target(receiver)
    for _ in range(4):
        await place.step()
    assert len(receiver.requests) == MAX_OPEN + 1
    assert len(await place.fields("alert:")) == MAX_OPEN + 1
    *_, more = bodies_of(receiver)
    assert more["data"]["kind"] == "more"
    assert more["data"]["text"] == "980 more alerts at the same time."
    present = names[990:]
    for _ in range(24):
        await place.step()
    events = events_of(receiver)[MAX_OPEN + 1 :]
    assert events.count((_END, "")) == 1
    assert sorted(events)[:10] == [(_BEGIN, name) for name in present]
    assert len(set(events)) == len(events) == 10 + MAX_OPEN + 1


async def test_a_test_is_tried_once_and_a_removed_target_gets_nothing(place, receiver):
    await place.add_target(receiver)
    await place.queues.run_steps(ask_for_test(place.namespace, "ops"))
    await place.step()
    assert events_of(receiver) == [(_BEGIN, "ops"), (_END, "ops")]
    assert {each["data"]["kind"] for each in bodies_of(receiver)} == {"test"}
    receiver.answer = lambda _: reply(500)
    await place.queues.run_steps(ask_for_test(place.namespace, "ops"))
    for _ in range(3):
        await place.step(60)
    assert len(receiver.requests) == 4
    assert await place.fields("message:") == {}
    await place.begin("orders")
    await place.step(900)
    assert len(await place.fields("message:")) == 1
    assert await place.queues.run_steps(remove_target_in_steps(place.namespace, "ops"))
    assert set(await place.fields()) == {"step", "alert:paused:orders"}
    await place.step(900)
    assert set(await place.fields()) == {"step"}


async def test_a_new_target_hears_of_no_end_whose_begin_it_has_not_heard(place, make_receiver):
    early, late = make_receiver(), make_receiver()
    await place.add_target(early, "early")
    await place.begin("orders")
    await place.step()
    await place.pass_time(1)
    await place.add_target(late, "late")
    await place.end("orders")
    for _ in range(10):
        await place.step()
    assert len(early.requests) == 2
    assert late.requests == []


async def test_notes_are_not_announced_and_without_a_target_nothing_is_stored(place, receiver):
    await place.begin("orders")
    await place.sender.step()
    assert await place.fields() == {}
    await place.end("orders")
    await place.queues.send_messages("orders", ["m"] * 200)
    await place.queues.trash.purge_queue("orders")
    await place.add_target(receiver)
    await place.step()
    assert receiver.requests == []
    assert set(await place.fields()) == {"step", "target:ops"}


async def test_a_server_that_stops_lets_a_message_on_its_way_arrive(place, receiver):
    receiver.answer = lambda _: reply(200, delay=0.2)
    await place.add_target(receiver)
    await place.begin("orders")
    async with place.sender:
        await answered(receiver, 1)
    assert await place.fields("message:") == {}
    assert (await place.fields("status:"))["status:ops"]["answer"] == "200 OK"
