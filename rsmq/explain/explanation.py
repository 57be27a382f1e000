"""
Why a message does not move, and why a queue is not drained, in sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

from rsmq.explain.causes import Cause, causes_of_message, causes_of_queue
from rsmq.explain.observed import ObservedMessage, ObservedQueue
from rsmq.explain.sentences import describe_message_cause, describe_queue_cause


@dataclass(frozen=True, slots=True)
class FoundCause:
    """A cause, and the sentence that says it with its evidence."""

    cause: Cause
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    Why a message does not move, or a queue is not drained.

    Attributes:
        queue: the name of the queue.
        id: the id of the message; None for a queue.
        now_ms: the server's time when the facts were read, Unix ms.
        causes: the first one decides, the others hold too; at least one.
    """

    queue: str
    id: str | None
    now_ms: int
    causes: tuple[FoundCause, ...]

    @property
    def cause(self) -> Cause:
        """The cause that decides."""
        return self.causes[0].cause

    @property
    def sentence(self) -> str:
        """The sentence of the cause that decides."""
        return self.causes[0].text


def explain_message(facts: ObservedMessage) -> Explanation:
    """Return why a message does not move."""
    causes = tuple(
        FoundCause(each, describe_message_cause(each, facts)) for each in causes_of_message(facts)
    )
    return Explanation(facts.queue.name, facts.id, facts.queue.now_ms, causes)


def explain_queue(facts: ObservedQueue) -> Explanation:
    """Return why a queue is not drained."""
    causes = tuple(
        FoundCause(each, describe_queue_cause(each, facts)) for each in causes_of_queue(facts)
    )
    return Explanation(facts.name, None, facts.now_ms, causes)
