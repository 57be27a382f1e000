"""
The answer to a push, and the verdict on it. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any

#: The part of an answer that is stored with a dead letter.
STORED_ANSWER_BYTES = 2048
#: The shortest and the longest pause that a target gets for its Retry-After.
MIN_RETRY_AFTER_SECONDS, MAX_RETRY_AFTER_SECONDS = 1.0, 86_400.0
_GONE = 410
_ASKING_FOR_A_PAUSE = frozenset({429, 503})
_DIGITS = re.compile(r"[0-9]{1,15}")
_MAX_TEXT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """
    The answer to a push.

    Attributes:
        status: the status; None if there was no answer.
        text: the text of the status line; without an answer the reason for that.
        body: the first STORED_ANSWER_BYTES of the body.
        retry_after: the header Retry-After; None if the answer has none.
    """

    status: int | None
    text: str
    body: bytes = b""
    retry_after: str | None = None

    @property
    def is_success(self) -> bool:
        """Return whether the message is delivered: the status is 2xx."""
        return self.status is not None and 200 <= self.status < 300  # noqa: PLR2004 - its class

    def __str__(self) -> str:
        if self.status is None:
            return self.text
        return f"{self.status} {self.text[:_MAX_TEXT_CHARACTERS]}".rstrip()


class Verdict(Enum):
    """
    The meaning of an answer.

    Values:
        DELIVERED: the message is deleted.
        GONE: the subscription ends.
        PAUSE: the target asks for a pause; the message is released.
        FAILED: the attempt has failed.
    """

    DELIVERED = "delivered"
    GONE = "gone"
    PAUSE = "pause"
    FAILED = "failed"


class PushFailed(Exception):
    """A push was not answered 2xx."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(str(answer))
        self.answer = answer

    @property
    def dead_letter_fields(self) -> dict[str, Any]:
        """The fields of the reason that is stored with a dead letter, which differ from others."""
        body = self.answer.body.decode(errors="replace")
        return {"traceback": None, "status": self.answer.status, "answer": body}


def judge(answer: Answer, now_seconds: float) -> tuple[Verdict, float]:
    """
    Return the verdict on an answer, and for PAUSE the seconds that the target asks for.

    Only the status line decides, and for 429 and 503 the header Retry-After.

    Args:
        now_seconds: the server's time, Unix seconds.
    """
    status = answer.status
    if answer.is_success:
        return Verdict.DELIVERED, 0.0
    if status == _GONE:
        return Verdict.GONE, 0.0
    if status in _ASKING_FOR_A_PAUSE and answer.retry_after is not None:
        seconds = parse_retry_after(answer.retry_after, now_seconds)
        if seconds is not None:
            return Verdict.PAUSE, seconds
    return Verdict.FAILED, 0.0


def parse_retry_after(text: str, now_seconds: float) -> float | None:
    """
    Return the seconds of a Retry-After, between its limits; None if it is invalid.

    Args:
        text: the header: seconds, or a date.
        now_seconds: the server's time, Unix seconds.
    """
    text = text.strip()
    if _DIGITS.fullmatch(text):
        seconds = float(text)
    else:
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, TypeError, OverflowError):
            return None
        date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
        seconds = date.timestamp() - now_seconds
    return min(max(seconds, MIN_RETRY_AFTER_SECONDS), MAX_RETRY_AFTER_SECONDS)
