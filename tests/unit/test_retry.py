"""Which failures are retried, and which errors are raised."""

from __future__ import annotations

import math
import time

import pytest
import redis.exceptions as redis_errors

from rsmq import InvalidValue, QueueNotFound
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import load
from rsmq.transport.failure_texts import remove_script_location
from rsmq.transport.retry import (
    Attempt,
    FailedAttempts,
    Failure,
    check_deadline,
    classify,
    code_of,
    convert_error,
    is_limited_to_keys,
    pause_before_next,
    plan_retries,
)
from tests.expect import refused

NOTHING_RAN, AMBIGUOUS, FINAL = Failure.NOTHING_RAN, Failure.AMBIGUOUS, Failure.FINAL


def read_only_error_of_sentinel():
    return redis_errors.ConnectionError("The previous master is now a slave")


def error_during_handling_of_read_only():
    """Return an error whose context, which the caller was handling, must not matter."""
    error = redis_errors.ConnectionError("lost")
    error.__context__ = redis_errors.ReadOnlyError("You can't write against a read only replica.")
    return error


@pytest.mark.parametrize(
    ("error", "unsent", "sent"),
    [
        (redis_errors.ConnectionError("refused"), NOTHING_RAN, AMBIGUOUS),
        (redis_errors.TimeoutError("slow"), NOTHING_RAN, AMBIGUOUS),
        (redis_errors.MaxConnectionsError("Too many connections"), NOTHING_RAN, AMBIGUOUS),
        (OSError("reset"), NOTHING_RAN, AMBIGUOUS),
        (redis_errors.BusyLoadingError("loading"), NOTHING_RAN, NOTHING_RAN),
        (redis_errors.ReadOnlyError("replica"), NOTHING_RAN, NOTHING_RAN),
        (redis_errors.TryAgainError("slot"), NOTHING_RAN, NOTHING_RAN),
        (redis_errors.MasterDownError("down"), NOTHING_RAN, NOTHING_RAN),
        (redis_errors.ClusterDownError("down"), NOTHING_RAN, NOTHING_RAN),
        (redis_errors.ResponseError("BUSY Redis is busy"), NOTHING_RAN, NOTHING_RAN),
        (
            redis_errors.ResponseError(
                "Error running script (call to f_ab12): @user_script:9: @user_script: 9: "
                "-READONLY You can't write against a read only replica."
            ),
            NOTHING_RAN,
            NOTHING_RAN,
        ),
        (
            redis_errors.ResponseError(
                "Script attempted to access a non local key in a cluster node script: ab12, on "
                "@user_script:9."
            ),
            NOTHING_RAN,
            NOTHING_RAN,
        ),
        (
            redis_errors.ResponseError(  # of Valkey 9
                "Attempted to access a non local key in a cluster node script: on @user_script:9."
            ),
            NOTHING_RAN,
            NOTHING_RAN,
        ),
        (
            redis_errors.ResponseError(  # of Redis 8 and Valkey 8
                "Unable to execute command 'exists' in script because undeclared keys were "
                "accessed during rehashing of the slot script: ab12, on @user_script:9."
            ),
            NOTHING_RAN,
            NOTHING_RAN,
        ),
        (read_only_error_of_sentinel(), NOTHING_RAN, NOTHING_RAN),
        (
            redis_errors.ConnectionError("max number of clients reached"),
            NOTHING_RAN,
            NOTHING_RAN,
        ),
        (
            redis_errors.ResponseError("max number of clients + cluster connections reached"),
            NOTHING_RAN,
            NOTHING_RAN,
        ),
        (error_during_handling_of_read_only(), NOTHING_RAN, AMBIGUOUS),
        (redis_errors.AuthenticationError("wrong password"), FINAL, FINAL),
        (redis_errors.NoPermissionError("no"), FINAL, FINAL),
        (redis_errors.OutOfMemoryError("full"), FINAL, FINAL),
        (redis_errors.ResponseError("WRONGTYPE"), FINAL, FINAL),
        (redis_errors.ResponseError("MISCONF"), FINAL, FINAL),
        (redis_errors.DataError("bad"), FINAL, FINAL),
        (redis_errors.InvalidResponse("bad"), FINAL, FINAL),
    ],
)
def test_errors_are_classified(error, unsent, sent):
    assert classify(error, is_sent=False) is unsent
    assert classify(error, is_sent=True) is sent


