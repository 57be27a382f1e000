"""
Faults of the server's configuration, and missing rights.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from redis.exceptions import ResponseError

from rsmq.client import RSMQ
from rsmq.doctor.finding import Finding, finding
from rsmq.lua.load import Script
from rsmq.operations.doctor import IndexFacts, examine_rights
from rsmq.operations.operation import Operation, Retry
from rsmq.wire.keys import Namespace

#: The share of maxmemory from which a server counts as nearly full.
NEARLY_FULL = 0.9

_OLDEST = (6, 2)
_SETTINGS = ("appendfsync", "min-replicas-to-write", "save")

#: Which commands each part needs, as the README has it.
PARTS = {
    "sending": {"time", "hmget", "zadd", "hset", "hincrby"},
    "receiving and deleting": {
        "time", "hmget", "zadd", "hset", "hincrby", "hget", "hdel", "zrem", "zscore",
        "zrangebyscore",
    },
    "dedup_id": {"hget", "hdel", "hscan", "pttl", "pexpire"},
    "administration": {
        "hsetnx", "sadd", "srem", "smembers", "unlink", "zcard", "zcount", "zrange", "hexists",
    },
    "workers": {"hgetall", "hlen", "hscan", "pttl", "pexpire"},
    "Spark": {"hkeys", "hlen", "hgetall", "pttl", "pexpire"},
}  # fmt: skip


def server_findings(rsmq: RSMQ, index: IndexFacts) -> list[Finding]:
    """Look at the server's settings and state."""
    ns = rsmq.namespace.name
    settings = _settings(rsmq)
    found = [] if settings is not None else [_hidden(ns, "CONFIG GET (saving, replicas)")]
    if index.info is None:
        return [*found, _hidden(ns, "INFO (memory, saving, version, replication)")]
    info = dict(line.split(":", 1) for line in index.info.splitlines() if ":" in line)
    told = [*_memory(info), *_saving(info, settings), *_role(info, settings)]
    if info.get("cluster_enabled") == "1" and rsmq.namespace.hash_tag is None:
        told.append(("no-hash-tag", {}))
    return [*found, *(finding(code, ns, **values) for code, values in told)]


def _hidden(ns: str, what: str) -> Finding:
    return finding("not-looked-at", ns, detail=what)


_Told = tuple[str, dict[str, Any]]


def _memory(info: dict[str, str]) -> list[_Told]:
    found: list[_Told] = []
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        limited = "" if info.get("maxmemory") != "0" else " (no maxmemory is set yet)"
        code = "volatile-eviction" if policy.startswith("volatile") else "eviction"
        found.append((code, {"detail": policy + limited}))
    most = int(info.get("maxmemory", 0))
    used = int(info.get("used_memory", 0))
    if most and used >= most * NEARLY_FULL:
        found.append(("memory-nearly-full", {"detail": f"{used / most:.0%}"}))
    version = re.match(r"(\d+)\.(\d+)", info.get("redis_version", ""))
    if version and (int(version[1]), int(version[2])) < _OLDEST:
        found.append(("old-server", {"detail": info["redis_version"]}))
    return found


def _saving(info: dict[str, str], settings: dict[str, str] | None) -> list[_Told]:
    failed = [
        name
        for name in ("rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status")
        if info.get(name, "ok") != "ok"
    ]
    found: list[_Told] = []
    if failed:
        found.append(("save-failed", {"detail": ", ".join(failed), "number": len(failed)}))
    if info.get("aof_enabled", "1") == "0":
        # Whether there are snapshots only the settings tell.
        nothing = settings is not None and not settings.get("save")
        found.append(("no-persistence" if nothing else "snapshots-only", {}))
    elif settings is not None and settings.get("appendfsync", "always") != "always":
        found.append(("seldom-synced", {"detail": settings["appendfsync"]}))
    return found


def _role(info: dict[str, str], settings: dict[str, str] | None) -> list[_Told]:
    if info.get("role") == "slave":
        return [("replica", {})]
    replicas = int(info.get("connected_slaves", 0))
    if replicas and settings is not None and settings.get("min-replicas-to-write") == "0":
        return [("replicas-not-required", {"number": replicas})]
    return []


def _settings(rsmq: RSMQ) -> dict[str, str] | None:
    """Some settings; None where this user, server or client does not tell."""
    found: dict[str, str] = {}
    for name in _SETTINGS:  # several at once need Redis 7
        try:
            told = rsmq.run(_config(name))
        except ResponseError:
            return None
        if told is None:
            return None
        found.update(told)
    return found


def _config(name: str) -> Operation[dict[str, str] | None]:
    """
    CONFIG GET, which no script may call: it goes as the command that it is.

    Where only scripts go, as with a client of a cluster, the script answers that it is unknown.
    """
    words = (b"CONFIG", b"GET", name.encode())
    packed = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)

    def parse(reply: Any) -> dict[str, str] | None:
        if reply is None:
            return None
        pairs = reply.items() if isinstance(reply, dict) else zip(*[iter(reply)] * 2, strict=True)
        return {key.decode(): value.decode("utf-8", "replace") for key, value in pairs}

    return Operation(_NOBODY_KNOWS, (), (), parse, Retry.ALWAYS, packed=(packed,))


_TEXT = b"return false"
# Redis names scripts by SHA-1; nothing is kept secret by it.
_NOBODY_KNOWS = Script(
    "config", _TEXT, hashlib.sha1(_TEXT, usedforsecurity=False).hexdigest().encode()
)


def rights_findings(rsmq: RSMQ, namespace: Namespace, qname: str) -> list[Finding]:
    """Which commands this user may not send, tried on the keys of one queue."""
    ns = namespace.name
    try:
        refused = rsmq.run(examine_rights(namespace, qname))
    except ResponseError:
        return [_hidden(ns, "which commands this user may send")]
    lacking = {part: sorted(needs & refused) for part, needs in PARTS.items()}
    texts = [f"{part} (+{' +'.join(names)})" for part, names in lacking.items() if names]
    if not texts:
        return []
    return [
        finding(
            "rights", ns, number=len(refused), detail=", ".join(texts),
            examples=sorted(refused),
        )
    ]  # fmt: skip
