"""The task that producers send and workers run, alone, in chains, and in maps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rsmq import RSMQ
from rsmq.tasks import Tasks
from rsmq.worker import Delivery, current_message, fixed

from .client import VT_SECONDS

TASK_QUEUE = "tasks"

#: Gets the message, its text and its result.
Handle = Callable[[Delivery, str, str], None]


def result_of(text: str) -> str:
    """Return what the task returns."""
    return f"{text}+"


def text_of(raw: bytes) -> str:
    """Return the text of a message of the task."""
    text: str = json.loads(raw)["args"]["text"]
    return text


def declare(client: RSMQ[Any], handle: Handle) -> tuple[Tasks, Any]:
    """
    Declare the task.

    Args:
        client: the client.
        handle: is called for each message.

    Returns:
        The declarations, and the task.
    """
    tasks = Tasks(client)

    @tasks.task(
        queue=TASK_QUEUE, name="work", track=True, vt=VT_SECONDS, backoff=fixed(0.2),
        retry_forever=True,
    )  # fmt: skip
    def work(text: str) -> str:
        message = current_message()
        assert message is not None  # noqa: S101 - a worker calls it
        handle(message, text, result_of(text))
        return result_of(text)

    return tasks, work
