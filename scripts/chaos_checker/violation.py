"""A broken promise, and the calls that show it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .history import Call, Follow, Left, Schedule

#: The kinds of violations, and what each of them means.
KINDS = {
    "lost": "a message whose send was acknowledged was neither handled, nor is it left",
    "phantom": "a message that no producer sent, or that was seen before its send",
    "refused": "a message whose send was refused was stored",
    "stored twice": "one send has stored two messages",
    "one id twice": "two sends returned the same id",
    "changed body": "a message has another body than its send",
    "two leases": "a message was received while another consumer's lease was valid",
    "receipt twice": "two deliveries of a message have the same receive count",
    "receive count": "the receive count of a message did not rise",
    "stale delete": "a delete with the receipt of an earlier receive succeeded",
    "stale extension": "an extension with the receipt of an earlier receive succeeded",
    "refused delete": "a delete with a valid receipt found no message",
    "undeleted": "a message was received, or is left, after an acknowledged delete",
    "reordered": "a message was received before one that was due before it",
    "early": "a message was received before its delay was over",
    "missed": "a receive found no message, though one was visible",
    "stuck": "a message is left, though consumers found nothing to do long after its last change",
    "handled twice": "a handled message was delivered again, though no fault disturbed its worker",
    "not deleted": "a handled message is left, though no fault disturbed its worker",
    "group order": "a message was received before an earlier one of its group was gone",
    "over limit": "more messages of a limit key ran at a time than may",
    "unique twice": "two messages with the same unique key were in the queue at a time",
    "unique gone": "a send returned the id of a message with its unique key that was gone",
    "expired": "a message was received after its expiry",
    "follower lost": "a message that follows others was not sent when they were handled",
    "follower twice": "a message that follows others was sent twice",
    "follower early": "a message that follows others was received before they were handled",
    "tick lost": "a tick of a schedule sent no message",
    "tick twice": "a tick of a schedule sent two messages",
    "tick early": "a message of a schedule was received before its tick",
    "job false": "a job had ended in a way in which no handler call has ended",
    "job result": "the result of a job is not what its handler returned",
    "job undone": "a job that had ended had another state later",
    "job open": "a job whose message was handled had not succeeded at the end",
}


#: The evidence of a violation.
Record = Call | Left | Follow | Schedule


@dataclass(frozen=True)
class Violation:
    """
    A broken promise.

    Attributes:
        kind: a key of ``KINDS``.
        message: the id of the message, or its body if it has no id.
        lines: the numbers of the lines that show it.
        allowed_by: the setting of Redis that may have caused it, or None.
    """

    kind: str
    message: str
    lines: tuple[int, ...]
    allowed_by: str | None = None

    def __str__(self) -> str:
        lines = ", ".join(map(str, self.lines))
        return f"{self.kind}: {self.message} (lines {lines}): {KINDS[self.kind]}"


def violation(
    kind: str, message: str, shown_by: Iterable[Record], allowed_by: str | None = None
) -> Violation:
    """Return a violation with the lines of the calls that show it."""
    lines = {
        line
        for each in shown_by
        for line in (each.lines if isinstance(each, Call) else [each.line])
    }
    return Violation(kind, message, tuple(sorted(lines)), allowed_by)
