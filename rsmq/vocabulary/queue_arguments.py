# Generated from rsmq/vocabulary/queues.py by scripts/generate-sync. Do not edit.
"""
The options of calls that set attributes of a queue, as type checkers and editors read them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypedDict


class CreateArguments(TypedDict, total=False):
    """The options of ``create_queue``."""

    vt: float | timedelta
    """
    The visibility timeout, how long a received message is hidden: whole seconds, 0 to 9,999,999.
    """

    delay: float | timedelta
    """How long a new message is hidden: whole seconds, 0 to 9,999,999."""

    maxsize: int
    """
    The size limit of a body, 1024 to 65,536, or -1 for unlimited: UTF-16 code units if the codec
    encodes to text, otherwise bytes.
    """

    keep: float | timedelta
    """After how many whole seconds from its send a message expires, 0 to 9,999,999; 0 is never."""


class SetArguments(TypedDict, total=False):
    """The options of ``set_queue_attributes``."""

    vt: float | timedelta | None
    """
    The visibility timeout, how long a received message is hidden: whole seconds, 0 to 9,999,999;
    None does not change it.
    """

    delay: float | timedelta | None
    """How long a new message is hidden: whole seconds, 0 to 9,999,999; None does not change it."""

    maxsize: int | None
    """
    The size limit of a body, 1024 to 65,536, or -1 for unlimited: UTF-16 code units if the codec
    encodes to text, otherwise bytes; None does not change it.
    """

    keep: float | timedelta | None
    """
    After how many whole seconds from its send a message expires, 0 to 9,999,999; 0 is never; None
    does not change it.
    """

    expired: Literal["drop", "dead-letter"] | None
    """
    "drop" removes expired messages, as by default; "dead-letter" moves them to the dead-letter
    queue of the policy, and while that can't be written, they don't expire; None does not change
    it.
    """