@pytest.mark.parametrize(
    ("retry", "failure", "ambiguous", "again"),
    [
        (RetryClass.ALWAYS, NOTHING_RAN, 0, True),
        (RetryClass.ONCE, NOTHING_RAN, 0, True),
        (RetryClass.NEVER, NOTHING_RAN, 0, True),
        (RetryClass.ALWAYS, AMBIGUOUS, 1, True),
        (RetryClass.ALWAYS, AMBIGUOUS, 9, True),
        (RetryClass.ONCE, AMBIGUOUS, 1, True),
        (RetryClass.ONCE, NOTHING_RAN, 1, True),
        (RetryClass.ONCE, AMBIGUOUS, 2, False),
        (RetryClass.NEVER, AMBIGUOUS, 1, False),
        (RetryClass.ALWAYS, FINAL, 0, False),
        (RetryClass.ONCE, FINAL, 0, False),
        (RetryClass.NEVER, FINAL, 0, False),
    ],
)
def test_retry_classes_decide_what_is_retried(retry, failure, ambiguous, again):
    def pause(left):
        return pause_before_next(
            retry,
            failure,
            failed_attempts=3,
            ambiguous_attempts=ambiguous,
            seconds_left=left,
            random_fraction=0.5,
        )

    assert (pause(5) is not None) is again
    assert pause(0.001) is None


def test_pauses_grow_to_half_a_second_and_are_spread():
    def pause(attempts, chance):
        return pause_before_next(
            RetryClass.ALWAYS,
            NOTHING_RAN,
            failed_attempts=attempts,
            ambiguous_attempts=0,
            seconds_left=9,
            random_fraction=chance,
        )

    assert [pause(attempts, 1) for attempts in (1, 2, 3, 6, 7, 50)] == [
        0.01, 0.02, 0.04, 0.32, 0.5, 0.5,
    ]  # fmt: skip
    assert pause(7, 0) == 0.25


def test_a_primary_without_replicas_is_asked_again_if_there_are_several_servers():
    """A new primary has no replicas before they have connected."""
    error = redis_errors.ResponseError("NOREPLICAS Not enough good replicas to write.")
    now = time.monotonic()
    group = FailedAttempts(RetryClass.NEVER, 3600, now, follows_redirects=True)
    assert group.record_failure(error, is_sent=True) <= 0.01
    assert group.nothing_ran
    assert FailedAttempts(RetryClass.NEVER, 3600, now).record_failure(error, is_sent=True) is None


def test_a_refused_connection_says_nothing_about_keys():
    refusal = redis_errors.ResponseError("max number of clients + cluster connections reached")
    assert not is_limited_to_keys(refusal)
    assert is_limited_to_keys(redis_errors.ResponseError("WRONGTYPE Operation against a key"))


def test_attempts_are_counted_until_the_deadline():
    now = time.monotonic()
    attempts = FailedAttempts(RetryClass.ALWAYS, 5, now)
    lost = redis_errors.ConnectionError("lost")

    assert attempts.record_failure(lost, is_sent=False) <= 0.01
    assert attempts.ambiguous_attempts == 0
    assert 0.01 <= attempts.record_failure(lost, is_sent=True) <= 0.02
    assert attempts.ambiguous_attempts == 1
    attempts.add_attempt_note(lost)
    assert lost.__notes__ == ["Tried 2 times within retry_deadline."]
    assert FailedAttempts(RetryClass.ALWAYS, 0, now).record_failure(lost, is_sent=False) is None
    late = FailedAttempts(RetryClass.ALWAYS, 5, now - 5)
    assert late.record_failure(lost, is_sent=False) is None, "the first attempt counts too"


def test_the_first_attempt_counts_for_the_warning_about_retries(caplog):
    """A first attempt at a server that hangs may take seconds."""
    lost = redis_errors.TimeoutError("lost")
    for age, warnings in ((0.0, 0), (1.5, 1)):
        attempts = FailedAttempts(RetryClass.ALWAYS, 3600, time.monotonic() - age)
        attempts.record_failure(lost, is_sent=True)
        attempts.log_once(lost)
        attempts.log_once(lost)
        assert len(caplog.records) == warnings


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("WRONGTYPE Operation against a key", "WRONGTYPE"),
        (
            "Error running script (call to f_0a1b): @user_script:1: WRONGTYPE Operation",
            "WRONGTYPE",
        ),
        (
            "Error running script (call to f_0a1b): @user_script:1: @user_script: 1: -OOM command",
            "OOM",
        ),
        ("The user executing the script can't run this command or subcommand", "NOPERM"),
        (
            (
                "Error running script (call to f_0a1b): @user_script:1: "
                "The user executing the script can't run this command or subcommand"
            ),
            "NOPERM",
        ),
        (
            (
                "ACL failure in script: User u has no permissions to run the 'set' command "
                "script: on @user_script:1."
            ),
            "NOPERM",
        ),
        ("", ""),
    ],
)
def test_the_code_of_an_error_reply_also_if_redis_62_wrapped_it(text, code):
    assert code_of(redis_errors.ResponseError(text)) == code


