"""The steps that are the same for all systems: sending at a rate, and handling with records."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from scripts.chaos_runner.recorder import Recorder

PORT = int(os.environ["CHAOS_PORT"])
URL = f"redis://127.0.0.1:{PORT}/0"
#: Whether the settings are those that the system's documentation advises against losses.
IS_SAFE = os.environ["CHAOS_IS_SAFE"] == "1"
HANDLER_SECONDS = 0.05
_PAUSE_AFTER_ERROR_SECONDS = 0.2
_FILE = Path(os.environ["CHAOS_FILE"])

recorder = Recorder(_FILE)


def produce(enqueue: Callable[[str], str], rate: float) -> None:
    """Call ``enqueue``, which returns the id, with numbered bodies until SIGTERM."""
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stops.append(number))
    for number in itertools.count():
        if stops:
            return
        begin, body = time.monotonic(), f"{_FILE.stem}-{number}"
        op = recorder.begin("send", body=body)
        try:
            id = enqueue(body)
        except Exception as error:  # noqa: BLE001 - each system has its own
            recorder.end(op, "unknown", error=f"{type(error).__name__}: {error}")
            time.sleep(_PAUSE_AFTER_ERROR_SECONDS)
        else:
            recorder.end(op, id=id)
        time.sleep(max(0.0, begin + 1 / rate - time.monotonic()))


def handle(id: str, body: str) -> None:
    """Do the work of a message, which takes a while."""
    op = recorder.begin("handle", id=id, body=body, count=None)
    time.sleep(HANDLER_SECONDS)
    recorder.end(op)
