"""
Compares what was sent with what arrived, after a run with kills.

It is apart from the runs: it imports neither rsmq nor Spark, and reads the ledger of the sends, the
raw keys of Redis, and Parquet by Spark's log of its files. A body is ``QUERY NUMBER GROUP ...``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

import pyarrow.parquet
import redis

_STEP = 5000
_ATTRIBUTES = {
    b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv", b"x:groups",
    b"x:limited", b"x:named",
}  # fmt: skip
#: The numbers of the last batches, by which a replay is recognised.
_KEPT = {"x:acked", "x:written", "QUEUES"}
#: The keys of the queues of the queries: the ids of the producer's calls, and the history.
_KEPT_BESIDE = (":Q", ":x:dedup", ":x:calls", ":x:call_times")


@dataclass(frozen=True)
class Arrival:
    """
    A message where a query has written it.

    Attributes:
        body: its body.
        group: its group, as stored there.
    """

    body: str
    group: str | None


@dataclass(frozen=True)
class Verdict:
    """
    The messages of a query, counted.

    Attributes:
        sent: those of the ledger.
        lost: those that did not arrive.
        doubled: arrivals beyond the first one.
        unknown: arrivals that the ledger does not have.
        disordered: arrivals behind a later message of their group.
        regrouped: arrivals with another group than they were sent with.
    """

    sent: int
    lost: int
    doubled: int
    unknown: int
    disordered: int
    regrouped: int

    @property
    def is_clean(self) -> bool:
        return not any(getattr(self, each.name) for each in fields(self)[1:])


def compare(query: str, sent: int, arrivals: Iterable[Arrival]) -> Verdict:
    """
    Return the verdict on a query whose messages have the numbers from 0 to ``sent``.

    Args:
        query: the first word of its bodies.
        sent: how many messages were sent.
        arrivals: those of a group in the order in which they arrived.
    """
    found: Counter[int] = Counter()
    last: dict[str, int] = {}
    unknown = disordered = regrouped = 0
    for arrival in arrivals:
        sender, number_text, group, *_ = arrival.body.split()
        number = int(number_text)
        if sender != query or number >= sent:
            unknown += 1
            continue
        found[number] += 1
        regrouped += group != arrival.group
        if arrival.group is not None:
            before = last.get(arrival.group, -1)
            disordered += number < before
            last[arrival.group] = max(number, before)
    return Verdict(
        sent, sent - len(found), found.total() - len(found), unknown, disordered, regrouped
    )


def read_ledger(path: Path) -> dict[str, int]:
    """Return how many messages were sent to each query: a line has the first number of a call."""
    sent: dict[str, int] = {}
    for line in path.read_text().splitlines():
        call = json.loads(line)
        if call["first"] != sent.setdefault(call["query"], 0):
            raise ValueError(f"a call is missing in {path} before {line}")
        sent[call["query"]] += call["messages"]
    return sent


def read_queue(raw: redis.Redis, ns: str, queue: str) -> list[Arrival]:
    """Return the messages of a queue, those of a group in the order in which they are due."""
    group_of = {
        id: value.split(b":", 1) for id, value in raw.hgetall(f"{ns}:{queue}:x:group_of").items()
    }
    ids = raw.zrange(f"{ns}:{queue}", 0, -1)
    ids.sort(key=lambda id: (int(group_of[id][0]) if id in group_of else 0, id))
    found = []
    for begin in range(0, len(ids), _STEP):
        step = ids[begin : begin + _STEP]
        for id, body in zip(step, raw.hmget(f"{ns}:{queue}:Q", step), strict=True):
            group = group_of[id][1].decode() if id in group_of else None
            found.append(Arrival(body.decode(), group))
    return found


def read_files(folder: Path) -> list[Arrival]:
    """Return the rows that a query wrote as Parquet, in the order of its batches."""
    log = folder / "_spark_metadata"
    parts = {path.name: path for path in log.iterdir() if not path.name.startswith(".")}
    compact = max((int(name[:-8]) for name in parts if name.endswith(".compact")), default=-1)
    chosen = [parts[f"{compact}.compact"]] if compact >= 0 else []
    chosen += [parts[f"{n}"] for n in sorted(int(n) for n in parts if n.isdigit()) if n > compact]
    found = []
    for path in chosen:
        for line in path.read_text().splitlines()[1:]:  # the first one has the version
            rows = pyarrow.parquet.read_table(
                folder / Path(json.loads(line)["path"]).name, columns=["message", "group"]
            ).to_pylist()
            found += [Arrival(row["message"], row["group"]) for row in rows]
    return found


def find_leftovers(raw: redis.Redis, ns: str, queues: Iterable[str], target: str) -> list[str]:
    """Return the keys and fields that a run should not leave; only the target has messages."""
    expected = _KEPT | {f"{queue}{part}" for queue in queues for part in _KEPT_BESIDE}
    left = []
    for queue in (*queues, target):
        fields_left = set(raw.hkeys(f"{ns}:{queue}:Q")) - _ATTRIBUTES
        ids = set(raw.zrange(f"{ns}:{target}", 0, -1)) if queue == target else set()
        left += [f"{queue}: {field.decode()}" for field in sorted(fields_left - ids)]
    parts = ("", ":Q", ":x:group_of", ":x:admitted", ":x:held_back")
    expected |= {f"{target}{part}" for part in parts}
    keys = {key.decode().removeprefix(f"{ns}:") for key in raw.scan_iter(f"{ns}:*")}
    return left + sorted(keys - expected)


def main() -> int:
    """Print the verdict of each query; return 1 if one is not clean, or a key is left."""
    parser = argparse.ArgumentParser()
    for name in ("url", "ns", "ledger", "moved", "target", "stored", "files"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    sent = read_ledger(Path(args.ledger))
    with redis.Redis.from_url(args.url) as raw:
        arrived = {
            args.moved: read_queue(raw, args.ns, args.target),
            args.stored: read_files(Path(args.files)),
        }
        left = find_leftovers(raw, args.ns, arrived, args.target)
    verdicts = {query: compare(query, sent[query], found) for query, found in arrived.items()}
    for query, verdict in verdicts.items():
        counts = [f"{getattr(verdict, each.name)} {each.name}" for each in fields(verdict)]
        print(f"{query}: {', '.join(counts)}")
    print(f"left in Redis: {left or 'nothing'}")
    return int(bool(left) or not all(verdict.is_clean for verdict in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
