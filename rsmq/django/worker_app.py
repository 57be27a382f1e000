"""
The worker of a backend, as ``rsmq-worker rsmq.django.worker_app:backend`` imports it.

``manage.py rsmq_worker`` runs that program, and names the backend and its queues in the
environment, so that all worker processes of a supervisor have them.
"""

from __future__ import annotations

import os
from typing import Any

import django

from rsmq.worker.worker import Worker

#: The alias of the backend, and the names of its queues with commas between them.
BACKEND_VARIABLE, QUEUES_VARIABLE = "RSMQ_DJANGO_BACKEND", "RSMQ_DJANGO_QUEUES"


class _Backend:
    def worker(self) -> Worker[Any]:
        """Return a new worker of the backend, in a process that has read the settings."""
        django.setup()
        from rsmq.django.task_interface import task_backends  # noqa: PLC0415 - needs the settings
        from rsmq.django.task_worker import make_worker  # noqa: PLC0415 - as above

        queues = os.environ.get(QUEUES_VARIABLE, "").split(",")
        chosen = task_backends[os.environ.get(BACKEND_VARIABLE, "default")]
        return make_worker(chosen, [name for name in queues if name])


backend = _Backend()
