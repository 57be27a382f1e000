"""The decisions of a watcher, with a clock of the test."""

from __future__ import annotations

import math

import pytest
from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from rsmq.transport.topology.address import Address
from rsmq.waiting.schedule import MISS_PAUSE_SECONDS, SAFETY_SECONDS, Waiter
from rsmq.waiting.tracking import (
    GROUP_CHECK_SECONDS,
    RECONNECT_AFTER_ERROR_SECONDS,
    RECONNECT_SECONDS,
    REPLY_TIMEOUT_SECONDS,
)
from rsmq.waiting.watcher_state import IDLE_SECONDS, TOPOLOGY_CHECK_SECONDS, Action, WatcherState
from rsmq.wire.keys import Namespace

QUEUE = b"rsmq:q"


class Server:
    """A connection to a server, which also says who has the keys."""

    host = "h"
    port = 1

    def __init__(self, address=None):
        self.address = address

    def address_of(self, key):
        assert key == b"rsmq:QUEUES"
        return self.address


ALONE = Server()


def watcher(*, waiters=1, server=ALONE):
    state = WatcherState(Namespace("rsmq"), 0, address_of=server.address_of)
    for _ in range(waiters):
        state.schedule.add(Waiter((QUEUE,), lambda: None), 0)
    return state


def connected(server=ALONE):
    state = watcher(server=server)
    assert state.next_step(0).action is Action.CONNECT
    state.note_connected(0, server)
    return state


def answer(state, now, *, due_in_ms=None):
    """Answer a request that asked for the time, for one queue and for one name."""
    state.tracking.handle([b"0", b"0"], now)
    state.tracking.handle([] if due_in_ms is None else [[b"id", due_in_ms]], now)
    state.tracking.handle(1, now)


def test_watcher_connects_once_and_polls_meanwhile():
    state = watcher()

    assert state.next_step(0).action is Action.CONNECT
    step = state.next_step(0)
    assert step.action is Action.SLEEP
    assert 0 < step.seconds < 1
    assert state.next_request(0) == b""


def test_open_connection_reads_the_queue_then_sleeps_until_the_message_is_due():
    state = connected()

    step = state.next_step(0)
    assert step.action is Action.SEND
    assert b"ZRANGEBYSCORE" in step.request
    answer(state, 0, due_in_ms=4000)
    step = state.next_step(0)
    assert (step.action, step.seconds) == (Action.SLEEP, pytest.approx(4))


def test_changed_queue_is_read_after_a_pause_if_another_process_received_the_last_messages():
    state = connected()
    state.next_step(0)
    answer(state, 0)
    state.schedule._states[QUEUE].misses = 2
    state.tracking.handle([b"invalidate", [QUEUE]], 1)

    step = state.next_step(1)
    assert step.action is Action.SLEEP
    assert 0 < step.seconds <= MISS_PAUSE_SECONDS[2]
    step = state.next_step(1 + step.seconds)
    assert step.action is Action.SEND
    assert b"ZRANGEBYSCORE" in step.request


def test_overdue_reply_disconnects_and_the_watcher_connects_again():
    state = connected()
    assert state.next_step(0).action is Action.SEND

    step = state.next_step(0)
    assert (step.action, step.seconds) == (Action.SLEEP, REPLY_TIMEOUT_SECONDS)
    assert state.next_step(REPLY_TIMEOUT_SECONDS).action is Action.DISCONNECT
    state.note_disconnected(REPLY_TIMEOUT_SECONDS)
    assert not state.schedule.is_tracking
    assert state.next_step(REPLY_TIMEOUT_SECONDS).action is Action.CONNECT


def test_connection_that_breaks_at_once_is_opened_again_after_a_pause():
    state = connected()
    state.note_disconnected(0)

    assert state.next_step(0).action is Action.SLEEP
    assert state.next_step(RECONNECT_SECONDS).action is Action.CONNECT


