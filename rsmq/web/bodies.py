"""
The bodies of messages in requests and answers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from rsmq.codecs import Codec
from rsmq.codecs.body_fields import body_fields
from rsmq.codecs.readable import ReadableBodies, summarize
from rsmq.codecs.steps import StepCodec
from rsmq.codecs.stored import without_store
from rsmq.errors import BodyNotDecodable, BodyUnavailable
from rsmq.model import Message, StoredMessage
from rsmq.web.client import Client
from rsmq.wire.body_format import is_formatted

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
    Return the codec of the bodies of a namespace, as HTTP has them.

    It is that of the server's client, if it compresses or encrypts; then bodies in answers are what
    is inside. It reads no store, so bodies that are stored elsewhere are shown as a reference.
    """
    codec = without_store(queues.codec)
    if isinstance(codec, StepCodec):
        return ReadableBodies(codec)
    return codec if isinstance(codec, ReadableBodies) else BODIES


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
