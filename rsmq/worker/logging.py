"""
The worker's log: one line for each event, with queue and message id as fields.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.headers import REQUEST_ID
from rsmq.webhooks.answers import PushFailed
from rsmq.worker.delivery import Delivery
from rsmq.worker.failure import HandlerFailure, summarize
from rsmq.worker.middleware import Middleware
from rsmq.worker.outcome import Defer
from rsmq.worker.run.invoke import current_message
from rsmq.worker.state.error_reader import read_error

_log = get_logger("rsmq.worker")

#: The lines for the states of a webhook's target.
_TARGET_STATES = {
    "closed": "messages are pushed to {target} again",
    "open": "nothing is pushed to {target} for now, after failures in a row, the last: {answer}",
    "trial": "one message is pushed to {target}, to find out whether it works again",
    "paused": "{target} has asked for a pause: {answer}",
    "gone": "{target} has ended the subscription: {answer}",
}


class Logging(Middleware):
    """
    A middleware that logs what went wrong: retries, dead letters, drops, lost leases, releases.

    Records of the logger ``rsmq.worker`` have the fields ``queue`` and ``message_id``, and
    ``request_id`` if the headers of the message have one.
    """

    def __init__(self) -> None:
        self._stopped_targets: set[str] = set()

    def after_retry(self, message: Delivery, after: float, error: BaseException) -> None:
        summary = summarize(failure_of(message, error))
        text = "%s %s: attempt %d failed, next in %.3g s: %s"
        log_message(logging.WARNING, text, message, message.attempt, after, summary)

    def after_defer(self, message: Delivery, after: float, error: BaseException) -> None:
        summary = summarize(failure_of(message, error))
        log_message(logging.INFO, "%s %s: deferred, next in %.3g s: %s", message, after, summary)

    def after_dead_letter(
        self, message: Delivery, queue: str, reason: str, error: BaseException
    ) -> None:
        failure = failure_of(message, error)
        is_explained = failure.kind in SELF_EXPLAINING or isinstance(error, PushFailed)
        values = queue, message.attempt, explain(reason, failure)
        shown = None if is_explained else error
        text = "%s %s: to %s after attempt %d: %s"
        log_message(logging.ERROR, text, message, *values, exc_info=shown)

    def after_drop(self, message: Delivery, reason: str, error: BaseException) -> None:
        failure = failure_of(message, error)
        values = message.attempt, explain(reason, failure)
        shown = None if failure.kind in SELF_EXPLAINING else error
        text = "%s %s: dropped after attempt %d: %s"
        log_message(logging.WARNING, text, message, *values, exc_info=shown)

    def after_target_change(self, queue: str, target: str, state: str, answer: str) -> None:
        if state == "closed" and queue not in self._stopped_targets:
            return
        self._stopped_targets.discard(queue)
        if state != "closed":
            self._stopped_targets.add(queue)
        _log.log(
            logging.INFO if state in ("closed", "trial") else logging.WARNING,
            "%s: %s",
            queue,
            _TARGET_STATES[state].format(target=target, answer=answer or "no answer"),
            extra={"queue": queue},
        )

    def lease_lost(self, message: Delivery, reason: str) -> None:
        log_message(logging.WARNING, "%s %s: lease lost: %s", message, reason)

    def after_release(self, queue: str, count: int) -> None:
        _log.info("%s: %s released", queue, format_count(count), extra={"queue": queue})


class DetailedLogging(Middleware):
    """A middleware that logs each message that is received and handled, at level DEBUG."""

    def after_receive(self, queue: str, messages: Sequence[Delivery]) -> None:
        received = format_count(len(messages))
        _log.debug("%s: %s received", queue, received, extra={"queue": queue})

    def after_handle(self, message: Delivery, error: BaseException | None, seconds: float) -> None:
        if error is None:
            state = "handled"
        else:
            state = "deferred" if isinstance(error, Defer) else f"failed, {type(error).__name__},"
        log_message(logging.DEBUG, "%s %s: %s in %.3f s", message, state, seconds)


def log_message(
    level: int, text: str, message: Delivery, *values: object, exc_info: BaseException | None = None
) -> None:
    """
    Log a text about a message; its first two values are the queue and the id of that.

    The record has the place of the caller.
    """
    values = message.queue, message.id, *values
    extra = message_fields(message)
    _log.log(level, text, *values, extra=extra, exc_info=exc_info, stacklevel=2)


def message_fields(message: Delivery) -> dict[str, Any]:
    """Return the fields of a log record for a message; ``request_id`` if its headers have one."""
    place = {"queue": message.queue, "message_id": message.id}
    fields: dict[str, Any] = {**place, "attempt": message.attempt}
    request_id = message.headers.get(REQUEST_ID)
    return fields if request_id is None else {**fields, REQUEST_ID: request_id}


#: Failures whose text is already in the reason, and whose traceback adds nothing.
SELF_EXPLAINING = frozenset({
    "not_decodable", "dead_letter", "deferred_too_often", "cancelled", "discard",
    "took_process_down", "unroutable",
})  # fmt: skip


def failure_of(message: Delivery, error: BaseException) -> HandlerFailure:
    """Return the failure of a message as plain data, which the handler's thread has read."""
    failure = message._lease.failure  # noqa: SLF001 - hooks get only the exception
    if failure is None or failure.error is not error:  # the handler of an abandoned call has raised
        return read_error(error)
    return failure


