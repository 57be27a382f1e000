"""
Names of queues on the command line, which may be patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from rsmq.cli.app.errors import Failed
from rsmq.cli.app.exit_codes import Exit
from rsmq.wire.names import is_pattern


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
