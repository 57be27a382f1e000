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

_MAX_SHOWN_CHARACTERS = 80


class RedisSMQException(Exception):
    """The root of what the commands raise themselves; errors of the connection are redis-py's."""

    # The docstring of a class is its error text if there is no msg, so it must not change.
    def __init__(self, msg: str | None = None) -> None:
        super().__init__(type(self).__doc__ if msg is None else msg)


class CommandNotImplementedException(RedisSMQException):
    """A command that PyRSMQ does not have; nothing raises it here."""


class InvalidParameterValue(RedisSMQException):
    """A parameter has an invalid value, or a required parameter is not set."""

    def __init__(self, name: str, value: object, hint: str | None = None) -> None:
        # Bodies are left out of the text: they may be long, or secret.
        shown = (
            f"of {type(value)}"
            if name == "message" and value is not None
            else f"{value}"[:_MAX_SHOWN_CHARACTERS]
        )
        super().__init__(f"Value '{shown}' is not valid for parameter '{name}'")
        if hint:
            self.add_note(hint)


class QueueAlreadyExists(RedisSMQException):
    """The queue that is to be created exists already."""

    def __init__(self, name: object) -> None:
        super().__init__(f"Queue '{name}' already exists")


class QueueDoesNotExist(RedisSMQException):
    """The queue does not exist, or lacks one of vt, delay and maxsize."""

    def __init__(self, name: object) -> None:
        super().__init__(f"Queue '{name}' does not exist")


class NoMessageInQueue(RedisSMQException):
    """No message is visible, or the queue has no message with this id."""

    def __init__(self, name: object) -> None:
        super().__init__(f"Queue '{name}' has no messages waiting")