def explain(reason: str, failure: HandlerFailure) -> str:
    """Return a reason, with the exception unless the reason already contains it."""
    return reason if failure.kind in SELF_EXPLAINING else f"{reason}: {summarize(failure)}"


class MessageFilter(logging.Filter):
    """
    A filter that sets the fields ``queue`` and ``message_id`` on each record of a handler.

    Both are '' outside a handler. ``request_id`` is set if the headers have one. Add it to a
    logging handler; then its formatter can use both.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        message = current_message()
        for name, value in (message_fields(message) if message is not None else {}).items():
            if not hasattr(record, name):
                setattr(record, name, value)
        for name in ("queue", "message_id"):
            if not hasattr(record, name):
                setattr(record, name, "")
        return True


class TextLines(logging.Formatter):
    """
    One line for each record, with the worker and the process, before the lines of its traceback.

    Times are in UTC, in the format of all programs, to the millisecond.
    """

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(
        self, worker_name: Callable[[], str | None] = lambda: None, ns: str | None = None
    ) -> None:
        """Make one; see ``JSONLines``."""
        super().__init__("%(asctime)s %(levelname)s %(place)s %(name)s: %(message)s")
        self._worker_name = worker_name
        self._ns = ns

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of logging
        parts = (self._worker_name(), self._ns, str(record.process))
        record.place = f"[{' '.join(each for each in parts if each is not None)}]"
        record.message = record.message.replace("\r", "\\r").replace("\n", "\\n")
        return super().formatMessage(record)


def log_to_standard_error(
    level: str, worker_name: Callable[[], str | None], *, as_json: bool, ns: str | None = None
) -> None:
    """
    Set up the logging of a program.

    Args:
        level: the lowest level, as in "info".
        worker_name: see ``JSONLines``.
        as_json: whether a line is a JSON object.
        ns: the namespace that each line shows; None shows none.
    """
    handler = logging.StreamHandler()
    handler.addFilter(MessageFilter())
    if as_json:
        handler.setFormatter(JSONLines(worker_name, ns))
    else:
        handler.setFormatter(TextLines(worker_name, ns))
    logging.basicConfig(level=level.upper(), handlers=[handler])


class JSONLines(logging.Formatter):
    """
    One JSON object for each line.

    It has time (UTC), level, logger, message, pid; worker, ns, queue, message_id, attempt and
    request_id if they are known; traceback and stack. Fields of ``extra=`` follow, under their
    names; after ``extra_`` if the line has such a name already. A value that JSON can't have is
    its text.
    """

    def __init__(
        self, worker_name: Callable[[], str | None] = lambda: None, ns: str | None = None
    ) -> None:
        """
        Make one.

        Args:
            worker_name: returns the name of the worker of this process; None if there is none yet.
            ns: the namespace of that worker, for a program of several; None shows none.
        """
        super().__init__()
        self._worker_name = worker_name
        self._ns = ns

    def format(self, record: logging.LogRecord) -> str:
        timestamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{timestamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        worker = self._worker_name()
        if worker is not None:
            line["worker"] = worker
        if self._ns is not None:
            line["ns"] = self._ns
        for name in ("queue", "message_id", "attempt"):
            if getattr(record, name, ""):
                line[name] = getattr(record, name)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        for name, value in record.__dict__.items():
            if name not in _STANDARD_FIELDS:
                line[f"extra_{name}" if name in line else name] = _json_value(value)
        return json.dumps(line, ensure_ascii=False)


#: The attributes of a record that are not fields of ``extra=``, or that a line has anyway.
_STANDARD_FIELDS = {
    *logging.makeLogRecord({}).__dict__,
    *("asctime", "attempt", "message", "message_id", "place", "queue", "taskName"),
}


def _json_value(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except Exception:  # noqa: BLE001 - also of the value's own methods
        try:
            return str(value)
        except Exception:  # noqa: BLE001 - as above
            return f"<{type(value).__name__}>"
    return value
