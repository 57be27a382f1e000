"""A Django without a project, and a backend with what other clients see of its queues."""

from __future__ import annotations

import django
from django.conf import settings

try:
    import django.tasks

    APPS = []
except ModuleNotFoundError:
    APPS = ["django_tasks"]

QUEUES = ["default", "mail"]


def tasks_setting(url, queues=QUEUES, **options):
    return {
        "default": {
            "BACKEND": "rsmq.django.RSMQBackend",
            "QUEUES": queues,
            "OPTIONS": {"url": url, **options},
        }
    }


if not settings.configured:
    settings.configure(
        INSTALLED_APPS=[*APPS, "rsmq.django"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        SECRET_KEY="of tests",
        TASKS=tasks_setting("memory://django"),
        TIME_ZONE="UTC",
        USE_TZ=True,
    )
    django.setup()

from rsmq.django.task_interface import task_backends  # noqa: E402 - Django is ready now
from rsmq.django.task_worker import make_worker  # noqa: E402 - as above
from rsmq.transport import memory  # noqa: E402 - as above


class Environment:
    """A backend, and what other clients see of its queues."""

    @property
    def backend(self):
        return task_backends["default"]

    @property
    def client(self):
        return self.backend.client

    @property
    def raw(self):
        """A client of redis-py, for raw keys."""
        return memory.client(self.backend.options["url"])

    def bodies(self, queue="default"):
        return [each.raw.decode() for each in self.client.peek_messages(queue)]

    def worker(self, *queues, **options):
        return make_worker(self.backend, queues, **options)

    def run(self, *queues, **options):
        self.worker(*queues, **options).run(until_empty=True, timeout=30)
