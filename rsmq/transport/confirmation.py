"""
The failures of calls that wait for a confirmation, and how long they may wait at a time.
"""

from __future__ import annotations

from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from rsmq.operations.operation import Operation, RetryClass

#: How long a command waits at most on a connection without a timeout, doubled.
_LONGEST_WAIT_SECONDS = 10.0

CONNECTION_BROKE = "not confirmed, because the connection broke"

_DEMOTED_TEXTS = ("instance state changed", "cannot be used with replica instances")


def demotion_error(operation: Operation[Any], confirmed: object) -> RedisConnectionError | None:
    """
    Return the error of a call whose server has become a replica before it confirmed the call.

    A replica replaces its data with that of its primary, which may lack what the call changed. So
    the failure is ambiguous, as if the connection had broken.

    Args:
        confirmed: the reply to the command that waits.

    Returns:
        The error; None if the server is a primary, or if the operation must not run again.
    """
    if operation.retry is RetryClass.NEVER or not isinstance(confirmed, ResponseError):
        return None
    if not any(each in str(confirmed) for each in _DEMOTED_TEXTS):
        return None
    return RedisConnectionError("The server became a replica before it confirmed the call.")


def longest_wait(timeout: float | None) -> float:
    """Return for how many seconds a command may wait on connections with a timeout."""
    return (timeout or _LONGEST_WAIT_SECONDS) / 2
