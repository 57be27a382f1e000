"""
The bodies of messages in requests and answers.
"""

from __future__ import annotations

from typing import Any

from rsmq.codecs import Codec
from rsmq.codecs.body_fields import body_fields


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
