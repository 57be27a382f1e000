"""
The outcome of a message when its handler has returned or raised: one pure function, ``decide``.

The loops only obey it. No I/O, no clock; chance is in the back-off alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rsmq.errors import BodyNotDecodable, InvalidFormat, InvalidValue, show
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.wire.limits import MAX_SECONDS

#: Seconds to wait before the next attempt, by the number of those that failed, from 1.
Backoff: TypeAlias = Callable[[int], float]

#: The back-off where none is given, and where a given one fails: first and longest pause, seconds.
FIRST, CAP = 1.0, 300.0


class Retry(Exception):
    """
    Raised by a handler that wants its message again later; it counts as an attempt.

    Attributes:
        after: seconds; None is the listener's back-off.
    """

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        """
        Make one.

        Args:
            reason: for the log.
            after: seconds from 0 to 9,999,999.

        Raises:
            InvalidFormat: reason is a number: that is Retry(after=30).
            InvalidValue: after is out of range, or not a number.
        """
        if isinstance(reason, int | float):
            raise InvalidFormat("reason", value=reason, hint=f"Say Retry(after={reason}).")
        super().__init__(reason)
        self.after = None if after is None else _checked("after", after)


class Discard(Exception):
    """Raised by a handler that wants its message deleted without having handled it."""


class DeadLetter(Exception):
    """Raised by a handler that wants its message in the dead-letter queue, with a reason."""


class Unroutable(Exception):
    """There is no handler for a message of this type."""


class HandlerTimedOut(Exception):
    """A handler ran longer than its listener's max_runtime."""


class TookItsProcessDown(Exception):
    """A message never ended, not even when it was handled with nothing beside it."""


class LeaseOver(Exception):
    """A message waited for its call until its visibility timeout was over."""


@dataclass(frozen=True, slots=True)
class Again:
    """
    It comes back.

    Attributes:
        after: in how many seconds.
        why: a sentence for the log.
    """

    after: float
    why: str


@dataclass(frozen=True, slots=True)
class Dead:
    """
    It goes to another queue, with why.

    Attributes:
        queue: the name of that queue.
        why: the reason, a sentence.
    """

    queue: str
    why: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """
    It is deleted without having been handled.

    Attributes:
        why: a sentence for the log.
    """

    why: str


Outcome: TypeAlias = Again | Dead | Dropped


@dataclass(frozen=True, slots=True)
class Policy:
    """
    What a listener says of messages that fail.

    Attributes:
        max_retries: how often a message is tried again; None is forever.
        backoff: how long it waits before that.
        no_retry: exceptions after which it is not tried again.
        dead_letter_queue: where it goes after that; None is nowhere.
        unroutable: where messages go for which there is no handler; None is the former.
        drop: whether it is deleted where there is nowhere to go.
    """

    max_retries: int | None
    backoff: Backoff
    no_retry: tuple[type[BaseException], ...] = ()
    dead_letter_queue: str | None = None
    unroutable: str | None = None
    drop: bool = False

    def exceeded(self, attempt: int) -> bool:
        """
        Whether it was received more often than there may be attempts, by more than one.

        One receive more than attempts is nothing to wonder at: a worker that stops gives back what
        it has not begun.
        """
        return self.max_retries is not None and attempt > self.max_retries + 2


def decide(  # noqa: PLR0911 - a table, line by line
    error: BaseException, attempt: int, policy: Policy
) -> Outcome:
    """
    Return the outcome of a message whose handler raised.

    Args:
        error: the exception of its handler.
        attempt: its receive count.
        policy: its listener's.
    """
    if isinstance(error, Discard):
        return Dropped(f"discarded by its handler{_reason(error)}")
    if isinstance(error, Unroutable) and policy.unroutable is not None:
        return Dead(policy.unroutable, text_of(error))
    if isinstance(error, DeadLetter):
        return _dead(f"given up by its handler{_reason(error)}", attempt, policy)
    if isinstance(error, BodyNotDecodable | Unroutable | TookItsProcessDown):
        return _dead(text_of(error), attempt, policy)
    what = f"{type(error).__name__} on attempt {attempt}"
    asked = isinstance(error, Retry)
    if policy.no_retry and isinstance(error, policy.no_retry) and not asked:
        return _dead(f"{what}, which is not retried", attempt, policy)
    if policy.max_retries is not None and attempt > policy.max_retries:
        return _dead(f"{what}, the last", attempt, policy)
    if isinstance(error, Retry):
        return Again(_asked(error, attempt, policy), f"asked for by its handler{_reason(error)}")
    return Again(_pause(policy, attempt), what)


