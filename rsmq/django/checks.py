"""
Checks for ``manage.py check --deploy``, which need the servers.
"""

from __future__ import annotations

from typing import Any

from django.core import checks
from redis.exceptions import RedisError

from rsmq.errors import RSMQError


def check_servers(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:  # noqa: ARG001 - Django's
    """Return an error for each backend whose Redis can't be reached."""
    from rsmq.django.backend import RSMQBackend  # noqa: PLC0415 - an application may not need it
    from rsmq.django.task_interface import task_backends  # noqa: PLC0415 - as above
    from rsmq.django.views import count_workers  # noqa: PLC0415 - as above

    found: list[checks.CheckMessage] = []
    for backend in task_backends.all():
        if isinstance(backend, RSMQBackend) and not backend.check():
            try:
                count_workers(backend)
            except (RedisError, RSMQError, OSError) as error:
                text = f"TASKS[{backend.alias!r}]: its Redis can't be reached: {error}"
                hint = "See 'url' and 'client' in its OPTIONS."
                found.append(checks.Error(text, hint=hint, id="rsmq.E006"))
    return found
