"""
The facts of messages that a carrier leaves behind, for its report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from rsmq._sync.client import RSMQ
from rsmq.operations.plain import encode_command, plain_commands
from rsmq.vocabulary.stored import STORED_FACTS, Carrier
from rsmq.wire.fields import META_SUFFIX
from rsmq.wire.keys import extension_key, job_key


class LeftBehind:
    """
    The facts beside the messages of a queue that a carrier leaves behind.

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
        exist = self._run([("EXISTS", key) for key in keys])
        self._found = {each.name for each, is_there in zip(beside, exist, strict=False) if is_there}

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
        """By the name of each fact, a sentence why it is left behind."""
        return {
            each.name: f"{each.text} are not carried: {each.left_by[self._carrier]}"
            for each in STORED_FACTS
            if each.name in self._found
        }
