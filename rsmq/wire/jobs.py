"""
The records of tracked messages: their fields, states and limits. ``QueueKeys.job`` has their key.
"""

from __future__ import annotations

#: The states of a job that has ended.
ENDS = frozenset(("succeeded", "failed", "cancelled", "expired"))
#: How long the record of an ended job lives if the listener sets no result_ttl.
DEFAULT_RESULT_TTL_SECONDS = 3600.0
#: The largest result: bytes of its JSON.
MAX_RESULT_BYTES = 65_536
#: The stored length of the text of a progress.
MAX_PROGRESS_CHARACTERS = 500
