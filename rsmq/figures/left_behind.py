"""
What a carrier leaves behind of the messages of a queue, for its report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from rsmq._sync.client import RSMQ
from rsmq.operations.plain import encode_command, plain_commands
from rsmq.vocabulary.stored import QUEUE_FIELDS, STORED_FACTS, Carrier
from rsmq.wire.fields import META_SUFFIX
from rsmq.wire.keys import extension_key, job_key

_MISSED_FIELDS = [each for each in QUEUE_FIELDS if each.text]


class LeftBehind:
    """
    What a carrier leaves behind: facts beside the messages of a queue, and fields of the queue.

    A fact counts if its key exists: that of a unique_key, for one, also exists for a while after
    the last message with one. A user without rights to these keys finds none.
    """

    def __init__(self, rsmq: RSMQ, carrier: Carrier, zset: bytes, hash: bytes) -> None:
        """
        Look for the keys of a queue, in one round trip.

        Args:
            rsmq: a client of its server.
            carrier: the carrier.
            zset: the key of its ids.
            hash: the key of its bodies.
        """
        self._rsmq, self._carrier, self._zset, self._hash = rsmq, carrier, zset, hash
        facts = [each for each in STORED_FACTS if carrier in each.left_by]
        self._of_messages = {each.name: each for each in facts if each.name in {"track", "meta"}}
        beside = [each for each in facts if each.key not in {"hash", "zset", "job"}]
        keys = [extension_key(zset, each.key) for each in beside]
        of_queue = [("HEXISTS", hash, each.field) for each in _MISSED_FIELDS]
        exist = self._run([*(("EXISTS", key) for key in keys), *of_queue])
        names = [*(each.name for each in beside), *(each.field for each in _MISSED_FIELDS)]
        self._found = {name for name, is_there in zip(names, exist, strict=False) if is_there}

    def look_at(self, ids: Sequence[bytes]) -> None:
        """Look for the facts that each message has in a place of its own, in one round trip."""
        missing = self._of_messages.keys() - self._found
        if not missing or not ids:
            return
        replies = self._run(
            [
                ("EXISTS", *(job_key(self._zset, id) for id in ids)),
                ("HMGET", self._hash, *(id + META_SUFFIX for id in ids)),
            ]
        )
        if replies:
            found = {
                "track": bool(replies[0]),
                "meta": any(each is not None for each in replies[1]),
            }
            self._found |= {name for name in missing if found[name]}

    def _run(self, commands: Sequence[tuple[bytes | str, ...]]) -> list[Any]:
        try:
            return self._rsmq.run(plain_commands(self._zset, map(encode_command, commands)))
        except ResponseError:  # the user has no right to a key, or it has another type
            return []

    @property
    def reasons(self) -> dict[str, str]:
        """By the name of each fact, and by each field, a sentence why it is left behind."""
        texts = {
            each.name: f"{each.text} are not carried: {each.left_by[self._carrier]}"
            for each in STORED_FACTS
            if each.name in self._found
        }
        fields = {
            each.field: f"{each.text} are not carried: set them again"
            for each in _MISSED_FIELDS
            if each.field in self._found
        }
        return texts | fields
