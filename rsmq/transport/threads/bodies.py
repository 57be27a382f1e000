"""
Calls of codecs that wait for a server: the caller's thread waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rsmq.codecs import Codec

T = TypeVar("T")


def encode_with(codec: Codec, build: Callable[[], T]) -> T:  # noqa: ARG001 - as with asyncio
    """Return what a function returns that encodes bodies with a codec."""
    return build()


def load_bodies(received: object) -> None:
    """Do nothing: ``Message.body`` loads a body when it is read first."""
