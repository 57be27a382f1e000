"""
The messages of a read that are held back, because another message of their group comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import NoPermissionError

from rsmq.operations.reading import read_records
from rsmq.spark.connections import SparkServer
from rsmq.vocabulary.stored import GROUP
from rsmq.wire.keys import QueueKeys


def find_held_back(server: SparkServer, keys: QueueKeys, ids: Sequence[bytes]) -> set[bytes]:
    """
    Return those of some messages that are held back; none if the user lacks the right.

    Only messages whose ids have the mark of a group cost a command.
    """
    try:
        found = read_records(GROUP, server.hmget, keys.zset, keys.hash, ids)
        members = [each.text + b"\0" + id for id, each in found.items()]
        scores = server.call("ZMSCORE", keys.held_back, *members) if members else []
    except NoPermissionError:
        return set()
    return {id for id, score in zip(found, scores, strict=True) if score is not None}
