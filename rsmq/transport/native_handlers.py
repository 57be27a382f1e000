"""
Signal handlers that C code has installed: that of an application server or of a library.

Python does not know them: ``signal.getsignal`` still returns the handler of before. If
``signal.signal`` replaced and "restored" that one, the handler of C would be lost. The address of
the handler in the operating system shows whether it is Python's, which is the same for all signals.
"""

from __future__ import annotations

import _signal
import ctypes
from collections.abc import Callable
from functools import cache

#: Signals whose handlers may be absent for a moment: their default is to do nothing.
_HARMLESS = tuple(
    getattr(_signal, name) for name in ("SIGURG", "SIGWINCH", "SIGCHLD") if hasattr(_signal, name)
)


def has_native_handler(number: int) -> bool:
    """
    Return whether the handler of a signal is not Python's, if Python has one for it.

    It takes a microsecond, because of ``ctypes``. Only the main thread may call it.

    Raises:
        ValueError: this is the main thread of a subinterpreter.
    """
    address = _address()
    python_handler = _python_handler() if address is not None else None
    return address is not None and python_handler is not None and address(number) != python_handler


@cache
def _address() -> Callable[[int], int | None] | None:
    """Return a function whose result is the address of the handler of a signal; None if unknown."""
    try:
        address = ctypes.pythonapi.PyOS_getsig
    except AttributeError:  # not CPython
        return None
    address.argtypes = (ctypes.c_int,)
    address.restype = ctypes.c_void_p
    return address


@cache
def _python_handler() -> int | None:
    """Return the address of Python's handler; None if no signal is free to find it out."""
    address = _address()
    for number in _HARMLESS:
        if address is None or address(number) or _signal.getsignal(number) != _signal.SIG_DFL:
            continue
        try:
            _signal.signal(number, _do_nothing)
            return address(number)
        finally:
            _signal.signal(number, _signal.SIG_DFL)
    return None


def _do_nothing(*_: object) -> None:
    """Handle a signal."""
