"""Subscribers: their record, the copies for them, and the pushes, while they come and go."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
import redis
from standardwebhooks import Webhook

from compat.peers import Node
from rsmq import RSMQ, AsyncRSMQ
from rsmq.errors import (
    InvalidFormat,
    InvalidValue,
    MissingParameter,
    QueueNotFound,
    SubscriberExists,
)
from rsmq.push import pusher
from rsmq.push.async_subscribers import AsyncSubscribers
from rsmq.push.operations import RECORD_CHANGED, SOURCE_PAUSED, fan_out, list_subscribers
from rsmq.push.pusher import SubscriberPusher
from rsmq.push.subscribers import Subscribers
from rsmq.webhooks.shared_breaker import list_targets
from rsmq.worker import Worker
from rsmq.worker.middlewares import RateLimit
from tests.contract.conftest import ADMIN
from tests.push.conftest import LOCAL, SECRET, wait_until
from tests.push.receiver import OK, reply

URL = "https://example.org/hooks?token=abc"


@pytest.fixture
def subscribers(rsmq):
    rsmq.create_queue("q")
    return Subscribers(rsmq)


@pytest.fixture
def make_pusher(rsmq, monkeypatch):
    monkeypatch.setattr(pusher, "REFRESH_SECONDS", 0.1)
    pushers = []

    def make(client=None, **options):
        pushers.append(SubscriberPusher(client or rsmq, **{**LOCAL, "grace": 0, **options}))
        pushers[-1].start()
        return pushers[-1]

    yield make
    for each in pushers:
        each.stop()


def copy(rsmq, *own_queues):
    """Make one step of a fan-out of queue q, with the stored version."""
    version = rsmq.run(list_subscribers(rsmq.namespace, b""))[""]
    return rsmq.run(fan_out(rsmq.namespace, "q", own_queues, version))


def bodies(receiver):
    return [each.body for each in list(receiver.requests)]


def test_a_subscriber_is_a_record_and_a_queue(raw, ns, rsmq, subscribers):
    added = subscribers.add("q", "crm", URL, secret_env="CRM_SECRET", max_retries=3)
    record = raw.hgetall(f"{ns}:x:subscribers")

    assert record.keys() == {b"", b"q/crm"}
    assert json.loads(record[b"q/crm"]) == {
        "created": added.created_ms, "url": URL, "secret_env": "CRM_SECRET", "max_retries": 3
    }  # fmt: skip
    assert raw.smembers(f"{ns}:QUEUES") == {b"q", b"q-crm"}
    assert raw.hmget(f"{ns}:q-crm:Q", "vt", "delay", "maxsize") == [b"30", b"0", b"-1"]
    assert raw.hget(f"{ns}:q-crm:Q", "created") == raw.hget(f"{ns}:q-crm:Q", "modified")
    assert (added.own_queue, added.shown_url) == ("q-crm", "https://example.org/hooks?***")
    assert "abc" not in repr(added)
    assert subscribers.list() == subscribers.list("q") == [added]
    assert subscribers.list("other") == []


def test_adding_it_again_changes_nothing_and_other_settings_need_replace(raw, ns, subscribers):
    added = subscribers.add("q", "crm", URL)
    before = raw.hgetall(f"{ns}:x:subscribers")

    assert subscribers.add("q", "crm", URL) == added
    with pytest.raises(SubscriberExists, match="replace=True"):
        subscribers.add("q", "crm", "https://example.org/other")
    assert raw.hgetall(f"{ns}:x:subscribers") == before

    replaced = subscribers.add("q", "crm", "https://example.org/other", replace=True)
    after = raw.hgetall(f"{ns}:x:subscribers")
    assert replaced.created_ms == added.created_ms
    assert subscribers.list() == [replaced]
    assert int(after[b""]) > int(before[b""])


async def test_asyncio_programs_add_list_and_remove_subscribers(server, raw, ns):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        await queues.create_queue("q")
        subscribers = AsyncSubscribers(queues)
        added = await subscribers.add("q", "crm", URL, max_retries=3)
        assert await subscribers.add("q", "crm", URL, max_retries=3) == added
        with pytest.raises(SubscriberExists, match="replace=True"):
            await subscribers.add("q", "crm", "https://example.org/other")
        with pytest.raises(QueueNotFound):
            await subscribers.add("missing", "crm", URL)
        assert await subscribers.list() == await subscribers.list("q") == [added]
        assert json.loads(raw.hget(f"{ns}:x:subscribers", "q/crm"))["url"] == URL
        assert await subscribers.remove("q", "crm", drop=True) is True
        assert await subscribers.remove("q", "crm") is False
        assert await subscribers.list() == []
        await queues.delete_queue("q")


def test_expired_messages_and_limits_are_not_copied(raw, ns, rsmq, subscribers):
    subscribers.add("q", "crm", URL)
    rsmq.set_queue_attributes("q", keep=60)
    old = "g0000000001234567890123456789ABC"
    raw.hset(f"{ns}:q:Q", old, "old")
    raw.zadd(f"{ns}:q", {old: 1})
    late = rsmq.send_message("q", "late", expires=60)
    raw.hset(f"{ns}:q:x:limits", late, ":1")
    new = rsmq.send_message("q", "new", max_retries=0)

    assert copy(rsmq, "q-crm") == 1
    assert raw.zrange(f"{ns}:q-crm", 0, -1) == [new.encode()]
    assert not raw.exists(f"{ns}:q", f"{ns}:q-crm:x:limits")


def test_a_queue_that_exists_or_belongs_to_a_subscriber_is_refused(raw, ns, rsmq, subscribers):
    rsmq.create_queue("q-taken")
    subscribers.add("q", "a", URL)
    before = raw.hgetall(f"{ns}:x:subscribers")

    with pytest.raises(SubscriberExists, match="q-taken"):
        subscribers.add("q", "taken", URL)
    with pytest.raises(InvalidFormat, match="has no subscribers itself"):
        subscribers.add("q-a", "b", URL)
    with pytest.raises(QueueNotFound):
        subscribers.add("missing", "a", URL)
    assert raw.hgetall(f"{ns}:x:subscribers") == before
    assert not raw.exists(f"{ns}:q-a-b:Q", f"{ns}:missing-a:Q")


@pytest.mark.parametrize(
    ("name", "url", "options", "error", "text"),
    [
        ("", URL, {}, MissingParameter, "name"),
        ("a b", URL, {}, InvalidFormat, "A-Z"),
        ("a/b", URL, {}, InvalidFormat, "A-Z"),
        ("dead", URL, {}, InvalidFormat, "dead letters"),
        ("crm-dead", URL, {}, InvalidFormat, "dead letters"),
        ("a" * 160, URL, {}, InvalidFormat, "1 to 160"),
        ("a", "example.org", {}, InvalidFormat, "URL with a host"),
        ("a", "https://user:pw@example.org/", {}, InvalidFormat, "user or a password"),
        ("a", URL, {"content_type": "x"}, InvalidFormat, "media type"),
        ("a", URL, {"concurrency": 0}, InvalidValue, "concurrency"),
        ("a", URL, {"max_retries": -1}, InvalidValue, "max_retries"),
        ("a", URL, {"secret_env": SECRET}, InvalidFormat, "not the secret"),
        ("a", URL, {"secret_env": "whsec_abcd"}, InvalidFormat, "not the secret"),
    ],
)
def test_wrong_arguments_change_nothing(raw, ns, subscribers, name, url, options, error, text):
    with pytest.raises(error, match=text) as raised:
        subscribers.add("q", name, url, **options)

    assert "whsec_" not in str(raised.value)
    assert not raw.exists(f"{ns}:x:subscribers")
    assert raw.smembers(f"{ns}:QUEUES") == {b"q"}


def test_there_are_100_subscribers_of_a_queue_at_most(raw, ns, subscribers):
    raw.hset(f"{ns}:x:subscribers", mapping={"": "1", **{f"q/s{n}": "{}" for n in range(100)}})

    with pytest.raises(InvalidValue, match="has 100 already"):
        subscribers.add("q", "one", URL)
    assert raw.hlen(f"{ns}:x:subscribers") == 101


def test_messages_are_copied_with_ids_bodies_and_scores_in_one_step(raw, ns, rsmq, subscribers):
    subscribers.add("q", "a", URL)
    subscribers.add("q", "b", URL)
    ids = rsmq.send_messages("q", ["1", "2", "3"])
    rsmq.receive_message("q", vt=0)  # it gets counters, which are not copied
    first = rsmq.send_message("q", "0", front=True)
    rsmq.send_message("q", "later", delay=1000)
    held = rsmq.send_message("q", "held", front=True)
    rsmq.receive_message("q", vt=1000)
    scores = raw.zrange(f"{ns}:q", 0, -1, withscores=True)[:4]

    assert copy(rsmq, "q-a", "q-b") == 4
    for name in ("q-a", "q-b"):
        assert raw.zrange(f"{ns}:{name}", 0, -1, withscores=True) == scores
        assert rsmq.peek_messages(name)[0].body == "0"
        assert {each.id for each in rsmq.peek_messages(name)} == {first, *ids}
        assert raw.hget(f"{ns}:{name}:Q", "totalsent") == b"4"
        assert not [each for each in raw.hkeys(f"{ns}:{name}:Q") if each.endswith((b":rc", b":fr"))]
    left = [each.decode() for each in raw.zrange(f"{ns}:q", 0, -1)]
    assert held in left
    assert len(left) == 2
    assert sorted(field for field in raw.hkeys(f"{ns}:q:Q") if len(field) >= 32) == sorted(
        [left[0].encode(), left[1].encode(), f"{held}:rc".encode(), f"{held}:fr".encode()]
    )
    assert raw.hget(f"{ns}:q:Q", "totalrecv") == b"6"
    assert copy(rsmq, "q-a", "q-b") == 0


def test_many_copies_and_large_bodies_take_several_steps_in_order(rsmq, subscribers):
    subscribers.add("q", "a", URL)
    subscribers.add("q", "b", URL)
    rsmq.set_queue_attributes("q", maxsize=-1)
    ids = rsmq.send_messages("q", [str(number) for number in range(2500)])
    large = [rsmq.send_message("q", "x" * 9_000_000) for _ in range(2)]
    steps = []
    while number := copy(rsmq, "q-a", "q-b"):
        steps.append(number)

    assert steps == [500] * 5 + [1, 1]
    found = [each.id for each in rsmq.peek_messages("q-b", count=2500)]
    assert found == ids
    assert rsmq.get_message("q-a", large[1]).raw == b"x" * 9_000_000


def test_a_message_that_is_there_already_keeps_its_lease(raw, ns, rsmq, subscribers):
    subscribers.add("q", "a", URL)
    rsmq.send_message("q", "m")
    copy(rsmq, "q-a")
    message = rsmq.receive_message("q-a", vt=1000)
    [score] = [score for _, score in raw.zrange(f"{ns}:q-a", 0, -1, withscores=True)]
    raw.hset(f"{ns}:q:Q", message.id, "m")
    raw.zadd(f"{ns}:q", {message.id: 1})

    assert copy(rsmq, "q-a") == 1
    assert raw.zrange(f"{ns}:q-a", 0, -1, withscores=True) == [(message.id.encode(), score)]
    assert rsmq.delete_message(message)


def test_a_pusher_that_knows_old_subscribers_copies_nothing(raw, ns, rsmq, subscribers):
    subscribers.add("q", "a", URL)
    version = rsmq.run(list_subscribers(rsmq.namespace, b""))[""]
    rsmq.send_message("q", "m")
    subscribers.add("q", "b", URL)

    assert rsmq.run(fan_out(rsmq.namespace, "q", ["q-a"], version)) == RECORD_CHANGED
    assert rsmq.run(list_subscribers(rsmq.namespace, version)) is not None
    subscribers.remove("q", "a")
    subscribers.remove("q", "b")
    assert not raw.exists(f"{ns}:x:subscribers")
    subscribers.add("q", "a", URL)
    assert rsmq.run(fan_out(rsmq.namespace, "q", ["q-a"], version)) == RECORD_CHANGED
    assert raw.zcard(f"{ns}:q") == 1
    assert not raw.exists(f"{ns}:q-a")


def test_a_paused_or_missing_source_keeps_its_messages(raw, ns, rsmq, subscribers):
    subscribers.add("q", "a", URL)
    rsmq.send_message("q", "m")
    rsmq.pause_queue("q")

    assert copy(rsmq, "q-a") == SOURCE_PAUSED
    assert raw.zcard(f"{ns}:q") == 1
    rsmq.delete_queue("q")
    with pytest.raises(QueueNotFound):
        copy(rsmq, "q-a")


def test_the_queue_of_a_subscriber_that_is_missing_is_created_again(raw, ns, rsmq, subscribers):
    subscribers.add("q", "a", URL)
    rsmq.delete_queue("q-a")
    rsmq.send_message("q", "m")

    assert copy(rsmq, "q-a") == 1
    assert rsmq.get_queue_attributes("q-a").maxsize == -1
    assert raw.sismember(f"{ns}:QUEUES", "q-a")
    assert rsmq.pop_message("q-a").body == "m"


def test_a_removed_subscriber_leaves_nothing(raw, ns, rsmq, subscribers):
    subscribers.add("q", "a", URL)
    rsmq.send_message("q-a", "m", dedup_id="1")

    assert subscribers.remove("q", "a", drop=True)
    assert not subscribers.remove("q", "a")
    assert sorted(raw.keys(f"{ns}:*")) == [f"{ns}:QUEUES".encode(), f"{ns}:q:Q".encode()]
    assert raw.smembers(f"{ns}:QUEUES") == {b"q"}


def test_a_subscriber_whose_messages_wait_is_removed_later(raw, ns, rsmq, subscribers):
    added = subscribers.add("q", "a", URL)
    subscribers.add("q", "b", URL)
    rsmq.send_message("q-a", "m")

    assert subscribers.remove("q", "a")
    [a, b] = subscribers.list()
    assert a.removed_ms >= a.created_ms == added.created_ms
    assert b.removed_ms is None
    record = raw.hgetall(f"{ns}:x:subscribers")
    assert subscribers.remove("q", "a")
    assert raw.hgetall(f"{ns}:x:subscribers") == record
    with pytest.raises(SubscriberExists, match="being removed"):
        subscribers.add("q", "a", URL)
    subscribers.add("q", "a", URL, replace=True)
    assert [each.removed_ms for each in subscribers.list()] == [None, None]


def test_why_a_process_does_not_push_is_stored_until_one_pushes(
    raw, ns, rsmq, subscribers, make_receiver, make_pusher, monkeypatch
):
    def refusals():
        return [target.refusal for _, target in list_targets(rsmq)]

    monkeypatch.delenv("A_SECRET", raising=False)
    added = subscribers.add("q", "a", make_receiver().url, secret_env="A_SECRET")
    make_pusher()
    wait_until(lambda: any(refusals()))
    [stored] = map(json.loads, raw.hgetall(f"{ns}:x:push").values())
    assert (stored["queue"], stored["url"], stored["state"]) == ("q-a", added.shown_url, "closed")
    assert "A_SECRET" in stored["refusal"]
    monkeypatch.setenv("A_SECRET", SECRET)
    wait_until(lambda: refusals() == [None])


def test_why_a_process_does_not_push_is_stored_again_after_another_process_has_removed_it(
    raw, ns, rsmq, subscribers, monkeypatch
):
    monkeypatch.delenv("A_SECRET", raising=False)
    subscriber = subscribers.add("q", "a", URL, secret_env="A_SECRET")
    without_secret = SubscriberPusher(rsmq, **LOCAL)
    without_secret._begin(subscriber)
    raw.delete(f"{ns}:x:push")
    pushing = Worker(rsmq)
    pushing.listener(subscriber.own_queue)(print)
    pushing.start()
    without_secret._begin(subscriber)
    assert not raw.exists(f"{ns}:x:push")
    pushing.stop()
    without_secret._begin(subscriber)
    [(_, target)] = list_targets(rsmq)
    assert "A_SECRET" in target.refusal


def test_each_message_is_pushed_to_each_subscriber(
    raw, ns, rsmq, subscribers, make_receiver, make_pusher, monkeypatch
):
    receivers = {name: make_receiver() for name in ("a", "b", "c")}
    monkeypatch.setenv("B_SECRET", SECRET)
    subscribers.add("q", "a", receivers["a"].url)
    subscribers.add("q", "b", receivers["b"].url, secret_env="B_SECRET", content_type="text/plain")
    make_pusher()
    make_pusher()  # as in another process
    ids = rsmq.send_messages("q", ["1", "2", "3"])
    for name in ("a", "b"):
        wait_until(lambda: len(receivers[name].requests) >= 3)  # noqa: B023 - called at once
        assert {each.headers["webhook-id"] for each in receivers[name].requests} == set(ids)
        wait_until(lambda: not raw.zcard(f"{ns}:q-{name}"))  # noqa: B023
    request = receivers["b"].requests[0]
    Webhook(SECRET).verify(json.dumps(json.loads(request.body)), request.headers)
    assert request.headers["content-type"] == "text/plain"
    assert request.headers["rsmq-queue"] == "q-b"
    assert not raw.zcard(f"{ns}:q")

    subscribers.add("q", "c", receivers["c"].url)
    rsmq.send_message("q", "4")
    for name in ("a", "b", "c"):
        wait_until(lambda: b"4" in bodies(receivers[name]))  # noqa: B023
    assert bodies(receivers["c"]) == [b"4"]


def test_a_hanging_subscriber_delays_no_other(
    raw, ns, rsmq, subscribers, make_receiver, make_pusher
):
    hanging = make_receiver(lambda _: reply(200, delay=1000))
    receiver = make_receiver()
    subscribers.add("q", "hanging", hanging.url, concurrency=2)
    subscribers.add("q", "other", receiver.url)
    make_pusher()
    wait_until(lambda: raw.hlen(f"{ns}:x:workers") == 2)
    rsmq.send_messages("q", ["m"] * 50)
    wait_until(lambda: len(hanging.requests) == 2)
    rsmq.send_messages("q", ["m"] * 50)
    wait_until(lambda: not raw.zcard(f"{ns}:q") and not raw.zcard(f"{ns}:q-other"))

    assert len({each.headers["webhook-id"] for each in receiver.requests}) == 100
    assert raw.zcard(f"{ns}:q-hanging") == 100


def test_each_subscriber_has_its_own_attempts_breaker_and_dead_letters(
    raw, ns, rsmq, subscribers, make_receiver, make_pusher
):
    refusing = make_receiver(lambda _: reply(500))
    gone = make_receiver(lambda _: reply(410))
    receiver = make_receiver()
    subscribers.add("q", "refusing", refusing.url, max_retries=0)
    subscribers.add("q", "gone", gone.url)
    subscribers.add("q", "other", receiver.url)
    make_pusher()
    id = rsmq.send_message("q", "m")
    wait_until(lambda: raw.zcard(f"{ns}:q-refusing-dead"))
    states = {"q-gone": "gone", "q-refusing": "closed"}

    def found():
        stored = [json.loads(each) for each in raw.hvals(f"{ns}:x:push")]
        return states.items() <= {each["queue"]: each["state"] for each in stored}.items()

    wait_until(found)
    wait_until(lambda: bodies(receiver) == [b"m"])
    assert [each.id for each in rsmq.peek_messages("q-refusing-dead")] == [id]
    assert raw.zcard(f"{ns}:q-gone") == 1
    assert not raw.exists(f"{ns}:q-other-dead", f"{ns}:q-gone-dead")


def test_a_subscriber_that_has_ended_its_subscription_is_pushed_to_when_it_is_added_again(
    raw, ns, rsmq, subscribers, make_receiver, make_pusher
):
    receiver = make_receiver(lambda _: reply(410) if len(receiver.requests) == 1 else OK)
    subscribers.add("q", "a", receiver.url)
    with SubscriberPusher(rsmq, **LOCAL):
        rsmq.send_message("q", "1")
        wait_until(lambda: b"gone" in b"".join(raw.hvals(f"{ns}:x:push")))
    subscribers.remove("q", "a", drop=True)
    subscribers.add("q", "a", receiver.url)
    make_pusher()
    rsmq.send_message("q", "2")
    wait_until(lambda: bodies(receiver) == [b"1", b"2"])


def test_subscribers_are_removed_while_messages_are_pushed(
    raw, ns, rsmq, subscribers, make_receiver, make_pusher
):
    is_open = threading.Event()
    slow = make_receiver(
        lambda _: OK if is_open.is_set() else reply(503, headers=["Retry-After: 1"])
    )
    receiver = make_receiver()
    subscribers.add("q", "slow", slow.url)
    subscribers.add("q", "dropped", slow.url)
    subscribers.add("q", "other", receiver.url)
    make_pusher()
    rsmq.send_messages("q", ["1", "2"])
    wait_until(lambda: not raw.zcard(f"{ns}:q") and len(receiver.requests) == 2)

    assert subscribers.remove("q", "slow")
    assert subscribers.remove("q", "dropped", drop=True)
    rsmq.send_message("q", "3")
    wait_until(lambda: len(receiver.requests) == 3)
    assert raw.zcard(f"{ns}:q-slow") == 2  # it waits for the target, and gets no third one
    assert not raw.exists(f"{ns}:q-dropped:Q")
    is_open.set()
    wait_until(lambda: not raw.exists(f"{ns}:q-slow:Q"))
    assert [each.name for each in subscribers.list()] == ["other"]
    assert b"3" not in bodies(slow)
    assert {b"1", b"2"} <= set(bodies(slow))


def test_other_settings_are_used_while_messages_are_pushed(
    rsmq, subscribers, make_receiver, make_pusher
):
    first, second = make_receiver(), make_receiver()
    subscribers.add("q", "a", first.url)
    make_pusher()
    rsmq.send_message("q", "1")
    wait_until(lambda: first.requests)
    subscribers.add("q", "a", second.url, replace=True)

    def reaches_second():
        rsmq.send_message("q", "m")
        return second.requests

    wait_until(reaches_second)


def test_pusher_of_a_queue_without_subscribers_says_so_once(
    rsmq, subscribers, make_receiver, make_pusher, caplog
):
    text = "typo has no subscribers: its messages wait there"
    make_pusher(queues="typo")
    wait_until(lambda: text in caplog.text)
    receiver = make_receiver()
    rsmq.create_queue("typo")
    subscribers.add("typo", "a", receiver.url)
    rsmq.send_message("typo", "m")
    wait_until(lambda: receiver.requests)

    assert caplog.text.count(text) == 1


def test_nothing_is_pushed_unsigned_if_the_secret_is_missing(
    raw, ns, rsmq, subscribers, make_receiver, make_pusher, monkeypatch, caplog
):
    receiver, other = make_receiver(), make_receiver()
    monkeypatch.delenv("NO_SECRET", raising=False)
    monkeypatch.setenv("BAD_SECRET", "my-s3cret!")
    subscribers.add("q", "unsigned", receiver.url, secret_env="NO_SECRET")
    subscribers.add("q", "bad", receiver.url, secret_env="BAD_SECRET")
    subscribers.add("q", "other", other.url + "?token=t0ken")
    make_pusher()
    rsmq.send_message("q", "m")
    wait_until(lambda: other.requests)
    wait_until(lambda: "'NO_SECRET'" in caplog.text and "subscriber bad" in caplog.text)

    assert not receiver.requests
    assert raw.zcard(f"{ns}:q-unsigned") == raw.zcard(f"{ns}:q-bad") == 1
    assert "s3cret" not in caplog.text
    assert "t0ken" not in caplog.text


def test_an_address_that_the_pusher_does_not_allow_is_not_connected_to(
    raw, ns, rsmq, subscribers, receiver, make_pusher, caplog
):
    subscribers.add("q", "a", receiver.url)
    make_pusher(allow=(), allow_http=True)
    rsmq.send_message("q", "m")
    wait_until(lambda: "is not public" in caplog.text)

    assert not receiver.requests
    wait_until(lambda: raw.zcard(f"{ns}:q-a"))


def test_a_subscriber_that_cannot_be_read_gets_its_messages_later(
    raw, ns, rsmq, subscribers, receiver, make_pusher
):
    subscribers.add("q", "odd", URL)
    subscribers.add("q", "a", receiver.url)
    raw.hset(f"{ns}:x:subscribers", mapping={"": "9" * 15, "q/odd": "of a newer version"})
    make_pusher()
    rsmq.send_message("q", "m")
    wait_until(lambda: bodies(receiver) == [b"m"])

    assert raw.zcard(f"{ns}:q-odd") == 1
    assert [each.name for each in subscribers.list()] == ["a"]


def test_a_pusher_continues_after_errors(
    raw, ns, rsmq, subscribers, receiver, make_pusher, monkeypatch, caplog
):
    """Those of Redis and the watcher when it copies, and those of the start of a worker."""
    errors = [RuntimeError("the watcher"), redis.ConnectionError("away")]
    monkeypatch.setattr(pusher, "_RETRY_SECONDS", 0.01)
    for kind, name in ((pusher.FanOut, "copy_due"), (Worker, "start")):
        left, call = list(errors), getattr(kind, name)

        def fail_twice(*args, left=left, call=call):
            if left:
                raise left.pop()
            return call(*args)

        monkeypatch.setattr(kind, name, fail_twice)
    subscribers.add("q", "a", receiver.url)
    make_pusher()
    rsmq.send_message("q", "m")
    wait_until(lambda: bodies(receiver) == [b"m"])

    assert "nothing is copied to subscribers: the watcher" in caplog.text
    assert "nothing is pushed to subscriber a of q: away" in caplog.text


def test_a_pusher_of_some_queues_leaves_the_others(
    raw, ns, rsmq, subscribers, make_receiver, make_pusher
):
    rsmq.create_queue("other")
    receiver, left = make_receiver(), make_receiver()
    subscribers.add("q", "a", receiver.url)
    subscribers.add("other", "a", left.url)
    make_pusher(queues="q")
    rsmq.send_message("other", "m")
    rsmq.send_message("q", "m")
    wait_until(lambda: receiver.requests)

    assert raw.zcard(f"{ns}:other") == 1
    assert not left.requests


def test_a_pusher_refuses_middleware_of_one_worker(rsmq):
    with pytest.raises(InvalidFormat, match="each subscriber has a worker of its own"):
        SubscriberPusher(rsmq, middleware=[RateLimit(1, 1)])


def test_a_pusher_starts_and_stops_with_a_worker(rsmq, subscribers, receiver, monkeypatch):
    monkeypatch.setattr(pusher, "REFRESH_SECONDS", 0.1)
    rsmq.create_queue("jobs")
    subscribers.add("q", "a", receiver.url)
    made = SubscriberPusher(rsmq, **LOCAL)
    worker = Worker(rsmq, middleware=[made])
    worker.listener("jobs", drop=True)(lambda body: rsmq.send_message("q", body))
    with worker:
        rsmq.send_message("jobs", "m")
        wait_until(lambda: bodies(receiver) == [b"m"])
        with pytest.raises(InvalidFormat, match="runs already"):
            made.start()
    with made:  # it can be started again
        pass
    made.stop()


@pytest.mark.foreign
def test_messages_of_node_reach_all_subscribers_or_the_node_consumer_that_was_faster(
    server, raw, ns, rsmq, subscribers, make_receiver, make_pusher
):
    receivers = {"a": make_receiver(), "b": make_receiver()}
    for name, receiver in receivers.items():
        subscribers.add("q", name, receiver.url)
    node = Node(server, ns)
    try:
        sent, received = set(), set()
        for number in range(60):
            sent.add(node.send_message("q", str(number)))
            if number == 20:
                make_pusher()
            if number % 3 == 0 and (message := node.receive_message("q", vt=1000)):
                assert node.delete_message("q", message["id"])
                received.add(message["id"])
        for name, receiver in receivers.items():
            wait_until(lambda: receiver.answered == sent - received)  # noqa: B023 - called at once
            wait_until(lambda: not raw.zcard(f"{ns}:q-{name}"))  # noqa: B023
    finally:
        node.close()

    assert received
    assert not raw.zcard(f"{ns}:q")
    assert not [field for field in raw.hkeys(f"{ns}:q:Q") if len(field) >= 32]


def test_the_rights_of_workers_are_sufficient(server, raw, ns, rsmq, receiver, monkeypatch, caplog):
    monkeypatch.setattr(pusher, "REFRESH_SECONDS", 0.1)
    rsmq.create_queue("q")
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    (row,) = re.findall(r"^\| workers, .*?\| (.*) \|$", text, re.MULTILINE)
    rules = re.findall(r"\+[\w\\|]+", row.replace("\\|", "|"))
    raw.execute_command(
        "ACL", "SETUSER", ns, "on", ">secret", f"~{ns}:*", "-@all", *ADMIN.split(),
        "+client|tracking", *rules,
    )  # fmt: skip
    url = f"redis://{ns}:secret@127.0.0.1:{server.port}/0"
    with RSMQ.from_url(url, ns=ns) as client:
        subscribers = Subscribers(client)
        subscribers.add("q", "a", receiver.url)
        with SubscriberPusher(client, **LOCAL):
            client.send_message("q", "m")
            wait_until(lambda: bodies(receiver) == [b"m"])
            client.send_message("q-a", "n")
            subscribers.remove("q", "a")
            wait_until(lambda: not raw.exists(f"{ns}:x:subscribers"))
    raw.execute_command("ACL", "DELUSER", ns)

    assert "NOPERM" not in caplog.text
    assert "can't run" not in caplog.text


def test_copies_have_the_groups_of_their_messages(raw, ns, rsmq, subscribers):
    for name in ("crm", "audit"):
        subscribers.add("q", name, URL)
    ids = rsmq.send_messages("q", list("wxyz"), groups=["a", "a", None, "b"])
    records = raw.hgetall(f"{ns}:q:x:group_of")

    assert [copy(rsmq, "q-crm", "q-audit") for _ in range(3)] == [3, 1, 0]
    assert raw.keys(f"{ns}:q:x:group_of") == raw.keys(f"{ns}:q:x:admitted") == []
    for queue in ("q-crm", "q-audit"):
        copied = raw.hgetall(f"{ns}:{queue}:x:group_of")
        assert copied.keys() == records.keys()
        for id, record in copied.items():  # a message was due in q when the one before had left it
            due, group = record.split(b":")
            first_due, first_group = records[id].split(b":")
            assert group == first_group
            assert due >= first_due
        assert raw.zrange(f"{ns}:{queue}:x:held_back", 0, -1) == [f"a\0{ids[1]}".encode()]
        assert [each.id for each in rsmq.receive_messages(queue, 9)] == [ids[0], *ids[2:]]
        assert rsmq.delete_message(queue, ids[0])
        assert rsmq.receive_message(queue).id == ids[1]
