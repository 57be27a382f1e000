"""The wait of programs for a Redis that refuses, without a server."""

from __future__ import annotations

import pytest
import redis.exceptions as redis_errors

from rsmq.cli.app import wait_for_redis as module
from rsmq.cli.app.wait_for_redis import wait_for_redis


@pytest.mark.parametrize(
    "refusal",
    [
        redis_errors.ConnectionError("refused"),
        redis_errors.TimeoutError("slow"),
        redis_errors.ConnectionError("max number of clients reached"),
        redis_errors.ResponseError("max number of clients + cluster connections reached"),
        redis_errors.BusyLoadingError("loading"),
        redis_errors.ResponseError("BUSY Redis is busy running a script"),
        redis_errors.MasterDownError("down"),
        redis_errors.ClusterDownError("down"),
        OSError("reset"),
    ],
    ids=str,
)
def test_a_refusal_that_passes_is_waited_for(refusal, monkeypatch):
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.001)
    attempts, notes = [], []

    def ping():
        attempts.append(1)
        if len(attempts) < 3:
            raise refusal

    wait_for_redis(ping, 3600, notes.append)
    assert len(attempts) == 3
    assert notes == [f"{refusal}. Waiting for up to 3,600 seconds."]


@pytest.mark.parametrize(
    "refusal",
    [
        redis_errors.AuthenticationError("wrong password"),
        redis_errors.NoPermissionError("no rights"),
        redis_errors.ResponseError("WRONGTYPE"),
    ],
    ids=str,
)
def test_a_refusal_that_stays_is_raised_at_once(refusal):
    attempts = []

    def ping():
        attempts.append(1)
        raise refusal

    with pytest.raises(type(refusal)):
        wait_for_redis(ping, 3600, lambda _: None)
    assert attempts == [1]
