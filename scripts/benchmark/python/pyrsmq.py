"""PyRSMQ, in an environment of its own: pyrsmq.py PORT."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

from serve import measure, serve

from rsmq import RedisSMQ

PORT = sys.argv[1]


def send(queue: str, body: str, count: int) -> int:
    """Send one by one."""
    for _ in range(count):
        rsmq.sendMessage(qname=queue, message=body).execute()
    return 0


def receive(queue: str, _body: str, count: int) -> int:
    """Receive and delete one by one; return the number of characters received."""
    characters = 0
    for _ in range(count):
        message = rsmq.receiveMessage(qname=queue).execute()
        characters += len(message["message"])
        rsmq.deleteMessage(qname=queue, id=message["id"]).execute()
    return characters


def versions() -> dict[str, Any]:
    """Return the installed versions."""
    return {"PyRSMQ": version("PyRSMQ"), "PyRSMQ's redis-py": version("redis")}


def run(action: str, queue: str, body: str, count: int, **_: Any) -> dict[str, Any]:
    """Run an action, and return the times."""
    work = {"send": send, "receive": receive}[action]
    return measure(lambda: work(queue, body, count))


rsmq = RedisSMQ(host="127.0.0.1", port=PORT)
serve(versions=versions, run=run)
