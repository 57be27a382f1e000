"""
Django: a backend for its tasks, a command for their worker, and messages sent on commit.

    INSTALLED_APPS = [..., "rsmq.django"]
    TASKS = {
        "default": {
            "BACKEND": "rsmq.django.RSMQBackend",
            "OPTIONS": {"url": "redis://127.0.0.1:6379/0"},
        }
    }

    python manage.py rsmq_worker

Django imports this module before its applications are ready, so the names are imported when they
are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rsmq.errors import MissingExtra

if TYPE_CHECKING:
    from rsmq.django.backend import RSMQBackend
    from rsmq.django.transactions import send_on_commit
    from rsmq.django.views import health

__all__ = ["RSMQBackend", "health", "send_on_commit"]

_MODULES = {"RSMQBackend": "backend", "health": "views", "send_on_commit": "transactions"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "django":
            raise
        raise MissingExtra("django", f"{__name__}.{name}") from None
