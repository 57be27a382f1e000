"""
The results of handlers: kept for the records of tracked messages, otherwise ignored.
"""

from __future__ import annotations

import json
from typing import Any

from rsmq.errors.printable import format_count
from rsmq.wire.jobs import MAX_RESULT_BYTES
from rsmq.worker.outcome import DeadLetter
from rsmq.worker.run.unrun_result import reject_unrun_result
from rsmq.worker.state.calls import Job
from rsmq.worker.state.jobs import TrackedJob


def keep_result(job: Job, result: Any, remedy: str) -> None:
    """
    Keep the result of a handler, if its message is tracked.

    Args:
        remedy: advice for a handler that has returned a coroutine.

    Raises:
        TypeError: it is a coroutine or generator, which has not run.
        DeadLetter: it can't be stored. Another attempt would do the work again, for the same end.
    """
    reject_unrun_result(result, remedy)
    if isinstance(job, TrackedJob):
        job.result = encode_result(result)


def encode_result(result: Any) -> bytes:
    """
    Return the result of a handler as it is stored.

    Raises:
        DeadLetter: it can't be stored.
    """
    try:
        encoded = json.dumps(result, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise DeadLetter(
            f"its handler has returned a {type(result).__name__} that is not JSON: {error}"
        ) from error
    if len(encoded) > MAX_RESULT_BYTES:
        raise DeadLetter(
            f"the result of its handler has {format_count(len(encoded), 'byte')} of JSON, and may "
            f"have {MAX_RESULT_BYTES:,}: store it elsewhere, and return where it is"
        )
    return encoded
