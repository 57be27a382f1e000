"""
The application ``rsmq.django``, with the command ``rsmq_worker`` and the checks for deployment.
"""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class RSMQConfig(AppConfig):
    """The application, as ``INSTALLED_APPS`` names it."""

    name = "rsmq.django"
    label = "rsmq"
    verbose_name = "RSMQ"

    def ready(self) -> None:
        """Register the checks."""
        from rsmq.django.checks import check_servers  # noqa: PLC0415 - applications are ready now

        checks.register(check_servers, deploy=True)
