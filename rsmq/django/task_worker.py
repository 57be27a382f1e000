"""
The worker of a backend: it calls the functions of tasks with the messages of its queues.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, reset_queries
from django.utils import timezone
from redis.exceptions import RedisError, ResponseError

from rsmq.django.backend_options import add_listener, split_level
from rsmq.django.operations import AttemptLog, begin_attempt, store_errors
from rsmq.django.task_call import InvalidCall, check_arguments, decode_call, find_task
from rsmq.django.task_interface import (
    InvalidTask,
    TaskContext,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from rsmq.django.task_results import add_error, change, make_result
from rsmq.errors import RSMQError, show
from rsmq.errors.guarded_log import get_logger
from rsmq.model import Message
from rsmq.worker.delivery import Delivery
from rsmq.worker.outcome import DeadLetter, DeadLettered, Defer, Dropped, decide
from rsmq.worker.run.results import encode_result
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.worker import Worker

_log = get_logger("rsmq.django")


def make_worker(
    backend: Any,
    queues: Collection[str] = (),
    *,
    name: str | None = None,
    concurrency: int = 8,
    grace: float = 30.0,
) -> Worker[Any]:
    """
    Return a worker of a backend.

    Args:
        backend: an ``RSMQBackend``.
        queues: the names of its queues; empty is all of ``QUEUES``.
        name, concurrency, grace: as for ``Worker``.

    Raises:
        ImproperlyConfigured: the settings have a fault; or there are no queues, or other ones than
            those of ``QUEUES``.
        The errors of ``Worker``.
    """
    chosen = list(dict.fromkeys(queues)) or sorted(backend.queues)
    if not chosen:
        raise ImproperlyConfigured(
            f"TASKS[{backend.alias!r}]['QUEUES'] is empty, which allows all names. Name the queues "
            "of this worker: --queues default,mail."
        )
    for queue in chosen:
        if backend.queues and queue not in backend.queues:
            raise ImproperlyConfigured(
                f"{show(queue)} is not in TASKS[{backend.alias!r}]['QUEUES'], which has "
                f"{', '.join(sorted(backend.queues))}."
            )
    worker = Worker(
        backend.client, name=name, concurrency=concurrency, grace=grace, strict_priority=True
    )
    runner = TaskRunner(backend, worker)
    for queue in chosen:
        add_listener(worker, queue, backend.options, runner.handle)
    return worker


class TaskRunner:
    """Calls tasks, and keeps the record of each attempt."""

    def __init__(self, backend: Any, worker: Worker[Any]) -> None:
        self._backend = backend
        self._worker = worker

    def handle(self, body: Any, message: Delivery[Any]) -> Any:
        """
        Call the task of a message, in a thread of the worker, and return its result.

        Connections of the database are closed before and after it if they are too old or broken, as
        Django does for requests.
        """
        try:
            call = decode_call(body)
            task = find_task(call, split_level(message.queue), self._backend.alias)
            check_arguments(task, call.args, call.kwargs)
        except (InvalidCall, TypeError, InvalidTask) as error:
            raise DeadLetter(str(error)) from error
        worker = str(self._worker.name)
        try:
            log = self._run(begin_attempt, message, worker)
        except ResponseError as error:  # a full memory, or a missing right: tasks run nevertheless
            _log.warning("task %s: its attempt can't be recorded: %s", message.id, error)
            log = AttemptLog(None, None, (worker,), ())
        except (RedisError, OSError) as error:
            raise Defer(f"its attempt can't be recorded: {error}") from error  # it has not begun
        if log is None:
            return None  # another consumer has the message
        id = f"{message.id}-{message.queue}"
        result = make_result(task, call, message.id, TaskResultStatus.RUNNING, log)
        change(result, id=id)
        reset_queries()
        close_old_connections()
        try:
            return self._call(task, result, log, message)
        finally:
            close_old_connections()

    def _call(self, task: Any, result: Any, log: AttemptLog, message: Delivery[Any]) -> Any:
        # The error of a receiver is logged: it must not repeat a task that has returned.
        sender = type(self._backend)
        task_started.send_robust(sender, task_result=result)
        context = (TaskContext(task_result=result),) if task.takes_context else ()
        try:
            value = task.call(*context, *result.args, **result.kwargs)
        except Defer:
            raise
        except BaseException as error:
            self._fail(result, log, message, error)
            raise
        try:
            value = normalize_json(value)
            encode_result(value)  # such as NaN: the signal must not report a success then
        except (TypeError, ValueError, DeadLetter) as error:
            is_known = isinstance(error, DeadLetter)
            failure = error if is_known else DeadLetter(f"its result is not JSON: {error}")
            self._fail(result, log, message, failure)
            raise failure from error
        change(result, status=TaskResultStatus.SUCCESSFUL, _return_value=value)
        change(result, finished_at=timezone.now())
        task_finished.send_robust(sender, task_result=result)
        return value

    def _fail(
        self, result: Any, log: AttemptLog, message: Delivery[Any], error: BaseException
    ) -> None:
        """Store an error, and send the signal if it is the last one."""
        errors = add_error(result, log, message.receive_count, error)
        try:
            self._run(store_errors, message, errors)
        except (RedisError, RSMQError, OSError) as failure:
            _log.warning("task %s: its error can't be stored: %s", result.id, failure)
        policy = message._lease.policy  # type: ignore[attr-defined]  # noqa: SLF001 - with its own max_retries
        outcome = decide(read_error(error, policy), message.attempt, policy)
        if isinstance(outcome, DeadLettered | Dropped):
            change(result, status=TaskResultStatus.FAILED, finished_at=timezone.now())
            task_finished.send_robust(type(self._backend), task_result=result)

    def _run(self, make_operation: Any, message: Message[Any], value: Any) -> Any:
        """Run an operation on the record of a message."""
        client = self._worker.rsmq
        return client.run(make_operation(client.namespace, message, value))
