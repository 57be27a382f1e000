"""The dialogue on a tracking connection, without a connection."""

from __future__ import annotations

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from rsmq.waiting.schedule import PATIENCE_SECONDS, Schedule, Waiter
from rsmq.waiting.tracking import Tracking, changes_of
from rsmq.wire.keys import Namespace

QUEUE = b"rsmq:q"


@pytest.fixture
def schedule():
    schedule = Schedule()
    schedule.start_tracking(0)
    schedule.add(Waiter((QUEUE,), lambda: None), 0)
    return schedule


@pytest.fixture
def tracking(schedule):
    tracking = Tracking(schedule, Namespace("rsmq"))
    assert tracking.next_request(0).count(b"ZRANGEBYSCORE") == 1
    return tracking


@pytest.mark.parametrize("time", [[b"1", b"0"], ResponseError("ERR time")])
def test_a_failed_read_wakes_a_waiter_later(tracking, schedule, time):
    tracking.handle(time, 0)
    tracking.handle(ResponseError("WRONGTYPE") if isinstance(time, list) else [], 0)

    assert schedule.wake_due(0) == PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("error", "is_asked_again"),
    [(NoPermissionError("no right"), False), (ResponseError("LOADING"), True)],
)
def test_names_are_not_looked_up_without_the_right(tracking, schedule, error, is_asked_again):
    for answer in ([b"1", b"0"], [], error):
        tracking.handle(answer, 0)
    schedule.note_index_change()

    assert (tracking.next_request_at(1) <= 1) is is_asked_again
    assert (b"SISMEMBER" in tracking.next_request(1)) is is_asked_again


def test_an_unexpected_reply_is_ignored(tracking):
    for answer in ([b"1", b"0"], [], 1, b"PONG", None):
        tracking.handle(answer, 0)


@pytest.mark.parametrize(
    ("answer", "changes"),
    [
        ([b"invalidate", [b"a", b"b"]], [b"a", b"b"]),
        ([b"invalidate", None], []),
        ([b"message", b"x"], None),
        (b"PONG", None),
        ([], None),
    ],
)
def test_reports_of_changes_are_recognized(answer, changes):
    assert changes_of(answer) == changes
