"""
Tracked messages: what has become of each, and what its handler has returned.
"""

from rsmq.jobs.status import JobState, JobStatus

__all__ = ["JobState", "JobStatus"]
