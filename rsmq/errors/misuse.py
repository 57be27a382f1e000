"""
Errors and warnings for common mistakes with the clients, with the way out in their texts.
"""

from __future__ import annotations

import builtins
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., None])
Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])
_is_warned = False
_PACKAGE = __file__.rsplit(os.sep, 2)[0] + os.sep


def explain_arguments(init: Method) -> Method:
    """Add to the errors about wrong arguments of a client's constructor how to connect."""

    @wraps(init)
    def explained(self: object, *args: Any, **options: Any) -> None:
        try:
            init(self, *args, **options)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # of a call in the constructor
                raise
            name = type(self).__name__
            raise TypeError(
                f"{error}. Pass a client of redis-py, or connect with "
                f"{name}.from_url('redis://127.0.0.1:6379/0')"
            ) from None

    return explained  # type: ignore[return-value]


class NamesElsewhere:
    """The base class of what is looked for by its names in other task systems."""

    #: The names to write instead, by a name of another system.
    _elsewhere: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # for type checkers, the names do not exist

        def __getattr__(self, name):  # noqa: ANN001, ANN204
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in self._elsewhere:
                text = f"{text}. Use {self._elsewhere[name]}"
            raise AttributeError(text, name=name, obj=self)


def explain_options(elsewhere: Mapping[str, str]) -> Callable[[Wrapped], Wrapped]:
    """Add to the errors about wrong keyword arguments what to write instead, by their names."""

    def decorate(function: Wrapped) -> Wrapped:
        @wraps(function)
        def explained(*args: Any, **options: Any) -> Any:
            for name in options.keys() & elsewhere.keys():
                raise TypeError(f"There is no option {name!r}. Use {elsewhere[name]}")
            return function(*args, **options)

        return cast("Wrapped", explained)

    return decorate


class OnlyAsyncWith:
    """The base class of the asyncio client, which refuses ``with``."""

    if not TYPE_CHECKING:  # for type checkers, the methods do not exist

        def __enter__(self):  # noqa: ANN204
            name = type(self).__name__
            raise TypeError(f"{name} needs 'async with'. For 'with', use RSMQ")

        def __exit__(self, *_):  # noqa: ANN002, ANN204
            """Do nothing: ``__enter__`` always raises."""


class OnlyWith:
    """The base class of the synchronous client, which refuses ``async with``."""

    if not TYPE_CHECKING:

        async def __aenter__(self):  # noqa: ANN204
            name = type(self).__name__
            raise TypeError(f"{name} needs 'with'. For 'async with', use AsyncRSMQ")

        async def __aexit__(self, *_):  # noqa: ANN002, ANN204
            """Do nothing: ``__aenter__`` always raises."""


def warn_in_event_loop(
    call: str = "wait (a receive with wait=, job.result())",
    remedy: str = "Use AsyncRSMQ; for a task, await task.asend(...) and await job. Or call it in "
    "asyncio.to_thread",
) -> None:
    """
    Warn once in each process that this call blocks the running event loop, if there is one.

    The warning names the line that has called this library.
    IPython and Jupyter run an event loop of their own, which nothing waits for: no warning.
    """
    global _is_warned  # noqa: PLW0603 - once in each process
    asyncio = sys.modules.get("asyncio")  # if it was never imported, there is no event loop
    if _is_warned or asyncio is None or hasattr(builtins, "__IPYTHON__"):
        return
    if asyncio._get_running_loop() is None:  # noqa: SLF001 - without the cost of an exception
        return
    _is_warned = True
    level, frame = 1, sys._getframe()  # noqa: SLF001 - Python 3.11 has no skip_file_prefixes
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    text = f"A synchronous {call} blocks the running event loop. {remedy}"
    warnings.warn(text, RuntimeWarning, stacklevel=level)