def text_of(error: BaseException) -> str:
    """What an exception says; nothing if it can't."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - what a program raises must not cost its worker
        return ""


def _reason(error: BaseException) -> str:
    text = text_of(error)
    return f": {text}" if text else ""


def _dead(why: str, attempt: int, policy: Policy) -> Outcome:
    if policy.dead_letter_queue is not None:
        return Dead(policy.dead_letter_queue, why)
    if policy.drop:
        return Dropped(why)
    return Again(_pause(policy, attempt), f"{why}; there is no dead_letter_queue")


def _asked(error: Retry, attempt: int, policy: Policy) -> float:
    if error.after is None:
        return _pause(policy, attempt)
    try:
        return _checked("after", error.after)
    except InvalidValue:  # it may have been set later
        return _pause(policy, attempt)


def _pause(policy: Policy, attempt: int) -> float:
    try:
        return _checked("backoff", policy.backoff(attempt))
    except Exception:  # noqa: BLE001 - what a listener gave must not cost a message
        return exponential_seconds(attempt, FIRST, CAP)


def fixed(seconds: float) -> Backoff:
    """
    A back-off that is always the same.

    Args:
        seconds: from 0.

    Raises:
        InvalidValue: it is not a number of seconds from 0 to 9,999,999.
    """
    pause = _checked("seconds", seconds)
    return lambda _attempt: pause


def exponential(
    first: float = FIRST, cap: float = CAP, *, factor: float = 2.0, jitter: bool = True
) -> Backoff:
    """
    A back-off that grows from attempt to attempt.

    Args:
        first: the first pause, seconds.
        cap: the longest pause, seconds.
        factor: by how much a pause is longer than the one before, from 1.
        jitter: True makes each pause a random part of itself, from a half on, so that messages
            that failed together don't come back together.

    Raises:
        InvalidValue: first, cap or factor is not such a number.
    """
    low, high = _checked("first", first), _checked("cap", cap)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 1000:  # noqa: PLR2004 - as the rule says
        raise InvalidValue("factor", 1, 1000, value=factor, hint=f"Got {show(factor)}.")

    def backoff(attempt: int) -> float:
        pause = exponential_seconds(attempt, low, high, factor=float(factor))
        return with_jitter(pause) if jitter else pause

    return backoff


def checked_backoff(value: object) -> Backoff:
    """
    A back-off from what a listener gave: a function, seconds, or seconds by attempt.

    Raises:
        InvalidFormat: it is none of these.
        InvalidValue: a pause is not a number of seconds from 0 to 9,999,999.
    """
    if callable(value):
        return value
    if isinstance(value, int | float):
        return fixed(value)
    if isinstance(value, Sequence) and value and not isinstance(value, str | bytes):
        pauses = [_checked("backoff", pause) for pause in value]
        return lambda attempt: pauses[min(attempt, len(pauses)) - 1]
    raise InvalidFormat(
        "backoff",
        value=show(value),
        hint="A back-off is exponential(...), fixed(seconds), seconds, a list of seconds by "
        f"attempt, or a function of the attempt; got {show(value)}.",
    )


def _checked(item: str, value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= MAX_SECONDS
    ):
        raise InvalidValue(
            item,
            0,
            MAX_SECONDS,
            value=value,
            hint=f"It is a number of seconds from 0 to {MAX_SECONDS}; got {show(value)}.",
        )
    return float(value)
