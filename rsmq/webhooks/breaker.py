"""
The circuit breaker of a push target: its states, and the one function that changes them. Pure.

After FAILURES_TO_OPEN failures in a row the breaker is open: nothing is received or pushed. When
its pause is over, one process claims the trial, and pushes one message. A 2xx closes the breaker;
another failure opens it again, for a longer pause. The times are those of the server's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum

#: Failures in a row after which a breaker opens.
FAILURES_TO_OPEN = 10
#: The first and the longest pause of an open breaker. Each pause is twice as long as the last one.
FIRST_PAUSE_MS, MAX_PAUSE_MS = 1_000, 300_000
#: How long a process may keep the trial without a sign of life. It is longer than a push may take.
TRIAL_MS = 15_000
#: The stored length of the text of a failure.
MAX_TEXT_CHARACTERS = 200


class TargetState(StrEnum):
    """
    The state of a push target.

    Values:
        CLOSED: messages are pushed.
        OPEN: the breaker is open: nothing is pushed until its pause is over.
        TRIAL: one process pushes one message, to find out whether the target works again.
        PAUSED: the target has asked for a pause, with Retry-After.
        GONE: the target has answered 410: the subscription has ended.
    """

    CLOSED = "closed"
    OPEN = "open"
    TRIAL = "trial"
    PAUSED = "paused"
    GONE = "gone"


class PushEventKind(Enum):
    """
    The kind of an event at a push target.

    Values:
        SUCCEED: a push was answered 2xx.
        FAIL: a push failed.
        PAUSE: the target has asked for a pause.
        END: the target has answered 410.
        CLAIM: a process asks for the trial, or finds that the pause is over.
        RESUME: a person lets messages be pushed again.
    """

    SUCCEED = "succeed"
    FAIL = "fail"
    PAUSE = "pause"
    END = "end"
    CLAIM = "claim"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class PushEvent:
    """
    An event at a push target.

    Attributes:
        owner: for CLAIM the token of the process; for FAIL that of the trial whose push failed,
            empty for a push that was not a trial.
        until_ms: for PAUSE its end, Unix ms.
        text: for FAIL, PAUSE and END the answer, one line.
    """

    kind: PushEventKind
    owner: str = ""
    until_ms: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Breaker:
    """
    The circuit breaker of a push target.

    Attributes:
        failures: failures in a row, while it is closed, or paused since.
        openings: how often it has opened since it was last closed.
        until_ms: the end of the pause, or of the trial, Unix ms; 0 if it is closed or gone.
        owner: the token of the process that has the trial; otherwise empty.
        text: the last answer that was not 2xx, one line; empty if there was none.
    """

    state: TargetState = TargetState.CLOSED
    failures: int = 0
    openings: int = 0
    until_ms: int = 0
    owner: str = ""
    text: str = ""

    @property
    def failures_in_a_row(self) -> int:
        """Failures since the last success: those that opened it, and one for each failed trial."""
        return FAILURES_TO_OPEN + self.openings - 1 if self.openings else self.failures

    def has_trial(self, owner: str) -> bool:
        """Return whether a process has the trial."""
        return self.state is TargetState.TRIAL and self.owner == owner


def pause_ms(openings: int) -> int:
    """
    Return the pause of a breaker, ms.

    Args:
        openings: how often it has opened since it was last closed, from 1.
    """
    return min(FIRST_PAUSE_MS << min(openings - 1, 30), MAX_PAUSE_MS)


def transition(breaker: Breaker, event: PushEvent, now_ms: int) -> Breaker:  # noqa: PLR0911 - a table
    """
    Return the breaker after an event. An event that changes nothing returns the same object.

    Args:
        now_ms: the server's time, Unix ms.
    """
    kind = event.kind
    if kind is PushEventKind.RESUME:
        return Breaker()
    if breaker.state is TargetState.GONE:
        return breaker
    if kind is PushEventKind.END:
        return Breaker(TargetState.GONE, text=_shorten(event.text))
    if kind is PushEventKind.PAUSE:
        return replace(
            breaker,
            state=TargetState.PAUSED,
            until_ms=max(
                event.until_ms, breaker.until_ms if breaker.state is TargetState.PAUSED else 0
            ),
            owner="",
            text=_shorten(event.text),
        )
    if kind is PushEventKind.SUCCEED:
        # Also a push that began before the breaker opened: the target works.
        is_clean = breaker.state is TargetState.CLOSED and not breaker.failures
        return breaker if is_clean or breaker.state is TargetState.PAUSED else Breaker()
    if kind is PushEventKind.FAIL:
        return _fail(breaker, event, now_ms)
    return _claim(breaker, event.owner, now_ms)


def _fail(breaker: Breaker, event: PushEvent, now_ms: int) -> Breaker:
    if breaker.state is TargetState.CLOSED:
        failures = breaker.failures + 1
        if failures < FAILURES_TO_OPEN:
            return replace(breaker, failures=failures, text=_shorten(event.text))
        return _open(1, event.text, now_ms)
    if event.owner and breaker.has_trial(event.owner):
        return _open(breaker.openings + 1, event.text, now_ms)
    return breaker  # a push that began before the breaker opened


def _open(openings: int, text: str, now_ms: int) -> Breaker:
    until_ms = now_ms + pause_ms(openings)
    return Breaker(TargetState.OPEN, 0, openings, until_ms, "", _shorten(text))


def _claim(breaker: Breaker, owner: str, now_ms: int) -> Breaker:
    if breaker.state is TargetState.CLOSED:
        return breaker
    if now_ms < breaker.until_ms and not breaker.has_trial(owner):
        return breaker
    if breaker.openings == 0:  # a pause of a target whose breaker was closed
        return Breaker(failures=breaker.failures, text=breaker.text)
    return replace(breaker, state=TargetState.TRIAL, owner=owner, until_ms=now_ms + TRIAL_MS)


def _shorten(text: str) -> str:
    return text[:MAX_TEXT_CHARACTERS]
