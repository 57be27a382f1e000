"""
The arguments of a schedule, as type checkers and editors read them.
"""

from __future__ import annotations

from typing import Required

from rsmq.codecs import Codec
from rsmq.vocabulary.schedule_times import ScheduleTimes


class ScheduleArguments(ScheduleTimes, total=False):
    """The arguments of ``Worker.schedule``; ``queues.schedules.add`` describes them."""

    queue: Required[str]
    body: object
    codec: Codec | None
    tick_field: str | None
