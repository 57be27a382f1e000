"""
Reports of consumers about the jobs of tracked messages, as workers store them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from redis.exceptions import ResponseError

from rsmq.codecs import JSON
from rsmq.errors import QueueNotFound
from rsmq.errors.printable import format_count
from rsmq.model import Message
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import loader_of
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.wire.ids import check_id
from rsmq.wire.jobs import DEFAULT_RESULT_TTL_SECONDS, MAX_RESULT_BYTES, encode_progress
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import decode_name, encode_name
from rsmq.wire.refusals import parse_refusal
from rsmq.wire.stored import parse_integer
from rsmq.worker.failure import FailureKind, HandlerFailure
from rsmq.worker.operations import (
    FollowingMessage,
    Identity,
    Settlement,
    TrackedOutcome,
    dead_letter_messages,
    encode_job_error,
    finish_messages,
    settle_messages,
)
from rsmq.worker.outcome import (
    FREE_DEFERRALS,
    Deferred,
    Outcome,
    Policy,
    Retried,
    decide,
    exponential,
)

load = loader_of("web")

#: The worker of all consumers over HTTP. It is not registered, and has nothing in flight. A worker
#: with this name would get their reports refused.
_NAME = "consumers-over-http"
_HOLDER = "http"
#: How much of an error is the name of its class in the reason of a dead letter.
_MAX_NAME_CHARACTERS = 80

#: The outcome of a report: the receipt has expired or the message is gone, it was stored, or it was
#: stored and the job is to be cancelled.
Reported = Literal["refused", "stored", "cancelling"]


class JobReporter:
    """Stores what the consumer of a message reports, by its receipt. Each report is atomic."""

    def __init__(self, queues: Client, message: Message[Any]) -> None:
        """
        Make it; nothing is read.

        Args:
            message: with the receive count of the receipt.
        """
        self._queues = queues
        self._message = message
        self._keys = queues.namespace.queue(message.queue)
        self._id = check_id(message.id)
        self._worker = Identity(queues.namespace, _NAME, _HOLDER)

    async def progress(
        self, done: float, total: float | None, text: str, vt: float | None
    ) -> Reported:
        """
        Store a progress, and hide the message again.

        Args:
            vt: seconds for which it is hidden from now on; None is the queue's vt.

        Raises:
            InvalidValue: a number of the progress is out of range.
            QueueNotFound: there is no such queue.
        """
        encoded = encode_progress(done, total, text)
        await self._note_attempt()
        if vt is None:
            vt = (await self._queues.get_queue_attributes(self._message.queue)).vt
        outcome = TrackedOutcome("progress", DEFAULT_RESULT_TTL_SECONDS, [b""], [encoded])
        return await self._settle("extend", [(self._id, round(vt * 1000))], outcome)

    async def succeed(self, result: Any) -> Reported:
        """
        Store the result of a job, delete its message, and send what follows it.

        Raises:
            Refused: the result has more than 65,536 bytes of JSON, or what the body says of the
                next task is not valid.
            QueueNotFound: there is no such queue.
            RSMQError: what follows is refused. Then the message stays as it is.
        """
        encoded = json.dumps(result, ensure_ascii=False).encode(errors="surrogatepass")
        if len(encoded) > MAX_RESULT_BYTES:
            raise Refused(
                "resultTooLong",
                f"The result has {format_count(len(encoded), 'byte')} of JSON, and may have "
                f"{MAX_RESULT_BYTES:,}",
                status=413,
                hint="Store it elsewhere, and pass where it is.",
            )
        outcome = TrackedOutcome("succeed", DEFAULT_RESULT_TTL_SECONDS, [encoded])
        attempt = await self._note_attempt()
        following = _find_following(attempt.raw, result)
        if following is None:
            return await self._settle("delete", [self._id], outcome)
        answer = await self._finish(following, outcome)
        if len(answer) > 1:
            error = parse_refusal(answer.decode(errors="replace"), (following.queue,))
            if isinstance(error, QueueNotFound):  # a worker creates it too
                await self._queues.create_queue(following.queue, exist_ok=True)
                answer = await self._finish(following, outcome)
            if len(answer) > 1:
                raise error or ResponseError(answer.decode(errors="replace"))
        return _read(answer)

    async def _note_attempt(self) -> ReportedAttempt:
        return await self._queues.run(
            note_attempt(self._keys, self._id, self._message.receive_count)
        )

    async def _finish(self, following: FollowingMessage, outcome: TrackedOutcome) -> bytes:
        [answer] = await self._queues.run(
            finish_messages(
                self._worker,
                self._keys,
                self._message.receive_count,
                [(self._id, following)],
                has_records=True,
                realtime=self._queues.realtime,
                tracked=outcome,
            )
        )
        return answer

    async def decide(
        self, kind: Literal["failed", "retry", "defer"], text: str, after: float | None, by: str
    ) -> tuple[Outcome, Reported]:
        """
        Decide as a worker does on a message whose consumer has failed, or defers it; store that.

        The number of attempts is that of the message, or of the dead-letter policy of its queue;
        without a policy it is tried forever, after pauses that grow to five minutes.

        Args:
            kind: ``retry`` is a failure with a pause of its own.
            text: the error or the reason.
            after: seconds until the next attempt; None is a pause that grows.
            by: the name of the caller.

        Raises:
            QueueNotFound: there is no such queue, or no such dead-letter queue.
        """
        attempt = await self._note_attempt()
        number = max(self._message.receive_count - attempt.unbegun, 1)
        failure = _make_failure(attempt, kind, text, after)
        outcome = decide(failure, number, attempt.policy, unbegun=attempt.unbegun)
        if isinstance(outcome, Deferred):
            stored = TrackedOutcome("hide", DEFAULT_RESULT_TTL_SECONDS, [b""])
            ms = round(outcome.delay_seconds * 1000)
            ids = [(self._id, ms, attempt.unbegun + 1)]
            return outcome, await self._settle("defer", ids, stored)
        if isinstance(outcome, Retried):
            return outcome, await self._retry(text, outcome.delay_seconds)
        reason = outcome.reason
        return outcome, await self.fail(text, by, attempts=number, reason=reason)

    async def retry(self, error: str, seconds: float) -> Reported:
        """Store why an attempt has failed, and hide the message until the next one."""
        await self._note_attempt()
        return await self._retry(error, seconds)

    async def _retry(self, error: str, seconds: float) -> Reported:
        outcome = TrackedOutcome("retry", DEFAULT_RESULT_TTL_SECONDS, [encode_job_error(error)])
        return await self._settle("retry", [(self._id, round(seconds * 1000), error)], outcome)

    async def fail(
        self,
        error: str,
        consumer: str,
        *,
        attempts: int | None = None,
        reason: str = "its consumer has reported a failure",
    ) -> Reported:
        """
        Store why a job has failed for good, and move its message to the dead-letter queue of its
        queue; delete it if there is none.

        Args:
            consumer: the name of the caller.
            attempts: how many there were; None is the receive count.
            reason: why it is given up.

        Raises:
            QueueNotFound: there is no such queue, or no such dead-letter queue.
        """
        message, queues = self._message, self._queues
        if attempts is None:
            await self._note_attempt()
        attributes = await queues.get_queue_attributes(message.queue)
        if attributes.dead_letter_queue is None:
            outcome = TrackedOutcome("fail", DEFAULT_RESULT_TTL_SECONDS, [encode_job_error(error)])
            return await self._settle("delete", [self._id], outcome)
        described = {
            "queue": message.queue,
            "text": reason,
            "exception": error,
            "traceback": None,
            "worker": consumer,
            "attempts": message.receive_count if attempts is None else attempts,
        }
        answer = await queues.run(
            dead_letter_messages(
                self._worker,
                self._keys,
                queues.namespace.queue(attributes.dead_letter_queue),
                [(self._id, message.receive_count, described)],
                result_ttl=DEFAULT_RESULT_TTL_SECONDS,
            )
        )
        return _read(answer)

    async def _settle(
        self,
        action: Literal["delete", "retry", "defer", "extend"],
        ids: list[Any],
        outcome: TrackedOutcome,
    ) -> Reported:
        count, is_end = self._message.receive_count, action == "delete"
        group = Settlement(self._keys, action, count, ids, has_records=is_end, tracked=outcome)
        return _read(await self._queues.run(settle_messages(self._worker, [group])))


def _read(digits: bytes) -> Reported:
    answers: dict[bytes, Reported] = {b"1": "stored", b"3": "cancelling"}
    return answers.get(digits, "refused")


@dataclass(frozen=True, slots=True)
class ReportedAttempt:
    """
    The facts that decide on a message whose consumer reports.

    Attributes:
        raw: its body; empty if it is gone.
        seconds: seconds since its first receive.
        unbegun: how many of its receives were no attempts.
        policy: the policy of its queue, with its own number of retries.
    """

    raw: bytes
    seconds: float
    unbegun: int
    policy: Policy


def note_attempt(keys: QueueKeys, id: str, count: int) -> Operation[ReportedAttempt]:
    """
    Note in the record of a message which attempt its consumer reports about.

    Args:
        count: the receive count of the receipt.

    Returns:
        The facts that decide on the message.
    """
    return Operation(
        load("note_attempt"), (keys.hash, keys.zset, keys.job(id)),
        (encode_name(id), digits(count)), _parse_attempt, RetryClass.ALWAYS, (keys.name,),
    )  # fmt: skip


def _parse_attempt(reply: Any) -> ReportedAttempt:
    now, raw, first, retries, unbegun, target, receives = reply
    most = parse_integer(receives) if target else None
    policy = Policy(
        max_retries=None if most is None else max(most - 1, 0),
        backoff=exponential(),
        dead_letter_queue=decode_name(target) if target else None,
    )
    first_ms = parse_integer(first)
    seconds = 0.0 if first_ms is None else (int(now) - first_ms) / 1000
    return ReportedAttempt(raw, seconds, int(unbegun), policy.of_message(parse_integer(retries)))


def _make_failure(
    attempt: ReportedAttempt, kind: FailureKind, text: str, after: float | None
) -> Any:
    """Return the failure that a consumer reports, as that of a handler."""
    if kind == "defer" and not attempt.policy.may_defer(
        attempt.unbegun, attempt.seconds, free=FREE_DEFERRALS
    ):
        text = f"deferred too often, {attempt.unbegun} times in {attempt.seconds:.0f} s: {text}"
        kind = "deferred_too_often"
    name = text.partition(":")[0][:_MAX_NAME_CHARACTERS]
    return HandlerFailure(kind, RuntimeError(text), name, text, after=after)


def _find_following(raw: bytes, result: Any) -> FollowingMessage | None:
    """
    Return the message that follows a task; None if the body is not that of one with a next task.

    Raises:
        Refused: what the body says of the next task is not valid.
    """
    from rsmq.tasks.body import headers_of_task, read_next  # noqa: PLC0415 - few bodies have it
    from rsmq.tasks.follow import make_following  # noqa: PLC0415 - as above

    try:
        body = JSON.decode(raw)
    except ValueError:
        return None
    if not isinstance(body, dict) or not isinstance(body.get("task"), str):
        return None
    try:
        following = read_next(body)
    except ValueError as error:
        raise Refused("invalidFormat", f"The body of the message: {error}", status=422) from None
    if following is None:
        return None
    with headers_of_task(body):
        return make_following(following, result, lambda _task, _argument, value: value)
