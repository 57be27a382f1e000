"""
The command bridge.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.errors import Failed
from rsmq.cli.commands.foreign_systems import KINDS, Options, named, servers, source
from rsmq.migrate import Bridge, Inward, Outward, Server, ToList, ToRFQ
from rsmq.wire.keys import Namespace

#: Systems to which messages can go.
_OUTWARD: dict[str, Callable[[str], ToList | ToRFQ]] = {"list": ToList, "rfq": ToRFQ}

#: Messages between two lines for a person who looks on.
_EVERY = 10_000


@command(
    "bridge",
    "rsmq bridge --from rfq:ndvi --to ndvi",
    "rsmq bridge --from orders --to list:work",
)
@click.option(
    "--from", "origin", required=True, metavar="NAME",
    help="A queue, or one of another system: rfq:TOPIC, list:KEY, rqueue:QUEUE, redisrq:KEY, "
    "rsmq:QUEUE.",
)  # fmt: skip
@click.option(
    "--to", required=True, metavar="NAME", help="A queue; or rfq:TOPIC or list:KEY, from a queue."
)
@click.option(
    "--other-url", metavar="URL",
    help="Redis of the other system, if it is another than that of --url.",
)  # fmt: skip
@click.option("--other-ns", metavar="NAME", help="Of rsmq: the namespace there.")
@click.option("--unwrap", is_flag=True, help="Of rqueue: the body is msg, without the Java class.")
@click.pass_obj
def bridge(
    call: Call, origin: str, to: str, other_url: str | None, other_ns: str | None, *, unwrap: bool
) -> None:
    """
    Move new messages as they come.

    So producers may stay with the old system while consumers are here, or the other way round. It
    goes on until Ctrl-C or SIGTERM; a second one ends it at once. Killed at any moment it loses
    nothing, and goes on when it is run again. Between two servers, a message on its way to a list
    or a topic may arrive twice when something breaks. Messages that someone handles stay: see
    migrate --in-flight.
    """
    with servers(call, other_url, other_ns) as (own, other):
        side = _side(call, origin, to, own, other, unwrap=unwrap)
        running = Bridge(side, _teller(call))
        with _signals_stop(running):
            call.out.note(f"{origin} -> {to}: Ctrl-C ends it")
            moved = running.run()
    if isinstance(side, Inward):
        report = side.report
        call.out.result({"moved": report.arrived, **report.as_dict()}, report.as_bridge_text())
    else:
        call.out.result({"from": origin, "to": to, "moved": moved}, f"{moved:,} messages moved")


def _side(
    call: Call, origin: str, to: str, own: Server, other: Server, *, unwrap: bool
) -> Inward | Outward:
    strict = Namespace(call.place.ns, strict_names=not call.place.any_names)
    if _is_foreign(origin):
        if _is_foreign(to):
            raise Failed(f"{to!r} is no queue", hint="One of the two is a queue of this namespace.")
        kind, queue = named(origin)
        if queue is None:
            raise Failed(f"{origin!r} names no queue", hint=f"Name it, as in {kind}:NAME.")
        strict.queue(to)
        return Inward(source(kind, other, Options(unwrap=unwrap)), queue, own, to)
    kind, _, name = to.partition(":")
    if kind not in _OUTWARD or not name:
        raise Failed(
            f"{to!r} is nothing that messages can go to from a queue",
            hint="These are list:KEY and rfq:TOPIC; or give --from another system.",
        )
    strict.queue(origin)
    return Outward(own, origin, other, _OUTWARD[kind](name))


def _is_foreign(name: str) -> bool:
    return name.partition(":")[0] in KINDS and ":" in name


def _teller(call: Call) -> Callable[[int], None]:
    told = 0

    def tell(moved: int) -> None:
        nonlocal told
        if moved >= told + _EVERY or told == 0:
            told = moved
            call.out.note(f"{moved:,} messages moved")

    return tell


@contextmanager
def _signals_stop(running: Bridge) -> Iterator[None]:
    """The first signal ends it in order, the second at once."""

    def stop(number: int, _: FrameType | None) -> None:
        running.stop()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
