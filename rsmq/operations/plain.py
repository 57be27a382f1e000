"""
Operations of plain commands: what needs no script, and what a script may not call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rsmq.operations.operation import Command, Operation, RetryClass
from rsmq.operations.scripts import NO_SCRIPT

T = TypeVar("T")

#: A word of a command; text is encoded as UTF-8, and bytes in it are kept.
Word = bytes | str | int | float


def plain_command(
    *words: Word,
    key: bytes | None = None,
    parse: Callable[[Any], T] = lambda reply: reply,
    retry: RetryClass = RetryClass.ALWAYS,
    reply_timeout: float | None = None,
) -> Operation[T]:
    """
    Return an operation of one plain command.

    Args:
        words: the name of the command, and its arguments.
        key: decides which server runs it; None is the first argument.
        parse: converts its reply (bytes and integers) to the result.
        retry: how often it may be sent again after an ambiguous failure.
        reply_timeout: see ``Operation``.
    """
    command = encode_command(words)
    return Operation(
        NO_SCRIPT,
        (command[1] if key is None else key,),
        (),
        lambda replies: parse(replies[0]),
        retry,
        commands=(command,),
        reply_timeout=reply_timeout,
    )


def plain_commands(
    key: bytes,
    commands: Iterable[Command],
    *,
    retry: RetryClass = RetryClass.ALWAYS,
    in_transaction: bool = False,
    reply_timeout: float | None = None,
) -> Operation[list[Any]]:
    """
    Return an operation of several plain commands in one round trip; its result is their replies.

    Args:
        key: decides which server runs them: their keys must be in one slot.
        commands: the commands, at least one.
        retry: how often they may be sent again after an ambiguous failure.
        in_transaction: whether they are atomic; else some of them may have run after a failure.
        reply_timeout: see ``plain_command``.
    """
    packed = tuple(commands)
    return Operation(
        NO_SCRIPT,
        (key,),
        (),
        lambda replies: replies,
        retry,
        commands=((b"MULTI",), *packed, (b"EXEC",)) if in_transaction else packed,
        reply_timeout=reply_timeout,
    )


def encode_command(words: Sequence[Word]) -> tuple[bytes, ...]:
    """Return a command as Redis gets it."""
    return tuple(
        word
        if isinstance(word, bytes)
        else (word if isinstance(word, str) else repr(word)).encode("utf-8", "surrogateescape")
        for word in words
    )


def parse_fields(reply: Any) -> dict[bytes, bytes]:
    """Return the fields and values of a reply: in RESP2 they follow each other."""
    return reply if isinstance(reply, dict) else dict(zip(*[iter(reply)] * 2, strict=True))


def parse_scores(reply: Any) -> list[tuple[bytes, float]]:
    """Return the members and scores of a reply: in RESP2 they follow each other."""
    is_paired = bool(reply) and isinstance(reply[0], list)
    pairs = reply if is_paired else zip(*[iter(reply)] * 2, strict=True)
    return [(member, float(score)) for member, score in pairs]


def parse_info(reply: bytes) -> dict[str, str]:
    """Return the fields of a reply to INFO."""
    lines = bytes(reply).decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def parse_time_us(reply: Sequence[bytes]) -> int:
    """Return the Unix microseconds of a reply to TIME."""
    return int(reply[0]) * 1_000_000 + int(reply[1])
