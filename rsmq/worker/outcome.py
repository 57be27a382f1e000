"""
The outcome of a message when its handler has returned or raised: one pure function, ``decide``.

The loop only carries out the outcome. No I/O and no clock; only the back-off is random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from rsmq.errors import InvalidFormat, InvalidValue, show
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.wire.limits import check_duration
from rsmq.worker.failure import HandlerFailure

#: Seconds to wait before the next attempt, by the number of failed attempts, from 1.
Backoff: TypeAlias = Callable[[int], float]

#: How often a message is deferred, and for how long in total, if the listener sets nothing else.
DEFAULT_MAX_DEFERRALS, DEFAULT_MAX_DEFERRED_SECONDS = 10_000, 7 * 86_400.0
#: So often a message may be deferred however old it is: before, it may have failed for a long time,
#: or was released by deploys. With the default back-off it is about 50 minutes.
FREE_DEFERRALS = 20
#: The shortest pause of a deferral, so that the default number lasts for 17 minutes at least.
MIN_DEFER_SECONDS = 0.1
#: The longest pause of a deferral: it is stored for so long how often a message was deferred.
MAX_DEFER_SECONDS = 7 * 86_400

#: The first and the longest pause of the default back-off. It also replaces a back-off that fails.
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 300.0


class Retry(Exception):
    """
    Raised by a handler to receive its message again later; it counts as an attempt.

    Attributes:
        after: seconds until the next attempt; None is the listener's back-off.
    """

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        """
        Make one.

        Args:
            reason: for the log.
            after: seconds from 0 to 9,999,999; None is the listener's back-off.

        Raises:
            InvalidFormat: reason is a number: that is Retry(after=30).
            InvalidValue: after is out of range, or not a number.
        """
        if isinstance(reason, int | float):
            raise InvalidFormat("reason", value=reason, hint=f"Use Retry(after={reason}).")
        super().__init__(reason)
        self.after: float | None = None if after is None else check_duration("after", after)


class Defer(Exception):
    """
    Raised by a handler or ``before_handle`` to receive its message again later, without an attempt.

    It is for messages that have to wait for a lock, a limit or another service, and is not a
    failure. A message that was deferred too often, or for too long, fails: see ``max_deferrals`` of
    ``Worker.listener``.

    Attributes:
        after: seconds until the handler is called again, at least 0.1; None is the listener's
            back-off, which grows with each deferral.
    """

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        """
        Make one.

        Args:
            reason: for the log.
            after: seconds from 0 to 604,800, a week; less than 0.1 is 0.1. None is the listener's
                back-off, which grows with each deferral.

        Raises:
            InvalidFormat: reason is a number: that is Defer(after=30).
            InvalidValue: after is out of range, or not a number.
        """
        if isinstance(reason, int | float):
            raise InvalidFormat("reason", value=reason, hint=f"Use Defer(after={reason}).")
        super().__init__(reason)
        self.after: float | None = (
            None if after is None else check_duration("after", after, high=MAX_DEFER_SECONDS)
        )


class DeferredTooOften(Exception):
    """A message was deferred more often, or for longer, than its listener allows."""


class Discard(Exception):
    """Raised by a handler to delete its message without having handled it."""


class DeadLetter(Exception):
    """Raised by a handler to move its message to the dead-letter queue, with a reason."""


class Withdrawn(Exception):
    """Raised by a webhook to release its message: nothing was pushed, so it is not an attempt."""


class Unroutable(Exception):
    """A message has no type, or there is no handler for its type."""


class HandlerTimedOut(Exception):
    """A handler ran longer than its listener's max_runtime."""


class HandlerCancelled(Exception):
    """
    A handler was interrupted in its child process, or not called, because its job was cancelled.

    After ``job.cancel()`` every exception of a handler cancels the job, so a handler in a thread
    that finds ``message.cancelled`` may raise this one, too. Otherwise it is a failure like others.
    """


class HandlerStopped(BaseException):
    """
    A handler was interrupted in its child process, because the grace period of its worker is over.

    Its message is released, and the run is not an attempt. It is not an ``Exception``: a handler
    that catches all exceptions does not seem to have done its work.
    """


class HandlerProcessDied(Exception):
    """The child process of a handler call has died; see ``process=True`` of ``Worker.listener``."""


