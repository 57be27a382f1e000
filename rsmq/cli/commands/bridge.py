"""
The command bridge.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, complete_queues, options
from rsmq.cli.app.errors import Failed
from rsmq.cli.app.signals import handling
from rsmq.cli.commands.foreign_systems import (
    KINDS,
    complete_systems,
    make_source,
    open_servers,
    parse_name,
    rqueue_options,
)
from rsmq.cli.commands.metrics_server import metrics_options, serve_metrics
from rsmq.errors.printable import format_count
from rsmq.wire.keys import Namespace

if TYPE_CHECKING:
    from rsmq.migrate import Inward, Outward, Server
    from rsmq.migrate.amazon_sqs import FromSqs, SqsQueue, ToSqs

_SQS = "sqs"
#: The systems to which a bridge can move messages from a queue, and those from which it can.
_TARGET_KINDS = ("list", "rfq", _SQS, "stream")
_SOURCE_KINDS = (*KINDS, _SQS)

#: A line for people is written after so many messages.
_MESSAGES_PER_NOTE = 10_000


def complete_bridge_ends(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the systems and the queues of the namespace, for the shell."""
    kinds = _TARGET_KINDS if param.name == "to" else _SOURCE_KINDS
    return [
        *complete_systems(ctx, param, incomplete, kinds),
        *complete_queues(ctx, param, incomplete),
    ]


@command(
    "bridge",
    "rsmq bridge --from rfq:ndvi --to ndvi",
    "rsmq bridge --from orders --to list:work",
    "rsmq bridge --from orders --to stream:events --rate 100",
    "rsmq bridge --from sqs:orders --to orders",
)
@options(
    """
    --from, origin NAME  The source: a queue, or rfq:TOPIC, list:KEY, rqueue:QUEUE, redisrq:KEY,
        rsmq:QUEUE or sqs:QUEUE of another system.  [required]
    --to NAME  The target: a queue; or, if the source is a queue, rfq:TOPIC, list:KEY, sqs:QUEUE, or
        stream:KEY of Redis Streams.  [required]
    --other-url URL  The URL of Redis for the other system; that of --url by default. For sqs: the
        URL of its server, by default that of AWS.
    --other-ns NAME  For rsmq: the namespace of the other system; that of --ns by default.
    """,
    origin={"shell_complete": complete_bridge_ends},
    to={"shell_complete": complete_bridge_ends},
)
@rqueue_options
@options(
    """
    --rate N  Move N messages in a second at most; by default as many as possible.
    --limit N  End after N messages.
    --wait-for-redis DURATION  Wait so long at the start for a server that is away. Later the bridge
        waits forever.  [default: 60.0]
    """,
    rate={"type": float},
    wait_for_redis={"type": click.FloatRange(min=0)},
)
@metrics_options
def bridge(
    call: Call, /, *, origin: str, to: str, rate: float | None, limit: int | None, **options: Any
) -> None:
    """
    Move new messages from or to another system until stopped.

    With a bridge, producers can use the old system while consumers use RSMQ queues, or the other
    way round. The bridge runs until Ctrl-C or SIGTERM; a second signal ends it at once. If it is
    killed at any moment, no message is lost, and the next run continues. Between two servers, a
    failure can duplicate a message that is moved to a list, a topic or a stream, or to a queue of
    SQS that is not FIFO. Messages that are in flight at the source, so that a consumer has received
    them and not yet deleted them, are not moved; rsmq migrate --in-flight moves them. An entry of a
    stream has the fields body, id, sent_ms and receive_count. A queue of SQS is its name or its
    URL; keys and the region are found as by boto3.
    """
    from rsmq.migrate import Bridge, Inward  # noqa: PLC0415 - takes time

    other_url = None if any(map(_is_sqs, (origin, to))) else options["other_url"]
    place = other_url, options["other_ns"]
    with open_servers(call, *place, wait=options["wait_for_redis"]) as (own, other):
        side = _make_side(call, origin, to, own, other, options=options)
        running = Bridge(side, _make_progress_callback(call), rate=rate, limit=limit)
        if options["metrics_port"] is not None:
            from rsmq.metrics import BridgeMetrics  # noqa: PLC0415 - needs an extra

            BridgeMetrics(running, origin, to)
            serve_metrics(options["metrics_port"], options["metrics_host"])
        is_done = False

        def stop(number: int, _: FrameType | None) -> None:
            running.stop()
            signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once

        try:
            with handling(stop, signal.SIGINT, signal.SIGTERM):
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


def _make_side(
    call: Call, origin: str, to: str, own: Server, other: Server, *, options: Mapping[str, Any]
) -> Inward | Outward | FromSqs | ToSqs:
    from rsmq.migrate import Inward, Outward, ToList, ToRFQ, ToStream  # noqa: PLC0415 - takes time

    namespace = Namespace(call.namespace, strict_names=not call.any_names)
    if _is_foreign(origin):
        if _is_foreign(to):
            raise Failed(
                f"{to!r} is not a queue", hint="One of the two is a queue of this namespace."
            )
        namespace.queue(to)
        if _is_sqs(origin):
            from rsmq.migrate.amazon_sqs import FromSqs  # noqa: PLC0415 - needs an extra

            return FromSqs(_open_sqs(origin, options), own, to)
        kind, queue = parse_name(origin)
        if queue is None:
            raise Failed(f"{origin!r} names no queue", hint=f"Name it, as in {kind}:NAME.")
        return Inward(make_source(kind, other, options), queue, own, to)
    kind, _, name = to.partition(":")
    if kind not in _TARGET_KINDS or not name:
        raise Failed(
            f"{to!r} is nothing that messages can go to from a queue",
            hint="These are list:KEY, rfq:TOPIC, sqs:QUEUE and stream:KEY; or give --from another "
            "system.",
        )
    namespace.queue(origin)
    if _is_sqs(to):
        from rsmq.migrate.amazon_sqs import ToSqs  # noqa: PLC0415 - needs an extra

        return ToSqs(own, origin, _open_sqs(to, options))
    makers: dict[str, Any] = {"list": ToList, "rfq": ToRFQ, "stream": ToStream}
    return Outward(own, origin, other, makers[kind](name))


def _is_foreign(name: str) -> bool:
    return name.partition(":")[0] in {*_SOURCE_KINDS, "stream"} and ":" in name


def _is_sqs(name: str) -> bool:
    return name.startswith(f"{_SQS}:")


def _open_sqs(name: str, options: Mapping[str, Any]) -> SqsQueue:
    from rsmq.migrate.amazon_sqs import SqsQueue  # noqa: PLC0415 - needs an extra

    queue = name.partition(":")[2]
    if not queue:
        raise Failed(f"{name!r} names no queue", hint=f"Name it, as in {_SQS}:NAME.")
    url = options["other_url"]
    if url is not None and not url.startswith(("http://", "https://")):
        hint = "Give a URL with http:// or https:// in --other-url, or none for AWS."
        raise Failed(f"{url!r} is not an endpoint of SQS", hint=hint)
    return SqsQueue(queue, url)


def _make_progress_callback(call: Call) -> Callable[[int], None]:

    last_noted = 0

    def note_progress(moved: int) -> None:
        nonlocal last_noted
        if moved >= last_noted + _MESSAGES_PER_NOTE or last_noted == 0:
            last_noted = moved
            call.out.note(f"{format_count(moved)} moved")

    return note_progress
