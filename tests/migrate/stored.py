"""What stands in Redis of a queue, read with plain commands."""

from __future__ import annotations

from dataclasses import dataclass

ATTRIBUTES = {
    b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv", b"x:dlq",
    b"x:max",
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """
    A message of a queue.

    Attributes:
        id: its id.
        body: its body, None of a ghost.
        score: ms when it is visible.
        count: its receive count.
        first: ms of its first receive.
    """

    id: str
    body: bytes | None
    score: int
    count: int | None = None
    first: int | None = None

    @property
    def sent_us(self):
        return int(self.id[:10], 36)


def stored(raw, ns, queue):
    """The messages of a queue in their order; nothing else may be in its keys."""
    fields = raw.hgetall(f"{ns}:{queue}:Q")
    for name in ATTRIBUTES:
        fields.pop(name, None)
    found = []
    for id, score in raw.zrange(f"{ns}:{queue}", 0, -1, withscores=True):
        assert score == int(score)
        count, first = fields.pop(id + b":rc", None), fields.pop(id + b":fr", None)
        found.append(
            Stored(
                id.decode(),
                fields.pop(id, None),
                int(score),
                count and int(count),
                first and int(first),
            )
        )
    assert fields == {}, "there are bodies or counters without an id"
    return found


def bodies(raw, ns, queue):
    return [each.body for each in stored(raw, ns, queue)]


def dumped(raw):
    """All keys of a database as they are, and whether they expire."""
    return {key: (_read(raw, key), raw.pttl(key) > 0) for key in raw.scan_iter()}


def _read(raw, key):
    read = {
        b"hash": raw.hgetall,
        b"list": lambda key: raw.lrange(key, 0, -1),
        b"set": raw.smembers,
        b"string": raw.get,
        b"zset": lambda key: raw.zrange(key, 0, -1, withscores=True),
    }
    return read[raw.type(key)](key)


def now_ms(raw):
    seconds, microseconds = raw.time()
    return seconds * 1000 + microseconds // 1000


def numbers(report):
    """What a dry run tells beforehand, its notes in no order."""
    known = report.as_dict()
    for name in ("created", "verified", "dry_run", "seconds", "checksum"):
        del known[name]
    known["notes"] = {
        note["text"]: (note["messages"], sorted(note["examples"])) for note in known["notes"]
    }
    return known
