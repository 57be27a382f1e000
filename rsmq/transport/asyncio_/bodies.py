"""
Calls of codecs that wait for a server, in threads: the event loop runs on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from rsmq.codecs import Codec, blocks
from rsmq.codecs.written import WrittenBodies
from rsmq.model import Message, discard_body, has_blocking_codec, load_body
from rsmq.operations.deleted_bodies import note_deleted
from rsmq.operations.operation import Operation
from rsmq.transport.side_by_side import call_for_each

T = TypeVar("T")


async def encode_with(codec: Codec, build: Callable[[], T]) -> T:
    """Return what a function returns that encodes bodies with a codec."""
    return await asyncio.to_thread(build) if blocks(codec) else build()


async def send_with(
    codec: Codec,
    options: Mapping[str, Any],
    build: Callable[[Codec], Any],
    run: Callable[[Any], Awaitable[T]],
) -> T:
    """
    Send messages, and return the reply.

    Objects of messages that were not added, because an earlier one was there, are deleted.

    Args:
        options: the options of the send.
        build: returns the send; it encodes bodies with the codec that it gets.
        run: runs it.
    """
    if not blocks(codec):
        return await run(build(codec))
    written = WrittenBodies(codec)
    reply: Any = await run(await asyncio.to_thread(build, written))
    await asyncio.to_thread(written.discard_unused, reply, options)
    return reply  # type: ignore[no-any-return]


async def load_bodies(received: Any) -> None:
    """
    Load the bodies of a message, or of several, if they are stored elsewhere.

    Nothing is raised: ``Message.body`` raises the errors.

    Args:
        received: a message, a list of messages, or anything else, which is ignored.
    """
    messages = received if isinstance(received, list) else [received]
    if messages and has_blocking_codec(messages[0]):
        await asyncio.to_thread(call_for_each, load_body, messages)


async def take_bodies(received: T) -> T:
    """Delete the objects of popped messages whose bodies were loaded; return the argument."""
    messages = received if isinstance(received, list) else [received]
    if messages and has_blocking_codec(messages[0]):
        await asyncio.to_thread(call_for_each, discard_body, messages)
    return received


async def delete_with_bodies(
    run: Callable[[Any], Awaitable[T]], operation: Operation[T], messages: Sequence[Message] | Any
) -> T:
    """
    Delete messages, and what is stored elsewhere for them.

    Args:
        run: runs the operation.
        operation: deletes the messages.
        messages: received messages in a list or tuple; objects of others are left to the sweep.
    """
    if (
        not isinstance(messages, list | tuple)
        or not messages
        or not has_blocking_codec(messages[0])
    ):
        return await run(operation)
    deleted = note_deleted(operation, messages)
    result = await run(operation)
    await asyncio.to_thread(call_for_each, discard_body, deleted)
    return result
