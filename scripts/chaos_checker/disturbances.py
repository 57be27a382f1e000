"""Which calls a fault may have disturbed."""

from __future__ import annotations

from .history import Fault

#: Scripts that are missing are sent again: no call fails for it.
_HARMLESS = frozenset({"flush"})
#: A worker writes an outcome at once. After a fault it connects again, and repeats the call.
AFTERMATH_SECONDS = 10.0


class Disturbances:
    """All faults of a run."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = [each for each in faults if each.name not in _HARMLESS]
        self.end = max((each.end for each in faults), default=0.0)

    def concern(self, client: str, begin: float, end: float) -> bool:
        """Return whether a client may have felt a fault between two times."""
        return any(
            fault.client in {None, client}
            and fault.begin <= end
            and fault.end + AFTERMATH_SECONDS >= begin
            for fault in self._faults
        )
