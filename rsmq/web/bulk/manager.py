"""
Begins, lists and changes operations of many messages, for routes and pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, TypeAlias, get_args

from rsmq.errors import InvalidFormat, InvalidValue, NotPossible
from rsmq.model import State
from rsmq.search.message_filter import parse_filter
from rsmq.search.redaction import Redaction
from rsmq.trash.deletion import make_deletion_id
from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.bulk.records import (
    MAX_UNFINISHED,
    OperationKind,
    OperationRecord,
    begin_operation,
    change_operation,
    list_operations,
    read_operation,
)
from rsmq.web.bulk.runner import wake_runners
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.web.table import Scope

#: Messages of a second.
MAX_RATE = 10_000

OperationEvent: TypeAlias = Literal["pause", "resume", "cancel"]


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """
    The task of an operation.

    Attributes:
        kind: what is done with the messages.
        queue: whose messages.
        destination: of moves, and of redrives that do not go to the queues of origin.
        filter: of deletes, moves, releases and redrives: which messages; all with an empty one.
        state: of the same: only those in this state.
        undo: of deletes: whether they can be undone for ten minutes.
        rate: of redrives: messages of a second.
        before_ms: Unix ms of the server: messages that came later are not touched. None is the
            begin.
        skip_in_flight: whether messages in flight are left; None if they are not.
    """

    kind: OperationKind
    queue: str
    _: KW_ONLY
    destination: str | None = None
    filter: str | None = None
    state: State | None = None
    undo: bool = False
    rate: int | None = None
    before_ms: int | None = None
    skip_in_flight: bool | None = None

    def check_rights(self, allow: Callable[[Scope, str], None], redaction: Redaction) -> None:
        """
        Check whether a caller may do it.

        Args:
            allow: raises Refused if the caller does not have a scope for a queue.
            redaction: what the caller does not see of bodies.
        """
        allow(Scope.MANAGE, self.queue)
        if self.destination is not None:
            allow(Scope.SEND, self.destination)
        elif self.kind is OperationKind.REDRIVE:
            allow(Scope.SEND, ALL_QUEUES)  # each goes to the queue that it came from: any
        if self.filter is None:
            return
        allow(Scope.PEEK, self.queue)  # what fits tells what is in bodies
        fields = {term.field for term in parse_filter(self.filter).terms}
        if redaction and fields & {"body", "json"}:
            raise Refused(
                "redacted",
                "Values in bodies are redacted for this caller",
                status=403,
                hint="Use a filter without body and json.",
            )

    def arguments(self) -> dict[str, Any]:
        """Return what was chosen, for the record."""
        names = ("destination", "filter", "state", "rate", "before_ms", "skip_in_flight")
        chosen = {name: getattr(self, name) for name in names}
        chosen["undo"] = make_deletion_id() if self.undo else None
        return {name: value for name, value in chosen.items() if value is not None}


class OperationManager:
    """
    The operations of many messages of a namespace.

    Its caller checks rights. A runner of any process runs the operations.
    """

    def __init__(self, queues: Client) -> None:
        """Make it; nothing is read."""
        self._queues = queues

    async def begin(
        self, request: OperationRequest, *, creator: str, address: str
    ) -> OperationRecord:
        """
        Store an operation, and return it.

        Args:
            creator: the name of the caller.
            address: its address.

        Raises:
            QueueNotFound: the queue or the destination does not exist.
            InvalidFormat: the filter or the state is not valid, or the destination is the queue.
            InvalidValue: the rate is not between 1 and 10,000.
            NotPossible: it could not be undone now.
            Refused: too many are not ended.
        """
        if request.rate is not None and not 1 <= request.rate <= MAX_RATE:
            raise InvalidValue("rate", 1, MAX_RATE, value=request.rate)
        if request.filter is not None:
            parse_filter(request.filter)
        if request.state is not None and request.state not in get_args(State):
            hint = f"It is one of {', '.join(get_args(State))}."
            raise InvalidFormat("state", value=request.state, hint=hint)
        if request.undo and (reason := await self._queues.trash.why_off()):
            raise NotPossible(
                f"The deletion can't be undone later, because {reason}; nothing was deleted",
                value=request.queue,
            )
        destination = request.destination
        if destination is not None:
            if destination == request.queue:
                raise InvalidFormat("destination", value=destination, hint="Pass another queue.")
            await self._queues.get_queue_attributes(destination)  # raises if it does not exist
        total = (await self._queues.get_queue_attributes(request.queue)).messages
        id, beginning = begin_operation(
            self._queues.namespace, request.kind, request.queue, request.arguments(),
            total=total, creator=creator, address=address,
        )  # fmt: skip
        if not await self._queues.run(beginning):
            raise Refused(
                "tooManyOperations",
                f"{MAX_UNFINISHED} operations are not ended",
                status=429,
                hint="Wait for one, or cancel one.",
                headers={"Retry-After": "10"},
            )
        wake_runners()
        return await self.read(id)

    async def list(self) -> list[OperationRecord]:
        """Return all that are not ended, and the last ones that are; the last begun first."""
        return await list_operations(self._queues)

    async def read(self, id: str) -> OperationRecord:
        """
        Return an operation.

        Raises:
            Refused: there is no such operation.
        """
        record = await read_operation(self._queues, id)
        if record is None:
            raise Refused("operationNotFound", "There is no such operation", status=404)
        return record

    async def change(self, record: OperationRecord, event: OperationEvent) -> OperationRecord:
        """
        Pause, resume or cancel an operation, and return it as it is then.

        Raises:
            Refused: its state does not allow it.
        """
        changing = change_operation(self._queues.namespace, record, event)
        state, is_allowed = await self._queues.run(changing)
        if not is_allowed:
            raise Refused(
                "operationState",
                f"The operation is {state.value if state else 'gone'}",
                status=409,
                hint="One that has ended changes no more.",
            )
        wake_runners()
        return await self.read(record.id)
