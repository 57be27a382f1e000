"""
The share of each caller in the audit stream, so that one with many calls does not push out the
entries of the others.

A process removes the oldest entries that it has written of a caller when they are too many, and
writes them to the log, from which no caller can remove them.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.operations.operation import Operation
from rsmq.operations.plain import plain_command
from rsmq.web.access.principals import EVERYONE, NAME_OF_KEY
from rsmq.web.client import Client

#: Entries of a caller that stay: a tenth of the stream.
MAX_OF_CALLER = 1000
#: So many are removed at once.
_STEP = 100
_MAX_CALLERS = 1000
_MAX_CHARACTERS = 300
#: They are the only caller of a server, and may do everything, so they need no share.
_SINGLE = (EVERYONE.name, NAME_OF_KEY)

_log = get_logger("rsmq.web")


class AuditShares:
    """The last entries of each caller that this process has written to the stream of a client."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, deque[tuple[bytes, str]]] = OrderedDict()

    async def keep(self, client: Client, id: bytes, facts: Mapping[str, str | bytes]) -> None:
        """
        Count an entry, and remove the oldest ones of its caller if there are too many.

        Args:
            id: of the entry.
        """
        user = str(facts["user"])
        if user in _SINGLE:
            return
        entries = self._entries.setdefault(user, deque())
        self._entries.move_to_end(user)
        if len(self._entries) > _MAX_CALLERS:
            self._entries.popitem(last=False)
        entries.append((id, _text_of(facts)))
        if len(entries) < MAX_OF_CALLER + _STEP:
            return
        removed = [entries.popleft() for _ in range(_STEP)]
        for old, text in removed:
            _log.warning("removed from the audit stream: %s %s", old.decode(), text)
        command: Operation[int] = plain_command(
            "XDEL", client.namespace.audit, *(old for old, _ in removed)
        )
        try:
            await client.run(command)
        except (RedisError, RSMQError, OSError) as error:
            _log.warning("they are not removed from the audit stream: %s", type(error).__name__)


_shares: WeakKeyDictionary[Client, AuditShares] = WeakKeyDictionary()


def shares_of(queues: Client) -> AuditShares:
    """Return the shares of a client, which all parts of a server have in common."""
    return _shares.setdefault(queues, AuditShares())


def _text_of(facts: Mapping[str, str | bytes]) -> str:
    shown = {
        name: (each.decode() if isinstance(each, bytes) else each)[:_MAX_CHARACTERS]
        for name, each in facts.items()
    }
    return json.dumps(shown)
