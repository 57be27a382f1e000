"""Sends with deliver_at: the score is that time, by the server's clock. Checked on raw keys."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from rsmq import InvalidCombination, InvalidFormat, InvalidValue
from tests.expect import refused

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LIMIT_MS = 9_999_999_000
LARGE = "x" * 9000

#: Each way to send; the second argument are the options. Returns the ids.
SENDS = {
    "one": lambda client, options: [client.send_message("q", "a", **options)],
    "one with a dedup_id": lambda client, options: [
        client.send_message("q", "a", dedup_id="d", **options)
    ],
    "many": lambda client, options: client.send_messages("q", ["a", "b", "c"], **options),
    "many in two steps": lambda client, options: client.send_messages("q", [LARGE] * 3, **options),
    "to several queues": lambda client, options: [client.publish(["q", "p"], "a", **options)["q"]],
}


@pytest.fixture(params=SENDS)
def send(request, env):
    env.rsmq.create_queue("q", delay=50)
    env.rsmq.create_queue("p")
    return lambda **options: SENDS[request.param](env.rsmq, options)


def at(ms):
    return EPOCH + timedelta(milliseconds=ms)


def sent_ms(id):
    return int(id[:10], 36) // 1000


def test_messages_are_delayed_until_that_time(env, send):
    due = env.now_ms() + 60_000
    before = env.now_ms()
    ids = send(deliver_at=at(due))

    assert env.scores("q") == dict.fromkeys(ids, due)
    assert list(env.scores("q")) == ids
    fields = env.fields("q")
    assert fields["totalsent"] == str(len(ids))
    names = {"vt", "delay", "maxsize", "created", "modified", "totalsent", *ids}
    assert fields.keys() - {"x:named"} == names  # that is of a dedup_id
    assert all(before <= sent_ms(id) <= env.now_ms() for id in ids)
    assert env.rsmq.receive_message("q") is None
    env.elapse("q", 61)
    assert [each.id for each in env.rsmq.receive_messages("q", 5)] == ids


def test_a_time_in_the_past_means_now(env, send):
    ids = send(deliver_at=at(env.now_ms() - 60_000))
    assert env.scores("q") == {id: sent_ms(id) for id in ids}

    later = send(deliver_at=datetime(1, 1, 1, tzinfo=UTC))
    if later != ids:  # otherwise the dedup_id was sent before
        assert [env.scores("q")[id] for id in later] == [sent_ms(id) for id in later]
    received = [each.id for each in env.rsmq.receive_messages("q", 9)]
    assert received == list(dict.fromkeys(ids + later))


def test_more_than_the_limit_ahead_is_refused_by_the_clock_of_the_server(env, send):
    state = env.state()
    with refused(InvalidValue, "seconds until deliver_at must be between 0 and 9999999") as caught:
        send(deliver_at=at(env.now_ms() + LIMIT_MS + 5_000))
    assert 9_999_999 < caught.error.value <= 10_000_005
    assert "Pass an earlier time" in str(caught.error)
    with refused(InvalidValue, "seconds until deliver_at must be between 0 and 9999999"):
        send(deliver_at=datetime.max.replace(tzinfo=UTC))
    assert env.state() == state

    due = env.now_ms() + LIMIT_MS
    ids = send(deliver_at=at(due))
    assert env.scores("q") == dict.fromkeys(ids, due)


@pytest.mark.refused
@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"deliver_at": datetime(2030, 1, 1)}, "datetime.now(UTC)"),  # noqa: DTZ001
        ({"deliver_at": 1_900_000_000}, "For seconds from now, use delay"),
        ({"deliver_at": "2030-01-01T00:00:00Z"}, "Pass an aware datetime"),
        ({"deliver_at": date(2030, 1, 1)}, "Pass an aware datetime"),
        ({"deliver_at": timedelta(seconds=5)}, "For seconds from now, use delay"),
        ({"deliver_at": at(0), "delay": 5}, "can't be combined with delay"),
        ({"deliver_at": at(0), "delay": 0}, "can't be combined with delay"),
    ],
)
def test_other_values_and_a_delay_are_refused(env, send, options, remedy):
    state = env.state()
    kind = InvalidCombination if "delay" in options else InvalidFormat
    with refused(kind, "Invalid deliver_at format") as caught:
        send(**options)

    assert remedy in str(caught.error)
    assert env.state() == state


def test_the_front_has_no_time(env, queue):
    state = env.state()
    for send in (env.rsmq.send_message, env.rsmq.send_messages):
        with refused(InvalidCombination, "Invalid deliver_at format") as caught:
            send(queue, ["m"], front=True, deliver_at=at(0))
        assert "It can't be combined with front" in str(caught.error)
    assert env.state() == state


def test_a_time_is_rounded_up_and_may_be_in_any_zone(env, queue):
    due = env.now_ms() + 60_000
    zone = timezone(timedelta(hours=-9, minutes=-30))
    ids = [
        env.rsmq.send_message(queue, "m", deliver_at=at(due).astimezone(zone)),
        env.rsmq.send_message(queue, "m", deliver_at=at(due) + timedelta(microseconds=1)),
        env.rsmq.send_message(queue, "m", deliver_at=at(due) - timedelta(microseconds=1)),
    ]

    assert [env.scores(queue)[id] for id in ids] == [due, due + 1, due]


def test_a_queue_with_unusual_attributes_accepts_a_time(env, queue):
    due = env.now_ms() + 60_000
    env.raw.hset(env.hash(queue), mapping={"delay": "soon", "maxsize": "2048.5"})
    id = env.rsmq.send_message(queue, "m", deliver_at=at(due))

    assert env.scores(queue) == {id: due}
