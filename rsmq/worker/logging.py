"""
The worker's log: one line for each event, with queue and message id as fields.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from typing import Any

from rsmq.errors import BodyNotDecodable
from rsmq.model import Message
from rsmq.worker.middleware import Middleware
from rsmq.worker.outcome import (
    DeadLetter,
    Discard,
    TookItsProcessDown,
    Unroutable,
    text_of,
)
from rsmq.worker.runtime.invoke import current_message

_log = logging.getLogger("rsmq.worker")

_LONGEST = 200  # characters of an exception's text


class Logging(Middleware):
    """
    Says what went otherwise than it should: retries, dead letters, lost leases.

    Records of the logger ``rsmq.worker`` have the fields ``queue`` and ``message_id``.
    """

    def after_retry(self, message: Message, after: float, error: BaseException) -> None:
        _log.warning(
            "%s %s: attempt %d failed, next in %.3g s: %s",
            message.queue,
            message.id,
            message.receive_count,
            after,
            brief(error),
            extra=fields(message),
        )

    def after_dead_letter(
        self, message: Message, queue: str, reason: str, error: BaseException
    ) -> None:
        _log.error(
            "%s %s: to %s after attempt %d: %s",
            message.queue,
            message.id,
            queue,
            message.receive_count,
            whole(reason, error),
            extra=fields(message),
            exc_info=None if isinstance(error, SAID) else error,
        )

    def after_drop(self, message: Message, reason: str, error: BaseException) -> None:
        _log.warning(
            "%s %s: dropped after attempt %d: %s",
            message.queue,
            message.id,
            message.receive_count,
            whole(reason, error),
            extra=fields(message),
            exc_info=None if isinstance(error, SAID) else error,
        )

    def lease_lost(self, message: Message, reason: str) -> None:
        _log.warning("%s %s: let go: %s", message.queue, message.id, reason, extra=fields(message))

    def after_release(self, queue: str, count: int) -> None:
        _log.info("%s: %d messages given back", queue, count, extra={"queue": queue})


class DetailedLogging(Middleware):
    """Says each message that is received and handled, at level DEBUG."""

    def after_receive(self, queue: str, messages: Sequence[Message]) -> None:
        _log.debug("%s: %d messages received", queue, len(messages), extra={"queue": queue})

    def after_handle(self, message: Message, error: BaseException | None, seconds: float) -> None:
        ended = "handled" if error is None else f"failed, {type(error).__name__},"
        _log.debug(
            "%s %s: %s in %.3f s", message.queue, message.id, ended, seconds, extra=fields(message)
        )


def fields(message: Message) -> dict[str, Any]:
    """What a record says of a message."""
    return {"queue": message.queue, "message_id": message.id, "attempt": message.receive_count}


#: Exceptions that say all that there is to be said.
SAID = (BodyNotDecodable, DeadLetter, Discard, TookItsProcessDown, Unroutable)


def whole(reason: str, error: BaseException) -> str:
    """A reason, with the exception where that says more."""
    return reason if isinstance(error, SAID) else f"{reason}: {brief(error)}"


def brief(error: BaseException | None) -> str:
    """An exception in one line."""
    text = " ".join(text_of(error).split()) if error is not None else ""
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    notes = " ".join(getattr(error, "__notes__", ()))
    if notes:
        text += f" ({notes})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class MessageFilter(logging.Filter):
    """
    Gives every record of a handler's thread or task the fields ``queue`` and ``message_id``.

    To be added to a logging handler; a formatter can use both then.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        message = current_message()
        for name, value in (fields(message) if message is not None else {}).items():
            if not hasattr(record, name):
                setattr(record, name, value)
        for name in ("queue", "message_id"):
            if not hasattr(record, name):
                setattr(record, name, "")
        return True


class JSONLines(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, text, and queue and id if there are."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
        }
        for name in ("queue", "message_id", "attempt"):
            if getattr(record, name, ""):
                line[name] = getattr(record, name)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
