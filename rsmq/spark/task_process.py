"""
The Python process in which Spark runs one task after another.
"""

from __future__ import annotations

import gc
import sys

_modules_seen = 0


def spare_loaded_modules() -> None:
    """
    Exclude the objects that exist now from garbage collection, if modules were loaded since.

    Spark collects the garbage of this process after each task. With the modules that tasks need,
    this takes as long as the reading of thousands of messages. Does nothing while no module is
    loaded, so an object is excluded a few times at most.
    """
    global _modules_seen  # noqa: PLW0603 - of the process, as is the collector
    if len(sys.modules) != _modules_seen:
        _modules_seen = len(sys.modules)
        gc.freeze()
