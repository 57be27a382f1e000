"""
Names of queues on the command line, which may be patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from rsmq.cli.app.errors import Exit, Failed, explain_unreadable
from rsmq.errors import RSMQError
from rsmq.wire.names import is_pattern

T = TypeVar("T")


class _ListsQueues(Protocol):
    """A client, or another object that lists queues."""

    def list_queues(self) -> Sequence[str]: ...


def expand_patterns(rsmq: _ListsQueues, names: Sequence[str]) -> tuple[str, ...]:
    """
    Return names of queues, with each pattern replaced by the listed queues that match it.

    A name that is a listed queue stays as it is, even if it has a wildcard. A repeated name counts
    once.

    Args:
        names: names of queues, and patterns as of a shell.

    Raises:
        Failed: no queue matches a pattern.
    """
    if not any(map(is_pattern, names)):
        return tuple(dict.fromkeys(names))
    listed = rsmq.list_queues()
    expanded: list[str] = []
    for name in names:
        if not is_pattern(name) or name in listed:
            expanded.append(name)
            continue
        matches = [each for each in listed if fnmatchcase(each, name)]
        if not matches:
            raise Failed(
                f"No queue matches {name!r}",
                exit=Exit.QUEUE,
                code="queueNotFound",
                hint="rsmq list shows all queues.",
            )
        expanded += matches
    return tuple(dict.fromkeys(expanded))


def read_each(
    queues: Iterable[str], read: Callable[[str], T], *, are_named: bool = False
) -> tuple[dict[str, T], dict[str, str]]:
    """
    Read queues, and leave out those that can't be read.

    Args:
        queues: their names.
        read: reads a queue.
        are_named: whether the user has named them, so that none is left out.

    Returns:
        By the names of queues, the results, and the reasons why queues are left out.
    """
    from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

    found, unreadable = dict[str, T](), dict[str, str]()
    for queue in queues:
        try:
            found[queue] = read(queue)
        except (RSMQError, RedisError) as error:
            reason = explain_unreadable(error)
            if are_named or reason is None:
                raise
            unreadable[queue] = reason
    return found, unreadable
