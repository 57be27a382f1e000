"""
Webhooks: a listener that pushes the messages of a queue to a URL.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from urllib.parse import quote

from rsmq.codecs import BYTES, JSON, Codec
from rsmq.webhooks.answers import Answer, PushFailed, Verdict, judge
from rsmq.webhooks.breaker import PushEventKind
from rsmq.webhooks.http_client import PushClient
from rsmq.webhooks.proxy import Reach
from rsmq.webhooks.shared_breaker import Permit, SharedBreaker
from rsmq.webhooks.signatures import Signer, parse_secrets
from rsmq.webhooks.targets import DEAD_LETTER_SUFFIX, check_content_type, parse_target
from rsmq.worker.delivery import Delivery
from rsmq.worker.listener import Handlers, Listener, WebhookOptions, make_listener
from rsmq.worker.middleware import Hooks
from rsmq.worker.outcome import Withdrawn

_PLAIN_ID = re.compile("[A-Za-z0-9]+")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))


class Webhook:
    """
    Pushes the messages of one queue to one target.

    Attributes:
        breaker: the circuit breaker of the target.
        hooks: the middleware of the running worker; None before it starts.
    """

    def __init__(
        self,
        queue: str,
        url: str,
        *,
        secret: str | bytes | Sequence[str | bytes] | None,
        content_type: str,
        reach: Reach,
    ) -> None:
        """
        Make one; for the arguments and errors see ``Worker.webhook``.
        """
        target = parse_target(url, allow_http=reach.allow_http, rules=reach.rules)
        check_content_type(content_type)
        self.breaker = SharedBreaker(queue, target)
        self.hooks: Hooks | None = None
        keys = parse_secrets(secret)
        self._signer = Signer(keys) if keys else None
        encoded_queue = quote(queue, safe=_PRINTABLE.replace("%", ""))
        headers = {"Content-Type": content_type, "rsmq-queue": encoded_queue}
        self._client = PushClient(target, reach.rules, headers, proxy=reach.proxy)
        self._shown = target.shown

    async def push(self, body: bytes, message: Delivery) -> None:
        """
        Push a message. The worker calls it as a handler.

        Raises:
            Withdrawn: it may not be pushed now, or the target asks for a pause, or is gone.
            PushFailed: the answer was not 2xx.
        """
        permit = self.breaker.permit()
        if permit is None:
            raise Withdrawn(self.breaker.state)
        began = time.monotonic()
        answer: Answer | None = None
        try:
            answer = await self._client.post(body, self._headers_of(message, body))
        finally:
            if answer is None:  # the call was cancelled
                self.breaker.withdraw(permit)
        if self.hooks is not None and self.hooks["after_push"]:
            seconds = time.monotonic() - began
            self.hooks.call("after_push", message, self._shown, answer.status, seconds)
        self._settle(permit, answer)

    def _settle(self, permit: Permit, answer: Answer) -> None:
        if answer.is_success:
            self.breaker.report_success(permit)
            return
        verdict, seconds = judge(answer, self.breaker.server_seconds())
        report = self.breaker.report
        text = str(answer)
        if verdict is Verdict.FAILED:
            report(permit, PushEventKind.FAIL, text=text)
            raise PushFailed(answer)
        if verdict is Verdict.PAUSE:
            report(permit, PushEventKind.PAUSE, seconds=seconds, text=text)
        else:
            report(permit, PushEventKind.END, text=text)
        raise Withdrawn(text)

    def _headers_of(self, message: Delivery, body: bytes) -> dict[str, str]:
        id = message.id
        if not _PLAIN_ID.fullmatch(id):
            id = quote(id, safe=_PRINTABLE)
        timestamp = int(self.breaker.server_seconds())
        headers = {
            "webhook-id": id,
            "webhook-timestamp": str(timestamp),
            "rsmq-receive-count": str(message.receive_count),
        }
        if self._signer is not None:
            headers["webhook-signature"] = self._signer.sign(id, timestamp, body)
        return headers

    async def close(self) -> None:
        """Close its connections, in the event loop that has used them."""
        await self._client.close()


def make_webhook(  # noqa: PLR0917 - called in one place
    queue: str,
    url: str,
    secret: str | bytes | Sequence[str | bytes] | None,
    content_type: str | None,
    reach: Reach,
    codec: Codec,
    options: WebhookOptions,
) -> tuple[Webhook, Listener]:
    """
    Return a webhook and its listener; for the arguments and errors see ``Worker.webhook``.

    ``codec`` is the client's, ``options`` are those that webhooks have in common with listeners.
    """
    if content_type is None:
        content_type = "application/json" if codec is JSON else "application/octet-stream"
    webhook = Webhook(
        queue,
        url,
        secret=secret,
        content_type=content_type,
        reach=reach,
    )
    default = None
    if options.get("dead_letter_queue") is None:
        default = queue + DEAD_LETTER_SUFFIX
        if options.get("max_retries") is not None:  # so the queue's own policy does not decide
            options = {**options, "dead_letter_queue": default}
    handlers = Handlers()
    handlers.add("", webhook.push)
    listener = make_listener(
        queue,
        handlers,
        codec=BYTES,
        gate=webhook.breaker,
        default_dead_letter_queue=default,
        **options,
    )
    return webhook, listener
