"""
The command bridge.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.errors import Failed
from rsmq.cli.commands.foreign_systems import (
    KINDS,
    SourceOptions,
    make_source,
    open_servers,
    parse_name,
)
from rsmq.wire.keys import Namespace

if TYPE_CHECKING:
    from rsmq.migrate import Bridge, Inward, Outward, Server

#: The systems to which a bridge can move messages from a queue.
_TARGET_KINDS = {"list", "rfq"}

#: A line for people is written after so many messages.
_MESSAGES_PER_NOTE = 10_000


@command(
    "bridge",
    "rsmq bridge --from rfq:ndvi --to ndvi",
    "rsmq bridge --from orders --to list:work",
)
@click.option(
    "--from", "origin", required=True, metavar="NAME",
    help="The source: a queue, or rfq:TOPIC, list:KEY, rqueue:QUEUE, redisrq:KEY or rsmq:QUEUE of "
    "another system.",
)  # fmt: skip
@click.option(
    "--to",
    required=True,
    metavar="NAME",
    help="The target: a queue; or, if the source is a queue, rfq:TOPIC or list:KEY.",
)
@click.option(
    "--other-url", metavar="URL",
    help="The URL of Redis for the other system; that of --url by default.",
)  # fmt: skip
@click.option(
    "--other-ns",
    metavar="NAME",
    help="For rsmq: the namespace of the other system; that of --ns by default.",
)
@click.option(
    "--unwrap", is_flag=True, help="For rqueue: take msg as the body, without the Java class."
)
@click.pass_obj
def bridge(
    call: Call, origin: str, to: str, other_url: str | None, other_ns: str | None, *, unwrap: bool
) -> None:
    """
    Move new messages from or to another system until stopped.

    With a bridge, producers can use the old system while consumers use RSMQ queues, or the other
    way round. The bridge runs until Ctrl-C or SIGTERM; a second signal ends it at once. If it is
    killed at any moment, no message is lost, and the next run continues. Between two servers, a
    failure can duplicate a message that is moved to a list or a topic. Messages that are in flight
    in the source are not moved; rsmq migrate --in-flight moves them.
    """
    from rsmq.migrate import Bridge, Inward  # noqa: PLC0415 - takes time

    with open_servers(call, other_url, other_ns) as (own, other):
        side = _make_side(call, origin, to, own, other, unwrap=unwrap)
        running = Bridge(side, _make_progress_callback(call))
        with _stop_on_signals(running):
            call.out.note(f"{origin} -> {to}: Ctrl-C ends it")
            moved = running.run()
    if isinstance(side, Inward):
        report = side.report
        call.out.result({"moved": report.arrived, **report.as_dict()}, report.as_bridge_text())
    else:
        call.out.result({"from": origin, "to": to, "moved": moved}, f"{moved:,} messages moved")


def _make_side(
    call: Call, origin: str, to: str, own: Server, other: Server, *, unwrap: bool
) -> Inward | Outward:
    from rsmq.migrate import Inward, Outward, ToList, ToRFQ  # noqa: PLC0415 - takes time

    namespace = Namespace(call.location.ns, strict_names=not call.location.any_names)
    if _is_foreign(origin):
        if _is_foreign(to):
            raise Failed(
                f"{to!r} is not a queue", hint="One of the two is a queue of this namespace."
            )
        kind, queue = parse_name(origin)
        if queue is None:
            raise Failed(f"{origin!r} names no queue", hint=f"Name it, as in {kind}:NAME.")
        namespace.queue(to)
        return Inward(make_source(kind, other, SourceOptions(unwrap=unwrap)), queue, own, to)
    kind, _, name = to.partition(":")
    if kind not in _TARGET_KINDS or not name:
        raise Failed(
            f"{to!r} is nothing that messages can go to from a queue",
            hint="These are list:KEY and rfq:TOPIC; or give --from another system.",
        )
    namespace.queue(origin)
    return Outward(own, origin, other, ToList(name) if kind == "list" else ToRFQ(name))


def _is_foreign(name: str) -> bool:
    return name.partition(":")[0] in KINDS and ":" in name


def _make_progress_callback(call: Call) -> Callable[[int], None]:
    last_noted = 0

    def note_progress(moved: int) -> None:
        nonlocal last_noted
        if moved >= last_noted + _MESSAGES_PER_NOTE or last_noted == 0:
            last_noted = moved
            call.out.note(f"{moved:,} messages moved")

    return note_progress


@contextmanager
def _stop_on_signals(running: Bridge) -> Iterator[None]:
    """Stop the bridge in order at the first signal. A second one ends the process at once."""

    def stop(number: int, _: FrameType | None) -> None:
        running.stop()
        signal.signal(number, signal.SIG_DFL)

    previous_handlers = {
        number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
