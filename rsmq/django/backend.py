"""
``RSMQBackend``, the backend for Django's tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.core import checks
from django.utils import timezone

from rsmq._sync.client import RSMQ
from rsmq.codecs import JSON, CannotDecode
from rsmq.django.backend_options import (
    find_fault_of_queue,
    find_problems,
    get_client,
    queue_of,
    split_level,
)
from rsmq.django.operations import read_task
from rsmq.django.task_call import (
    DjangoCall,
    InvalidCall,
    check_arguments,
    decode_call,
    encode_call,
    find_task,
)
from rsmq.django.task_interface import (
    BaseTaskBackend,
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from rsmq.django.task_results import change, make_result, read_result, sent_at
from rsmq.errors import MessageNotString, QueueNotFound, RSMQError
from rsmq.wire.ids import check_id

_RESULT_ID = re.compile(r"([A-Za-z0-9]{32})-([A-Za-z0-9_-]+)")


class RSMQBackend(BaseTaskBackend):
    """
    A backend for ``django.tasks`` and django-tasks: each task is a message, which a worker handles.

    ``manage.py rsmq_worker`` runs the worker. Delivery is at least once: if a worker is killed, its
    task is run again.

    A message is an ordinary one with the JSON body ``{"task": PATH, "args": {...}}``, so programs
    in Node and PHP can enqueue a task. Consumers there ignore priorities and results.

    Attributes:
        alias: its alias in ``TASKS``.
        queues: the names of ``QUEUES``; empty allows all.
        options: its ``OPTIONS``: ``url``, and the optional ``ns``, ``client`` (a dict of
            other options of ``RSMQ.from_url``), ``max_retries`` (0), ``backoff``, ``drop``,
            ``max_runtime``, ``vt`` and ``result_ttl``, as ``Worker.listener`` has them.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def client(self) -> RSMQ[Any]:
        """
        The client, which all threads share.

        Raises:
            ImproperlyConfigured: the settings have a fault.
        """
        return get_client(self.alias, self.queues, self.options)

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:  # noqa: ARG002 - Django's
        """Return the faults in its settings. It makes no call to Redis."""
        return [
            checks.Error(problem.text, hint=problem.hint, id=problem.id)
            for problem in find_problems(self.alias, self.queues, self.options)
        ]

    def validate_task(self, task: Any) -> None:
        """
        Check that it can run a task. It makes no call to Redis.

        Args:
            task: the task.

        Raises:
            InvalidTask: it can't (django-tasks: InvalidTaskError).
        """
        super().validate_task(task)
        fault = find_fault_of_queue(task.queue_name)
        if fault is not None:
            raise InvalidTask(fault)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """
        Send a message that calls a task. One script, one round trip.

        A queue that is missing is created. The message is sent at once, also within a transaction
        of the database: see ``transaction.on_commit``. If this raises a connection error, it may or
        may not have been stored. Signals: ``task_enqueued``.

        Args:
            task: the task. Its priority chooses the queue: that of the task, above 0 the level
                ``high`` of it, below 0 the level ``low``. Its ``run_after`` is at most 9,999,999
                seconds ahead.
            args: its arguments; they and kwargs must be values of JSON.
            kwargs: its arguments by name.

        Returns:
            The ``TaskResult``, with the status READY.

        Raises:
            InvalidTask: as ``validate_task``.
            TypeError: the arguments do not fit the function, or are not values of JSON.
            InvalidValue: run_after is too far ahead.
            MessageTooLong: the body is larger than the queue's maxsize, by default 65,536.
            ImproperlyConfigured: the settings have a fault.
            Errors of redis-py: the server can't be reached.
        """
        self.validate_task(task)
        check_arguments(task, args, kwargs)
        call = DjangoCall(task.module_path, list(args), dict(kwargs), task.priority, task.run_after)
        result = make_result(task, call, "", TaskResultStatus.READY)
        run_after = task.run_after
        if run_after is not None and timezone.is_naive(run_after):
            run_after = timezone.make_aware(run_after)
        client, queue = self.client, queue_of(task.queue_name, task.priority)
        body = encode_call(task, result.args, result.kwargs)
        send = partial(
            client.send_message, queue, body, deliver_at=run_after, track=True, codec=JSON
        )
        try:
            try:
                id = send()
            except QueueNotFound:
                client.create_queue(queue, exist_ok=True)
                id = send()
        except MessageNotString as error:  # Django accepts NaN and lone surrogates
            raise TypeError(f"{task.module_path}: an argument is not JSON. {error}") from None
        change(result, id=f"{id}-{queue}", enqueued_at=sent_at(id), backend=self.alias)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """
        Return the result of a task. One atomic script.

        Args:
            result_id: the ``id`` of its ``TaskResult``.

        Raises:
            TaskResultDoesNotExist: there is no such id; its time to live has ended; its message was
                deleted before a worker began it; or its function does not exist any more.
            Errors of redis-py: the server can't be reached.
        """
        found = _RESULT_ID.fullmatch(result_id) if isinstance(result_id, str) else None
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        id, stored_queue = found.groups()
        queue, client = split_level(stored_queue), self.client
        try:
            record = client.run(read_task(client.namespace.queue(stored_queue), check_id(id)))
        except RSMQError:
            raise TaskResultDoesNotExist(result_id) from None
        if record is None or record.call is None:
            raise TaskResultDoesNotExist(result_id)
        try:
            call = decode_call(JSON.decode(record.call))
            task = find_task(call, queue, self.alias)
        except (CannotDecode, InvalidCall, InvalidTask) as error:
            raise TaskResultDoesNotExist(f"{result_id}: {error}") from error
        result = read_result(task, call, id, record)
        change(result, id=result_id)
        return result
