"""
A program that compares the ledgers of a run with the queue that is left.

    python -m tests.total_queue.checker FOLDER PORT NAMESPACE

It reads the ledgers in the folder and the raw keys of the queue "q" on the server, and nothing
else. It prints one object of JSON: the numbers, and each message that was lost or seen twice, with
its ids and times. A message was seen if a consumer received it, or if it is left in the queue.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis

from tests.total_queue.ledger import read_ledgers

_ID_TIME_LENGTH = 10

#: An entry of a ledger.
Entry = dict[str, Any]


def read_queue(port: int, ns: str) -> dict[str, str]:
    """Return the bodies that are left in the queue, by id."""
    with redis.Redis(port=port, decode_responses=True) as raw:
        ids: Any = raw.zrange(f"{ns}:q", 0, -1)
        bodies: Any = raw.hmget(f"{ns}:q:Q", ids) if ids else []
    return {id: str(body) for id, body in zip(ids, bodies, strict=True)}


def check(entries: Iterable[Entry], left: dict[str, str]) -> dict[str, Any]:
    """
    Return the report.

    Args:
        entries: those of all ledgers.
        left: the bodies that are left in the queue, by id.
    """
    sends: defaultdict[str, list[Entry]] = defaultdict(list)
    seen: defaultdict[str, dict[str, Entry]] = defaultdict(dict)
    for entry in entries:
        if entry["call"] == "send":
            sends[entry["body"]].append(entry)
        elif entry["call"] == "receive":
            seen[entry["body"]].setdefault(entry["id"], entry)
    received = sum(map(len, seen.values()))
    for id, body in left.items():
        seen[body].setdefault(id, {"call": "left"})
    acknowledged = [calls for calls in sends.values() if calls[-1]["outcome"] == "acknowledged"]
    lost = [_describe(calls, {}) for calls in acknowledged if calls[0]["body"] not in seen]
    twice = [
        _describe(calls, seen[body]) for body, calls in sends.items() if len(seen.get(body, ())) > 1
    ]
    errors = Counter(
        f"{each['promise']}: {each['outcome'].partition(':')[0]}"
        for calls in sends.values()
        for each in calls
        if each["outcome"] != "acknowledged"
    )
    return {
        "acknowledged": _count_promises(calls[0] for calls in acknowledged),
        "errors": dict(errors),
        "received": received,
        "left": len(left),
        "lost": _count_promises(lost),
        "seen twice": _count_promises(twice),
        "left twice": sum(len(each["ids"].keys() & left.keys()) > 1 for each in twice),
        "unknown bodies": sorted(seen.keys() - sends.keys()),
        "confirmed messages lost": [each for each in lost if each["promise"] != "plain"],
        "messages seen twice": twice,
    }


def _count_promises(entries: Iterable[Entry]) -> dict[str, int]:
    return dict(Counter(each["promise"] for each in entries))


def _describe(calls: list[Entry], ids: dict[str, Entry]) -> Entry:
    """Return what is known of a message: its calls, and the ids under which it was seen."""
    times = [int(id[:_ID_TIME_LENGTH], 36) for id in ids]
    return {
        "body": calls[0]["body"],
        "promise": calls[0]["promise"],
        "calls": calls,
        "ids": ids,
        "microseconds apart": max(times, default=0) - min(times, default=0),
        "is one call": len({id[_ID_TIME_LENGTH:] for id in ids}) == 1,
    }


if __name__ == "__main__":
    _folder, _port, _ns = sys.argv[1:]
    json.dump(check(read_ledgers(Path(_folder)), read_queue(int(_port), _ns)), sys.stdout)
