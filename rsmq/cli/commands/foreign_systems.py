"""
The names of other systems in ``migrate`` and ``bridge``, as in ``rfq:ndvi``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import options
from rsmq.cli.app.errors import Failed, describe_error
from rsmq.cli.app.wait_for_redis import wait_for_redis

if TYPE_CHECKING:
    from rsmq.migrate import Progress, Server, Source

#: The systems, and the term of each for a queue.
KINDS = {
    "rfq": "a topic",
    "list": "a list",
    "rqueue": "a queue or dead-letter queue",
    "redisrq": "a key",
    "rsmq": "a queue",
}


def complete_systems(
    _: click.Context, __: click.Parameter, incomplete: str, kinds: Sequence[str] = tuple(KINDS)
) -> list[CompletionItem]:
    """Return the systems that begin with the incomplete word, for the shell."""
    return [
        CompletionItem(f"{kind}:", help=KINDS.get(kind))
        for kind in kinds
        if f"{kind}:".startswith(incomplete)
    ]


def parse_name(text: str) -> tuple[str, str | None]:
    """
    Parse a name such as ``rfq:ndvi`` or ``rfq``.

    Returns:
        The system and the queue; the queue is None if the name has no colon.

    Raises:
        Failed: there is no such system.
    """
    kind, colon, queue = text.partition(":")
    if kind not in KINDS or (colon and not queue):
        names = ", ".join(f"{each}:NAME" for each in KINDS)
        raise Failed(f"{text!r} is not a queue of another system", hint=f"These are: {names}.")
    return kind, queue if colon else None


def make_source(kind: str, server: Server, options: Mapping[str, Any]) -> Source:
    """Return a source for a system, with the options of the command that are for it."""
    from rsmq.migrate import RFQ, Lists, Queues, RedisRQ, Rqueue  # noqa: PLC0415 - takes time

    of_rqueue = {name: options[name] for name in ("unwrap", "prefix", "schedules", "unique_ids")}
    makers: dict[str, Callable[[], Source]] = {
        "rfq": lambda: RFQ(server),
        "list": lambda: Lists(server, processing=options.get("processing", ())),
        "rqueue": lambda: Rqueue(server, **of_rqueue),
        "redisrq": lambda: RedisRQ(server),
        "rsmq": lambda: Queues(
            server,
            colon=not options.get("no_colon"),
            milliseconds=options.get("milliseconds", False),
        ),
    }
    return makers[kind]()


rqueue_options = options(
    """
    --unwrap  For rqueue: take msg as the body, without the Java class.
    --schedules  For rqueue: add a schedule for each periodic message that is moved.
    --unique-ids  For rqueue: make the id of each message its unique key in the queue.
    --prefix TEXT  For rqueue: the setting rqueue.key.prefix, if it was changed.  [default: __rq::]
    """
)


@contextmanager
def open_servers(
    call: Call, other_url: str | None, other_ns: str | None, *, wait: float = 0
) -> Iterator[tuple[Server, Server]]:
    """
    Connect to the server of the queues and to that of the other system.

    Args:
        call: the call, which has the server and the namespace of the queues.
        other_url: the URL of the other server; None for the same server.
        other_ns: the namespace of the other system; None for the same namespace.
        wait: seconds to wait at most until both servers answer.

    Yields:
        Both servers.
    """
    from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

    from rsmq.migrate import Server  # noqa: PLC0415 - takes time

    url, ns = call.url, call.namespace
    with (
        Server.from_url(url, ns=ns, realtime=call.realtime) as own,
        Server.from_url(other_url or url, ns=other_ns or ns) as other,
    ):
        wait_for_redis(own.ping, wait, call.out.note)
        try:
            wait_for_redis(other.ping, wait, call.out.note)
        except RedisError as error:
            raise _describe_other_server_error(error, other_url) from None
        yield own, other


def _describe_other_server_error(error: Exception, url: str | None) -> Exception:
    report = describe_error(error)
    if url is None or report is None:
        return error
    return Failed(
        f"The other server: {report.text}",
        exit=report.exit,
        code=report.code,
        hint="Its url is that of --from-url, or --other-url.",
    )


@contextmanager
def progress_bars(call: Call) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar for each step, one after the other; yield a function that updates it."""
    with ExitStack() as stack:
        advance: Callable[[float], None] = lambda _: None  # noqa: E731 - replaced by that of a bar
        label, done = "", 0

        def report_progress(progress: Progress) -> None:
            nonlocal advance, label, done
            if progress.doing != label or progress.done < done:
                stack.close()
                advance = stack.enter_context(call.out.progress(progress.doing, progress.total))
                label, done = progress.doing, 0
            advance(progress.done - done)
            done = progress.done

        yield report_progress
