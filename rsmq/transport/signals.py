"""
Signals during calls: deferred until the call ends, and an event that signal handlers may set.

``DeferredSignals`` defers the signals that stop programs (Ctrl-C, for example) during an attempt,
and delivers them right after it, for two reasons:

- If a signal handler raised after a reply was read from the socket and before it was stored, the
  reply would be lost, and with it a received message.
- hiredis (3.5.0) crashes the process if a signal handler raises while it packs a command.

If an attempt runs for more than a second after the first signal, it probably hangs. Then the next
signal is delivered at once.

``Flag`` is an event for threads in which a signal handler may run at any point.
"""

from __future__ import annotations

import _signal
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from threading import TIMEOUT_MAX, Lock, get_ident, main_thread
from types import FrameType, MappingProxyType, MethodType
from typing import Any, Self

from rsmq.transport.native_handlers import has_native_handler

# The functions of the module signal take ten times as long, because they convert numbers to enums.
_get_handler, _set_handler = _signal.getsignal, _signal.signal

_DEFERRED_SIGNALS = tuple(
    getattr(_signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(_signal, name)
)

#: The longest time for which signals are deferred, counted from the first one.
MAX_DEFERRAL_SECONDS = 1.0

#: How long after a block the next one relies on its knowledge of native handlers, because to look
#: takes a microsecond. There is less between two calls in a row.
_SOON_SECONDS = 0.00005

# The text of the ValueError in the main thread of a subinterpreter, as in some web servers.
_WRONG_THREAD_TEXT = "signal only works in main thread"


_main_thread = main_thread().ident

#: The signals with a native handler, as far as the last blocks have found.
_native: set[int] = set()
_known_until = 0.0  # monotonic seconds


def _update_main_thread() -> None:
    global _main_thread  # noqa: PLW0603 - the thread that forked is the main thread of the child
    _main_thread = get_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_update_main_thread)


class DeferredSignals:
    """
    A block at whose end the signals that arrived in it are delivered.

    They are delivered to the handlers that were set before the block. A signal that arrives several
    times is delivered once, as the operating system does with pending signals. If the block hangs,
    a signal that arrives MAX_DEFERRAL_SECONDS or more after the first is delivered at once.

    Only the main thread receives signals. The block has no effect in other threads, on signals
    without a Python handler or with one of C code, and inside another block in which no signal has
    arrived yet, at whose end the signals are delivered.

    A block that must do something when a handler raises calls ``deliver`` before its end. Further
    signals are still deferred while it does that.

    Attributes:
        pending: the signals that have arrived and are not delivered, in the order of arrival.
    """

    # Defaults are attributes of the class, because every call creates a block.
    _handlers: Mapping[int, Any] = MappingProxyType({})
    pending: Mapping[int, FrameType | None] = MappingProxyType({})
    _deferred_until = math.inf
    _has_ended = False

    def __enter__(self) -> Self:
        if get_ident() != _main_thread:
            return self
        handlers = self._handlers = {}
        is_native_known = time.monotonic() < _known_until
        try:
            for number in _DEFERRED_SIGNALS:
                handler = _get_handler(number)
                if handler.__class__ is int or handler is None:  # without a Python handler
                    continue
                if handler.__class__ is MethodType:  # perhaps of another block
                    if _is_deferred_by(handler.__self__):
                        continue
                    handler = _program_handler(number, handler)
                if not is_native_known:
                    _look_for_native_handler(number)
                if number in _native:
                    continue
                handlers[number] = handler
                _set_handler(number, self._handle)
        except BaseException as error:  # the old handler raised, on a signal before it was replaced
            if isinstance(error, ValueError) and str(error).startswith(_WRONG_THREAD_TEXT):
                handlers.clear()
                return self
            self._restore()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._restore()
        finally:
            if self.pending:
                self.deliver()

    def deliver(self) -> None:
        """Call the handlers in the order of the signals, and all of them even if one raises."""
        while self.pending:
            number, *later = self.pending
            frame = self.pending[number]
            self.pending = {each: self.pending[each] for each in later}
            try:
                self._handlers[number](number, frame)
            except BaseException:
                self.deliver()
                raise

    def _restore(self) -> None:
        # If an exception ends the loop early, the handlers that it left pass signals on.
        global _known_until  # noqa: PLW0603 - only the main thread has handlers to restore
        self._has_ended = True
        for number, handler in self._handlers.items():
            _set_handler(number, handler)
        if self._handlers:
            _known_until = time.monotonic() + _SOON_SECONDS

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._has_ended or time.monotonic() >= self._deferred_until:
            self._handlers[number](number, frame)
        elif number not in self.pending:
            if self._deferred_until == math.inf:
                self._deferred_until = time.monotonic() + MAX_DEFERRAL_SECONDS
            self.pending = {**self.pending, number: frame}

    def original_handler(self, number: int) -> Any:
        """Return the handler that was set before the block; None if the block has not ended."""
        return self._handlers.get(number) if self._has_ended else None


def _look_for_native_handler(number: int) -> None:
    if has_native_handler(number):
        _native.add(number)
    else:
        _native.discard(number)


def _is_deferred_by(owner: object) -> bool:
    """Return whether the owner of a handler is a block that defers signals for long enough."""
    # After its first signal, the block delivers others at once when a second has passed. A block
    # inside it that began later, perhaps to undo a receive, must not be interrupted by these.
    return (
        owner.__class__ is DeferredSignals
        and not owner._has_ended  # noqa: SLF001
        and owner._deferred_until == math.inf  # noqa: SLF001
    )


def _program_handler(number: int, handler: Any) -> Any:
    """Return the handler of the program, if a block that has ended could not restore it."""
    while isinstance(owner := getattr(handler, "__self__", None), DeferredSignals):
        original_handler = owner.original_handler(number)
        if original_handler is None:
            break
        handler = original_handler
    return handler


class Flag:
    """
    An event like ``threading.Event``, for threads whose signal handlers may raise or set it.

    ``threading.Event`` acquires a lock in Python code. If a signal handler raises just after that,
    the lock stays acquired, and a thread that sets the event waits forever. A handler that sets the
    event while its own thread holds the lock waits forever too. This class holds no lock while
    Python code runs.
    """

    __slots__ = ("_gate", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._gate = Lock()  # locked while the flag is not set
        self._gate.acquire()

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._is_set

    def set(self) -> None:
        """Set the flag and wake all waiting threads; from any thread or signal handler."""
        self._is_set = True
        self._open_gate()

    def clear(self) -> None:
        """Clear the flag. If it is set at the same time, the next wait may end early."""
        self._is_set = False
        self._gate.acquire(blocking=False)

    def wait(self, seconds: float | None = None) -> bool:
        """
        Wait until the flag is set.

        Several threads may wait only if the flag is never cleared after it was set, and if each of
        them waits for a limited time: if a signal handler raises in a thread just after it was
        woken, it does not wake the next one.

        Args:
            seconds: the longest wait; None is forever.

        Returns:
            Whether the flag is set.
        """
        timeout = TIMEOUT_MAX if seconds is None else min(max(seconds, 0.0), TIMEOUT_MAX)
        if not self._is_set and self._gate.acquire(timeout=timeout) and self._is_set:
            self._open_gate()  # wakes the next waiting thread
        return self._is_set

    def _open_gate(self) -> None:
        if self._gate.locked():
            with suppress(RuntimeError):  # another thread was faster
                self._gate.release()
