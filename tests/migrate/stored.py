"""The messages of a queue in Redis, read with plain commands."""

from __future__ import annotations

from dataclasses import dataclass

ATTRIBUTES = {
    b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv", b"x:dlq",
    b"x:max",
}  # fmt: skip


@dataclass(frozen=True)
class StoredMessage:
    """
    A message of a queue.

    Attributes:
        id: its id.
        body: its body; None for a ghost id.
        score: Unix time in ms from which it is visible.
        count: its receive count.
        first: Unix time in ms of its first receive.
    """

    id: str
    body: bytes | None
    score: int
    count: int | None = None
    first: int | None = None

    @property
    def sent_us(self):
        return int(self.id[:10], 36)


def read_messages(raw, ns, queue):
    """Return the messages of a queue in their order; fail if its keys contain anything else."""
    fields = raw.hgetall(f"{ns}:{queue}:Q")
    for name in ATTRIBUTES:
        fields.pop(name, None)
    messages = []
    for id, score in raw.zrange(f"{ns}:{queue}", 0, -1, withscores=True):
        assert score == int(score)
        count, first = fields.pop(id + b":rc", None), fields.pop(id + b":fr", None)
        messages.append(
            StoredMessage(
                id.decode(),
                fields.pop(id, None),
                int(score),
                count and int(count),
                first and int(first),
            )
        )
    assert fields == {}, "there are bodies or counters without an id"
    return messages


def read_bodies(raw, ns, queue):
    return [each.body for each in read_messages(raw, ns, queue)]


def dump_keys(raw):
    """Return all keys of a database with their values, and whether each expires."""
    return {key: (_read(raw, key), raw.pttl(key) > 0) for key in raw.scan_iter()}


def _read(raw, key):
    readers = {
        b"hash": raw.hgetall,
        b"list": lambda key: raw.lrange(key, 0, -1),
        b"set": raw.smembers,
        b"string": raw.get,
        b"zset": lambda key: raw.zrange(key, 0, -1, withscores=True),
    }
    return readers[raw.type(key)](key)


def now_ms(raw):
    seconds, microseconds = raw.time()
    return seconds * 1000 + microseconds // 1000


def predicted_figures(report):
    """Return the figures of a report that a dry run predicts, with its notes in sorted form."""
    figures = report.as_dict()
    for name in ("created", "verified", "dry_run", "seconds", "checksum"):
        del figures[name]
    figures["notes"] = {
        note["text"]: (note["messages"], sorted(note["examples"])) for note in figures["notes"]
    }
    return figures
