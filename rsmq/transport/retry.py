"""
The meaning of a failed attempt: which error is raised, and whether to try again.

Pure but for the clock in ``Attempts``. There are three kinds of failures:

- Nothing ran (refused, loading, read-only, out of connections): tried again until the deadline.
- Ambiguous (the connection broke after the command was sent): as the operation's retry class says.
- Any other: raised at once.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import redis.exceptions as redis_errors

from rsmq.errors import InvalidValue, RSMQError, show, show_all
from rsmq.operations.operation import Operation, Retry
from rsmq.transport.backoff import exponential_seconds
from rsmq.wire.refusals import from_script

T = TypeVar("T")

#: How long a call whose attempts never reached the server is tried again, seconds.
DEFAULT_RETRY_DEADLINE = 5.0

#: How long a receive that is interrupted waits for its reply, seconds.
INTERRUPTED_SECONDS = 1.0

_LONGEST_DEADLINE = 86_400
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5

_CODES: dict[type[Exception], str] = {
    # redis-py cuts the code off the texts of these.
    redis_errors.BusyLoadingError: "LOADING",
    redis_errors.ReadOnlyError: "READONLY",
    redis_errors.TryAgainError: "TRYAGAIN",
    redis_errors.MasterDownError: "MASTERDOWN",
    redis_errors.ClusterDownError: "CLUSTERDOWN",
    redis_errors.ClusterCrossSlotError: "CROSSSLOT",
    redis_errors.MovedError: "MOVED",
    redis_errors.AskError: "ASK",
    redis_errors.NoPermissionError: "NOPERM",
    redis_errors.OutOfMemoryError: "OOM",
    redis_errors.NoScriptError: "NOSCRIPT",
}
_NOTHING_RAN = {"LOADING", "READONLY", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN", "BUSY"}

# Redis 6.2 wraps the error of a command that a script called; 7.0 appends the script's name.
_WRAPPED = re.compile(
    r"(?:ERR )?Error running script \(call to f_\w+\): @user_script:\s?\d+: "
    r"(?:@user_script: \d+: )?-?(?P<error>.*)",
    re.DOTALL,
)

# A Sentinel connection turns READONLY into a ConnectionError of this text, after closing itself.
_DEMOTED = "The previous master is now a slave"

_NOT_PERMITTED_IN_SCRIPT = "The user executing the script can't"

_ADVICE = {
    "WRONGTYPE": "A key of queue {queue} holds another type than RSMQ's: another program uses it. "
    "Nothing was changed. Use another queue name or namespace, or remove that key.",
    "OOM": "Redis has reached maxmemory and refuses to store more. Nothing was changed. "
    "Receiving and deleting still work, and free memory.",
    "NOPERM": "This Redis user may not do all of this on the keys of queue {queue}. "
    "The README lists the commands that a producer, a consumer and an administrator need.",
    "CROSSSLOT": "On Redis Cluster all keys of a queue must lie in one slot: "
    "give a namespace with a hash tag, as in ns='{{rsmq}}'.",
    "MOVED": "This is a node of a Redis Cluster that does not hold queue {queue}: "
    "use redis.RedisCluster and a namespace with a hash tag, as in ns='{{rsmq}}'.",
    "MISCONF": "Redis can't save to disk and refuses to store more. Nothing was changed.",
    "NOREPLICAS": "Redis has fewer replicas than min-replicas-to-write. Nothing was changed.",
}


#: Codes of what is wrong with single keys: others are not concerned.
_OF_KEYS = frozenset({"WRONGTYPE", "ERR", "NOPERM"})


class Failure(Enum):
    """What is known about the attempt."""

    NOTHING_RAN = "nothing ran"
    AMBIGUOUS = "ambiguous"
    FINAL = "final"


def code_of(error: BaseException) -> str:
    """The code that Redis put first in its error reply, also where a script called for it."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code
    text = str(error)
    wrapped = _WRAPPED.match(text)
    if wrapped:
        text = wrapped["error"]
    if text.startswith(_NOT_PERMITTED_IN_SCRIPT):
        return "NOPERM"
    return text.partition(" ")[0]


def is_of_these_keys(error: BaseException) -> bool:
    """Whether the server refused for what stands in these keys, or for rights on them."""
    if not isinstance(error, redis_errors.ResponseError):
        return False
    code = code_of(error)
    return code in _OF_KEYS or not code.isupper()  # redis-py cuts ERR off


def classify(error: BaseException, *, sent: bool) -> Failure:
    """
    What this error tells about the attempt.

    Args:
        error: what redis-py raised.
        sent: True once any part of the command may have been on its way.
    """
    if isinstance(error, redis_errors.ResponseError | redis_errors.BusyLoadingError):
        return Failure.NOTHING_RAN if code_of(error) in _NOTHING_RAN else Failure.FINAL
    if type(error) is redis_errors.ConnectionError and str(error) == _DEMOTED:
        return Failure.NOTHING_RAN
    if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError):
        return Failure.FINAL
    if isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError | OSError):
        return Failure.AMBIGUOUS if sent else Failure.NOTHING_RAN
    return Failure.FINAL


