"""
The tasks that follow others: prepared when a task has returned, sent when its message is settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rsmq.codecs import JSON, CannotEncode
from rsmq.errors import InvalidFormat
from rsmq.operations.arguments import encode_body
from rsmq.tasks.body import TASK_CODEC, NextTask
from rsmq.tasks.converters import WrongArgument
from rsmq.tasks.current_flow import CurrentFlow
from rsmq.wire.keys import Namespace
from rsmq.worker.operations import FollowingMessage
from rsmq.worker.outcome import DeadLetter
from rsmq.worker.run.invoke import current_job

#: Returns the next task's argument as a value of JSON: of the task, by its name, and the result.
EncodeResult = Callable[[str, str, Any], Any]


class Follow(Protocol):
    """Takes what follows a task."""

    def check_queue(self, queue: str) -> object:
        """
        Check the name of the queue of the next task, before the task is called.

        Raises:
            InvalidFormat: there can't be such a queue.
        """

    def note_next(self, following: NextTask, result: Any) -> None:
        """
        Note what follows a task that has returned.

        Raises:
            DeadLetter: the result can't be passed to the next task.
        """

    def note_added(self, flow: CurrentFlow) -> None:
        """Note the nodes that a task that has returned adds to its flow."""


class FollowInWorker:
    """
    Notes what follows in the call, whose worker sends it in the script that deletes the message.

    So the outcome of a task is decided when its contexts and hooks have ended, and written as that
    of every message.
    """

    def __init__(self, namespace: Namespace, encode_result: EncodeResult) -> None:
        self.check_queue: Callable[[str], object] = namespace.queue
        self._encode_result = encode_result

    def note_next(self, following: NextTask, result: Any) -> None:
        """See ``Follow``."""
        job = current_job.get()
        assert job is not None  # noqa: S101 - a worker calls this
        job.next_message = make_following(following, result, self._encode_result)

    def note_added(self, flow: CurrentFlow) -> None:
        """See ``Follow``."""
        job = current_job.get()
        assert job is not None  # noqa: S101 - a worker calls this
        job.next_message = flow.as_following()


def make_following(
    following: NextTask, result: Any, encode_result: EncodeResult
) -> FollowingMessage:
    """
    Return the message that follows a task that has returned.

    Args:
        following: what follows.
        result: what the task has returned; of a task in a map, as it is stored.
        encode_result: see ``EncodeResult``.

    Raises:
        DeadLetter: as ``add_result``.
    """
    body, raw, size = add_result(following, result, encode_result), b"", 0
    if body is not None:
        raw, size = encode_body(body, TASK_CODEC)
    elif following.result is not None:
        raw = JSON.encode(result).encode()
    return FollowingMessage(following.queue, raw, size, following.map_id, following.number)


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
