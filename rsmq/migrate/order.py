"""
Scores that keep an order: a queue sorts its messages by score, and equal ones by id.
"""

from __future__ import annotations

from collections.abc import Sequence


class NewestFirst:
    """Scores for messages that are read from the last to the first, however many."""

    def __init__(self) -> None:
        self._next: tuple[int, str] | None = None

    def score(self, sent_ms: int, id: str) -> int:
        """
        The time when it was sent, or earlier where the one behind it was sent earlier still.

        Args:
            sent_ms: when it was sent.
            id: its id.
        """
        score = sent_ms
        if self._next is not None:
            after, after_id = self._next
            score = min(score, after)
            if score == after and id >= after_id:
                score -= 1
        self._next = score, id
        return score


class OldestFirst:
    """Scores for messages that are taken from the first to the last, a batch at a time."""

    def __init__(self) -> None:
        self._last: tuple[int, str] | None = None

    def scores(self, batch: Sequence[tuple[int, str]]) -> list[int]:
        """
        Scores behind those of the batch before.

        Inside the batch each has the time when it was sent, or earlier, as above. What was sent
        before the end of the last batch comes right behind that.

        Args:
            batch: of each message the ms when it was sent, and its id.
        """
        backwards = NewestFirst()
        scores = [backwards.score(sent_ms, id) for sent_ms, id in reversed(batch)][::-1]
        for at, (_, id) in enumerate(batch):
            if self._last is not None:
                before, before_id = self._last
                behind = before if id > before_id else before + 1
                scores[at] = max(scores[at], behind)
            self._last = scores[at], id
        return scores