@pytest.mark.parametrize("place", [f"{'0a' * 20}, on @user_script:1.", "on @user_script: 12."])
def test_the_place_in_a_script_is_removed(place):
    assert remove_script_location(f"READONLY It is a replica. script: {place}") == (
        "READONLY It is a replica"
    )


def test_script_errors_become_errors_of_the_library_and_others_get_advice():
    foreign = redis_errors.ResponseError("WRONGTYPE Operation")
    full = redis_errors.OutOfMemoryError("command not allowed")
    lost = redis_errors.ConnectionError("lost")

    assert isinstance(
        convert_error(redis_errors.ResponseError("QUEUENOTFOUND rsmq:q:Q"), ("q",)), QueueNotFound
    )
    assert (
        convert_error(foreign, ("q",))
        is convert_error(full, ("q",))
        is convert_error(lost, ("q",))
        is None
    )
    assert str(foreign).startswith("WRONGTYPE Operation. A key of queue 'q' has another type")
    assert "maxmemory" in str(full)
    assert str(lost) == "lost"
    cross = redis_errors.ClusterCrossSlotError("Keys in request don't hash to the same slot")
    convert_error(cross, ())
    assert "ns='{rsmq}'" in str(cross)


@pytest.mark.parametrize("value", [0, 0.5, 86_400])
def test_a_deadline_in_range_is_valid(value):
    assert check_deadline(value) == value


@pytest.mark.parametrize("value", [-1, 86_401, True, "5", float("nan"), float("inf")])
def test_a_deadline_out_of_range_is_refused(value):
    with refused(InvalidValue, "retry_deadline must be between 0 and 86400"):
        check_deadline(value)


LOST = redis_errors.ConnectionError("lost")
PLAN = {"deadline": 5, "began": math.inf, "address": lambda: "redis.example:6379"}


def operation(retry, **parts):
    return Operation(load("send_message"), (), (), str, retry, ("q",), **parts)


def test_an_ambiguous_failure_of_a_send_is_raised():
    with pytest.raises(redis_errors.ConnectionError) as caught:
        next(plan_retries(operation(RetryClass.NEVER), LOST, is_sent=True, **PLAN))

    assert caught.value is LOST


def test_a_failure_before_the_send_is_followed_by_a_pause_and_an_attempt():
    steps = plan_retries(operation(RetryClass.NEVER), LOST, is_sent=False, **PLAN)

    assert 0 < next(steps) <= 0.01
    attempt = next(steps)
    assert attempt.parse is str
    assert attempt.is_sent is False
    assert 0 < steps.throw(LOST) <= 0.02
    assert isinstance(next(steps), Attempt)


def test_attempt_after_an_ambiguous_failure_uses_parse_retried():
    steps = plan_retries(
        operation(RetryClass.ALWAYS, parse_retried=repr), LOST, is_sent=True, **PLAN
    )
    next(steps)
    attempt = next(steps)

    assert attempt.parse is repr
    attempt.is_sent = True
    steps.throw(LOST)
    assert next(steps).parse is repr


def test_attempt_after_an_unsent_one_uses_parse():
    steps = plan_retries(
        operation(RetryClass.ALWAYS, parse_retried=repr), LOST, is_sent=False, **PLAN
    )
    next(steps)
    attempt = next(steps)

    assert attempt.parse is str
    attempt.is_sent = True
    steps.throw(LOST)
    assert next(steps).parse is repr


def test_a_receive_is_retried_once():
    steps = plan_retries(operation(RetryClass.ONCE), LOST, is_sent=True, **PLAN)
    next(steps)
    next(steps).is_sent = True

    with pytest.raises(redis_errors.TimeoutError):
        steps.throw(redis_errors.TimeoutError("lost again"))


def test_without_permission_for_multi_the_fallback_is_sent():
    other = operation(RetryClass.NEVER)
    refused_one = redis_errors.NoPermissionError("no permission")
    steps = plan_retries(
        operation(RetryClass.NEVER, fallback=other), refused_one, is_sent=True, **PLAN
    )
    attempt = next(steps)

    assert attempt.operation is other
    attempt.is_sent = True
    with pytest.raises(redis_errors.ConnectionError):
        steps.throw(LOST)


def test_a_script_error_has_no_context():
    refusal = redis_errors.ResponseError("QUEUENOTFOUND rsmq:q:Q")

    with pytest.raises(QueueNotFound) as caught:
        next(plan_retries(operation(RetryClass.ALWAYS), refusal, is_sent=True, **PLAN))
    assert caught.value.__context__ is None
