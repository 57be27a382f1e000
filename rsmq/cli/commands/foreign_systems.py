"""
The names of other systems in ``migrate`` and ``bridge``, as in ``rfq:ndvi``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from redis.exceptions import RedisError

from rsmq.cli.app.call import Call
from rsmq.cli.app.errors import Failed, ending_of
from rsmq.migrate import RFQ, Lists, Progress, Queues, RedisRQ, Rqueue, Server, Source

#: The systems, and what a queue of each is called there.
KINDS = {
    "rfq": "a topic",
    "list": "a list",
    "rqueue": "a queue or dead-letter queue",
    "redisrq": "a key",
    "rsmq": "a queue",
}


@dataclass(frozen=True, slots=True)
class Options:
    """
    What a source must be told.

    Attributes:
        processing: keys of processing lists.
        unwrap: whether Rqueue's bodies are taken out of what its converter wrapped them in.
        colon: whether keys have a colon behind the namespace.
        milliseconds: whether vt and delay are stored in ms.
    """

    processing: Sequence[str] = ()
    unwrap: bool = False
    colon: bool = True
    milliseconds: bool = False


def named(text: str) -> tuple[str, str | None]:
    """
    The system and the queue, of ``rfq:ndvi`` or just ``rfq``.

    Raises:
        Failed: there is no such system.
    """
    kind, colon, queue = text.partition(":")
    if kind not in KINDS or (colon and not queue):
        known = ", ".join(f"{each}:NAME" for each in KINDS)
        raise Failed(f"{text!r} is no queue of another system", hint=f"These are: {known}.")
    return kind, queue if colon else None


def source(kind: str, server: Server, options: Options) -> Source:
    """A source of a kind."""
    makers: dict[str, Callable[[], Source]] = {
        "rfq": lambda: RFQ(server),
        "list": lambda: Lists(server, processing=options.processing),
        "rqueue": lambda: Rqueue(server, unwrap=options.unwrap),
        "redisrq": lambda: RedisRQ(server),
        "rsmq": lambda: Queues(server, colon=options.colon, milliseconds=options.milliseconds),
    }
    return makers[kind]()


@contextmanager
def servers(
    call: Call, other_url: str | None, other_ns: str | None
) -> Iterator[tuple[Server, Server]]:
    """
    The server of the queues, and that of the other system.

    Args:
        call: tells where the queues are.
        other_url: the other server; None is the same one.
        other_ns: the namespace there; None is the same one.
    """
    place = call.place
    with (
        Server.from_url(place.url, ns=place.ns) as own,
        Server.from_url(other_url or place.url, ns=other_ns or place.ns) as other,
    ):
        own.raw.ping()
        try:
            other.raw.ping()
        except RedisError as error:
            raise _of_the_other(error, other_url) from None
        yield own, other


def _of_the_other(error: RedisError, url: str | None) -> Exception:
    ending = ending_of(error)
    if url is None or ending is None:
        return error
    return Failed(
        f"The other server: {ending.text}",
        exit=ending.exit,
        code=ending.code,
        hint="Its url is that of --from-url, or --other-url.",
    )


@contextmanager
def bars(call: Call) -> Iterator[Callable[[Progress], None]]:
    """A bar for each thing that is done, one after the other; a function that is told how far."""
    with ExitStack() as stack:
        advance: Callable[[float], None] = lambda _: None  # noqa: E731 - replaced by a bar's
        doing, done = "", 0

        def tell(progress: Progress) -> None:
            nonlocal advance, doing, done
            if progress.doing != doing or progress.done < done:
                stack.close()
                advance = stack.enter_context(call.out.progress(progress.doing, progress.total))
                doing, done = progress.doing, 0
            advance(progress.done - done)
            done = progress.done

        yield tell
