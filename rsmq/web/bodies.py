"""
The bodies of messages in requests and answers.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from rsmq.codecs import CannotDecode, Codec, bind_codec, blocks
from rsmq.codecs.body_fields import body_fields
from rsmq.codecs.readable import ReadableBodies, summarize
from rsmq.codecs.steps import StepCodec
from rsmq.codecs.stored import without_store
from rsmq.errors import BodyNotDecodable, BodyUnavailable, QueueNotFound
from rsmq.model import Message, StoredMessage
from rsmq.operations.messages import get_part
from rsmq.transport.side_by_side import call_for_each
from rsmq.web.client import Client
from rsmq.wire.body_format import is_formatted, stored_size
from rsmq.wire.limits import MAX_BATCH_BYTES

#: The messages of a deletion whose objects are deleted with them, and the bytes of a reference.
_MAX_REFERENCES = 250
_HEAD_BYTES = 1024

AnyMessage = TypeVar("AnyMessage", Message[bytes], StoredMessage[bytes])


class HttpBodies:
    """A codec whose bodies are text or bytes, and which keeps the stored bytes."""

    def encode(self, body: str | bytes) -> str | bytes:
        if isinstance(body, str):
            return body
        try:
            return body.decode()  # so its size is measured as Node does it
        except UnicodeDecodeError:
            return body

    def decode(self, raw: bytes) -> bytes:
        return raw

    def __repr__(self) -> str:
        return "the bodies of HTTP"


BODIES: Codec[str | bytes, bytes] = HttpBodies()


def bodies_of(queues: Client) -> Codec[Any, bytes]:
    """
    Return the codec of the bodies of a namespace in lists and searches, as HTTP has them.

    It is that of the server's client, if it compresses or encrypts; then bodies in answers are what
    is inside. It reads no store, so bodies that are stored elsewhere are shown as a reference: a
    list of a thousand could have 64 GiB.
    """
    return _as_http(without_store(queues.codec))


def whole_bodies_of(queues: Client) -> Codec[Any, bytes]:
    """Return the codec of single bodies, and of those that are sent; it uses the store."""
    return _as_http(queues.codec)


def _as_http(codec: Codec) -> Codec[Any, bytes]:
    if isinstance(codec, StepCodec):
        return ReadableBodies(codec)
    return codec if isinstance(codec, ReadableBodies) else BODIES


async def load_stored(queues: Client, messages: list[Message[bytes]]) -> list[Message[bytes]]:
    """
    Return received messages with what is inside their stored bodies.

    Bodies that have more than MAX_BATCH_BYTES together in the store stay references, but for the
    first one; so do those that can't be loaded.

    Args:
        messages: messages that were received with ``bodies_of``. They are changed.
    """
    codec = whole_bodies_of(queues)
    if not isinstance(codec, ReadableBodies) or not codec.blocks:
        return messages
    room = MAX_BATCH_BYTES
    chosen: list[int] = []
    for at, message in enumerate(messages):
        size = stored_size(message.raw)
        if size is not None and (size <= room or not chosen):
            chosen.append(at)
            room -= size

    def load(at: int) -> None:
        message = messages[at]
        with suppress(BodyUnavailable, CannotDecode):
            body = codec.read(message.raw, queues.namespace.queue(message.queue).zset)
            messages[at] = replace(message, raw=body, _codec=BODIES)

    if chosen:
        await asyncio.to_thread(call_for_each, load, chosen)
    return messages


async def with_references(queues: Client, messages: list[Message[bytes]]) -> list[Message[bytes]]:
    """
    Return messages that are to be deleted with the beginnings of their bodies, if the server's
    codec stores bodies elsewhere: then their deletion deletes the objects, too.

    Args:
        messages: messages of receipts, without bodies. More than 250 are left as they are.
    """
    codec = queues.codec
    if not blocks(codec) or len(messages) > _MAX_REFERENCES:
        return messages

    async def read(message: Message[bytes]) -> Message[bytes]:
        name, found = message.queue, None
        part = get_part(queues.namespace, name, message.id, codec=BODIES, max_bytes=_HEAD_BYTES)
        with suppress(QueueNotFound):
            found = await queues.run(part)
        bound = bind_codec(codec, queues.namespace.queue(name).zset)
        return replace(message, raw=b"" if found is None else found[0].raw, _codec=bound)

    return list(await asyncio.gather(*map(read, messages)))


def open_message(message: AnyMessage) -> AnyMessage:
    """Return a message with what is inside its body; the same one if the codec can't decode it."""
    try:
        body = message.body
    except (BodyNotDecodable, BodyUnavailable):
        return message
    return message if body is message.raw else replace(message, raw=body)


def show_steps(raw: bytes | None) -> str | None:
    """Return what was done with a body that could not be undone, in words; else None."""
    return summarize(raw) if raw is not None and is_formatted(raw) else None


def show_body(raw: bytes | None) -> dict[str, Any]:
    """Return the field that has a body: text if it is UTF-8, else base64; None is withheld."""
    return {"body": None} if raw is None else body_fields(raw)


def cut_body(raw: bytes, number: int | None) -> bytes:
    """Return at most so many bytes of a body, without the part of a character at their end."""
    cut = raw[:number]
    try:
        cut.decode()
    except UnicodeDecodeError as error:
        if error.end == len(cut) and error.reason == "unexpected end of data":
            return cut[: error.start]
    return cut
