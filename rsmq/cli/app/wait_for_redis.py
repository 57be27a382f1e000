"""
The wait at the start of a program for a Redis that is away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rsmq.errors.printable import format_count

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ

#: Seconds between two attempts.
_PAUSE_SECONDS = 0.5


def wait_for_redis(ping: Callable[[], object], seconds: float, note: Callable[[str], None]) -> None:
    """
    Wait until Redis answers.

    Args:
        ping: sends a command to Redis.
        seconds: how long to wait for it at most; 0 tries once.
        note: is called once with a line for people, if Redis is away.

    Raises:
        redis.exceptions.RedisError, OSError: Redis did not answer in time, or has refused the
            command for a reason that does not pass, for example a wrong password.
    """
    from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

    from rsmq.transport.retry import Failure, classify  # noqa: PLC0415 - as above

    deadline = time.monotonic() + seconds
    is_first = True
    while True:
        try:
            ping()
        except (RedisError, OSError) as error:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or classify(error, is_sent=False) is Failure.FINAL:
                raise
            if is_first:
                note(f"{error}. Waiting for up to {format_count(seconds, 'second')}.")
                is_first = False
            time.sleep(min(_PAUSE_SECONDS, remaining))
        else:
            return


def ask_for_queue(client: RSMQ[Any], queue: str) -> None:
    """
    Ask Redis for a queue, which may be missing.

    Args:
        client: the client of the namespace.
        queue: the name of the queue.

    Raises:
        redis.exceptions.RedisError, OSError: Redis does not answer, or refuses.
    """
    from rsmq.errors import RSMQError  # noqa: PLC0415 - takes time

    with suppress(RSMQError):  # Redis has answered
        client.get_queue_attributes(queue)
