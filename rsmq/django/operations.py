"""
Operations on the records of tracked Django tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rsmq.model import Message
from rsmq.operations.arguments import resolve_message
from rsmq.operations.operation import Operation, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import decode_name, encode_name

load = loader_of("django")


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """
    The attempts of a task.

    Attributes:
        first_begun, begun: when the first and the last attempt began, Unix ms.
        workers: the name of the worker of each attempt.
        errors: for each failed attempt its receive count, a space, and its error as JSON.
    """

    first_begun: int | None
    begun: int | None
    workers: tuple[str, ...]
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """
    The record of a tracked task.

    Attributes:
        state: as in ``rsmq.jobs.JobState``.
        call: the body of the message; None if it is not known any more.
        receives: the receive count of the last attempt.
        ended: Unix ms.
        result: JSON.
        error: type and text of the last failure.
        attempts: the attempts.
    """

    state: str
    call: bytes | None
    receives: str
    ended: int | None
    result: bytes | None
    error: str
    attempts: AttemptLog


def begin_attempt(namespace: Namespace, message: Message, worker: str) -> Operation[Any]:
    """
    Add an attempt to the record of a task.

    Args:
        namespace: the namespace of the queue.
        message: the message, as its handler received it.
        worker: the name of the worker.

    Returns:
        The ``AttemptLog``, with this attempt; None if the message was received again since, or is
        gone.
    """
    keys, id, count = resolve_message(namespace, message, None)
    return on_queue(
        keys,
        load("begin_attempt"),
        (keys.hash, keys.zset, keys.job(message.id)),
        (id, count, message.raw, encode_name(worker)),
        lambda reply: None if reply is None else _to_log(*reply),
    )


def store_errors(namespace: Namespace, message: Message, errors: tuple[str, ...]) -> Operation[Any]:
    """
    Replace the errors in the record of a task, if its message was not received again since.

    Args:
        namespace, message: as for ``begin_attempt``.
        errors: as in ``AttemptLog``.
    """
    keys, id, count = resolve_message(namespace, message, None)
    return on_queue(
        keys,
        load("store_errors"),
        (keys.hash, keys.zset, keys.job(message.id)),
        (id, count, "\n".join(errors).encode("utf-8", "surrogatepass")),
        lambda reply: reply,
    )


def read_task(keys: QueueKeys, id: str) -> Operation[TaskRecord | None]:
    """
    Read the record of a task.

    Args:
        keys: its queue.
        id: the id of its message.

    Returns:
        The record; None if there is neither a record nor a message.
    """
    return on_queue(
        keys,
        load("read_task"),
        (keys.hash, keys.zset, keys.job(id)),
        (encode_name(id),),
        lambda reply: None if reply[0] is None else _to_record(*reply),
    )


def _to_log(
    first_begun: bytes | None, begun: bytes | None, workers: bytes | None, errors: bytes | None
) -> AttemptLog:
    return AttemptLog(
        None if first_begun is None else int(first_begun),
        None if begun is None else int(begun),
        tuple(line.partition(" ")[2] for line in decode_name(workers or b"").splitlines()),
        tuple(line for line in (errors or b"").decode("utf-8", "replace").split("\n") if line),
    )


def _to_record(  # noqa: PLR0917 - the reply of the script
    state: bytes,
    call: bytes | None,
    receives: bytes | None,
    begun: bytes | None,
    ended: bytes | None,
    result: bytes | None,
    error: bytes | None,
    *log: bytes | None,
) -> TaskRecord:
    first_begun, workers, errors = log
    return TaskRecord(
        decode_name(state),
        call,
        decode_name(receives or b""),
        None if ended is None else int(ended),
        result,
        (error or b"").decode("utf-8", "replace"),
        _to_log(first_begun, begun, workers, errors),
    )
