"""
Receipt handles: the id and the receive count of a message, signed for its queue.

A handle says which receive it is from, as a ``Message`` of this library does. The key of its
signature is random and stored in Redis, so all servers of a namespace accept each other's handles.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Any

from rsmq.model import Message
from rsmq.operations.plain import plain_command
from rsmq.web.client import Client
from rsmq.web.sqs.errors import SqsError, missing

_KEY_BYTES, _SIGNATURE_BYTES = 32, 12
_MAX_HANDLE = 1024


class ReceiptSigner:
    """Makes and reads the receipt handles of a namespace."""

    def __init__(self, queues: Client) -> None:
        """Make it; the key is read at the first use."""
        self._queues = queues
        self._key = b""

    async def open(self) -> None:
        """Read the key, or store one if there is none. Each of the two commands is atomic."""
        if not self._key:
            name = self._queues.namespace.sqs_key
            new = secrets.token_bytes(_KEY_BYTES)
            await self._queues.run(plain_command("SETNX", name, new))
            self._key = bytes(await self._queues.run(plain_command("GET", name)))

    def sign(self, message: Message[Any]) -> str:
        """Return the handle of a received message."""
        receipt = f"{message.receive_count}:{message.id}".encode(errors="surrogateescape")
        return base64.b64encode(self._signature(message.queue, receipt) + receipt).decode()

    def read(self, qname: str, handle: Any) -> Message[bytes]:
        """
        Return the receipt of a message, as a message without its body.

        Raises:
            SqsError: it is missing, or not a handle of this queue.
        """
        if handle is None or handle == "":
            raise missing("ReceiptHandle")
        try:
            raw = base64.b64decode(handle, validate=True) if len(handle) <= _MAX_HANDLE else b""
            signature, receipt = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
            if hmac.compare_digest(signature, self._signature(qname, receipt)):
                count, _, id = receipt.decode(errors="surrogateescape").partition(":")
                return Message(qname, id, b"", int(count), None)
        except (ValueError, TypeError):
            pass
        raise SqsError(
            "ReceiptHandleIsInvalid",
            f'The input receipt handle "{str(handle)[:_MAX_HANDLE]}" is not a valid receipt '
            "handle.",
        )

    def _signature(self, qname: str, receipt: bytes) -> bytes:
        text = qname.encode(errors="surrogateescape") + b"\0" + receipt
        # HMAC takes four times as long for such short texts.
        return hashlib.blake2b(text, key=self._key, digest_size=_SIGNATURE_BYTES).digest()
