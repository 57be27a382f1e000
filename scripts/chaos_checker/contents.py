"""Rules on which messages exist: lost, phantom, refused, stored twice, with another body."""

from __future__ import annotations

from collections.abc import Iterator

from .history import Call, Left
from .losses import Windows
from .messages import MessageCalls, Messages
from .violation import Violation, violation


def check_contents(messages: Messages, windows: Windows) -> Iterator[Violation]:
    """Yield the violations."""
    for found in messages.by_id.values():
        yield from _check_sends(found, windows)
        for seen in found.sightings:
            yield from _check_sighting(found, seen, messages)
    for body, ids in _ids_by_body(messages).items():
        sends = messages.sends_by_body.get(body, [])
        if len(sends) == 1 and len(ids) > 1:
            shown_by = [*sends, *(messages.of(id).sightings[0] for id in ids)]
            allowed_by = _excuse_copy(sends[0], windows)
            yield violation("stored twice", ", ".join(sorted(ids)), shown_by, allowed_by)


def _excuse_copy(send: Call, windows: Windows) -> str | None:
    """
    Return the setting that may have undone the record by which a repeated send is known.

    A consumer may have received the first copy before that was undone, too.
    """
    return windows.excuse_between(send.begin, send.end) if send.is_repeatable else None


def _check_sends(found: MessageCalls, windows: Windows) -> Iterator[Violation]:
    if len(found.sends) > 1:
        yield violation("one id twice", found.id, found.sends)
    elif found.sends and not found.left and not _may_be_removed(found):
        allowed_by = windows.excuse(found.sends)
        yield violation("lost", found.id, [*found.sends, *found.deliveries], allowed_by)


def _may_be_removed(found: MessageCalls) -> bool:
    """Return whether a consumer may have removed it: a worker does so when its handler returns."""
    return any(each.is_done or not each.is_ok for each in found.deletes) or any(
        each.kind == "handle" and each.is_ok for each in found.deliveries
    )


def _check_sighting(
    found: MessageCalls, seen: Call | Left, messages: Messages
) -> Iterator[Violation]:
    body = seen.body
    if body is None:  # the system does not show bodies
        if not found.sends and not messages.has_unknown_sends:
            yield violation("phantom", found.id, [seen])
        return
    if found.sends and found.sends[0].body != body:
        yield violation("changed body", found.id, [found.sends[0], seen])
        return
    sends = messages.sends_by_body.get(body, [])
    if isinstance(seen, Call):
        sends = [each for each in sends if each.begin <= seen.end]
    if not sends:
        yield violation("phantom", found.id, [seen, *messages.sends_by_body.get(body, [])])
    elif not any(each.is_possible for each in sends):
        yield violation("refused", found.id, [*sends, seen])


def _ids_by_body(messages: Messages) -> dict[str, set[str]]:
    """Return the ids under which each body was seen, or acknowledged."""
    ids: dict[str, set[str]] = {}
    for found in messages.by_id.values():
        for each in found.sightings:
            if each.body is not None:
                ids.setdefault(each.body, set()).add(found.id)
    return ids
