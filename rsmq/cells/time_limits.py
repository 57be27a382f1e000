"""
The time limit of the send that is running in this thread or task.

It is stored beside the call, because the check of a cell before its use is a part of the send too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from rsmq.operations.time_limit import TimeLimit, start_time_limit
from rsmq.wire.limits import Seconds

_current: ContextVar[TimeLimit | None] = ContextVar("rsmq time limit", default=None)
_NO_LIMIT = nullcontext()

#: Return the limit of the running send; None if it has none.
current_time_limit = _current.get


def time_limit(timeout: Seconds | None) -> AbstractContextManager[None]:
    """
    Return a context manager that gives the send inside its block a limit; None gives it none.

    Raises:
        InvalidValue: as of ``start_time_limit``.
    """
    limit = start_time_limit(timeout)
    return _NO_LIMIT if limit is None else _set(limit)


@contextmanager
def _set(limit: TimeLimit) -> Iterator[None]:
    token = _current.set(limit)
    try:
        yield
    finally:
        _current.reset(token)
