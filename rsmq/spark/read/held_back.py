"""
The messages of a read that are held back, because another message of their group comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import NoPermissionError

from rsmq.spark.connections import SparkServer
from rsmq.wire.ids import GROUP_MARK
from rsmq.wire.keys import QueueKeys


def find_held_back(server: SparkServer, keys: QueueKeys, ids: Sequence[bytes]) -> set[bytes]:
    """
    Return those of some messages that are held back; none if the user lacks the right.

    Only messages whose ids have the mark of a group cost a command.
    """
    marked = [id for id in ids if id.endswith(GROUP_MARK)]
    if not marked:
        return set()
    try:
        records = zip(marked, server.hmget(keys.group_of, marked), strict=True)
        members = {
            id: record.partition(b":")[2] + b"\0" + id
            for id, record in records
            if record is not None
        }
        scores = server.call("ZMSCORE", keys.held_back, *members.values()) if members else []
    except NoPermissionError:
        return set()
    return {id for id, score in zip(members, scores, strict=True) if score is not None}
