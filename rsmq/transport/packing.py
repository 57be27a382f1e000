"""
The bytes of commands, as they are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import hiredis

from rsmq.operations.operation import Command, Operation

#: A command with at least this number of arguments and of bytes is packed in pieces.
_MANY_ARGUMENTS = 32
_LARGE_COMMAND_BYTES = 131_072
#: The mean size from which on copying an argument takes longer than handling it.
_LARGE_ARGUMENT_BYTES = 2048
#: The size at which a piece ends.
_PIECE_BYTES = 32_768
#: The formats of a head and so many arguments.
_FORMATS = [b"%b" + b"$%d\r\n%b\r\n" * number for number in range(_MANY_ARGUMENTS)]
#: The number of arguments of ``send_message``, which is packed in each call.
_SEND_ARGUMENTS = 5


def pack_small_call(operation: Operation[Any]) -> tuple[bytes, ...] | None:
    """
    Return the command that runs a script with few arguments, in one piece; else None.

    It is packed once for an operation that is run many times. No signal handler can raise in the
    middle, unlike in hiredis.
    """
    if operation.packed is None:
        args = operation.args
        if len(operation.keys) + len(args) >= _MANY_ARGUMENTS - 3:
            return None
        head = _pack_head(operation.script.sha1, operation.keys, len(args))
        parts: list[Any]
        if len(args) == _SEND_ARGUMENTS:  # as below, in half of the time
            a, b, c, d, e = args
            parts = [len(a), a, len(b), b, len(c), c, len(d), d, len(e), e]
        else:
            parts = []
            for each in args:
                parts += len(each), each
        operation.packed = (_FORMATS[len(args)] % (head, *parts),)
    return operation.packed


@lru_cache(maxsize=1024)
def _pack_head(sha1: bytes, keys: tuple[bytes, ...], arguments: int) -> bytes:
    """Return the command as far as it is the same for all calls of a script on a queue."""
    head = (b"EVALSHA", sha1, b"%d" % len(keys), *keys)
    packed = b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in head)
    return b"*%d\r\n%b" % (len(head) + arguments, packed)


def pack_all(commands: Iterable[Command]) -> Iterator[bytes | memoryview]:
    """Return commands as they are sent together: small ones in one piece."""
    parts: list[bytes | memoryview] = []
    size = 0
    for command in commands:
        for piece in pack(command):
            parts.append(piece)
            size += len(piece)
            if size > _PIECE_BYTES:
                yield b"".join(parts) if len(parts) > 1 else piece
                parts, size = [], 0
    if parts:
        yield b"".join(parts)


def pack(command: Command) -> Iterable[bytes | memoryview]:
    """Return a command as it is sent: in one piece, or as an iterator of pieces if it is large."""
    if isinstance(command, list):
        return command
    if len(command) < _MANY_ARGUMENTS or sum(map(len, command)) < _LARGE_COMMAND_BYTES:
        return (hiredis.pack_command(command),)  # type: ignore[arg-type]
    return _pieces(command)


def pack_for_joining(command: Command) -> Iterable[bytes | memoryview]:
    """Return a command as ``pack`` does, but large arguments are not copied into larger pieces."""
    if isinstance(command, tuple) and len(command) >= _MANY_ARGUMENTS:
        size = sum(map(len, command))
        if size >= _LARGE_COMMAND_BYTES and size >= _LARGE_ARGUMENT_BYTES * len(command):
            return _parts(command)
    return pack(command)


def _parts(command: tuple[bytes, ...]) -> Iterator[bytes]:
    end = b"*%d" % len(command)
    for argument in command:
        yield b"%b\r\n$%d\r\n" % (end, len(argument))
        yield argument
        end = b""
    yield b"\r\n"


def _pieces(command: tuple[bytes, ...]) -> Iterator[bytes]:
    # Pieces are created one after another: they reuse the same small block of memory, and large
    # blocks are slow to allocate.
    parts, size = [b"*%d\r\n" % len(command)], 0
    for argument in command:
        parts += b"$%d\r\n" % len(argument), argument, b"\r\n"
        size += len(argument)
        if size > _PIECE_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)
