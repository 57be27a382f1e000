"""
Signals during calls: Ctrl-C is held back, and an event that signal handlers may set.

``Held`` holds Ctrl-C back for the moments in which it would do harm. A reply that has been read
from the socket but not yet stored would be gone, and a message with it, if a signal handler raised
just then; and hiredis (3.5.0) crashes the process if one raises while it packs a command. So
signals that programs are stopped with are noted during an attempt, and delivered right after it.
An attempt that takes longer than a second after the first signal seems to hang: then the next
signal is delivered at once.
``Flag`` is what threads wait for where a handler may come between.
"""

from __future__ import annotations

import _signal
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from threading import TIMEOUT_MAX, Lock, get_ident, main_thread
from types import FrameType, MappingProxyType, MethodType, TracebackType
from typing import Any, Self

# signal's own functions take ten times as long, to make enums of numbers.
_get, _set = _signal.getsignal, _signal.signal

_HELD = tuple(
    getattr(_signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(_signal, name)
)

#: How long signals are held back, from the first one on.
HOLD_SECONDS = 1.0

# What the main thread of a subinterpreter is told, as under some web servers.
_NOT_HERE = "signal only works in main thread"


_main_thread = main_thread().ident


def _in_child() -> None:
    global _main_thread  # noqa: PLW0603 - the thread that forked is the child's main one
    _main_thread = get_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class Held:
    """
    Signals that come inside the block are delivered at its end, to the handlers set before it.

    Only the main thread gets signals; elsewhere, and for signals without a Python handler, this
    does nothing. Each signal is delivered once, as the system does with one that is pending. A
    signal that comes HOLD_SECONDS after the first is delivered at once, should the block hang.

    ``deliver`` does it earlier, for a block that has something to do when a handler raises, and is
    not to be disturbed at that.

    Attributes:
        noted: the signals that have come and are not delivered, in their order.
    """

    # Of the class, until they change: every call makes a block.
    _handlers: Mapping[int, Any] = MappingProxyType({})
    noted: Mapping[int, FrameType | None] = MappingProxyType({})
    _held_until = math.inf
    _ended = False

    def __enter__(self) -> Self:
        if get_ident() != _main_thread:
            return self
        handlers = self._handlers = {}
        try:
            for number in _HELD:
                handler = _get(number)
                if handler.__class__ is int or handler is None:  # not Python's
                    continue
                if handler.__class__ is MethodType:  # perhaps one of ours
                    handler = _unwrapped(number, handler)
                handlers[number] = handler
                _set(number, self._note)
        except BaseException as error:  # a signal's, that came before its handler was replaced
            if isinstance(error, ValueError) and str(error).startswith(_NOT_HERE):
                handlers.clear()
                return self
            self._restore()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._restore()
        finally:
            if self.noted:
                self.deliver()

    def deliver(self) -> None:
        """Call the handlers in the order in which the signals came, all of them if one raises."""
        while self.noted:
            number, *others = self.noted
            frame = self.noted[number]
            self.noted = {other: self.noted[other] for other in others}
            try:
                self._handlers[number](number, frame)
            except BaseException:
                self.deliver()
                raise

    def _restore(self) -> None:
        # From here on a signal is passed on, also by what an exception leaves unrestored.
        self._ended = True
        for number, handler in self._handlers.items():
            _set(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._ended or time.monotonic() >= self._held_until:
            self._handlers[number](number, frame)
        elif number not in self.noted:
            if self._held_until == math.inf:
                self._held_until = time.monotonic() + HOLD_SECONDS
            self.noted = {**self.noted, number: frame}

    def original(self, number: int) -> Any:
        """The handler that was set before the block, if the block has ended."""
        return self._handlers.get(number) if self._ended else None


def _unwrapped(number: int, handler: Any) -> Any:
    """The program's own handler, where a block that ended could not set it again."""
    while isinstance(owner := getattr(handler, "__self__", None), Held):
        original = owner.original(number)
        if original is None:
            break
        handler = original
    return handler


class Flag:
    """
    ``threading.Event``, for threads whose signal handlers raise, or set it.

    Event takes a lock in Python code. An exception just after that leaves it taken, and whoever
    sets the event waits forever; so does a handler that sets it while its own thread is in there.
    Here nobody holds anything while Python code runs.
    """

    __slots__ = ("_gate", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._gate = Lock()  # taken while it is not set
        self._gate.acquire()

    def is_set(self) -> bool:
        """Whether it is."""
        return self._is_set

    def set(self) -> None:
        """Let all through who wait, or will; from anywhere."""
        self._is_set = True
        self._open()

    def clear(self) -> None:
        """Let nobody through any more. Where it is set meanwhile, the next wait may end early."""
        self._is_set = False
        self._gate.acquire(blocking=False)

    def wait(self, seconds: float | None = None) -> bool:
        """
        Wait until it is set.

        Several may wait for a flag that is set for good, each for a time that is not endless: one
        whom a signal ends may take the place of the next.

        Args:
            seconds: the longest time; None is forever.

        Returns:
            Whether it is set.
        """
        longest = TIMEOUT_MAX if seconds is None else min(max(seconds, 0.0), TIMEOUT_MAX)
        if not self._is_set and self._gate.acquire(timeout=longest) and self._is_set:
            self._open()  # for the next who waits
        return self._is_set

    def _open(self) -> None:
        if self._gate.locked():
            with suppress(RuntimeError):  # another was faster
                self._gate.release()
