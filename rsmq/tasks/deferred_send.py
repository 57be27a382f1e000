"""
A send that is checked now and made later, when a transaction of a database has committed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any, Unpack

from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.codecs import JSON, Codec, bind_codec, check_codec
from rsmq.headers import current_headers, use_headers
from rsmq.operations.confirmation import Confirm
from rsmq.operations.messages import send_message
from rsmq.tasks import Signature
from rsmq.vocabulary.send_arguments import SendArguments
from rsmq.wire.keys import Namespace


class DeferredArguments(SendArguments, total=False):
    """The options of ``send_message``."""

    codec: Codec | None
    """The codec of this send; None uses the client's."""

    confirm: Confirm | None
    """As for ``send_message``."""

    timeout: float | timedelta | None
    """As for ``send_message``; it begins with the send."""


def prepare_send(
    queues: RSMQ[Any] | AsyncRSMQ[Any],
    qname: str,
    body: object,
    *,
    codec: Codec | None = None,
    confirm: Confirm | None = None,
    timeout: float | timedelta | None = None,
    **options: Unpack[SendArguments],
) -> Callable[[], Any]:
    """
    Return a call that sends a message; that of an asyncio client returns an awaitable.

    The body is encoded now, with the current headers: later changes of the object have no effect.

    Raises:
        The errors of ``send_message`` that need no server; not those of confirm and timeout.
        TypeError: there is no such option.
    """
    namespace = queues.namespace
    chosen = queues.codec if codec is None else check_codec(codec)
    encoded_once = _EncodedOnce(bind_codec(chosen, namespace.queue(qname).zset))
    send_message(namespace, qname, body, options, codec=encoded_once, realtime=False)

    def send() -> Any:
        return queues.send_message(
            qname, None, codec=encoded_once, confirm=confirm, timeout=timeout, **options
        )

    return send


def prepare_call(signature: Signature[Any], *, is_async: bool = False) -> Callable[[], Any]:
    """
    Return a call that sends the call of a task, with the headers that are current now.

    Within ``Tasks.immediate`` it calls the function of the task, also after the end of the block.

    Args:
        signature: the call of the task.
        is_async: whether an awaitable is returned.

    Raises:
        InvalidFormat, InvalidValue: an argument is RESULT, or an option is invalid.
    """
    signature.check_has_arguments()
    namespace = Namespace("rsmq", strict_names=False)
    send_message(
        namespace, signature.queue, signature.body, signature.send_options,
        codec=JSON, realtime=False,
    )  # fmt: skip
    headers, sender = current_headers(), signature.sender
    mode = sender.immediate if sender.is_immediate else nullcontext

    def send() -> Any:
        with use_headers(headers), mode():
            return signature.send()

    async def asend() -> Any:
        with use_headers(headers), mode():
            return await signature.asend()

    return asend if is_async else send


class _EncodedOnce:
    """A codec that returns for one body what another codec returned when it was called first."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._encoded: str | bytes | None = None

    def encode(self, body: Any) -> str | bytes:
        if self._encoded is None:
            self._encoded = self._codec.encode(body)
        return self._encoded

    def decode(self, raw: bytes) -> Any:
        return self._codec.decode(raw)

    def __repr__(self) -> str:
        return repr(self._codec)
