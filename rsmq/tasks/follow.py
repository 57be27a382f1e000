"""
The tasks that follow others: sent in the script that deletes the message of the finished task.
"""

from __future__ import annotations

from collections.abc import Callable
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
from rsmq.worker.run.invoke import current_message
from rsmq.worker.worker import Worker

#: Returns the next task's argument as a value of JSON: of the task, by its name, and the result.
EncodeResult = Callable[[str, str, Any], Any]


class Follow(Protocol):
    """Sends what follows a task that has returned."""

    def send_next(self, following: NextTask, result: Any) -> None:
        """Send it, from a thread."""

    async def asend_next(self, following: NextTask, result: Any) -> None:
        """Send it, from the event loop."""


class FollowInWorker:
    """
    Sends what follows, by a script that also deletes the message.

    The worker deletes the message once more, which changes nothing. If its lease was lost, the
    script changes nothing either: another consumer has the message.
    """

    def __init__(self, worker: Worker[Any], encode_result: EncodeResult) -> None:
        self._worker = worker
        self._encode_result = encode_result

    def send_next(self, following: NextTask, result: Any) -> None:
        """See ``Follow``."""
        message = self._message()
        body = self.body_of(following, result)
        client = self._worker.rsmq.cells[_cell_of(message)]
        try:
            client.run(_operation(client, message, following, body))
        except QueueNotFound:
            self._worker.rsmq.create_queue(following.queue, exist_ok=True)
            client.run(_operation(client, message, following, body))

    async def asend_next(self, following: NextTask, result: Any) -> None:
        """See ``Follow``."""
        message = self._message()
        body = self.body_of(following, result)
        client = self._worker.aio.cells[_cell_of(message)]
        try:
            await client.run(_operation(client, message, following, body))
        except QueueNotFound:
            await self._worker.aio.create_queue(following.queue, exist_ok=True)
            await client.run(_operation(client, message, following, body))

    @staticmethod
    def _message() -> Message[Any]:
        message = current_message()
        assert message is not None  # noqa: S101 - a worker calls this
        return message

    def body_of(self, following: NextTask, result: Any) -> dict[str, Any] | None:
        """Return the body of the next task with the result; see ``add_result``."""
        return add_result(following, result, self._encode_result)


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


def _cell_of(message: Message[Any]) -> int:
    return message.cell if isinstance(message, CellMessage) else 0


def _operation(
    client: Any, message: Message[Any], following: NextTask, body: dict[str, Any] | None
) -> Operation[str | None]:
    return finish_task(
        client.namespace,
        to_stored(message) if isinstance(message, CellMessage) else message,
        following.queue,
        body,
        map_id=following.map_id,
        number=following.number,
        realtime=client.realtime,
    )
