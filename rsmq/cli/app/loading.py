"""
The loading of modules that stay until the process ends.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """
    Collect no garbage while modules are loaded, and never look for some in them afterwards.

    Otherwise collections take a twelfth of the time until a worker runs its first job, and each
    later full one goes through all modules, which takes 20 ms. Only for a process of our own: the
    garbage that there is already stays too.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if is_enabled:
            gc.enable()
