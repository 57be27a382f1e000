"""
Tracked messages: what has become of each, and what its handler has returned.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rsmq.jobs.asyncio_ import AsyncJobHandle as AsyncJobHandle
    from rsmq.jobs.status import CancelResult as CancelResult
    from rsmq.jobs.status import JobState as JobState
    from rsmq.jobs.status import JobStatus as JobStatus
    from rsmq.jobs.status import ReportedProgress as ReportedProgress
    from rsmq.jobs.threads import JobHandle as JobHandle
else:
    # Imported at their first use: the modules of handles import others of this package.
    _MODULES = {
        "AsyncJobHandle": "rsmq.jobs.asyncio_",
        "CancelResult": "rsmq.jobs.status",
        "JobHandle": "rsmq.jobs.threads",
        "ReportedProgress": "rsmq.jobs.status",
        "JobState": "rsmq.jobs.status",
        "JobStatus": "rsmq.jobs.status",
    }
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'rsmq.jobs' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})
