"""
Operations on workers: their list, an order to one, and its report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, on_keys
from rsmq.operations.plain import plain_command
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name
from rsmq.wire.orders import REPORT_FIELD, RunningCall, read_report
from rsmq.wire.workers import WorkerInfo, read_worker

load = loader_of("control")


def list_workers(namespace: Namespace) -> Operation[tuple[int, dict[str, bytes]]]:
    """Return the server's time in ms, and the stored entry of each worker by its name."""
    return on_keys(
        load("list_workers"),
        (namespace.workers,),
        (),
        lambda reply: (
            int(reply[0]),
            {
                decode_name(name): stored
                for name, stored in zip(reply[1][::2], reply[1][1::2], strict=True)
            },
        ),
    )


def parse_workers(now: int, stored: Mapping[str, bytes]) -> tuple[int, list[WorkerInfo]]:
    """
    Return the time and the workers, by name, of the result of ``list_workers``.

    An entry that another program has written and that can't be read is left out; the doctor
    reports it.
    """
    entries = (read_worker(now, name, entry) for name, entry in sorted(stored.items()))
    return now, [each for each in entries if each is not None]


def order_worker(
    namespace: Namespace,
    name: str,
    order: Literal["pause", "concurrency", "running", "stop"],
    value: str = "",
    *,
    seconds: float | None,
) -> Operation[bool]:
    """
    Give an order to a live worker, in place of an earlier one of this kind.

    Args:
        value: its value, as ``wire.orders`` reads it.
        seconds: after how many it ends; None removes it.

    Returns:
        Whether there is such a worker.

    Raises:
        MissingParameter, InvalidFormat: the name is invalid.
    """
    lifetime = b"" if seconds is None else digits(round(seconds * 1000))
    return on_keys(
        load("order_worker"),
        (namespace.workers, namespace.held(name)),
        (name.encode(), order.encode(), value.encode(), lifetime),
        bool,
    )


def read_running(namespace: Namespace, name: str) -> Operation[tuple[RunningCall, ...] | None]:
    """Return the report of a worker; None if it has not written one since it was asked."""
    return plain_command("HGET", namespace.held(name), REPORT_FIELD, parse=read_report)