class RemoteError(Exception):
    """
    The exception of a handler in a child process, or one whose text or attributes can't be read.

    It is an object of a subclass with the name of the exception's class. Its text is the
    same, and its cause shows the traceback.

    Attributes:
        is_final: whether the listener's ``no_retry`` names its class.
    """

    is_final: bool = False

    @staticmethod
    def create(name: str, text: str, *, is_final: bool) -> RemoteError:
        """Return an exception of this class name."""
        kind = _remote_classes.get(name, RemoteError)
        if kind is RemoteError and len(_remote_classes) < _MAX_REMOTE_CLASSES:
            kind = _remote_classes[name] = type(name, (RemoteError,), {"__module__": __name__})
        error = kind(text)
        error.is_final = is_final
        return error


#: Classes of remote exceptions by name, so that logs and metrics show these names.
_remote_classes: dict[str, type[RemoteError]] = {}
_MAX_REMOTE_CLASSES = 1000


class TookItsProcessDown(Exception):
    """A message ran in quarantine several times, and no run had a known outcome."""


@dataclass(frozen=True, slots=True)
class Retried:
    """
    The message is hidden until the next attempt.

    Attributes:
        delay_seconds: seconds until the next attempt.
        reason: a sentence for the log.
    """

    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """
    The message is hidden until its handler is called again, and this call counts as not begun.

    Attributes:
        delay_seconds: seconds until then.
        reason: a sentence for the log.
    """

    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """
    The message is moved to another queue, with the reason.

    Attributes:
        queue: the name of that queue.
        reason: why it is moved, a sentence.
    """

    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """
    The message is deleted without having been handled.

    Attributes:
        reason: a sentence for the log.
    """

    reason: str


Outcome: TypeAlias = Retried | Deferred | DeadLettered | Dropped


@dataclass(frozen=True, slots=True)
class Policy:
    """
    A listener's rules for messages that fail.

    Attributes:
        max_retries: how often a message is tried again; None is forever.
        backoff: the pause before each retry.
        no_retry: exceptions after which a message is not tried again.
        retry_only: the only exceptions after which a message is tried again.
        dead_letter_queue: the queue that a message is moved to after its last attempt; None if
            there is none.
        unroutable: the queue for messages that have no handler; None is dead_letter_queue.
        drop: whether a message is deleted after its last attempt if there is no dead_letter_queue.
        max_deferrals: how many of a message's receives may count as not begun.
        max_deferred_seconds: the longest time since its first receive in which they may; the first
            ones may later, too.
    """

    max_retries: int | None
    backoff: Backoff
    no_retry: tuple[type[BaseException], ...] = ()
    dead_letter_queue: str | None = None
    unroutable: str | None = None
    drop: bool = False
    max_deferrals: int = DEFAULT_MAX_DEFERRALS
    max_deferred_seconds: float = DEFAULT_MAX_DEFERRED_SECONDS
    retry_only: tuple[type[BaseException], ...] = (BaseException,)

    def is_retried(self, error: BaseException) -> bool:
        """Return whether a message is tried again after an exception of its handler."""
        return isinstance(error, self.retry_only) and not isinstance(error, self.no_retry)

    def of_message(self, max_retries: int | None) -> Policy:
        """
        Return the policy for a message that was sent with its own number of retries.

        The number has no effect if messages are tried again forever: where should this one go?

        Args:
            max_retries: its number; None is that of this policy.
        """
        if max_retries is None or self.max_retries is None:
            return self
        return replace(self, max_retries=max_retries)

    def may_defer(self, times: int, seconds: float, *, free: int = 1) -> bool:
        """
        Return whether one more receive of a message may count as not begun.

        Args:
            times: how many of its receives count as not begun.
            seconds: seconds since its first receive.
            free: so many may count as not begun however long ago its first receive was.
        """
        is_in_time = times < free or seconds < self.max_deferred_seconds
        return times < self.max_deferrals and is_in_time

    def is_suspected_poison(self, attempt: int) -> bool:
        """
        Return whether a message has had more attempts than its policy allows, and one more.

        Its last attempts had no outcome: their workers were killed, or stopped before the handlers
        ended. One more is normal: a killed worker may have received the message without having
        called its handler.

        Args:
            attempt: the number of the attempt.
        """
        return self.max_retries is not None and attempt > self.max_retries + 2


