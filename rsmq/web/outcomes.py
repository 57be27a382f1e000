"""
Reports of consumers about the jobs of tracked messages, as workers store them.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from rsmq.errors.printable import format_count
from rsmq.model import Message
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.wire.ids import check_id
from rsmq.wire.jobs import DEFAULT_RESULT_TTL_SECONDS, MAX_RESULT_BYTES, encode_progress
from rsmq.worker.operations import (
    Identity,
    Settlement,
    TrackedOutcome,
    dead_letter_messages,
    encode_job_error,
    settle_messages,
)

#: The worker of all consumers over HTTP. It is not registered, and has nothing in flight. A worker
#: with this name would get their reports refused.
_NAME = "consumers-over-http"
_HOLDER = "http"

#: What became of a report: the receipt has expired or the message is gone, it was stored, or it was
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
        Store a progress, and hide the message anew.

        Args:
            vt: seconds for which it is hidden from now on; None is the queue's vt.

        Raises:
            InvalidValue: a number of the progress is out of range.
            QueueNotFound: there is no such queue.
        """
        encoded = encode_progress(done, total, text)
        if vt is None:
            vt = (await self._queues.get_queue_attributes(self._message.queue)).vt
        outcome = TrackedOutcome("progress", DEFAULT_RESULT_TTL_SECONDS, [b""], [encoded])
        return await self._settle("extend", [(self._id, round(vt * 1000))], outcome)

    async def succeed(self, result: Any) -> Reported:
        """
        Store the result of a job, and delete its message.

        Raises:
            Refused: the result has more than 65,536 bytes of JSON.
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
        return await self._settle("delete", [self._id], outcome)

    async def retry(self, error: str, seconds: float) -> Reported:
        """Store why an attempt has failed, and hide the message until the next one."""
        outcome = TrackedOutcome("retry", DEFAULT_RESULT_TTL_SECONDS, [encode_job_error(error)])
        return await self._settle("retry", [(self._id, round(seconds * 1000), error)], outcome)

    async def fail(self, error: str, consumer: str) -> Reported:
        """
        Store why a job has failed for good, and move its message to the dead-letter queue of its
        queue; delete it if there is none.

        Args:
            consumer: the name of the caller.

        Raises:
            QueueNotFound: there is no such queue, or no such dead-letter queue.
        """
        message, queues = self._message, self._queues
        attributes = await queues.get_queue_attributes(message.queue)
        if attributes.dead_letter_queue is None:
            outcome = TrackedOutcome("fail", DEFAULT_RESULT_TTL_SECONDS, [encode_job_error(error)])
            return await self._settle("delete", [self._id], outcome)
        reason = {
            "queue": message.queue,
            "text": "its consumer has reported a failure",
            "exception": error,
            "traceback": None,
            "worker": consumer,
            "attempts": message.receive_count,
        }
        digits = await queues.run(
            dead_letter_messages(
                self._worker,
                self._keys,
                queues.namespace.queue(attributes.dead_letter_queue),
                [(self._id, message.receive_count, reason)],
                result_ttl=DEFAULT_RESULT_TTL_SECONDS,
            )
        )
        return _read(digits)

    async def _settle(
        self, action: Literal["delete", "retry", "extend"], ids: list[Any], outcome: TrackedOutcome
    ) -> Reported:
        group = Settlement(self._keys, action, self._message.receive_count, ids, tracked=outcome)
        return _read(await self._queues.run(settle_messages(self._worker, [group])))


def _read(digits: bytes) -> Reported:
    answers: dict[bytes, Reported] = {b"1": "stored", b"3": "cancelling"}
    return answers.get(digits, "refused")
