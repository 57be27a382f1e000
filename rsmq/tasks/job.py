"""
``Job``, the message of a task that was sent.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskJob:
    """
    The message of a task that was sent.

    Attributes:
        id: the id of the message.
        queue: the name of its queue.
    """

    id: str
    queue: str
