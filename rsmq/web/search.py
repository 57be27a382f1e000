"""
Reads messages for lists: pages of a queue, and searches within a budget of Redis's time.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rsmq.codecs import Codec, blocks
from rsmq.errors import NotPossible
from rsmq.model import State
from rsmq.operations.messages import get_part
from rsmq.operations.operation import Operation
from rsmq.search.message_filter import FilteredMessage, SearchFilter
from rsmq.search.operations import STEP, SearchCandidate, SearchPosition, SearchStep, search_step
from rsmq.search.redaction import Redaction
from rsmq.web.bodies import BODIES, bodies_of, open_message, whole_bodies_of
from rsmq.web.client import Client
from rsmq.wire.body_format import describe, is_formatted

T = TypeVar("T")

#: Bytes of a body in a list.
BODY_BYTES = 4096
#: Ids in a step without a search: memory that was not used for a while takes up to 0.15 ms an id.
_PAGE_STEP = 25
#: Seconds after which a search answers with the messages found so far.
MAX_SECONDS = 2.0
#: Bytes of bodies, times the walks through each, that are searched in the event loop itself: at
#: most about 20 ms.
_BYTES_AT_ONCE = 64 * 1024
#: A search waits so many times as long as its step took: it uses a tenth of Redis's time.
_PAUSE = 9


class _Turns:
    """
    The turns of the searches of an event loop, so that all of them share the tenth.

    Attributes:
        free_at: when the next step may run, by the clock of the loop.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.free_at = 0.0

    async def run(self, client: Any, step: Operation[T]) -> T:
        """Run a step when it is its turn."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            await asyncio.sleep(self.free_at - loop.time())
            begun = loop.time()
            try:
                result: T = await client.run(step)
            finally:
                now = loop.time()
                self.free_at = now + min(_PAUSE * (now - begun), MAX_SECONDS)
        return result


_turns: WeakKeyDictionary[AbstractEventLoop, _Turns] = WeakKeyDictionary()


async def run_paced(client: Any, step: Operation[T]) -> T:
    """Run a step of a walk when it is its turn: together they use a tenth of Redis's time."""
    return await _turns.setdefault(asyncio.get_running_loop(), _Turns()).run(client, step)


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """
    Which messages to read.

    Attributes:
        state: only those in this state.
        filter: only those that fit; without terms all.
        limit: at most so many.
        redaction: of the caller; the filter looks at bodies as the caller sees them.
        is_export: whether bodies are read whole, in steps that are paced.
    """

    queue: str
    state: State | None
    filter: SearchFilter
    limit: int
    redaction: Redaction
    is_export: bool = False

    @property
    def is_search(self) -> bool:
        """Whether it may have to look at many messages that it does not return."""
        return self.is_export or bool(self.filter.terms) or self.state not in {None, "visible"}


@dataclass(frozen=True, slots=True)
class MessagePage:
    """
    The messages that were found.

    Attributes:
        scanned: the number of ids that were looked at.
        next: where the next page begins; None after the last page.
    """

    found: list[SearchCandidate]
    scanned: int
    next: SearchPosition | None


