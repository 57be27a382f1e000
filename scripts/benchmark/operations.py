"""What the calls of this library send."""

from __future__ import annotations

from typing import Any

from rsmq import RSMQ


class Operations(RSMQ):
    """A client that returns the operation of a call, instead of running it."""

    def run(self, operation: Any) -> Any:
        """The operation itself."""
        return operation
