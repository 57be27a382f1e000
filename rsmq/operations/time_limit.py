"""
The time limit of one call, its argument ``timeout``, and the time for a reply.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rsmq.wire.limits import Seconds, check_duration, to_seconds

_MIN_SECONDS = 0.001
_MAX_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """
    The time limit of a call. All steps and attempts of the call share it.

    Attributes:
        seconds: the argument ``timeout``.
        ends_at: when the call must have ended, in monotonic seconds.
    """

    seconds: float
    ends_at: float

    def is_over(self) -> bool:
        """Return whether there is no time left."""
        return time.monotonic() >= self.ends_at


def start_time_limit(timeout: Seconds | None) -> TimeLimit | None:
    """
    Return the limit of a call that begins now; None if it has no timeout of its own.

    Raises:
        InvalidValue: the timeout is not a number of seconds from 0.001 to 86,400 (a day), nor such
            a timedelta.
    """
    if timeout is None:
        return None
    seconds = check_duration("timeout", to_seconds(timeout), _MIN_SECONDS, _MAX_SECONDS)
    return TimeLimit(seconds, time.monotonic() + seconds)


def check_reply_timeout(seconds: object) -> float:
    """
    Return the time for each reply as seconds.

    Raises:
        InvalidValue: it is not a number of seconds from 0.001 to 86,400 (a day), nor such a
            timedelta.
    """
    return check_duration("seconds", to_seconds(seconds), _MIN_SECONDS, _MAX_SECONDS)
