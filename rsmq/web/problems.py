"""
Errors as problem details (RFC 9457): the only place that knows which status an error has.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, NoReturn

from redis import exceptions as redis_errors
from starlette.responses import Response

from rsmq.errors import (
    BodyUnavailable,
    ClientClosed,
    FlowNotFound,
    InvalidFormat,
    InvalidValue,
    JobNotFound,
    JobNotTracked,
    MessageNotString,
    MessageTooLong,
    MissingExtra,
    MissingParameter,
    NoAttributeSupplied,
    NotPossible,
    NotReplicated,
    QueueExists,
    QueueNotFound,
    ReplyLost,
    RSMQError,
    SubscriberExists,
    WorkerNotFound,
)
from rsmq.errors.guarded_log import get_logger
from rsmq.transport.retry import code_of, has_not_run
from rsmq.web.fields import ItemRefused, Refused
from rsmq.web.wording import detail_of, facts_of, hint_of, short, value_of

_log = get_logger("rsmq.web")

MEDIA_TYPE = "application/problem+json"

#: Seconds after which a client should try again.
_RETRY_SECONDS = "1"

#: The first class that an error is an instance of has its status.
_STATUS: tuple[tuple[type[RSMQError], int], ...] = (
    (QueueNotFound, 404),
    (JobNotFound, 404),
    (WorkerNotFound, 404),
    (BodyUnavailable, 503),
    (FlowNotFound, 404),
    (JobNotTracked, 409),
    (QueueExists, 409),
    (SubscriberExists, 409),
    (MessageTooLong, 413),
    (NotPossible, 409),
    (MissingExtra, 501),
    (NotReplicated, 503),
    (ReplyLost, 503),
    (ClientClosed, 503),
    (NoAttributeSupplied, 422),
    (MissingParameter, 422),
    (InvalidFormat, 422),
    (InvalidValue, 422),
    (MessageNotString, 422),
)

_UNAVAILABLE = 503
_INTERNAL = 500


@dataclass(frozen=True, slots=True)
class HttpProblem:
    """
    An answer that reports an error.

    Attributes:
        code: the name of the fault, for programs; of RSMQ's own errors that of the Node client.
        detail: what is wrong.
        value: the refused value, as a value of JSON; None without one.
        hint: the rule or the remedy.
        index: the place of the refused message in a batch, from 0.
        extra: further members.
    """

    status: int
    code: str
    detail: str
    value: Any = None
    hint: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    index: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> bytes:
        """Return the body of the answer."""
        parts = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "value": self.value,
            "hint": self.hint,
            "index": self.index,
            **self.extra,
        }
        shown = {name: value for name, value in parts.items() if value is not None}
        return json.dumps(shown).encode()


def describe(error: Exception, *, may_repeat: bool) -> HttpProblem:
    """
    Return the problem of an error.

    Args:
        may_repeat: whether a call that may have run can be repeated: it reads, or it changes
            nothing more the second time.
    """
    if isinstance(error, ItemRefused):
        problem = describe(error.error, may_repeat=may_repeat)
        detail = f"Message {error.index} of the batch, from 0: {problem.detail}"
        return replace(problem, detail=detail, index=error.index)
    if isinstance(error, Refused):
        return HttpProblem(
            error.status, error.code, str(error), short(error.value), error.hint, error.headers,
            extra=error.extra,
        )  # fmt: skip
    if isinstance(error, RSMQError):
        return _describe_own(error)
    if isinstance(error, redis_errors.RedisError | OSError):
        return _describe_redis(error, may_repeat=may_repeat)
    # Without its text, which may contain a body.
    frames = "".join(traceback.format_tb(error.__traceback__))
    _log.error("a request has failed: %s\n%s", type(error).__name__, frames)
    return HttpProblem(
        _INTERNAL, "internal", "The request has failed", hint="The log has the cause."
    )


def problem_response(problem: HttpProblem, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as an answer."""
    more = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    all_headers = {**(headers or {}), **problem.headers, **more}
    return Response(problem.content(), problem.status, all_headers, MEDIA_TYPE)


async def send_problem(send: Any, problem: HttpProblem) -> None:
    """Answer with a problem."""
    await problem_response(problem)({"type": "http"}, _receive_nothing, send)


async def _receive_nothing() -> NoReturn:
    raise NotImplementedError


def unavailable() -> Refused:
    """Return the error of a call that has not run, because Redis can't be reached."""
    return Refused(
        "redis-unavailable",
        "Redis can't be reached",
        status=_UNAVAILABLE,
        hint="Nothing was changed. Try again.",
        headers={"Retry-After": _RETRY_SECONDS},
    )


def _describe_own(error: RSMQError) -> HttpProblem:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), _INTERNAL)
    return HttpProblem(
        status,
        error.code,
        detail_of(error),
        value_of(error),
        hint_of(error),
        {"Retry-After": _RETRY_SECONDS} if status == _UNAVAILABLE else {},
        extra=facts_of(error),
    )


def _describe_redis(error: Exception, *, may_repeat: bool) -> HttpProblem:
    retry = {"Retry-After": _RETRY_SECONDS}
    is_reply = isinstance(
        error, redis_errors.ResponseError | redis_errors.AuthenticationError
    ) and not isinstance(error, redis_errors.BusyLoadingError)
    if is_reply:
        code = code_of(error)
        # The text of an unknown error may contain arguments, such as a body.
        return HttpProblem(
            _UNAVAILABLE if code in {"OOM", "READONLY", "CLUSTERDOWN", "MISCONF"} else 502,
            "redis-refused",
            f"Redis refuses the call: {code if code.isupper() else 'ERR'}",
            headers=retry,
        )
    if may_repeat or has_not_run(error):
        return describe(unavailable(), may_repeat=True)
    return HttpProblem(
        _UNAVAILABLE,
        "outcome-unknown",
        "The connection to Redis broke, and the call may have run",
        hint="A send may be repeated with the same Idempotency-Key, if it had one.",
        headers=retry,
    )
