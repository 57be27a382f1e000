"""
Reports of consumers about the jobs of tracked messages.
"""

from __future__ import annotations

from typing import Literal

from rsmq.web.fields import SECONDS, Field, Refused, Shape, between
from rsmq.web.outcomes import JobReporter, Reported
from rsmq.web.routes.forms import choose_one, raise_unchanged
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.jobs import MAX_PROGRESS
from rsmq.wire.limits import check_duration
from rsmq.worker.outcome import MAX_DEFER_SECONDS, DeadLettered, Deferred, Outcome, Retried


def _reporter(call: ApiCall) -> JobReporter:
    (message,) = choose_one(call)
    return JobReporter(call.queues, message)


async def _answer(call: ApiCall, reported: Reported) -> ApiAnswer:
    if reported == "refused":
        await raise_unchanged(call)
    return ApiAnswer(status=204)


async def _progress(call: ApiCall) -> ApiAnswer:
    values = call.values
    reported = await _reporter(call).progress(
        values["done"], values.get("total"), values.get("text", ""), values.get("vt")
    )
    if reported == "refused":
        await raise_unchanged(call)
    return ApiAnswer({"is_cancelling": reported == "cancelling"})


async def _succeed(call: ApiCall) -> ApiAnswer:
    return await _answer(call, await _reporter(call).succeed(call.values.get("result")))


async def _fail(call: ApiCall) -> ApiAnswer:
    error, retry_in = call.values["error"], call.values.get("retry_in")
    if not error:
        raise Refused("missingParameter", "The error is empty")
    if retry_in is not None:
        check_duration("retry_in", retry_in)
    reporter = _reporter(call)
    if call.values.get("retry"):
        kind: Literal["failed", "retry"] = "failed" if retry_in is None else "retry"
        return await _show_outcome(call, await reporter.decide(kind, error, retry_in, call.caller))
    if retry_in is None:
        return await _answer(call, await reporter.fail(error, call.caller))
    return await _answer(call, await reporter.retry(error, retry_in))


async def _defer(call: ApiCall) -> ApiAnswer:
    after, reason = call.values.get("after"), call.values.get("reason", "")
    if after is not None:
        check_duration("after", after, high=MAX_DEFER_SECONDS)
    decided = await _reporter(call).decide("defer", reason, after, call.caller)
    return await _show_outcome(call, decided)


async def _show_outcome(call: ApiCall, decided: tuple[Outcome, Reported]) -> ApiAnswer:
    outcome, reported = decided
    if reported == "refused":
        await raise_unchanged(call)
    target = outcome.queue if isinstance(outcome, DeadLettered) else None
    seconds = outcome.delay_seconds if isinstance(outcome, Retried | Deferred) else None
    return ApiAnswer(
        {
            "outcome": _OUTCOMES[type(outcome)],
            "seconds": seconds,
            "dead_letter_queue": target,
            "reason": outcome.reason,
        }
    )


_OUTCOMES = {Retried: "retried", Deferred: "deferred", DeadLettered: "dead-lettered"}
_RECEIPT = Field("receipt", Shape.TEXT, "The receipt of the message.", required=True)
_NUMBER = between(0, MAX_PROGRESS)
_DONE = {204: "stored"}

_OUTCOME = (
    Field("outcome", Shape.TEXT, "retried, deferred or dead-lettered."),
    Field("seconds", Shape.NUMBER, "Until it is visible again; null for a dead letter."),
    Field("dead_letter_queue", Shape.TEXT, "Where it is now; null if it is not a dead letter."),
    Field("reason", Shape.TEXT, "Why, a sentence."),
)

ROUTES = (
    Route(
        "POST", "/queues/{queue}/messages/{id}:progress", Scope.RECEIVE,
        "Report the progress of a job, and hide its message again.", _progress,
        body=(
            _RECEIPT,
            Field("done", Shape.NUMBER, "How much is done.", required=True, rule=_NUMBER),
            Field("total", Shape.NUMBER, "Of how much.", rule=_NUMBER),
            Field("text", Shape.TEXT, "A text for people; 500 characters are stored."),
            Field(
                "vt", Shape.NUMBER, "Seconds for which it is hidden; the queue's vt by default.",
                rule=SECONDS,
            ),
        ),
        result=(Field("is_cancelling", Shape.FLAG, "Whether the job is to be cancelled."),),
    ),
    Route(
        "POST", "/queues/{queue}/messages/{id}:succeed", Scope.RECEIVE,
        "Report the result of a job, and delete its message.", _succeed,
        body=(_RECEIPT, Field("result", Shape.ANY, "At most 65,536 bytes; null without one.")),
        answers=_DONE,
    ),
    Route(
        "POST", "/queues/{queue}/messages/{id}:fail", Scope.RECEIVE,
        "Report a failure: retry a job later, or give it up.", _fail,
        body=(
            _RECEIPT,
            Field("error", Shape.TEXT, "Why; 500 characters are stored.", required=True),
            Field(
                "retry_in", Shape.NUMBER, "Seconds until the next attempt. Without it the message "
                "moves to the dead-letter queue; without one it is deleted.", rule=SECONDS,
            ),
            Field(
                "retry", Shape.FLAG, "Whether the server decides by the number of attempts, as a "
                "worker does, and answers what: retry_in is then the pause before another attempt.",
            ),
        ),
        answers={200: "decided by the server, with retry", 204: "stored"}, result=_OUTCOME,
    ),
    Route(
        "POST", "/queues/{queue}/messages/{id}:defer", Scope.RECEIVE,
        "Hide a message for a while, without an attempt.", _defer,
        body=(
            _RECEIPT,
            Field("after", Shape.NUMBER, "Seconds, at most a week; a pause that grows without it.",
                  rule=between(0, MAX_DEFER_SECONDS)),
            Field("reason", Shape.TEXT, "Why, for people."),
        ),
        result=_OUTCOME,
    ),
)  # fmt: skip
