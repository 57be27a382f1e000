"""
The target queue of messages that were set aside: another target would get some of them twice.
"""

from __future__ import annotations

import json

from rsmq.errors import NotPossible
from rsmq.errors.printable import escape_unprintable
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import Source
from rsmq.wire.keys import TARGET_FIELD, QueueKeys


def describe_target(target: Server, keys: QueueKeys) -> bytes:
    """Return the text by which a hash of messages set aside names its target queue."""
    created = target.call("HGET", keys.hash, "created") or b""
    return json.dumps(
        {
            "queue": keys.zset.decode("utf-8", "surrogateescape"),
            "created": created.decode("utf-8", "surrogateescape"),
            "server": target.address,
        }
    ).encode()


def count_set_aside(source: Source, queue: str) -> int:
    """Return the number of messages that are set aside at the source."""
    key = source.aside_key(queue)
    if not key:
        return 0
    call = source.server.call
    return int(call("HLEN", key)) - int(call("HEXISTS", key, TARGET_FIELD))


def refuse_other_target(source: Source, queue: str, target: Server, keys: QueueKeys) -> None:
    """
    Refuse a target queue that is not the one for which messages were set aside.

    It is the same queue if its key is the same, and its server or the time when it was created.

    Args:
        queue: the name of the queue at the source.

    Raises:
        NotPossible: the messages were set aside for another queue. Some of them may be there.
    """
    key = source.aside_key(queue)
    stored = source.server.call("HGET", key, TARGET_FIELD) if key else None
    if not stored:
        return
    earlier, own = json.loads(stored), json.loads(describe_target(target, keys))
    is_same_server = earlier["server"] == own["server"]
    is_as_old = bool(own["created"]) and earlier["created"] == own["created"]
    if earlier["queue"] == own["queue"] and (is_same_server or is_as_old):
        return
    number = count_set_aside(source, queue)
    earlier_queue = escape_unprintable(earlier["queue"])
    raise NotPossible(
        f"Messages of {source.kind}:{queue} are on their way to another queue, "
        f"{earlier_queue} on {earlier['server']}: {number}",
        hint="Some of them may be there already. Run the move to that queue again first. If it is "
        f"gone for good, delete the field '' of the hash {escape_unprintable(key.decode())} on "
        "the server of the source (HDEL), and run this move again.",
    )
