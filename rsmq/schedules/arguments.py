"""
The arguments of a schedule, as type checkers and editors read them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Required

from rsmq.codecs import Codec
from rsmq.vocabulary.send_arguments import ScheduleSendArguments


class ScheduleTimes(ScheduleSendArguments, total=False):
    """The arguments of ``Tasks.schedule``; ``queues.schedules.add`` describes them."""

    cron: str | None
    every: float | timedelta | None
    timezone: str | None
    missed: str
    jitter: float | timedelta
    version: int | None


class ScheduleArguments(ScheduleTimes, total=False):
    """The arguments of ``Worker.schedule``; ``queues.schedules.add`` describes them."""

    queue: Required[str]
    body: object
    codec: Codec | None
    tick_field: str | None
