"""
The tasks that follow others: sent in the script that deletes the message of the finished task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rsmq.cells.messages import CellMessage
from rsmq.codecs import CannotEncode
from rsmq.errors import InvalidFormat, QueueNotFound
from rsmq.model import Message, to_stored
from rsmq.operations.operation import Operation
from rsmq.tasks.body import NextTask
from rsmq.tasks.converters import WrongArgument
from rsmq.tasks.operations import finish_task
from rsmq.worker.outcome import DeadLetter
from rsmq.worker.run.invoke import current_job, current_message
from rsmq.worker.run.results import encode_result
from rsmq.worker.worker import Worker

#: Returns the next task's argument as a value of JSON: of the task, by its name, and the result.
EncodeResult = Callable[[str, str, Any], Any]


class Follow(Protocol):
    """Sends what follows a task that has returned."""

    def send_next(self, following: NextTask, result: Any, stored: Any) -> None:
        """Send it, from a thread; ``stored`` is the result as a value of JSON, if it is stored."""

    async def asend_next(self, following: NextTask, result: Any, stored: Any) -> None:
        """Send it, from the event loop."""


class FollowInWorker:
    """
    Sends what follows, by a script that also deletes the message.

    The worker deletes the message once more, which changes nothing. If its lease was lost, the
    script changes nothing either: another consumer has the message. The record of a tracked message
    ends in the script.
    """

    def __init__(self, worker: Worker[Any], encode_result: EncodeResult) -> None:
        self._worker = worker
        self._encode_result = encode_result

    def send_next(self, following: NextTask, result: Any, stored: Any) -> None:
        """See ``Follow``."""
        end = self._end_of(following, result, stored)
        client = self._worker.rsmq.cells[end.cell]
        try:
            client.run(end.operation(client))
        except QueueNotFound:
            self._worker.rsmq.create_queue(following.queue, exist_ok=True)
            client.run(end.operation(client))

    async def asend_next(self, following: NextTask, result: Any, stored: Any) -> None:
        """See ``Follow``."""
        end = self._end_of(following, result, stored)
        client = self._worker.aio.cells[end.cell]
        try:
            await client.run(end.operation(client))
        except QueueNotFound:
            await self._worker.aio.create_queue(following.queue, exist_ok=True)
            await client.run(end.operation(client))

    def _end_of(self, following: NextTask, result: Any, stored: Any) -> _End:
        """
        Return the end of the call that runs here, whose message may be gone from now on.

        Raises:
            DeadLetter: the result can't be stored, or passed to the next task.
        """
        job, message = current_job.get(), current_message()
        assert job is not None  # noqa: S101 - a worker calls this
        assert message is not None  # noqa: S101 - as above
        body = add_result(following, result, self._encode_result)
        ttl = job.lane.listener.result_ttl
        encoded = b"" if ttl is None else encode_result(stored)
        job.is_finishing = True
        job.lane.note_finishing(job)
        [lease] = job.leases
        return _End(message, following, body, ttl, encoded, lease.new_progress)


@dataclass(frozen=True, slots=True)
class _End:
    """
    The end of a task's call.

    Attributes:
        message: its message.
        following: what follows.
        body: the body of the next task.
        result_ttl: seconds for which the record of the message lives; None without a record.
        result: the result as JSON, for the record.
        progress: the last progress, for the record.
    """

    message: Message[Any]
    following: NextTask
    body: dict[str, Any] | None
    result_ttl: float | None
    result: bytes
    progress: bytes

    @property
    def cell(self) -> int:
        """The number of the cell of the message."""
        return self.message.cell if isinstance(self.message, CellMessage) else 0

    def operation(self, client: Any) -> Operation[str | None]:
        """Return the operation that deletes the message and sends what follows."""
        message = self.message
        return finish_task(
            client.namespace,
            to_stored(message) if isinstance(message, CellMessage) else message,
            self.following.queue,
            self.body,
            map_id=self.following.map_id,
            number=self.following.number,
            realtime=client.realtime,
            result_ttl=self.result_ttl,
            result=self.result,
            progress=self.progress,
        )


def add_result(
    following: NextTask, result: Any, encode_result: EncodeResult
) -> dict[str, Any] | None:
    """
    Return the body of the next task with the result as its argument, if it has such an argument.

    Raises:
        DeadLetter: the result can't be this argument. Another attempt would not change that.
    """
    body = following.body
    if body is None or following.result is None:
        return body
    try:
        value = encode_result(body["task"], following.result, result)
    except (WrongArgument, CannotEncode, InvalidFormat, ValueError) as error:
        raise DeadLetter(f"its result can't be passed to task {body['task']}: {error}") from None
    return {**body, "args": {**body.get("args", {}), following.result: value}}
