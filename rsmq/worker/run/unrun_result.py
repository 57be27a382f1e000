"""
Results of functions that have not run, as that of an async function behind a plain decorator.
"""

from __future__ import annotations

import inspect
from typing import Any


def reject_unrun_result(result: Any, remedy: str) -> None:
    """
    Raise an error if a function returned a coroutine or generator instead of running it.

    The result is closed.

    Raises:
        TypeError: it did.
    """
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if hasattr(result, "close"):
            result.close()
        raise TypeError(
            f"the handler returned a {type(result).__name__} and did not wait for its end: {remedy}"
        )
