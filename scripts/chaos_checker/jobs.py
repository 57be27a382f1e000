"""Rules on the records of jobs: they say what has become of their messages."""

from __future__ import annotations

from collections.abc import Iterator

from .history import Call
from .losses import Windows
from .messages import MessageCalls, Messages
from .violation import Violation, violation

_SUCCEEDED = "succeeded"
_ENDED = frozenset({_SUCCEEDED, "failed", "cancelled", "expired"})


def check_jobs(messages: Messages, windows: Windows) -> Iterator[Violation]:
    """Yield the violations. In a run, no job fails for the last time, and none is cancelled."""
    for found in messages.by_id.values():
        reads = [each for each in found.jobs if each.is_ok]
        if not reads:
            continue
        handled = [each for each in found.deliveries if each.kind == "handle" and each.is_ok]
        yield from _check_ends(found, reads, handled, windows)
        yield from _check_undone(found, reads, handled, windows)
        open_at_end = [each for each in reads if each.is_final and each.state not in _ENDED]
        if handled and open_at_end and not found.left:
            allowed_by = windows.excuse(handled)
            yield violation("job open", found.id, [*handled, *open_at_end], allowed_by)


def _check_ends(
    found: MessageCalls, reads: list[Call], handled: list[Call], windows: Windows
) -> Iterator[Violation]:
    for read in reads:
        if read.state not in _ENDED:
            continue
        before = [each for each in handled if each.end < read.end]
        if read.state != _SUCCEEDED or not before:
            allowed_by = windows.excuse([*found.sends, *handled])
            yield violation("job false", found.id, [*found.sends, *handled, read], allowed_by)
            return
        if read.result not in [each.result for each in before]:
            yield violation("job result", found.id, [*before, read])
            return


def _check_undone(
    found: MessageCalls, reads: list[Call], handled: list[Call], windows: Windows
) -> Iterator[Violation]:
    """Yield a violation if a job had ended, and had another state later."""
    for earlier in reads:
        for later in reads:
            is_later = later.begin > earlier.end
            if is_later and earlier.state in _ENDED and later.state != earlier.state:
                allowed_by = windows.excuse(handled)
                yield violation("job undone", found.id, [earlier, later], allowed_by)
                return