def decide(  # noqa: PLR0911 - a table, line by line
    failure: HandlerFailure, attempt: int, policy: Policy, *, unbegun: int = 0
) -> Outcome:
    """
    Return the outcome of a message whose handler raised.

    Args:
        failure: the exception of its handler.
        attempt: the number of the attempt, from 1.
        policy: its listener's policy.
        unbegun: how many of its receives count as not begun; it was deferred so often.
    """
    kind = failure.kind
    if kind == "cancelled":
        return Dropped("its job was cancelled")
    if kind == "discard":
        return Dropped(f"discarded by its handler{_reason(failure)}")
    if kind == "unroutable" and policy.unroutable is not None:
        return DeadLettered(policy.unroutable, failure.text)
    if kind == "dead_letter":
        return _dead_letter_or_drop(f"given up by its handler{_reason(failure)}", attempt, policy)
    if kind in {"not_decodable", "unroutable", "took_process_down", "deferred_too_often"}:
        return _dead_letter_or_drop(failure.text, attempt, policy)
    if kind == "defer":
        # Where it can't be stored that a receive was no attempt, the number of attempts grows.
        number = max(attempt, unbegun + 1)
        pause = _pause(policy, number) if failure.after is None else failure.after
        pause = min(max(pause, MIN_DEFER_SECONDS), MAX_DEFER_SECONDS)
        return Deferred(pause, f"deferred by its handler{_reason(failure)}")
    summary = f"{failure.name} on attempt {attempt}"
    if failure.is_final:
        return _dead_letter_or_drop(f"{summary}, which is not retried", attempt, policy)
    if policy.max_retries is not None and attempt > policy.max_retries:
        return _dead_letter_or_drop(f"{summary}, the last", attempt, policy)
    if kind == "retry":
        pause = _pause(policy, attempt) if failure.after is None else failure.after
        return Retried(pause, f"asked for by its handler{_reason(failure)}")
    return Retried(_pause(policy, attempt), summary)


def _reason(failure: HandlerFailure) -> str:
    return f": {failure.text}" if failure.text else ""


def _dead_letter_or_drop(reason: str, attempt: int, policy: Policy) -> Outcome:
    if policy.dead_letter_queue is not None:
        return DeadLettered(policy.dead_letter_queue, reason)
    if policy.drop:
        return Dropped(reason)
    return Retried(_pause(policy, attempt), f"{reason}; there is no dead_letter_queue")


def _pause(policy: Policy, attempt: int) -> float:
    try:
        return check_duration("backoff", policy.backoff(attempt))
    except BaseException:  # noqa: BLE001 - a faulty back-off must not lose a message
        return exponential_seconds(attempt, FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)


def fixed(seconds: float) -> Backoff:
    """
    Return a back-off with the same pause before each attempt.

    Args:
        seconds: the pause, from 0.

    Raises:
        InvalidValue: it is not a number of seconds from 0 to 9,999,999.
    """
    pause = check_duration("seconds", seconds)
    return lambda _attempt: pause


def exponential(
    first: float = FIRST_BACKOFF_SECONDS,
    cap: float = MAX_BACKOFF_SECONDS,
    *,
    factor: float = 2.0,
    jitter: bool = True,
) -> Backoff:
    """
    Return a back-off whose pause grows from attempt to attempt.

    Args:
        first: the first pause, seconds.
        cap: the longest pause, seconds.
        factor: by how much each pause is longer than the one before, from 1.
        jitter: True makes each pause random, between half of it and all of it, so that messages
            that failed together are not retried together.

    Raises:
        InvalidValue: first, cap or factor is out of range, or not a number.
    """
    low, high = check_duration("first", first), check_duration("cap", cap)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 1000:  # noqa: PLR2004 - as the rule says
        raise InvalidValue("factor", 1, 1000, value=factor)

    def backoff(attempt: int) -> float:
        pause = exponential_seconds(attempt, low, high, factor=float(factor))
        return with_jitter(pause) if jitter else pause

    return backoff


def parse_backoff(value: object) -> Backoff:
    """
    Return the back-off for a listener's option: a function, seconds, or seconds by attempt.

    Raises:
        InvalidFormat: it is none of these.
        InvalidValue: a pause is not a number of seconds from 0 to 9,999,999.
    """
    if callable(value):
        return value
    if isinstance(value, int | float):
        return fixed(value)
    if isinstance(value, Sequence) and value and not isinstance(value, str | bytes):
        pauses = [check_duration("backoff", pause) for pause in value]
        return lambda attempt: pauses[min(attempt, len(pauses)) - 1]
    raise InvalidFormat(
        "backoff",
        value=show(value),
        hint="A back-off is exponential(...), fixed(seconds), seconds, a list of seconds by "
        "attempt, or a function of the attempt.",
    )
