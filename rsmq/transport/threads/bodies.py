"""
Calls of codecs that wait for a server: the caller's thread waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from rsmq.codecs import Codec, blocks
from rsmq.codecs.written import WrittenBodies
from rsmq.errors import BodyNotDecodable, BodyUnavailable
from rsmq.model import Message, discard_body, has_blocking_codec
from rsmq.operations.deleted_bodies import note_deleted
from rsmq.operations.operation import Operation
from rsmq.transport.side_by_side import call_for_each

T = TypeVar("T")


def encode_with(codec: Codec, build: Callable[[], T]) -> T:  # noqa: ARG001 - as with asyncio
    """Return what a function returns that encodes bodies with a codec."""
    return build()


def send_with(
    codec: Codec,
    options: Mapping[str, Any],
    build: Callable[[Codec], Any],
    run: Callable[[Any], T],
) -> T:
    """As with asyncio."""
    if not blocks(codec):
        return run(build(codec))
    written = WrittenBodies(codec)
    reply: Any = run(build(written))
    written.discard_unused(reply, options)
    return reply  # type: ignore[no-any-return]


def load_bodies(received: object) -> None:
    """Do nothing: ``Message.body`` loads a body when it is read first."""


def take_bodies(received: T) -> T:
    """Load the bodies of popped messages, and delete their objects; return the argument."""
    messages = received if isinstance(received, list) else [received]
    if messages and has_blocking_codec(messages[0]):
        call_for_each(_take_body, messages)
    return received


def _take_body(message: Message) -> None:
    with suppress(BodyNotDecodable, BodyUnavailable):  # the object stays; Message.body raises them
        _ = message.body
        discard_body(message)


def delete_with_bodies(
    run: Callable[[Any], T], operation: Operation[T], messages: Sequence[Message] | Any
) -> T:
    """As with asyncio."""
    if (
        not isinstance(messages, list | tuple)
        or not messages
        or not has_blocking_codec(messages[0])
    ):
        return run(operation)
    deleted = note_deleted(operation, messages)
    result = run(operation)
    call_for_each(discard_body, deleted)
    return result
