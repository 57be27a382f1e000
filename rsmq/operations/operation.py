"""
The type ``Operation``: one atomic script with its keys and arguments; and its retry class.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

from rsmq.lua.load import Script

T = TypeVar("T")


class Retry(Enum):
    """
    How often an operation may be sent again after an ambiguous failure.

    Ambiguous: the connection broke after the command was sent, so that it may or may not have run.
    """

    ALWAYS = "always"  # a second run changes nothing more
    ONCE = "once"  # a second run costs something, but loses nothing
    NEVER = "never"  # a second run would store twice or lose


@dataclass(slots=True, eq=False)  # not frozen: made for every call, it takes half the time
class Operation(Generic[T]):
    """
    One atomic step, ready to be sent.

    Attributes:
        script: what the server runs.
        keys: its Redis keys.
        args: its arguments, bytes.
        parse: turns the reply, bytes and integers, into the result.
        retry: how often it may be sent again after an ambiguous failure.
        queues: the names of the queues that it is about, for errors.
        settle: takes the place of ``parse`` once an earlier attempt may have run already.
        give_back: for a result that nobody will take, the operation that undoes it.
        before: commands that go ahead of the script, all of it in one MULTI; None sends the
            script alone.
        otherwise: what to run instead where MULTI is not to be had.
        packed: the command as it goes over the wire, of an operation that is run many times; kept
            by the package ``transport``.
    """

    script: Script
    keys: tuple[bytes, ...]
    args: tuple[bytes, ...]
    parse: Callable[[Any], T]
    retry: Retry
    queues: tuple[str, ...] = ()
    settle: Callable[[Any], T] | None = None
    give_back: Callable[[T], Operation[Any] | None] | None = None
    before: tuple[tuple[bytes, ...], ...] | None = None
    otherwise: Operation[T] | None = None
    packed: tuple[bytes, ...] | None = None


#: A call of several steps: yields operations, is sent their results, and returns its own.
Steps: TypeAlias = Generator[Operation[Any], Any, T]
