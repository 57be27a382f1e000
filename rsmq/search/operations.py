"""
A step of a search in the messages of a queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.codecs import Codec, bind_codec
from rsmq.model import DeadLetterReason, State, StoredMessage
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, on_queue
from rsmq.operations.replies import parse_reason, parse_stored_message, shown_at
from rsmq.operations.scripts import loader_of
from rsmq.search.message_filter import Term
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import decode_name, encode_name

load = loader_of("search")

#: Ids that a step looks at.
STEP = 200
_MAX_STEP_BYTES = 1024 * 1024
_VALUES_PER_MESSAGE = 6


@dataclass(frozen=True, slots=True)
class SearchPosition:
    """
    A position in a search.

    Attributes:
        score: of the last id that was looked at; '' before the first step.
        id: that id, as it is stored.
        rank: where the first step begins, unless it looks for a hidden state.
        skip: messages of a hidden state that are still to be skipped.
    """

    score: str = ""
    id: str = ""
    rank: int = 0
    skip: int = 0


@dataclass(frozen=True, slots=True)
class SearchCandidate:
    """
    A message that may fit.

    Attributes:
        message: as it is stored; its body may be cut.
        size: the bytes of the body.
        sent_us: Unix microseconds of the send; None if its id contains no time.
        position: behind this message.
    """

    message: StoredMessage[Any]
    size: int
    sent_us: int | None
    position: SearchPosition


@dataclass(frozen=True, slots=True)
class SearchStep:
    """
    The result of a step.

    Attributes:
        scanned: the number of ids that were looked at.
        position: where the next step begins; None at the end of the queue.
    """

    candidates: list[SearchCandidate]
    scanned: int
    position: SearchPosition | None


@dataclass(frozen=True, slots=True)
class DeadLetterEntry:
    """The id of a dead letter, when it died (Unix ms), and why; None without a reason."""

    id: str
    died_ms: float
    reason: DeadLetterReason | None


def read_reasons(
    keys: QueueKeys, position: SearchPosition
) -> Operation[tuple[list[DeadLetterEntry], SearchPosition | None]]:
    """
    Read the reasons of dead letters from a position on, without their bodies.

    Returns:
        The dead letters, and where the next step begins; None at the end of the queue.
    """

    def parse(reply: Any) -> tuple[list[DeadLetterEntry], SearchPosition | None]:
        ids, scores, reasons = reply
        found = []
        for at, (raw_id, score) in enumerate(zip(ids, scores, strict=True)):
            reason = parse_reason(reasons[at] if reasons else None)
            died = float(score) if reason is None else reason.died_ms
            found.append(DeadLetterEntry(decode_name(raw_id), died, reason))
        if len(ids) < STEP:
            return found, None
        return found, SearchPosition(scores[-1].decode(), found[-1].id)

    return on_queue(
        keys,
        load("read_reasons"),
        (keys.hash, keys.zset),
        (position.score.encode(), encode_name(position.id), digits(STEP)),
        parse,
    )


def search_step(
    keys: QueueKeys,
    position: SearchPosition,
    *,
    codec: Codec,
    state: State | None = None,
    count: int = STEP,
    most: int = STEP,
    cut: int | None = None,
    terms: Sequence[Term] = (),
) -> Operation[SearchStep]:
    """
    Return a step of a search.

    Args:
        state: only messages in this state.
        count: the messages to return at most.
        most: the ids to look at, at most 1,000.
        cut: the bytes of each body to return; None is all.
        terms: the conditions that are compared on the server, beside those of json and cause.
    """

    def parse(reply: Any) -> SearchStep:
        score, last, skip, now, vt, scanned, values, shown, errors = reply
        candidates = []
        bound = bind_codec(codec, keys.zset)
        for number, at in enumerate(range(0, len(values), _VALUES_PER_MESSAGE)):
            raw_id, raw, size, rc, first, place = values[at : at + _VALUES_PER_MESSAGE]
            id = decode_name(raw_id)
            of_message = shown_at(shown, number), errors[number]
            stored = (raw, rc or None, first or None, place, now, vt, *of_message)
            message = parse_stored_message(keys.name, id, bound, stored)
            if message is not None:
                behind = SearchPosition(place.decode(), id)
                us = parse_sent_us(id, int(now))
                candidates.append(SearchCandidate(message, size, us, behind))
        end = None
        if score is not None:
            end = SearchPosition(score.decode(), decode_name(last), skip=skip)
        return SearchStep(candidates, scanned, end)

    return on_queue(
        keys,
        load("search_messages"),
        (keys.hash, keys.zset),
        (
            position.score.encode(),
            encode_name(position.id),
            digits(position.rank),
            (state or "").encode(),
            digits(position.skip),
            digits(count),
            digits(most),
            digits(_MAX_STEP_BYTES),
            b"" if cut is None else digits(cut),
            *(part for term in terms for part in _encode(term)),
        ),
        parse,
    )


def _encode(term: Term) -> tuple[bytes, ...]:
    if term.field in {"json", "cause", "key"}:
        return ()
    value = term.value
    if term.field == "id":
        value = encode_name(value)
    return (
        term.field.encode(),
        term.operator.encode(),
        value if isinstance(value, bytes) else digits(value),
    )
