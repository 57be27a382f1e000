"""
Holds Ctrl-C back for the moments in which it would lose a message.

A reply that has been read from the socket but not yet stored would be gone if a signal handler
raised just then. For the few microseconds to milliseconds of one attempt, signals that programs
are stopped with are noted, and delivered right after it.
"""

from __future__ import annotations

import _signal  # signal's own functions take ten times as long, to make enums of numbers
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_HELD = tuple(
    getattr(_signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(_signal, name)
)


class Held:
    """
    Signals that come inside the block are delivered at its end, to the handlers set before it.

    Only the main thread gets signals; elsewhere, and for signals without a Python handler, this
    does nothing. A second signal inside the block is delivered at once, should the block hang.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._noted: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _HELD:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    _signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            _signal.signal(number, handler)
        for number, frame in self._noted:
            self._handlers[number](number, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted:
            self._handlers[number](number, frame)
        else:
            self._noted.append((number, frame))