async def read_page(queues: Client, query: MessageQuery, position: SearchPosition) -> MessagePage:
    """
    Return the messages behind a position.

    A search ends early, after two seconds.

    Raises:
        QueueNotFound: the queue does not exist.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + MAX_SECONDS
    found: list[SearchCandidate] = []
    scanned = 0
    behind: SearchPosition | None = position
    while behind is not None and len(found) < query.limit and (not scanned or loop.time() < end):
        wanted = query.limit - len(found)
        step = await _run(queues, query, behind, wanted)
        scanned += step.scanned
        fitting, looked = await find_fitting(query, step.candidates, wanted)
        found += [step.candidates[at] for at in fitting]
        all_looked = looked == len(step.candidates)
        behind = step.position if all_looked else step.candidates[looked - 1].position
    return MessagePage(found, scanned, behind)


async def read_message(
    queues: Client, qname: str, id: str, redaction: Redaction, max_bytes: int | None
) -> SearchCandidate | None:
    """
    Return a message with a part of its body; None if it is not there.

    Args:
        max_bytes: bytes of the body to read at most; None is all, and so it is with redaction,
            which needs the whole body.

    Raises:
        QueueNotFound: the queue does not exist.
    """
    codec = whole_bodies_of(queues)
    cut = None if redaction or codec is not BODIES else max_bytes
    found = await queues.run(get_part(queues.namespace, qname, id, codec=codec, max_bytes=cut))
    if found is None:
        return None
    candidate = SearchCandidate(*found, None, SearchPosition())
    return (await open_found([candidate], codec))[0]


async def open_found(found: list[SearchCandidate], codec: Codec) -> list[SearchCandidate]:
    """Return what was found, with what is inside bodies; with BODIES the same."""
    if codec is BODIES:
        return found

    def open_each() -> list[SearchCandidate]:
        messages = [open_message(each.message) for each in found]
        return [
            replace(each, message=message, size=len(message.raw))
            for each, message in zip(found, messages, strict=True)
        ]

    if blocks(codec):
        return await asyncio.to_thread(open_each)
    return await walk_through([each.message.raw for each in found], 1, open_each)


async def _run(
    queues: Client, query: MessageQuery, position: SearchPosition, wanted: int
) -> SearchStep:
    terms, codec = query.filter.terms, bodies_of(queues)
    # What the server does not compare needs whole bodies.
    sees_stored = not query.redaction and codec is BODIES
    is_plain = sees_stored and all(term.field != "json" for term in terms)
    has_cause = any(term.field in {"cause", "key"} for term in terms)
    of_server = [term for term in terms if sees_stored or term.field != "body"]
    step = search_step(
        queues.namespace.queue(query.queue),
        position,
        codec=codec,
        state=query.state,
        count=min(wanted, STEP) if is_plain and not has_cause else STEP,
        most=STEP if query.is_search else min(wanted, _PAGE_STEP),
        cut=BODY_BYTES if is_plain and not query.is_export else None,
        terms=of_server,
    )
    found = await (run_paced(queues, step) if query.is_search else queues.run(step))
    return replace(found, candidates=await open_found(found.candidates, codec))


async def find_fitting(
    query: MessageQuery, candidates: Sequence[SearchCandidate], wanted: int
) -> tuple[list[int], int]:
    """
    Return the indexes of the first messages that fit, and how many were looked at.

    Much work is done in a thread, so that the event loop can run, and ends after two seconds.

    Args:
        wanted: at most so many.
    """
    json_terms = sum(term.field == "json" for term in query.filter.terms)
    return await walk_through(
        [each.message.raw for each in candidates],
        json_terms + len(query.redaction.paths),
        lambda: _find_fitting(query, candidates, wanted),
    )


async def walk_through(bodies: Iterable[bytes], walks: int, call: Callable[[], T]) -> T:
    """Return the result of a call that walks so often through each body: much is for a thread."""
    if walks * sum(map(len, bodies)) <= _BYTES_AT_ONCE:
        return call()
    return await asyncio.to_thread(call)


def _find_fitting(
    query: MessageQuery, candidates: Sequence[SearchCandidate], wanted: int
) -> tuple[list[int], int]:
    end = time.monotonic() + MAX_SECONDS
    fitting: list[int] = []
    for at, each in enumerate(candidates):
        if fits(query, each):
            fitting.append(at)
        if len(fitting) == wanted or time.monotonic() > end:
            return fitting, at + 1
    return fitting, len(candidates)


def fits(query: MessageQuery, candidate: SearchCandidate) -> bool:
    """Return whether a message that the server has found fits, as its reader sees it."""
    message, filter = candidate.message, query.filter
    looks_into_bodies = any(term.field in {"body", "json"} for term in filter.terms)
    if looks_into_bodies and is_formatted(message.raw):
        raise NotPossible(
            f"The body of message {message.id} is {describe(message.raw)}, so bodies of this queue "
            "can't be searched",
            hint="Search by other facts, or start the server with the codec of the bodies.",
        )
    raw = query.redaction.body(message.raw) if looks_into_bodies else b""
    if raw is None:
        # No text and no value is found in a body that is withheld.
        return False
    if len(message.raw) < candidate.size:
        # The server has compared the whole body, of which there is only a part here.
        filter = SearchFilter(tuple(term for term in filter.terms if term.field != "body"))
    facts = FilteredMessage(
        message.id,
        raw,
        message.receive_count,
        candidate.sent_us,
        message.reason,
        message.limit_key or message.group,
    )
    return filter.fits(facts)