def pause_before_next(
    retry: Retry, failure: Failure, *, attempts: int, ambiguous: int, left: float, chance: float
) -> float | None:
    """
    How long to wait before the next attempt.

    Args:
        retry: what the operation allows after an ambiguous failure.
        failure: what happened last.
        attempts: attempts that failed, this one included; from 1.
        ambiguous: those of them that were ambiguous.
        left: seconds until the deadline.
        chance: a random number from 0 to 1, so that many clients don't come back at once.

    Returns:
        Seconds, or None if there is no next attempt.
    """
    if failure is Failure.FINAL:
        return None
    if failure is Failure.AMBIGUOUS and (
        retry is Retry.NEVER or (retry is Retry.ONCE and ambiguous > 1)
    ):
        return None
    longest = exponential_seconds(attempts, _FIRST_PAUSE, _LONGEST_PAUSE)
    pause = longest * (0.5 + chance / 2)
    return pause if pause < left else None


class Attempts:
    """
    The failed attempts of one call.

    Attributes:
        ambiguous: how many of them may have run on the server.
    """

    def __init__(self, retry: Retry, deadline: float) -> None:
        self.ambiguous = 0
        self._failed = 0
        self._retry = retry
        # From the first failure on, so that one that took long leaves time for another attempt.
        self._until = time.monotonic() + deadline

    def note(self, error: BaseException) -> None:
        """Add to the error how often it was tried, if that was more than once."""
        if self._failed > 1:
            error.add_note(f"Tried {self._failed} times; retry_deadline bounds the time for that.")

    def pause(self, error: BaseException, *, sent: bool) -> float | None:
        """Seconds to wait before the next attempt, or None if this error is the caller's."""
        failure = classify(error, sent=sent)
        self._failed += 1
        self.ambiguous += failure is Failure.AMBIGUOUS
        return pause_before_next(
            self._retry,
            failure,
            attempts=self._failed,
            ambiguous=self.ambiguous,
            left=self._until - time.monotonic(),
            chance=random.random(),  # noqa: S311 - spreads load, keeps no secret
        )


@dataclass(slots=True, eq=False)
class Attempt(Generic[T]):
    """
    One more attempt that is to be made.

    Attributes:
        operation: what is to be sent.
        parse: the meaning of its reply.
        sent: whether any part of it may have reached the server; set by whoever makes it.
    """

    operation: Operation[T]
    parse: Callable[[Any], T]
    sent: bool = False


def retries(
    operation: Operation[T], error: Exception, *, sent: bool, deadline: float
) -> Generator[float | Attempt[T], None, None]:
    """
    Decide what follows a first attempt that failed.

    Args:
        operation: what was sent.
        error: why it failed, as redis-py raised it.
        sent: whether any part of it may have reached the server.
        deadline: seconds for further attempts.

    Yields:
        Seconds to sleep, or an attempt to make. If the attempt fails, its error is to be thrown
        in here; if it succeeds, this generator is not asked again.

    Raises:
        RSMQError: the script refused the call.
        RedisError, OSError: the last error, if there is no further attempt.
    """
    attempts = Attempts(operation.retry, deadline)
    while True:
        if operation.fallback is not None and code_of(error) == "NOPERM":
            operation = operation.fallback
            attempts = Attempts(operation.retry, deadline)
        else:
            pause = attempts.pause(error, sent=sent)
            if pause is None:
                ours = explain(error, operation.queues)
                try:
                    if ours is not None:
                        raise ours from None
                    attempts.note(error)
                    raise error
                finally:
                    del error, ours  # as they keep this frame, it would keep them
            yield pause
        parse = operation.parse_retried if attempts.ambiguous else None
        attempt = Attempt(operation, parse or operation.parse)
        try:
            yield attempt
        except (redis_errors.RedisError, OSError) as failure:
            error, sent = failure, attempt.sent


def needs_check(operation: Operation[Any]) -> bool:
    """
    Return whether an idle connection is to be checked before an operation is sent on it.

    A connection that died while idle makes the attempt ambiguous. Where that changes neither what
    is done nor what is returned, the check is not worth its time.
    """
    return operation.parse_retried is not None or operation.retry is not Retry.ALWAYS


def explain(error: BaseException, queues: tuple[str, ...]) -> RSMQError | None:
    """
    Our error for a script's refusal; for others, a note on redis-py's own error.

    Args:
        error: what redis-py raised.
        queues: the queues that the call was about; empty where it was about none.
    """
    if not isinstance(error, redis_errors.ResponseError):
        return None
    ours = from_script(str(error), queues)
    advice = _ADVICE.get(code_of(error))
    if ours is None and advice:
        error.add_note(advice.format(queue=show_all(queues) or "(the index of queues)"))
    return ours


def check_deadline(seconds: object) -> float:
    """
    The deadline itself.

    Raises:
        InvalidValue: it is not a number of seconds from 0 to a day.
    """
    if (
        isinstance(seconds, int | float)
        and not isinstance(seconds, bool)
        and 0 <= seconds <= _LONGEST_DEADLINE
    ):
        return float(seconds)
    raise InvalidValue(
        "retry_deadline",
        0,
        _LONGEST_DEADLINE,
        value=seconds,
        hint=f"It is the number of seconds for which a call is tried again; got {show(seconds)}.",
    )
