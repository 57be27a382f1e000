"""Rules on messages that the server sends when others were handled: chains and maps of tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .history import Call, Follow
from .losses import Windows
from .messages import MessageCalls, Messages, received_before
from .violation import Record, Violation, violation


def check_flows(messages: Messages, windows: Windows, follows: list[Follow]) -> Iterator[Violation]:
    """Yield the violations."""
    ids = messages.ids_by_body()

    def of_body(body: str) -> list[MessageCalls]:
        sent = {each.id for each in messages.sends_by_body.get(body, []) if each.id is not None}
        return [messages.of(id) for id in sorted(ids.get(body, set()) | sent)]

    for follow in follows:
        before = [of_body(body) for body in follow.after]
        yield from _check_follow(follow, of_body(follow.body), before, windows)


def _check_follow(
    follow: Follow, followers: list[MessageCalls], before: list[list[MessageCalls]],
    windows: Windows,
) -> Iterator[Violation]:  # fmt: skip
    all_before = [each for found in before for each in found]
    handled = [_handled(found) for found in before]
    ready = max(min((each.end for each in calls), default=math.inf) for calls in handled)
    calls = [call for each in handled for call in each]
    seen: list[Record] = [each for found in followers for each in found.sightings]
    allowed_by = windows.excuse([*calls, *(each for each in seen if isinstance(each, Call))])
    if len(followers) > 1:
        ids = ", ".join(each.id for each in followers)
        yield violation("follower twice", ids, [follow, *calls, *seen], allowed_by)
    early = [each for each in seen if isinstance(each, Call) and received_before(each) < ready]
    if early or (seen and ready == math.inf):
        yield violation("follower early", follow.body, [follow, *calls, *seen], allowed_by)
    is_gone = not any(each.left for each in all_before)
    if not seen and ready < math.inf and is_gone:
        yield violation("follower lost", follow.body, [follow, *calls], allowed_by)


def _handled(messages: list[MessageCalls]) -> list[Call]:
    """Return the handler calls of these messages that have returned."""
    return [
        call
        for found in messages
        for call in found.deliveries
        if call.kind == "handle" and call.is_ok
    ]
