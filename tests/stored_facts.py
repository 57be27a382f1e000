"""
Queues with a message for each fact that can be stored beside messages.

The body of a message is the name of its fact in ``rsmq.vocabulary.stored``.
"""

from __future__ import annotations

import time

from rsmq.vocabulary.stored import MESSAGE_RECORDS, STORED_FACTS
from rsmq.wire.ids import NODE_ID_LENGTH
from tests.send_examples import EXAMPLES

#: The options of a send that store a fact.
_OPTIONS = {**EXAMPLES, "visible_at": {"delay": 900}, "dedup_id": EXAMPLES["dedup_window"]}
_REASON = '5:{"queue":"p","text":"t","exception":null,"traceback":null,"worker":"w","attempts":1}'
#: The keys whose fields are the ids of messages.
_BY_ID = {
    "reason": "reasons", "unbegun": "unbegun", "last_error": "retrying", "finished": "finished",
    "quarantined": "alone",
}  # fmt: skip
#: The keys whose values end with the ids of messages.
_TO_ID = {"unique_key": "unique", "dedup_id": "dedup", "locks": "locks"}
#: The fields of the queue's hash, behind the ids.
_OF_HASH = {"receive_count": b":rc", "first_received": b":fr", "meta": b":meta"}
#: The receive counts of the messages that were received.
_COUNT = 3


class FactKeys:
    """The raw keys of the facts of a queue."""

    def __init__(self, raw, ns, queue="q"):
        self.raw, self.key = raw, f"{ns}:{queue}"

    def ids(self):
        """Return the id of each message by its body, the name of a fact."""
        fields = self.raw.hgetall(f"{self.key}:Q").items()
        return {body.decode(): id.decode() for id, body in fields if len(id) == NODE_ID_LENGTH}

    def fill(self, rsmq):
        """Send a message for each fact, and store it; a queue of the name must exist."""
        created = self.raw.hget(f"{self.key}:Q", "created")
        for fact in STORED_FACTS:
            options = {"delay": 0} | _OPTIONS.get(fact.name, {})
            rsmq.send_message("q", fact.name, **options)
        ids = self.ids()
        for name in ("receive_count", "first_received", "unbegun", "last_error"):
            self.raw.hset(f"{self.key}:Q", f"{ids[name]}:rc", _COUNT)
            self.raw.hset(f"{self.key}:Q", f"{ids[name]}:fr", 1_700_000_000_000)
        self.raw.hset(f"{self.key}:Q", f"{ids['meta']}:meta", "m")
        records = {
            "reason": ("reasons", ids["reason"], _REASON),
            "unbegun": ("unbegun", ids["unbegun"], "1"),
            "last_error": ("retrying", ids["last_error"], f"{_COUNT}:Error"),
            "finished": ("finished", ids["finished"], "a"),
            "quarantined": ("alone", ids["quarantined"], "1:0"),
            "locks": ("locks", "=key", f"{_COUNT}:{ids['locks']}"),
        }  # fmt: skip
        for key, field, value in records.values():
            self.raw.hset(f"{self.key}:x:{key}", field, value)
            if key in {"unbegun", "retrying", "finished", "locks"}:
                self.raw.hset(f"{self.key}:x:{key}", "", created)
        assert {name for name in ids if self.has(name)} == {each.name for each in STORED_FACTS}

    def make_visible(self, count=None):
        """Give all messages an old score, and perhaps a receive count."""
        for id in self.ids().values():
            self.raw.zadd(self.key, {id: 1_700_000_000_000})
            if count is not None:
                self.raw.hset(f"{self.key}:Q", f"{id}:rc", count)

    def has(self, name):
        """Return whether the fact of the message with this body is stored."""
        id, key = self.ids()[name].encode(), self.key
        if name in _OF_HASH:
            found = self.raw.hexists(f"{key}:Q", id + _OF_HASH[name])
        elif name in _BY_ID:
            found = self.raw.hexists(f"{key}:x:{_BY_ID[name]}", id)
        elif name in _TO_ID:
            found = any(each.endswith(id) for each in self.raw.hvals(f"{key}:x:{_TO_ID[name]}"))
        elif name == "track":
            found = self.raw.exists(f"{key}:x:job:{id.decode()}") == 1
        elif name == "visible_at":
            found = self.raw.zscore(key, id) > time.time() * 1000 + 300_000
        else:
            record = next(each for each in MESSAGE_RECORDS if name in _names_of(each))
            stored = record.find(self.raw.hget(f"{key}:x:{record.key}", id) or b"")
            found = stored is not None and name in record.read(stored.text)
        return found


def _names_of(record):
    return {value.name for value in record.values}
