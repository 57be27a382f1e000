"""
Tracked messages: what has become of each, and what its handler has returned.
"""

from typing import TYPE_CHECKING

from rsmq.lazy_exports import export_lazily

if TYPE_CHECKING:
    from rsmq.jobs.asyncio_ import AsyncJobHandle as AsyncJobHandle
    from rsmq.jobs.asyncio_ import AsyncMapJobs as AsyncMapJobs
    from rsmq.jobs.status import CancelResult as CancelResult
    from rsmq.jobs.status import FollowingJob as FollowingJob
    from rsmq.jobs.status import JobState as JobState
    from rsmq.jobs.status import JobStatus as JobStatus
    from rsmq.jobs.status import ReportedProgress as ReportedProgress
    from rsmq.jobs.threads import JobHandle as JobHandle
    from rsmq.jobs.threads import MapJobs as MapJobs
else:
    # Imported at their first use: the modules of handles import others of this package.
    __getattr__, __dir__, __all__ = export_lazily(
        __name__,
        asyncio_=("AsyncJobHandle", "AsyncMapJobs"),
        status=("CancelResult", "FollowingJob", "JobState", "JobStatus", "ReportedProgress"),
        threads=("JobHandle", "MapJobs"),
    )
