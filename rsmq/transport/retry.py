"""
The meaning of a failed attempt: which error is raised, and whether to try again.

Without I/O; only ``FailedAttempts`` reads the clock.

A call is one script, which Redis runs completely or not at all. So after a failure there is one
question: has it run? Three kinds of failures answer it:

- Nothing ran: nothing was sent, or the server refused it for the moment (loading, read-only, too
  many clients). It is tried again until the deadline, whatever the operation does.
- Ambiguous: the connection broke, or no reply came in time, after something may have been sent. The
  script has run, will run, or never will, and no one can tell.
- Final: the server has replied with any other error. It is raised at once; a refusal of the script
  (``QUEUENOTFOUND ...``) as an error of this library.

After an ambiguous failure the *retry class* of the operation decides: what would a second run do?

- ALWAYS: nothing more. Reads; deletes and changes by a receipt, which names a receive count, so
  that a message that another consumer has received since stays as it is; sends with a dedup_id.
- ONCE: it costs something, and loses nothing. The messages of a receive whose reply is lost stay
  hidden until their visibility timeout ends. One more attempt is worth that, an endless row is not.
- NEVER: it would store a message twice, or lose one. A send without a dedup_id; a pop; a purge or a
  deletion of a queue, which might hit what another client has made since. The caller gets the error
  and decides.

A further attempt knows that it is one. Its reply is read by ``parse_retried`` if an earlier attempt
may have run: a delete that finds no message then has probably succeeded before. For the same reason
an idle connection is checked before it is used for an operation that is not ALWAYS, or that has a
``parse_retried`` (``needs_check``): a failure on a connection that broke an hour ago would be
ambiguous without need.

``plan_retries`` is a generator that yields a pause or an attempt, and receives the errors of
attempts by ``throw``. So callers with threads and with asyncio share all decisions, and only sleep
and send. The first attempt is outside of it, because most calls make no second one.

Some of it is ugly. Redis says much only in the text of an error, in words that differ by version,
and redis-py removes the code from some texts and raises a class for it (``code_of``). An operation
may be replaced between two attempts: by ``fallback`` where a user has no right to MULTI, and by
``after_lost_reply``, because a reply that was too large is lost again unless the next receive asks
for less. And MOVED, ASK and NOREPLICAS are final on one server, but on a cluster they lead to the
next attempt: ``follows_redirects`` tells the two apart.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import redis.exceptions as redis_errors

from rsmq.errors import RSMQError, show_all
from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import NO_SCRIPT
from rsmq.operations.time_limit import TimeLimit
from rsmq.transport.backoff import exponential_seconds
from rsmq.transport.failure_texts import (
    advise_on_connection,
    advise_on_large_body,
    advise_on_reply,
    has_too_many_clients,
    remove_script_location,
)
from rsmq.wire.limits import check_duration, to_seconds
from rsmq.wire.refusals import parse_refusal

#: Not the generator of the module, which the application may seed.
_chance = random.SystemRandom()

T = TypeVar("T")

#: How long a call takes at most by default, with all its attempts.
DEFAULT_RETRY_DEADLINE_SECONDS = 5.0

#: The same with Redis Cluster and Sentinel, where another server must first take over.
DEFAULT_GROUP_RETRY_DEADLINE_SECONDS = 30.0

#: How long an interrupted or cancelled receive waits for its reply, and how long a client that is
#: closed waits for running calls.
INTERRUPTION_GRACE_SECONDS = 1.0

_log = get_logger("rsmq.transport")

#: A call that is retried for longer logs a warning.
_SECONDS_BEFORE_WARNING = 1.0

_MAX_DEADLINE_SECONDS = 86_400
_LONG_ENOUGH_SHARE = 0.9
_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5

_CODES_BY_TYPE: dict[type[Exception], str] = {
    # redis-py removes the code from the texts of these errors.
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
_NOTHING_RAN_CODES = {"LOADING", "READONLY", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN", "BUSY"}
#: The codes of a node of Redis Cluster that names another node.
_REDIRECT_CODES = {"MOVED", "ASK"}
#: The number of redirections of one call that are followed at once. More of them mean that the
#: nodes do not agree yet.
_MAX_PROMPT_REDIRECTS = 5

# On READONLY, a Sentinel connection closes itself and raises a ConnectionError with this text.
_DEMOTED_MASTER_TEXT = "The previous master is now a slave"

#: A script has found, in stored data, a key that is on another node while its slot is being moved.
#: Before that, it has changed nothing that may not be repeated. The second text is that of
#: Redis 8.2 and Valkey 8.1 for a command with several keys.
_KEY_ELSEWHERE_TEXTS = ("access a non local key", "undeclared keys were accessed")

#: The text of Redis 7.0, and that of later versions and of Valkey.
_NOT_PERMITTED_TEXTS = ("The user executing the script can't", "ACL failure in script")

#: The codes of errors that concern single keys; operations on other keys may succeed.
_KEY_ERROR_CODES = frozenset({"WRONGTYPE", "ERR", "NOPERM"})


_NOTHING_RAN_ATTRIBUTE = "rsmq_nothing_ran"


class DeadlinePassed(redis_errors.TimeoutError):
    """An attempt was not finished before the end of its call."""


class Failure(Enum):
    """The kind of a failed attempt."""

    NOTHING_RAN = "nothing ran"
    AMBIGUOUS = "ambiguous"
    FINAL = "final"


def code_of(error: BaseException) -> str:
    """Return the code of an error reply, also if a command in a script failed with it."""
    for error_type, code in _CODES_BY_TYPE.items():
        if isinstance(error, error_type):
            return code
    text = remove_script_location(str(error)).lstrip()
    if text.startswith(_NOT_PERMITTED_TEXTS):
        return "NOPERM"
    if any(each in text for each in _KEY_ELSEWHERE_TEXTS):
        return "TRYAGAIN"
    return text.partition(" ")[0]


def is_limited_to_keys(error: BaseException) -> bool:
    """Return whether a call was rejected because of its keys: their values, or missing rights."""
    if not isinstance(error, redis_errors.ResponseError):
        return False
    if has_too_many_clients(error):
        return False
    code = code_of(error)
    return code in _KEY_ERROR_CODES or not code.isupper()  # redis-py removes ERR


def classify(error: BaseException, *, is_sent: bool) -> Failure:
    """
    Return the kind of a failed attempt.

    Args:
        error: the error that redis-py raised.
        is_sent: whether any part of the command may have been sent.
    """
    if has_too_many_clients(error):  # it refuses a connection
        return Failure.NOTHING_RAN
    if isinstance(error, redis_errors.ResponseError | redis_errors.BusyLoadingError):
        return Failure.NOTHING_RAN if code_of(error) in _NOTHING_RAN_CODES else Failure.FINAL
    if type(error) is redis_errors.ConnectionError and str(error) == _DEMOTED_MASTER_TEXT:
        return Failure.NOTHING_RAN
    if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError):
        return Failure.FINAL
    if isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError | OSError):
        return Failure.AMBIGUOUS if is_sent else Failure.NOTHING_RAN
    return Failure.FINAL


def pause_before_next(
    retry: RetryClass,
    failure: Failure,
    *,
    failed_attempts: int,
    ambiguous_attempts: int,
    seconds_left: float,
    random_fraction: float,
) -> float | None:
    """
    Return the pause before the next attempt.

    Args:
        retry: the retry class of the operation.
        failure: the kind of the last failure.
        failed_attempts: the number of failed attempts, the last one included; from 1.
        ambiguous_attempts: the number of these that failed ambiguously.
        seconds_left: seconds until the deadline.
        random_fraction: a random number from 0 to 1, so that many clients do not retry at the same
            time.

    Returns:
        Seconds, or None if there is no next attempt.
    """
    if failure is Failure.FINAL:
        return None
    if failure is Failure.AMBIGUOUS and (
        retry is RetryClass.NEVER or (retry is RetryClass.ONCE and ambiguous_attempts > 1)
    ):
        return None
    pause_limit = exponential_seconds(failed_attempts, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
    pause = pause_limit * (0.5 + random_fraction / 2)
    return pause if pause < seconds_left else None


class FailedAttempts:
    """
    The failed attempts of one call.

    Attributes:
        ambiguous_attempts: the number of these that may have run on the server.
        was_ambiguous: whether the last of them may have run.
        nothing_ran: whether none of them can have run.
        is_final: whether Redis answered the last of them with an error that does not pass.
    """

    def __init__(
        self,
        retry: RetryClass,
        deadline: float,
        began: float,
        *,
        limit: TimeLimit | None = None,
        follows_redirects: bool = False,
    ) -> None:
        self.ambiguous_attempts = 0
        self.was_ambiguous = False
        self.nothing_ran = False
        self.is_final = False
        self._count = 0
        self._redirects = 0
        self._follows_redirects = follows_redirects
        self._retry = retry
        self._began = began
        self._limit = limit
        self._retry_until = began + deadline
        self._logs_at = began + _SECONDS_BEFORE_WARNING
        self._is_logged = False

    def add_attempt_note(self, error: BaseException) -> None:
        """Add a note with the number of attempts to an error, if there was more than one."""
        if self._limit is not None and not self.is_final:
            tried = format_count(self._count, "time")
            error.add_note(f"Tried {tried} within timeout={self._limit.seconds:g} (seconds).")
        elif self._count > 1:
            error.add_note(f"Tried {self._count} times within retry_deadline.")

    def log_once(self, error: Exception, *, is_last: bool = False) -> None:
        """
        Log a warning about the last failure, once, if the call began over a second ago.

        Errors that do not pass are not logged.

        Args:
            is_last: whether the call is not retried any more.
        """
        now = time.monotonic()
        if self._is_logged or self.is_final or now < self._logs_at:
            return
        self._is_logged = True
        text = " ".join(str(error).split())
        _log.warning(
            "%s%s %s",
            text,
            "" if text.endswith((".", "?", "!")) else ".",
            f"The call has failed after {format_count(round(now - self._began), 'second')}."
            if is_last
            else self._describe_time_left(now),
        )

    def _describe_time_left(self, now: float) -> str:
        left = format_count(round(self._retry_until - now), "more second")
        name = "retry_deadline" if self._limit is None else "timeout"
        return f"The call is retried for {left} ({name})."

    def record_failure(self, error: BaseException, *, is_sent: bool) -> float | None:
        """
        Count a failed attempt, and return the pause before the next one.

        Args:
            error: the error that redis-py raised.
            is_sent: whether any part of the command may have been sent.

        Returns:
            Seconds, or None if the error is raised.
        """
        failure = classify(error, is_sent=is_sent)
        if self._follows_redirects and code_of(error) in _REDIRECT_CODES:
            failure = Failure.NOTHING_RAN
            self._redirects += 1
            self.was_ambiguous = False
            if self._redirects <= _MAX_PROMPT_REDIRECTS:
                return 0.0
        if self._follows_redirects and code_of(error) == "NOREPLICAS":
            failure = Failure.NOTHING_RAN  # the replicas of a new primary are about to connect
        self._count += 1
        self.is_final = failure is Failure.FINAL
        self.was_ambiguous = failure is Failure.AMBIGUOUS
        self.ambiguous_attempts += self.was_ambiguous
        self.nothing_ran = failure is Failure.NOTHING_RAN and not self.ambiguous_attempts
        return pause_before_next(
            self._retry,
            failure,
            failed_attempts=self._count,
            ambiguous_attempts=self.ambiguous_attempts,
            seconds_left=self._retry_until - time.monotonic(),
            random_fraction=_chance.random(),
        )


@dataclass(slots=True, eq=False)
class Attempt(Generic[T]):
    """
    A further attempt to make.

    Attributes:
        operation: the operation to send.
        parse: converts its reply to the result.
        is_sent: whether any part of it may have been sent; the caller sets it before it throws the
            error of the attempt into ``plan_retries``.
    """

    operation: Operation[T]
    parse: Callable[[Any], T]
    is_sent: bool = False


def plan_retries(
    operation: Operation[T],
    error: Exception,
    *,
    is_sent: bool,
    deadline: float,
    began: float,
    address: Callable[[], str],
    follows_redirects: bool = False,
) -> Generator[float | Attempt[T], None, None]:
    """
    Plan the retries after a first attempt that failed.

    Args:
        operation: the operation that was sent.
        error: the error that redis-py raised.
        is_sent: whether any part of the operation may have been sent.
        deadline: seconds for all attempts.
        began: monotonic seconds at which the first attempt began.
        address: returns the address of the server, for texts of errors.
        follows_redirects: whether the caller sends the next attempt to the node that a MOVED or
            ASK error names.

    Yields:
        Seconds to sleep, or an attempt to make. If the attempt fails, the caller throws its error
        into the generator. If it succeeds, the caller drops the generator.

    Raises:
        RSMQError: the script rejected the call.
        RedisError, OSError: the last error, if there is no further attempt.
    """
    limit = operation.limit

    def start() -> FailedAttempts:
        return FailedAttempts(
            operation.retry, deadline, began, limit=limit, follows_redirects=follows_redirects
        )

    failed_attempts = start()
    while True:
        if operation.fallback is not None and code_of(error) == "NOPERM":
            operation = operation.fallback
            failed_attempts = start()
        else:
            pause = failed_attempts.record_failure(error, is_sent=is_sent)
            advise_on_connection(error, address, is_sent=is_sent)
            if operation.large_body and is_sent:
                advise_on_large_body(error, operation.large_body)
            if failed_attempts.was_ambiguous and operation.after_lost_reply is not None:
                operation = operation.after_lost_reply(error, pause is not None)
            if pause is None:
                is_plain = operation.script is NO_SCRIPT
                converted = None if is_plain else convert_error(error, operation.queues)
                try:
                    if converted is not None:
                        raise converted from None
                    failed_attempts.add_attempt_note(error)
                    failed_attempts.log_once(error, is_last=True)
                    setattr(error, _NOTHING_RAN_ATTRIBUTE, failed_attempts.nothing_ran)
                    raise error
                finally:
                    del error, converted  # their tracebacks refer to this frame: a reference cycle
            failed_attempts.log_once(error)
            yield pause
        parse = operation.parse_retried if failed_attempts.ambiguous_attempts else None
        attempt = Attempt(operation, parse or operation.parse)
        try:
            yield attempt
        except (redis_errors.RedisError, OSError) as failure:
            if attempt.is_sent or not isinstance(failure, DeadlinePassed):  # else keep the cause
                error, is_sent = failure, attempt.is_sent


def needs_check(operation: Operation[Any]) -> bool:
    """
    Return whether an idle connection must be checked before an operation is sent on it.

    If the connection broke while it was idle, the failure of the attempt is ambiguous. The check is
    not worth its time for operations where that changes neither the retries nor the result.
    """
    return operation.parse_retried is not None or operation.retry is not RetryClass.ALWAYS


def convert_error(error: BaseException, queues: tuple[str, ...]) -> RSMQError | None:
    """
    Return the RSMQError for an error with which a script rejected a call; None for other errors.

    Add the remedy to the text of an error of Redis that has one.

    Args:
        error: the error that redis-py raised.
        queues: the names of the queues of the call; empty for a call without a queue.
    """
    if not isinstance(error, redis_errors.ResponseError):
        return None
    converted = parse_refusal(str(error), queues)
    if converted is None:
        advise_on_reply(error, code_of(error), show_all(queues))
    return converted


def check_deadline(seconds: object) -> float | None:
    """
    Check a deadline, and return it as a float; None, for the default, is returned as it is.

    Raises:
        InvalidValue: the value is not a number of seconds from 0 to 86,400 (a day), nor such a
            timedelta.
    """
    if seconds is None:
        return None
    return check_duration("retry_deadline", to_seconds(seconds), high=_MAX_DEADLINE_SECONDS)


def choose_deadline_of(operation: Operation[Any], deadline: float, began: float) -> float:
    """
    Return the seconds for the retries of an operation.

    Args:
        deadline: that of its client.
        began: monotonic seconds at which its first attempt began.
    """
    if operation.retry_deadline is not None:
        return operation.retry_deadline
    return deadline if operation.limit is None else operation.limit.ends_at - began


def end_of_attempts(operation: Operation[Any], deadline: float, began: float) -> float:
    """
    Return when the server must have answered the last attempt of a call, in monotonic seconds.

    Without a time limit, it is infinite for a deadline of 0, which permits one attempt. A
    confirmation and a long reply have time of their own.
    """
    limit = operation.limit
    if limit is None and not deadline:
        return math.inf
    end = began + deadline if limit is None else limit.ends_at
    confirmation = operation.confirmation
    return (
        end
        + (0.0 if confirmation is None else confirmation.timeout)
        + (operation.reply_timeout or 0.0)
    )


def shorter_timeout(timeout: float | None, until: float) -> float | None:
    """
    Return the timeout of an attempt that must end before that of its connection is over.

    Args:
        timeout: that of the connection; None has no end.
        until: when the attempt must have ended, in monotonic seconds.

    Returns:
        Seconds; None if the timeout of the connection is short enough. A difference of less than
        a tenth is not worth its time.

    Raises:
        DeadlinePassed: there is no time left.
    """
    left = until - time.monotonic()
    if left >= (math.inf if timeout is None else timeout * _LONG_ENOUGH_SHARE):
        return None
    if left <= 0:
        raise DeadlinePassed("The time of the call is over.")
    return left


def has_not_run(error: BaseException) -> bool:
    """Return whether the call that ended with this error has certainly not run on a server."""
    return getattr(error, _NOTHING_RAN_ATTRIBUTE, False)


def choose_deadline(seconds: float | None, *, is_group: bool) -> float:
    """Return a deadline, or its default, which is longer for several servers."""
    if seconds is not None:
        return seconds
    return DEFAULT_GROUP_RETRY_DEADLINE_SECONDS if is_group else DEFAULT_RETRY_DEADLINE_SECONDS
