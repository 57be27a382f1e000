"""Receives and pops with ``wait``, on every kind of server."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import hiredis
import pytest

from rsmq import RSMQ, InvalidValue, QueueNotFound
from rsmq.waiting.schedule import Schedule
from tests.expect import refused

#: The longest time between an event and the end of the wait. Generous, because machines are busy;
#: but less than SAFETY_SECONDS (15), after which a waiter receives without any event.
WITHIN_SECONDS = 12.0

CALLS = {
    "receive_message": lambda rsmq, q, wait: rsmq.receive_message(q, wait=wait),
    "pop_message": lambda rsmq, q, wait: rsmq.pop_message(q, wait=wait),
    "receive_messages": lambda rsmq, q, wait: (rsmq.receive_messages(q, 5, wait=wait) or [None])[0],
    "pop_messages": lambda rsmq, q, wait: (rsmq.pop_messages([q], 5, wait=wait) or [None])[0],
}


@contextmanager
def run_during(action, seconds=0.05):
    """Call the function from another thread after a moment, while the block waits."""
    timer = threading.Timer(seconds, action)
    timer.start()
    yield
    timer.join()


@pytest.fixture
def other(env):
    """The client of another program."""
    return RSMQ(env.raw, ns=env.ns)


@pytest.mark.parametrize("call", CALLS)
def test_a_message_that_is_sent_ends_the_wait(env, queue, other, call):
    began = time.monotonic()
    with run_during(lambda: other.send_message(queue, "m")):
        message = CALLS[call](env.rsmq, queue, 20)

    assert message.body == "m"
    assert message.receive_count == 1
    # At the end of its 20 seconds the call would find the message too.
    assert time.monotonic() - began < WITHIN_SECONDS
    assert (message.id in env.scores(queue)) is call.startswith("receive")


def test_a_wait_sleeps_without_notifications(env, queue, monkeypatch):
    turns = []
    wake_due = Schedule.wake_due

    def count(schedule, now):
        turns.append(now)
        return wake_due(schedule, now)

    monkeypatch.setattr(Schedule, "wake_due", count)
    assert env.rsmq.receive_message(queue, wait=0.5) is None
    assert len(turns) < 40  # a loop that does not sleep makes thousands


@pytest.mark.parametrize("call", CALLS)
def test_a_wait_ends_at_its_deadline(env, queue, call):
    began = time.monotonic()

    assert CALLS[call](env.rsmq, queue, 0.1) is None
    # The time is what the test is about. A wait cannot end too early on a busy machine.
    assert 0.09 <= time.monotonic() - began < WITHIN_SECONDS
    assert "totalrecv" not in env.fields(queue)


@pytest.mark.parametrize("call", CALLS)
def test_a_message_that_is_visible_is_not_waited_for(env, queue, call, monkeypatch):
    waiters = []
    monkeypatch.setattr(Schedule, "add", lambda _, waiter, now: waiters.append(waiter))
    env.rsmq.send_message(queue, "m")

    assert CALLS[call](env.rsmq, queue, None).body == "m"
    assert waiters == []


@pytest.mark.parametrize("call", CALLS)
def test_a_delayed_message_is_delivered_when_it_becomes_visible(env, queue, call):
    began = time.monotonic()
    env.rsmq.send_message(queue, "m", delay=0.15)

    assert CALLS[call](env.rsmq, queue, 20).body == "m"
    # The time is what the test is about: not before the delay ends, and not by the receive that
    # a waiter makes without any event.
    assert 0.14 < time.monotonic() - began < WITHIN_SECONDS


def test_a_hidden_message_is_delivered_when_its_timeout_ends(env, queue):
    env.rsmq.send_message(queue, "m")
    env.rsmq.receive_message(queue, vt=0.15)

    assert env.rsmq.receive_message(queue, wait=None).receive_count == 2


def test_a_message_that_another_client_releases_ends_the_wait(env, queue, other):
    env.rsmq.send_message(queue, "m")
    in_flight = env.rsmq.receive_message(queue)
    with run_during(lambda: other.release_messages([in_flight])):
        assert env.rsmq.receive_message(queue, wait=20).receive_count == 2


def test_any_of_several_queues_ends_the_wait(env, queue, other):
    for name in ("a", "b", "c"):
        env.rsmq.create_queue(name)
    with run_during(lambda: other.send_messages("b", ["1", "2"])):
        messages = env.rsmq.receive_messages(["a", "b", "c"], 5, wait=20)
    assert [(m.queue, m.body) for m in messages] == [("b", "1"), ("b", "2")]
    with run_during(lambda: other.send_message("a", "3")):
        assert [m.body for m in env.rsmq.pop_messages(["c", "a"], 5, wait=20)] == ["3"]


@pytest.mark.parametrize("call", CALLS)
def test_a_queue_deleted_during_the_wait_is_not_found(env, queue, other, call):
    began = time.monotonic()
    with (
        run_during(lambda: other.delete_queue(queue)),
        refused(QueueNotFound, "Queue not found") as caught,
    ):
        CALLS[call](env.rsmq, queue, 20)

    assert caught.error.value == queue
    # At the end of its 20 seconds the call would notice it too.
    assert time.monotonic() - began < WITHIN_SECONDS


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_queue_is_not_waited_for(env, call):
    with refused(QueueNotFound, "Queue not found"):
        CALLS[call](env.rsmq, "q", 20)


@pytest.mark.refused
@pytest.mark.parametrize("value", [-1, 10_000_000, "5", True, float("nan"), []])
@pytest.mark.parametrize("call", CALLS)
def test_a_wait_out_of_range_is_refused(env, queue, call, value):
    env.rsmq.send_message(queue, "m")
    before = env.state()

    with refused(InvalidValue, "wait must be between 0 and 9999999"):
        CALLS[call](env.rsmq, queue, value)
    assert env.state() == before


def test_a_change_is_reported_before_the_reply_to_a_later_read(env):
    """So a change that is reported while a read is awaited is included in its reply."""
    if env.backend == "memory":
        return  # it reports no changes
    key = env.zset("changed")
    writer = env.server.raw()
    is_over = threading.Event()

    def change():
        for number in range(1, 2001):
            writer.zadd(key, {"member": number})
        is_over.set()

    read = b"*5\r\n$6\r\nZRANGE\r\n$%d\r\n%s\r\n$1\r\n0\r\n$1\r\n0\r\n$10\r\nWITHSCORES\r\n"
    read %= len(key), key.encode()
    thread = threading.Thread(target=change)
    last, reported_after, reports = -1.0, -2.0, 0
    with socket.create_connection(("127.0.0.1", env.server.port)) as connection:
        connection.settimeout(10)
        connection.sendall(b"HELLO 3\r\nCLIENT TRACKING ON NOLOOP\r\n" + read * 3)
        reader = hiredis.Reader()
        thread.start()
        while not is_over.is_set():
            reader.feed(connection.recv(65536))
            while (answer := reader.gets()) is not False:
                if isinstance(answer, hiredis.PushNotification):
                    reports += 1
                    reported_after = last
                elif isinstance(answer, list):
                    score = float(answer[0][1]) if answer else 0.0
                    assert score > reported_after
                    last = score
                    connection.sendall(read)
    thread.join()
    assert reports > 10
