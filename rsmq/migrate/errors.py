"""
Errors of moving over.
"""

from __future__ import annotations

from rsmq.errors import RSMQError


class SourceNotFound(RSMQError):
    """A queue of another system is not there."""

    code = "sourceNotFound"


class SourceChanged(RSMQError):
    """A list without ids was touched while it was copied."""

    code = "sourceChanged"


class NotPossible(RSMQError):
    """What was asked for can't be done with this source."""

    code = "notPossible"
