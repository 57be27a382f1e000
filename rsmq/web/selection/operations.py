"""
Operations on selections, and on the messages of one: each changes a message only while it is as it
was when it was shown.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Any

from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.plain import encode_command, plain_commands
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import decode_name, encode_name

load = loader_of("web")

#: For how long a selection can be used.
LIFE_MS = 600_000
#: Selections of a caller that are kept.
_PLACES = 64
#: Messages of a step: so many take less than 5 ms.
STEP = 150

#: A message as it was: id, receive count ("0" if it was never received) and score, as stored.
Row = tuple[str, str, str]


def store_selection(namespace: Namespace, content: bytes, by: str) -> Operation[tuple[str, int]]:
    """
    Store a selection, and return its token and the server's time, Unix ms.

    Args:
        by: whose selection it is: those of others are not replaced.
    """
    caller = hashlib.sha256(by.encode(errors="replace")).hexdigest()[:16]
    secret = secrets.token_urlsafe(16)
    return Operation(
        load("store_selection"),
        (namespace.selections,),
        (secret.encode(), content, digits(_PLACES), digits(LIFE_MS), f"{caller}:".encode()),
        lambda reply: (f"{reply[0].decode()}.{secret}", int(reply[1])),
        RetryClass.ALWAYS,
    )


def read_selection(namespace: Namespace, token: str) -> Operation[tuple[int, bytes] | None]:
    """Return when a selection was made, Unix ms, and its content; None if it is over."""
    place, _, secret = token.partition(".")
    commands = [("HGET", namespace.selections, place.encode(errors="replace")), ("TIME",)]
    operation: Operation[Any] = plain_commands(namespace.selections, map(encode_command, commands))

    def parse(replies: Sequence[object]) -> tuple[int, bytes] | None:
        stored, time = replies
        if not isinstance(stored, bytes) or b" " not in stored or not isinstance(time, list):
            return None
        its_secret, ms, content = stored.split(b" ", 2)
        is_its = hmac.compare_digest(its_secret, secret.encode(errors="replace"))
        return (int(ms), content) if is_its and int(time[0]) * 1000 < int(ms) + LIFE_MS else None

    operation.parse = parse
    return operation


def read_rows(keys: QueueKeys, ids: Sequence[str]) -> Operation[list[Row]]:
    """Return the messages of ids that are in the queue."""

    def parse(reply: list[bytes]) -> list[Row]:
        parts = list(map(decode_name, reply))
        return list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))

    return Operation(
        load("read_selected"),
        (keys.hash, keys.zset),
        tuple(map(encode_name, ids)),
        parse,
        RetryClass.ALWAYS,
        (keys.name,),
    )


def count_changed(keys: QueueKeys, rows: Sequence[Row]) -> Operation[int]:
    """Return how many messages are not as they were."""
    return Operation(
        load("check_selected"), (keys.hash, keys.zset), _encode(rows), int, RetryClass.ALWAYS,
        (keys.name,),
    )  # fmt: skip


def delete_rows(keys: QueueKeys, rows: Sequence[Row], *, strict: bool) -> Operation[int]:
    """Delete messages for good, and return how many; -1 if none because of strict."""
    return Operation(
        load("delete_selected"), (keys.hash, keys.zset), _encode(rows, strict=strict), int,
        # A second run would find other messages than the first.
        RetryClass.NEVER, (keys.name,),
    )  # fmt: skip


def release_rows(keys: QueueKeys, rows: Sequence[Row], *, strict: bool) -> Operation[int]:
    """Release messages, and return how many; -1 if none because of strict."""
    return Operation(
        load("release_selected"), (keys.hash, keys.zset), _encode(rows, strict=strict), int,
        RetryClass.NEVER, (keys.name,),
    )  # fmt: skip


def move_rows(
    keys: QueueKeys, to: QueueKeys, rows: Sequence[Row], *, strict: bool
) -> Operation[int]:
    """Move messages, and return how many; -1 if none because of strict."""
    return Operation(
        load("move_selected"), (to.hash, to.zset, keys.hash, keys.zset),
        _encode(rows, strict=strict), int, RetryClass.NEVER, (to.name, keys.name),
    )  # fmt: skip


def _encode(rows: Sequence[Row], *, strict: bool | None = None) -> tuple[bytes, ...]:
    first = () if strict is None else (b"1" if strict else b"",)
    return (*first, *(encode_name(value) for row in rows for value in row))
