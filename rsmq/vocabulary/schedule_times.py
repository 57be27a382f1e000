"""
The times of a schedule and the options of its sends, as type checkers and editors read them.
"""

from __future__ import annotations

from datetime import timedelta

from rsmq.vocabulary.send_arguments import ScheduleSendArguments


class ScheduleTimes(ScheduleSendArguments, total=False):
    """The arguments of ``Tasks.schedule``; ``queues.schedules.add`` describes them."""

    cron: str | None
    every: float | timedelta | None
    timezone: str | None
    missed: str
    jitter: float | timedelta
    version: int | None
