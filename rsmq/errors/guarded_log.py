"""
Loggers whose handlers can't end what logs, and that a configuration can't silence by accident.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from typing import Any


class GuardedLogger(logging.LoggerAdapter[logging.Logger]):
    """
    A logger that reports an exception of a logging handler, filter or formatter, and continues.

    An OSError of a full disk must not count as one of Redis, and none of them may end a thread.

    ``logging.config.dictConfig`` and ``fileConfig`` disable all loggers that exist and that they do
    not name, by default. Such a logger logs all the same: an application whose module configures
    logging after its imports would learn nothing of dead letters. A level silences it.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a record, as ``logging.Logger.log`` does."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # without this method
        self.logger.disabled = False
        try:
            self.logger.log(level, msg, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see the class
            _report(error)
        except BaseException as error:
            # In the main thread it may come from a signal handler, such as KeyboardInterrupt.
            if threading.current_thread() is threading.main_thread():
                raise
            _report(error)


def get_logger(name: str) -> GuardedLogger:
    """Return the logger of this name, guarded."""
    return GuardedLogger(logging.getLogger(name))


def _report(error: BaseException) -> None:
    if logging.raiseExceptions and sys.stderr is not None:
        with suppress(Exception):
            sys.stderr.write(f"rsmq: a log record is lost, by {type(error).__name__}: {error}\n")
