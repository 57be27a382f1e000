"""
PyRSMQ's exceptions.

    RedisSMQException
    ├── CommandNotImplementedException
    ├── InvalidParameterValue
    ├── QueueAlreadyExists
    ├── QueueDoesNotExist
    └── NoMessageInQueue
"""

from __future__ import annotations

_LONGEST_SHOWN = 80


class RedisSMQException(Exception):
    """The root of what the commands raise themselves; errors of the connection are redis-py's."""

    def __init__(self, msg: str | None = None) -> None:
        super().__init__(type(self).__doc__ if msg is None else msg)


class CommandNotImplementedException(RedisSMQException):
    """A command that PyRSMQ does not have; nothing raises it here."""


class InvalidParameterValue(RedisSMQException):
    """A parameter has a value that it can't have, or a required one has none."""

    def __init__(self, name: str, value: object, hint: str | None = None) -> None:
        # A body is not shown: it may be long, or secret.
        shown = f"of {type(value)}" if name == "message" else f"{value}"[:_LONGEST_SHOWN]
        super().__init__(f"Value '{shown}' is not valid for parameter '{name}'")
        if hint:
            self.add_note(hint)


class QueueAlreadyExists(RedisSMQException):
    """The queue to be created exists."""

    def __init__(self, name: object) -> None:
        super().__init__(f"Queue '{name}' already exists")


class QueueDoesNotExist(RedisSMQException):
    """There is no such queue, or only half of one."""

    def __init__(self, name: object) -> None:
        super().__init__(f"Queue '{name}' does not exist")


class NoMessageInQueue(RedisSMQException):
    """No message is due, or the queue has none of this id."""

    def __init__(self, name: object) -> None:
        super().__init__(f"Queue '{name}' has no messages waiting")
