"""
Faults of the server's configuration, and missing rights.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from redis.exceptions import ResponseError

from rsmq._sync.client import RSMQ
from rsmq.doctor.finding import Finding, make_finding
from rsmq.doctor.operations import IndexFacts, examine_rights
from rsmq.operations.operation import Operation
from rsmq.operations.plain import plain_command
from rsmq.wire.keys import Namespace

#: A server that uses at least this share of maxmemory is nearly full.
NEARLY_FULL_SHARE = 0.9

_MIN_VERSION = (6, 2)
_TRACKING_TABLE_SETTING = "tracking-table-max-keys"
_SETTINGS = ("appendfsync", "min-replicas-to-write", "save", _TRACKING_TABLE_SETTING)

#: A smaller tracking table has no room for the queues that all clients wait for. 0 has no limit.
MIN_TRACKED_KEYS = 10_000

#: The commands that each part of this library needs, as in docs/security.md.
REQUIRED_COMMANDS = {
    "sending": {"time", "hmget", "zadd", "hset", "hincrby"},
    "receiving and deleting": {
        "time", "hmget", "zadd", "hset", "hincrby", "hget", "hdel", "zrem", "zscore",
        "zrangebyscore",
    },
    "dedup_id": {"hget", "hdel", "hscan", "pttl", "pexpire"},
    "unique_key": {"hget", "hdel", "hexists", "hrandfield", "zscore"},
    "group": {"hget", "hdel", "hlen", "hrandfield", "zcard", "zrem", "zscore", "zrangebylex"},
    "rate": {"zscore", "zrem", "zrangebyscore"},
    "flow": {"hget", "hdel", "pexpire", "zremrangebyrank"},
    "sweep_groups": {"hlen", "hscan", "zlexcount", "zmscore"},
    "administration": {
        "hsetnx", "sadd", "srem", "smembers", "unlink", "zcard", "zcount", "zrange", "hexists",
    },
    "workers": {"hgetall", "hlen", "hscan", "pttl", "pexpire"},
    "Spark": {"hkeys", "hlen", "hgetall", "pttl", "pexpire"},
    "Redis Cluster": {"asking", "exists"},
}  # fmt: skip

#: The code of a fault, and arguments of ``make_finding``.
_ServerFault: TypeAlias = tuple[str, dict[str, Any]]


def find_server_faults(rsmq: RSMQ, index: IndexFacts) -> list[Finding]:
    """
    Return the faults of the server's settings and state.

    Args:
        rsmq: a client of the namespace.
        index: its ``info`` is the server's reply to INFO.
    """
    ns = rsmq.namespace.name
    settings = _read_settings(rsmq)
    findings = []
    if settings is None:
        findings.append(make_unexamined(ns, "CONFIG GET (saving, replicas, tracking)"))
    findings += [
        make_finding(code, ns, **values)
        for code, values in (*_find_missing_tracking(rsmq), *_find_small_tracking_table(settings))
    ]
    if index.info is None:
        findings.append(make_unexamined(ns, "INFO (memory, saving, version, replication)"))
        return findings
    info = dict(line.split(":", 1) for line in index.info.splitlines() if ":" in line)
    faults = [
        *_find_memory_faults(info),
        *_find_version_faults(info),
        *_find_persistence_faults(info, settings),
        *_find_replication_faults(info, settings),
    ]
    if info.get("cluster_enabled") == "1" and rsmq.namespace.hash_tag is None:
        faults.append(("no-hash-tag", {}))
    return [*findings, *(make_finding(code, ns, **values) for code, values in faults)]


def make_unexamined(ns: str, subject: str) -> Finding:
    """Return the finding about something that could not be examined."""
    return make_finding("not-looked-at", ns, detail=subject)


def _find_memory_faults(info: dict[str, str]) -> list[_ServerFault]:
    faults: list[_ServerFault] = []
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        limited = "" if info.get("maxmemory") != "0" else " (no maxmemory is set yet)"
        code = "volatile-eviction" if policy.startswith("volatile") else "eviction"
        faults.append((code, {"detail": policy + limited}))
    limit = int(info.get("maxmemory", 0))
    used = int(info.get("used_memory", 0))
    if limit and used >= limit * NEARLY_FULL_SHARE:
        faults.append(("memory-nearly-full", {"detail": f"{used / limit:.0%}"}))
    return faults


def _find_version_faults(info: dict[str, str]) -> list[_ServerFault]:
    version = re.match(r"(\d+)\.(\d+)", info.get("redis_version", ""))
    if version and (int(version[1]), int(version[2])) < _MIN_VERSION:
        return [("old-server", {"detail": info["redis_version"]})]
    return []


def _find_persistence_faults(
    info: dict[str, str], settings: dict[str, str] | None
) -> list[_ServerFault]:
    failed = [
        name
        for name in ("rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status")
        if info.get(name, "ok") != "ok"
    ]
    faults: list[_ServerFault] = []
    if failed:
        faults.append(("save-failed", {"detail": ", ".join(failed), "number": len(failed)}))
    if info.get("aof_enabled", "1") == "0":
        # INFO does not report whether snapshots are configured.
        has_no_save = settings is not None and not settings.get("save")
        faults.append(("no-persistence" if has_no_save else "snapshots-only", {}))
    elif settings is not None and settings.get("appendfsync", "always") != "always":
        faults.append(("seldom-synced", {"detail": settings["appendfsync"]}))
    return faults


def _find_replication_faults(
    info: dict[str, str], settings: dict[str, str] | None
) -> list[_ServerFault]:
    if info.get("role") == "slave":
        return [("replica", {})]
    replicas = int(info.get("connected_slaves", 0))
    if replicas and settings is not None and settings.get("min-replicas-to-write") == "0":
        return [("replicas-not-required", {"number": replicas})]
    return []


def _find_missing_tracking(rsmq: RSMQ) -> list[_ServerFault]:
    """Return the fault of a server or proxy that does not know what reports of changes need."""
    for words in (("HELLO",), ("CLIENT", "TRACKING", "OFF")):
        try:
            rsmq.run(plain_command(*words, key=rsmq.namespace.queues))
        except ResponseError as error:
            if "unknown" in str(error).lower() or "NOPROTO" in str(error):
                return [("no-tracking", {"detail": " ".join(words[:2])})]
    return []


def _find_small_tracking_table(settings: dict[str, str] | None) -> list[_ServerFault]:
    limit = int((settings or {}).get(_TRACKING_TABLE_SETTING, 0))
    if 0 < limit < MIN_TRACKED_KEYS:
        return [("small-tracking-table", {"number": limit})]
    return []


def _read_settings(rsmq: RSMQ) -> dict[str, str] | None:
    """Read ``_SETTINGS``; None if this user or server does not permit it."""
    settings: dict[str, str] = {}
    for name in _SETTINGS:  # one by one: several names in one call need Redis 7
        try:
            values = rsmq.run(_make_config_get(rsmq.namespace, name))
        except ResponseError:
            return None
        settings.update(values)
    return settings


def _make_config_get(namespace: Namespace, name: str) -> Operation[dict[str, str]]:
    """Return an operation that reads a setting."""

    def parse(reply: Any) -> dict[str, str]:
        pairs = reply.items() if isinstance(reply, dict) else zip(*[iter(reply)] * 2, strict=True)
        return {key.decode(): value.decode("utf-8", "replace") for key, value in pairs}

    return plain_command("CONFIG", "GET", name, key=namespace.queues, parse=parse)


def find_missing_rights(
    rsmq: RSMQ, namespace: Namespace, qname: str, index: IndexFacts
) -> list[Finding]:
    """
    Return the finding about commands that this user may not send, if there are any.

    The commands are tried on the keys of one queue, in forms that change nothing.

    Args:
        rsmq: a client of the namespace.
        index: its ``info`` is the server's reply to INFO.
    """
    ns = namespace.name
    try:
        refused = rsmq.run(examine_rights(namespace, qname))
    except ResponseError:
        return [make_unexamined(ns, "which commands this user may send")]
    required = dict(REQUIRED_COMMANDS)
    if index.info is not None and "cluster_enabled:1" not in index.info:
        del required["Redis Cluster"]
    missing = {part: sorted(needs & refused) for part, needs in required.items()}
    texts = [f"{part} (+{' +'.join(names)})" for part, names in missing.items() if names]
    if not texts:
        return []
    commands = sorted({name for names in missing.values() for name in names})
    return [
        make_finding(
            "rights", ns, number=len(commands), detail=", ".join(texts), examples=commands
        )
    ]  # fmt: skip
