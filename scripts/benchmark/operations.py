"""The operations that calls of this library send."""

from __future__ import annotations

from typing import Any

from rsmq import RSMQ


class Operations(RSMQ):
    """A client whose calls return their operation instead of running it."""

    def run(self, operation: Any) -> Any:
        """Return the operation itself."""
        return operation
