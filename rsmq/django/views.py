"""
``health``, a view for probes.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, JsonResponse
from redis.exceptions import RedisError

from rsmq.django.backend_options import split_level
from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.worker.registry import read_workers

_log = get_logger("rsmq.django")

#: A probe needs an answer soon.
_TIMEOUT_SECONDS = 2.0


def health(
    request: HttpRequest,  # noqa: ARG001 - a view has it
    backend: str = "default",
    min_workers: int = 0,
) -> JsonResponse:
    """
    Return whether Redis can be reached, and how many workers are alive; a view.

        path("health/", health)
        path("health/workers/", health, {"min_workers": 1})

    One atomic read, within two seconds. The response does not contain the text of an error, which
    is logged.

    Args:
        request: the request.
        backend: the alias of an ``RSMQBackend``.
        min_workers: how many of its workers must be alive.

    Returns:
        JSON, ``{"redis": true, "workers": 2}``; the status is 200, or 503 if Redis can't be reached
        or there are fewer workers. Without Redis, ``workers`` is null.
    """
    from rsmq.django.task_interface import task_backends  # noqa: PLC0415 - is needed here only

    try:
        workers = count_workers(task_backends[backend])
    except (RedisError, RSMQError, OSError) as error:
        _log.warning("health of TASKS[%r]: %s", backend, error)
        return JsonResponse({"redis": False, "workers": None}, status=503)
    status = 200 if workers >= min_workers else 503
    return JsonResponse({"redis": True, "workers": workers}, status=status)


def count_workers(backend: Any) -> int:
    """
    Return how many workers of a backend's queues are alive; one atomic read.

    Raises:
        ImproperlyConfigured: the settings have a fault.
        Errors of redis-py: the server can't be reached within two seconds.
    """
    _, workers = read_workers(backend.client, _TIMEOUT_SECONDS)
    wanted = backend.queues
    return len(
        [
            worker
            for worker in workers
            if worker.alive
            and (not wanted or any(split_level(queue) in wanted for queue in worker.queues))
        ]
    )
