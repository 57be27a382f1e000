"""
A queue that is followed: its new messages are found by polls that change nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from rsmq.codecs import Codec
from rsmq.model import StoredMessage
from rsmq.operations.inspection import new_messages, start_position
from rsmq.operations.operation import Steps
from rsmq.operations.walk import Position
from rsmq.wire.keys import QueueKeys

#: A message may appear so long after its sent time, because some clients read the time first and
#: send later.
_LATE_MS = 1000
#: The most ids of a queue that are remembered, so that no message is found twice.
_MAX_REMEMBERED_IDS = 100_000
#: Polling takes at most this share of the time.
_MAX_POLLING_SHARE = 0.1
#: The pause for that is at most so long.
_MAX_PAUSE_SECONDS = 2.0


def pause_after_poll(interval: float, seconds: float) -> float:
    """
    Return the seconds between two polls.

    Args:
        interval: the shortest pause, seconds.
        seconds: how long the last poll took.
    """
    return max(interval, min(seconds / _MAX_POLLING_SHARE, _MAX_PAUSE_SECONDS))


class QueueFollower:
    """
    A queue, and the ids of its messages that were found.

    A poll reads the messages since shortly before the previous poll, and leaves out those that were
    found. So it also finds messages that appear a little after their sent time.

    Attributes:
        now_ms: the server's time at the last poll, Unix ms; 0 before the first.
    """

    def __init__(self, keys: QueueKeys, codec: Codec) -> None:
        self._keys = keys
        self._codec = codec
        self._found_ids: OrderedDict[str, None] = OrderedDict()
        self._start_ms = self._since_ms = self.now_ms = 0

    def start(self, since_ms: int | None = None) -> Steps[None]:
        """
        Begin with new messages. Without a start, the first poll finds all messages.

        Args:
            since_ms: begin with those since a Unix ms that is earlier than now; None is now.

        Raises:
            QueueNotFound: the queue does not exist.
        """
        no_messages = new_messages(self._keys, (b"+inf", b"0"), 0, front=False, codec=self._codec)
        self.now_ms = (yield no_messages).now_ms
        start = self.now_ms if since_ms is None else min(since_ms, self.now_ms)
        self._start_ms = self._since_ms = start

    def poll(self, take: Callable[[list[StoredMessage[Any]]], None]) -> Steps[None]:
        """
        Find the messages that were added or became due since the last poll, each only once.

        Args:
            take: gets them, in several lists if there are many.
        """
        now = None
        for front in (True, False):
            position: Position | None = start_position(self._since_ms, front=front)
            while position is not None:
                found = yield new_messages(
                    self._keys, position, self._since_ms, front=front, codec=self._codec
                )
                now = found.now_ms if now is None else now
                take(self.skip_found(found.messages))
                position = found.position
        if now is not None:
            self.now_ms = now
            self._since_ms = max(self._start_ms, now - _LATE_MS)

    def skip_found(self, messages: Iterable[StoredMessage[Any]]) -> list[StoredMessage[Any]]:
        """Return those messages that were not found before, and remember them."""
        new = [each for each in messages if each.id not in self._found_ids]
        self._found_ids.update((each.id, None) for each in new)
        while len(self._found_ids) > _MAX_REMEMBERED_IDS:
            self._found_ids.popitem(last=False)
        return new
