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
        yield from _check_sends(found, messages, windows)
        for seen in found.sightings:
            yield from _check_sighting(found, seen, messages)
    for body, ids in messages.ids_by_body().items():
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


def _check_sends(found: MessageCalls, messages: Messages, windows: Windows) -> Iterator[Violation]:
    keys = {each.unique_key for each in found.sends}
    if len(found.sends) > 1 and (len(keys) > 1 or None in keys):
        yield violation("one id twice", found.id, found.sends)
        return
    stored_by = _stored_by(found, messages)
    expires_at = min((each.begin + each.expires for each in stored_by), default=0)
    if expires_at > messages.end and not found.left and not found.removers():
        shown_by = [*stored_by, *found.deliveries, *found.deletes]
        yield violation("lost", found.id, shown_by, windows.excuse(stored_by))


def _stored_by(found: MessageCalls, messages: Messages) -> list[Call]:
    """Return the sends that have stored it, or else its deliveries if the server has sent it."""
    if found.sends:
        return found.sends
    seen = [each for each in found.deliveries if each.body is not None]
    sends = [
        send
        for each in seen
        for send in messages.sends_by_body.get(each.body or "", [])
        if send.is_possible and send.begin <= each.end
    ]
    return sends or [each for each in seen if messages.is_of_server(each.body or "")]


def _may_have_body(found: MessageCalls, body: str, messages: Messages) -> bool:
    """Return whether a send of the id has this body, or another one of its unique key."""
    if found.unique_key is None:
        return found.sends[0].body == body
    sends = messages.sends_by_body.get(body, [])
    return any(each.unique_key == found.unique_key for each in sends)


def _check_sighting(
    found: MessageCalls, seen: Call | Left, messages: Messages
) -> Iterator[Violation]:
    body = seen.body
    if body is None:  # the system does not show bodies
        if not found.sends and not messages.has_unknown_sends:
            yield violation("phantom", found.id, [seen])
        return
    if messages.is_of_server(body):
        return
    if found.sends and not _may_have_body(found, body, messages):
        yield violation("changed body", found.id, [found.sends[0], seen])
        return
    sends = messages.sends_by_body.get(body, [])
    if isinstance(seen, Call):
        sends = [each for each in sends if each.begin <= seen.end]
    if not sends:
        yield violation("phantom", found.id, [seen, *messages.sends_by_body.get(body, [])])
    elif not any(each.is_possible for each in sends):
        yield violation("refused", found.id, [*sends, seen])
