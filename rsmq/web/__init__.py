"""
The queues over HTTP: an API in JSON, and the routes of rest-rsmq.

    from rsmq.web import create_app
    app = create_app("redis://localhost", users="users.toml")

Needs the extra ``web``; without it, the import raises MissingExtra.
"""

from __future__ import annotations

from rsmq.errors import MissingExtra

try:
    import starlette as _starlette  # noqa: F401 - only whether it is there
except ImportError as error:
    raise MissingExtra("web", "rsmq.web") from error

from rsmq.web.application import create_app
from rsmq.web.bulk.runner import OperationRunner

__all__ = ["OperationRunner", "create_app"]
