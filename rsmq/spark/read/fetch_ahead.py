"""
The reading of messages step by step, so that Redis works while the caller uses the last step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rsmq.spark.read.message_fetch import MessageFetch, PendingMessages

#: The ids of messages, and for each the time when it becomes visible; None if that is not needed.
Part = tuple[list[bytes], Any]


def fetch_columns(
    fetch: MessageFetch, parts: Iterator[Part], most: int
) -> Iterator[dict[str, Any]]:
    """
    Yield the columns of messages: ``id``, ``visible_at`` if it is known, and those of ``fetch``.

    The next messages are requested before those before them are yielded, if their bodies are small.

    Args:
        parts: the ids of the messages.
        most: the most messages of a step.
    """
    ahead: tuple[Part, PendingMessages] | None = None
    sample = None
    try:
        for part in _divide(parts, most):
            ids, _ = part
            sample = fetch.begin_sample(ids)
            previous, ahead = ahead, None
            is_complete = previous is None or fetch.receive(previous[1])
            if fetch.is_small(ids, sample):
                ahead = part, fetch.begin(ids)
            if previous is not None:
                yield from _finish(fetch, *previous, is_complete=is_complete)
            if ahead is None:
                yield from _read_measured(fetch, part)
        if ahead is not None:
            yield from _finish(fetch, *ahead, is_complete=fetch.receive(ahead[1]))
    finally:
        if sample is not None:
            sample.abandon()
        if ahead is not None:
            ahead[1].abandon()


def _divide(parts: Iterator[Part], most: int) -> Iterator[Part]:
    for ids, times in parts:
        for begin in range(0, len(ids), most):
            yield _slice((ids, times), begin, begin + most)


def _slice(part: Part, begin: int, end: int) -> Part:
    ids, times = part
    return ids[begin:end], None if times is None else times[begin:end]


def _finish(
    fetch: MessageFetch, part: Part, pending: PendingMessages, *, is_complete: bool
) -> Iterator[dict[str, Any]]:
    """Yield the columns of messages; if they are too large for one step, in several."""
    if not is_complete:
        yield from _read_measured(fetch, part)
        return
    try:
        yield _name(part, fetch.finish(pending))
    finally:
        pending.abandon()


def _read_measured(fetch: MessageFetch, part: Part) -> Iterator[dict[str, Any]]:
    begin = 0
    for number, columns in fetch.read_measured(part[0]):
        yield _name(_slice(part, begin, begin + number), columns)
        begin += number


def _name(part: Part, columns: dict[str, Any]) -> dict[str, Any]:
    ids, times = part
    named = {"id": ids, **columns}
    return named if times is None else {**named, "visible_at": times}
