"""Tasks that programs and child processes import; environment variables name their place."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rsmq.tasks import Tasks
from rsmq.worker import current_message

tasks = Tasks.from_url(
    os.environ.get("TASKS_URL", "memory://tasks-app"), ns=os.environ.get("TASKS_NS", "rsmq")
)


@dataclass
class Square:
    root: int
    square: int


@tasks.task(queue="mail")
def welcome(user_id: int, language: str = "en") -> None:
    print("welcome", user_id, language, flush=True)


@tasks.task(queue="heavy", process=True, track=True, backoff=0.01)
def compute(number: int) -> Square:
    message = current_message()
    assert message is not None
    tasks.client.send_message("done", f"{os.getpid()} {message.id} {number * number}")
    return Square(number, number * number)
