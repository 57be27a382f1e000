"""
Calls of codecs that wait for a server, in threads: the event loop runs on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from rsmq.codecs import Codec, blocks
from rsmq.model import has_blocking_codec, load_body

T = TypeVar("T")

#: How many bodies are loaded side by side.
_MAX_THREADS = 16


async def encode_with(codec: Codec, build: Callable[[], T]) -> T:
    """Return what a function returns that encodes bodies with a codec."""
    return await asyncio.to_thread(build) if blocks(codec) else build()


async def load_bodies(received: Any) -> None:
    """
    Load the bodies of a message, or of several, if they are stored elsewhere.

    Nothing is raised: ``Message.body`` raises the errors.

    Args:
        received: a message, a list of messages, or anything else, which is ignored.
    """
    messages = received if isinstance(received, list) else [received]
    if messages and has_blocking_codec(messages[0]):
        await asyncio.to_thread(_load_all, messages)


def _load_all(messages: list[Any]) -> None:
    with ThreadPoolExecutor(min(_MAX_THREADS, len(messages)), "rsmq-bodies") as threads:
        list(threads.map(load_body, messages))
