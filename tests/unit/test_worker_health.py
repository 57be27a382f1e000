"""The health of a worker, as probes see it."""

from __future__ import annotations

from rsmq.worker.health import Health


def test_a_worker_that_fails_is_not_ready_while_its_calls_end():
    health = Health(is_running=True, heartbeat_age_seconds=0.0, has_failed=True)
    assert not health.is_healthy
    assert not health.is_ready


def test_a_worker_that_receives_is_ready():
    assert Health(is_running=True, heartbeat_age_seconds=0.0).is_ready
