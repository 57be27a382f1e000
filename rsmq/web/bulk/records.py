"""
The records of operations of many messages, and the scripts that begin and change them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.plain import encode_command, parse_fields, plain_command, plain_commands
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name, encode_name

load = loader_of("web")

#: Operations that are not ended.
MAX_UNFINISHED = 100
#: Ms for which a record is kept after the end: 7 days.
_KEPT = digits(7 * 24 * 3600 * 1000)


class OperationKind(Enum):
    """The change of the messages."""

    REDRIVE = "redrive"
    RELEASE_ALL = "release-all"
    SWEEP = "sweep"
    SWEEP_EXPIRED = "sweep-expired"
    DELETE = "delete"
    MOVE = "move"
    RELEASE = "release"


class OperationState(Enum):
    """The states of an operation; ``change_operation.lua`` has the transitions."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """
    An operation of many messages.

    Attributes:
        arguments: destination, filter, state, rate and before_ms, if they were passed; and undo,
            the id with which a deletion can be undone.
        cursor: where the next step begins; None before the first one.
        done: messages that were changed.
        scanned: messages that were looked at.
        left: dead letters that stay because the queue that they came from is gone.
        total: messages to look at, as of the begin.
        rate: messages that it looks at in a second, since a process has taken it; None before its
            first step.
        begun_ms: Unix ms of the server.
        creator: the name of the caller.
        address: its address.
    """

    id: str
    kind: OperationKind
    queue: str
    arguments: Mapping[str, Any]
    state: OperationState
    cursor: Any
    done: int
    scanned: int
    left: int
    total: int
    rate: float | None
    begun_ms: int
    ended_ms: int | None
    error: str | None
    creator: str
    address: str

    @property
    def fence_ms(self) -> int:
        """Unix ms: it touches no message that came later."""
        before_ms: int = self.arguments.get("before_ms", self.begun_ms)
        return min(self.begun_ms, before_ms)

    @property
    def remaining_seconds(self) -> float | None:
        """The time until its end, as its rate lets expect; None if it does not run."""
        if self.state is not OperationState.RUNNING or not self.rate:
            return None
        return max(self.total - self.scanned, 0) / self.rate


def begin_operation(
    namespace: Namespace,
    kind: OperationKind,
    qname: str,
    arguments: Mapping[str, Any],
    *,
    total: int,
    creator: str,
    address: str,
) -> tuple[str, Operation[bool]]:
    """Return an id, and what stores its operation: its result is False if too many are there."""
    id = uuid.uuid4().hex
    keys = namespace.queue(qname)
    fields = {
        "kind": kind.value,
        "queue": keys.name,
        "arguments": json.dumps(arguments),
        "total": str(total),
        "creator": creator,
        "address": address,
    }
    return id, Operation(
        load("begin_operation"),
        (keys.hash, namespace.operation(id), namespace.operations),
        (
            id.encode(),
            digits(MAX_UNFINISHED),
            _KEPT,
            *(encode_name(part) for pair in fields.items() for part in pair),
        ),
        lambda reply: int(reply) != 0,
        RetryClass.ALWAYS,
        (keys.name,),
    )


def change_operation(
    namespace: Namespace,
    record: OperationRecord,
    event: str,
    *,
    owner: str = "",
    lease_ms: int = 0,
    error: str = "",
) -> Operation[tuple[OperationState | None, bool]]:
    """
    Change the state; the result is the state, and whether the event was allowed.

    Args:
        record: of the event ``advance``, with the cursor and the counts that are to be stored.
        event: take, advance, succeed or fail of a runner; pause, resume or cancel of a caller.
        owner: the runner.
        lease_ms: ms for which the runner has it from now on.
        error: of the event ``fail``, why.
    """
    return Operation(
        load("change_operation"),
        (
            Namespace(namespace.name, strict_names=False).queue(record.queue).hash,
            namespace.operation(record.id),
            namespace.operations,
        ),
        (
            record.id.encode(),
            event.encode(),
            encode_name(owner),
            digits(lease_ms),
            _KEPT,
            json.dumps(record.cursor).encode(),
            digits(record.done),
            digits(record.scanned),
            digits(record.left),
            error.encode(errors="backslashreplace"),
        ),
        lambda reply: (OperationState(reply[0].decode()) if reply[0] else None, bool(reply[1])),
        # The answer to a second run of pause, resume or cancel may be that it is not allowed.
        RetryClass.ONCE,
    )


def due_operations(namespace: Namespace) -> Operation[list[str]]:
    """Return the ids of operations that a runner may take."""
    return Operation(
        load("due_operations"),
        (namespace.operations,),
        (digits(MAX_UNFINISHED),),
        lambda reply: [each.decode() for each in reply],
        RetryClass.ALWAYS,
    )


async def read_operation(client: Any, id: str) -> OperationRecord | None:
    """Return an operation; None if there is none."""
    key = client.namespace.operation(id)
    record: OperationRecord | None = await client.run(
        plain_command("HGETALL", key, parse=lambda reply: _parse(id, reply))
    )
    return record


async def list_operations(client: Any) -> list[OperationRecord]:
    """Return all operations, the last begun first."""
    ids = await client.run(plain_command("ZRANGE", client.namespace.operations, 0, -1))
    names = [each.decode() for each in ids]
    found: list[OperationRecord] = []
    for at in range(0, len(names), 100):
        step = names[at : at + 100]
        commands = [encode_command(("HGETALL", client.namespace.operation(id))) for id in step]
        replies = await client.run(plain_commands(client.namespace.operations, commands))
        read = (_parse(id, reply) for id, reply in zip(step, replies, strict=True))
        found += [each for each in read if each is not None]
    return sorted(found, key=lambda each: each.begun_ms, reverse=True)


def _rate_of(raw: Mapping[str, str], arguments: Mapping[str, Any]) -> float | None:
    ms = int(raw.get("advanced", 0)) - int(raw.get("taken", 0))
    if ms <= 0:
        return None
    rate = (int(raw["scanned"]) - int(raw["taken_scanned"])) * 1000 / ms
    if "rate" in arguments and "filter" not in arguments:
        # A step that is recorded has not made its pause yet, which is a part of its time.
        return float(min(rate, arguments["rate"]))
    return rate


def _parse(id: str, reply: Any) -> OperationRecord | None:
    raw = {
        decode_name(name): decode_name(value) for name, value in parse_fields(reply or ()).items()
    }
    if not raw:
        return None
    arguments = json.loads(raw["arguments"])
    return OperationRecord(
        id=id,
        kind=OperationKind(raw["kind"]),
        queue=raw["queue"],
        arguments=arguments,
        state=OperationState(raw["state"]),
        cursor=json.loads(raw.get("cursor", "null")),
        done=int(raw.get("done", 0)),
        scanned=int(raw.get("scanned", 0)),
        left=int(raw.get("left", 0)),
        total=int(raw["total"]),
        rate=_rate_of(raw, arguments),
        begun_ms=int(raw["begun"]),
        ended_ms=int(raw["ended"]) if "ended" in raw else None,
        error=raw.get("error"),
        creator=raw["creator"],
        address=raw["address"],
    )
