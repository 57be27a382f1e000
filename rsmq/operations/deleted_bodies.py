"""
Deletes of messages whose bodies are stored elsewhere: which of them have surely been deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rsmq.model import Message
from rsmq.operations.operation import Operation
from rsmq.operations.replies import DONE


def note_deleted(operation: Operation[Any], messages: Sequence[Message]) -> list[Message]:
    """
    Return a list that gets the messages which an operation deletes, when it has run.

    Those of a second attempt are left out: if a message is gone then, another client may have moved
    it. Messages with one id in two queues are left out, too.

    Args:
        operation: deletes them. Its parsers are replaced.
        messages: received messages.
    """
    parse = operation.parse
    deleted: list[Message] = []
    numbers = Counter(message.id for message in messages)

    def parse_and_note(reply: Any) -> Any:
        result = parse(reply)
        ids = result if isinstance(result, list) else [messages[0].id] if reply == DONE else []
        done = set(ids)
        deleted.extend(each for each in messages if each.id in done and numbers[each.id] == 1)
        return result

    operation.parse = parse_and_note
    operation.parse_retried = operation.parse_retried or parse
    return deleted
