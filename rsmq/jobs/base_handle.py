"""
The base classes of handles on jobs: how they are awaited, and the names of other task systems.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from rsmq.codecs.type_variables import R_co
from rsmq.errors.misuse import NamesElsewhere


class JobNamesElsewhere(NamesElsewhere):
    """The base class of the handles of jobs."""

    _elsewhere: ClassVar[Mapping[str, str]] = {
        "get": "result(timeout=10)",
        "wait": "result(timeout=10)",
        "state": "status().state",
        "ready": "status().is_ended",
        "successful": "status().state == 'succeeded'",
        "failed": "status().state == 'failed'",
        "info": "status() or progress()",
        "traceback": "status().error",
        "revoke": "cancel()",
        "abort": "cancel()",
        "refresh": "status(), which reads the record each time",
    }


class AwaitsResult(JobNamesElsewhere, Generic[R_co]):
    """The base class of what the asyncio client returns and ``await`` waits for."""

    def result(self) -> Awaitable[R_co]:
        """Return what it waits for."""
        raise NotImplementedError

    def __await__(self) -> Generator[Any, Any, R_co]:
        return self.result().__await__()


class BlocksForResult(JobNamesElsewhere, Generic[R_co]):
    """The same of the synchronous client, which refuses ``await``."""

    if not TYPE_CHECKING:

        def __await__(self):  # noqa: ANN204
            name = type(self).__name__
            raise TypeError(
                f"{name} can't be awaited: call its result(). In asyncio use AsyncRSMQ; send a "
                "task with await task.asend()"
            )
