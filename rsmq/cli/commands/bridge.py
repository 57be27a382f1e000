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
from click.shell_completion import CompletionItem

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, complete_queues, metrics_options
from rsmq.cli.app.errors import Failed
from rsmq.cli.commands.foreign_systems import (
    KINDS,
    ForeignOptions,
    complete_systems,
    make_source,
    open_servers,
    parse_name,
    rqueue_options,
)
from rsmq.printable import format_count
from rsmq.wire.keys import Namespace

if TYPE_CHECKING:
    from rsmq.migrate import Bridge, Inward, Outward, Server

#: The systems to which a bridge can move messages from a queue.
_TARGET_KINDS = ("list", "rfq", "stream")

#: A line for people is written after so many messages.
_MESSAGES_PER_NOTE = 10_000


def complete_bridge_ends(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the systems and the queues of the namespace, for the shell."""
    kinds = _TARGET_KINDS if param.name == "to" else tuple(KINDS)
    return [
        *complete_systems(ctx, param, incomplete, kinds),
        *complete_queues(ctx, param, incomplete),
    ]


@command(
    "bridge",
    "rsmq bridge --from rfq:ndvi --to ndvi",
    "rsmq bridge --from orders --to list:work",
    "rsmq bridge --from orders --to stream:events --rate 100",
)
@click.option(
    "--from", "origin", required=True, metavar="NAME", shell_complete=complete_bridge_ends,
    help="The source: a queue, or rfq:TOPIC, list:KEY, rqueue:QUEUE, redisrq:KEY or rsmq:QUEUE of "
    "another system.",
)  # fmt: skip
@click.option(
    "--to",
    required=True,
    metavar="NAME",
    shell_complete=complete_bridge_ends,
    help="The target: a queue; or, if the source is a queue, rfq:TOPIC, list:KEY or stream:KEY "
    "of Redis Streams.",
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
@rqueue_options
@click.option(
    "--rate",
    type=float,
    metavar="N",
    help="Move N messages in a second at most; by default as many as possible.",
)
@click.option("--limit", type=int, metavar="N", help="End after N messages.")
@click.option(
    "--wait-for-redis", default=60.0, show_default=True, metavar="DURATION",
    type=click.FloatRange(min=0),
    help="Wait so long at the start for a server that is away. Later the bridge waits forever.",
)  # fmt: skip
@metrics_options()
@click.pass_obj
def bridge(
    call: Call, /, *, origin: str, to: str, other_url: str | None, other_ns: str | None,
    unwrap: bool, schedules: bool, unique_ids: bool, prefix: str, rate: float | None,
    limit: int | None, wait_for_redis: float, metrics_port: int | None, metrics_host: str,
) -> None:  # fmt: skip
    """
    Move new messages from or to another system until stopped.

    With a bridge, producers can use the old system while consumers use RSMQ queues, or the other
    way round. The bridge runs until Ctrl-C or SIGTERM; a second signal ends it at once. If it is
    killed at any moment, no message is lost, and the next run continues. Between two servers, a
    failure can duplicate a message that is moved to a list, a topic or a stream. Messages that are
    in flight at the source, so that a consumer has received them and not yet deleted them, are not
    moved; rsmq migrate --in-flight moves them. An entry of a stream
    has the fields body, id, sent_ms and receive_count.
    """
    from rsmq.migrate import Bridge, Inward  # noqa: PLC0415 - takes time

    with open_servers(call, other_url, other_ns, wait=wait_for_redis) as (own, other):
        options = ForeignOptions(
            unwrap=unwrap, prefix=prefix, schedules=schedules, unique_ids=unique_ids
        )
        side = _make_side(call, origin, to, own, other, options=options)
        running = Bridge(side, _make_progress_callback(call), rate=rate, limit=limit)
        if metrics_port is not None:
            _serve_metrics(running, origin, to, metrics_port, metrics_host)
        is_done = False
        try:
            with _stop_on_signals(running):
                call.out.note(f"{origin} -> {to}: Ctrl-C ends it")
                running.run()
            is_done = True
        finally:
            if is_done or running.moved:
                if isinstance(side, Inward):
                    report, moved = side.report, side.report.arrived
                    call.out.result({"moved": moved, **report.as_dict()}, report.as_bridge_text())
                else:
                    result = {"from": origin, "to": to, "moved": running.moved}
                    call.out.result(result, f"{format_count(running.moved)} moved")


def _serve_metrics(running: Bridge, origin: str, to: str, port: int, host: str) -> None:
    from rsmq.metrics import BridgeMetrics, serve  # noqa: PLC0415 - needs an extra

    BridgeMetrics(running, origin, to)
    try:
        serve(port, host)
    except OSError as error:
        raise Failed(f"port {port}: {error.strerror}") from None


def _make_side(
    call: Call, origin: str, to: str, own: Server, other: Server, *, options: ForeignOptions
) -> Inward | Outward:
    from rsmq.migrate import (  # noqa: PLC0415 - takes time
        Inward,
        Outward,
        ToList,
        ToRFQ,
        ToStream,
    )

    namespace = Namespace(call.namespace, strict_names=not call.any_names)
    if _is_foreign(origin):
        if _is_foreign(to):
            raise Failed(
                f"{to!r} is not a queue", hint="One of the two is a queue of this namespace."
            )
        kind, queue = parse_name(origin)
        if queue is None:
            raise Failed(f"{origin!r} names no queue", hint=f"Name it, as in {kind}:NAME.")
        namespace.queue(to)
        return Inward(make_source(kind, other, options), queue, own, to)
    kind, _, name = to.partition(":")
    if kind not in _TARGET_KINDS or not name:
        raise Failed(
            f"{to!r} is nothing that messages can go to from a queue",
            hint="These are list:KEY, rfq:TOPIC and stream:KEY; or give --from another system.",
        )
    namespace.queue(origin)
    makers: dict[str, Callable[[str], ToList | ToRFQ | ToStream]] = {
        "list": ToList,
        "rfq": ToRFQ,
        "stream": ToStream,
    }
    return Outward(own, origin, other, makers[kind](name))


def _is_foreign(name: str) -> bool:
    return name.partition(":")[0] in {*KINDS, "stream"} and ":" in name


def _make_progress_callback(call: Call) -> Callable[[int], None]:

    last_noted = 0

    def note_progress(moved: int) -> None:
        nonlocal last_noted
        if moved >= last_noted + _MESSAGES_PER_NOTE or last_noted == 0:
            last_noted = moved
            call.out.note(f"{format_count(moved)} moved")

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