@pytest.mark.parametrize(
    ("error", "pause"),
    [
        (RedisConnectionError("refused"), RECONNECT_SECONDS),
        (OSError("no route"), RECONNECT_SECONDS),
        (ResponseError("LOADING"), RECONNECT_SECONDS),
        (ResponseError("ERR other"), RECONNECT_AFTER_ERROR_SECONDS),
        (ValueError("a bug"), RECONNECT_AFTER_ERROR_SECONDS),
        (ResponseError("NOPERM not permitted"), math.inf),
        (ResponseError("unknown subcommand 'TRACKING'"), math.inf),
    ],
)
def test_error_decides_when_the_next_attempt_to_connect_follows(error, pause):
    state = watcher()
    assert state.next_step(0).action is Action.CONNECT
    state.note_connect_failed(error, 0)

    assert not state.schedule.is_connecting
    before, after = min(pause - 0.01, 1000), min(pause, 1001)
    assert state.next_step(before).action is Action.SLEEP
    expected = Action.SLEEP if math.isinf(pause) else Action.CONNECT
    assert state.next_step(after).action is expected


def test_attempt_that_was_given_up_is_made_again_at_once():
    state = watcher()
    assert state.next_step(0).action is Action.CONNECT
    state.note_disconnected(1)

    assert state.next_step(1).action is Action.CONNECT


def test_silent_connection_is_checked():
    state = connected()
    assert state.next_step(0).action is Action.SEND
    answer(state, 0)

    assert state.next_step(0).action is Action.SLEEP
    assert state.next_request(SAFETY_SECONDS - 0.1) == b""
    assert b"TIME" in state.next_request(SAFETY_SECONDS)


def test_silent_server_of_a_group_is_noticed_within_eight_seconds():
    state = connected(Server(Address("h", 1)))
    assert state.next_step(0).action is Action.SEND
    answer(state, 0)

    assert state.next_request(GROUP_CHECK_SECONDS - 0.1) == b""
    assert b"TIME" in state.next_request(GROUP_CHECK_SECONDS)
    step = state.next_step(GROUP_CHECK_SECONDS + REPLY_TIMEOUT_SECONDS)
    assert step.action is Action.DISCONNECT
    assert GROUP_CHECK_SECONDS + REPLY_TIMEOUT_SECONDS <= 8


def test_watcher_leaves_a_server_when_a_call_learns_that_another_one_has_the_keys():
    server = Server(Address("h", 1))
    state = connected(server)
    assert state.next_step(0).action is Action.SEND
    answer(state, 0)
    assert 0 < state.next_step(0).seconds <= TOPOLOGY_CHECK_SECONDS

    server.address = None  # unknown for now
    assert state.next_step(1).action is Action.SLEEP
    server.address = Address("h", 2)
    step = state.next_step(1)

    assert (step.action, step.error) == (Action.DISCONNECT, None)
    state.note_disconnected(1)
    assert state.next_step(1).action is Action.CONNECT
    server.port = 2
    state.note_connected(1, server)
    assert state.next_step(1).action is Action.SEND


def test_watcher_without_waiters_stays_where_it_is():
    server = Server(Address("h", 1))
    state = connected(server)
    assert state.next_step(0).action is Action.SEND
    answer(state, 0)
    state.schedule.wake_all()
    server.address = Address("h", 2)

    assert state.next_step(1).action is Action.SLEEP


def test_watcher_ends_when_no_receive_has_waited_for_a_time():
    state = watcher(waiters=0)

    state.note_disconnected(0)
    assert state.next_step(IDLE_SECONDS - 0.1).action is not Action.END
    assert state.next_step(IDLE_SECONDS).action is Action.END
    state.begin(IDLE_SECONDS)
    assert state.next_step(IDLE_SECONDS).action is not Action.END


@pytest.mark.parametrize(
    "error",
    [
        ReadOnlyError("127.0.0.1:7000 is a replica, not the primary."),
        ClusterDownError("No node serves the slot of the key."),
        MasterDownError("Link with MASTER is down"),
        TryAgainError("Multiple keys request during rehashing of slot"),
    ],
)
def test_watcher_reconnects_soon_to_servers_that_are_being_replaced(error):
    state = watcher()
    assert state.next_step(0).action is Action.CONNECT
    state.note_connect_failed(error, 0)

    assert state.next_step(RECONNECT_SECONDS).action is Action.CONNECT
