"""
The audit stream: who has changed or removed what, over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from redis import exceptions as redis_errors

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.operations.marks import MAX_AUDIT_ENTRIES
from rsmq.operations.operation import Operation
from rsmq.operations.plain import parse_fields, plain_command
from rsmq.transport.retry import code_of
from rsmq.web.audit_shares import shares_of
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.web.problems import unavailable
from rsmq.web.table import READING, ApiAnswer, Scope
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name

#: Entries that are read at once to find those that fit.
_STEP = 1000
#: The ids of messages that are recorded of a call.
MAX_IDS = 10

T = TypeVar("T")

_RECORDED = {Scope.MANAGE, Scope.DESTROY, Scope.REPAIR}

_log = get_logger("rsmq.web")


def is_audited(
    scope: Scope | None, method: str, names: Mapping[str, str], values: Mapping[str, Any]
) -> bool:
    """
    Return whether a call is recorded: it manages, destroys or repairs, or changes messages without
    receipts.
    """
    if scope in READING or method == "GET":
        return False
    without_receipt = not values.keys().isdisjoint({"ids", "filter", "selection"}) or (
        "id" in names and "receipt" not in values
    )
    return scope in _RECORDED or without_receipt


def is_destroying(scope: Scope | None, values: Mapping[str, Any]) -> bool:
    """Return whether a call may remove messages for good, so that it must not run unrecorded."""
    return scope in {Scope.DESTROY, Scope.REPAIR} or values.get("drop") is True


def facts_of(
    user: str,
    address: str,
    call: str,
    names: Mapping[str, str],
    values: Mapping[str, Any],
) -> dict[str, str]:
    """Return what is recorded of a call: never a body."""
    queue = names.get("queue") or str(values.get("queue") or "")
    target = "/".join(each for name, each in names.items() if name != "queue")
    facts = {"user": user, "address": address, "call": call, "queue": queue, "target": target}
    if values.get("destination") is not None:
        facts["destination"] = str(values["destination"])
    if values.get("ids"):
        facts["ids"] = ",".join(map(str, values["ids"][:MAX_IDS]))
    return facts


def end_facts(answer: ApiAnswer) -> dict[str, str]:
    """
    Return what is recorded of an answer: its status, what was changed from what to what, and of
    messages that the call did not name their number and the first ids.
    """
    facts = {"outcome": str(answer.status)}
    if answer.changes:
        facts["changes"] = json.dumps(answer.changes)
    if answer.done is not None:
        facts["done"] = str(answer.done)
    if answer.ids:
        facts["ids"] = ",".join(answer.ids)
    return facts


class AuditEntry:
    """A call that is recorded before it runs, and when it has ended."""

    def __init__(self, queues: Client, facts: Mapping[str, str], *, is_destroying: bool) -> None:
        """
        Make it.

        Args:
            facts: what is recorded of it.
            is_destroying: whether the call must not run without a record.
        """
        self._queues = queues
        self._facts = facts
        self._is_destroying = is_destroying
        self._begin: bytes | None = None
        self._is_logged = False

    async def record(
        self, call: Coroutine[Any, Any, T], facts_of_end: Callable[[T], Mapping[str, str]]
    ) -> T:
        """
        Run a call between its two entries, and return its result.

        Args:
            facts_of_end: returns what is recorded of a result: its ``outcome``, and more. The
                outcome of an error is its code.

        Raises:
            Refused: it must not run without a record, and none can be stored.
        """
        try:
            await self._begin_call()
        except BaseException:
            call.close()
            raise
        try:
            result = await call
        except Exception as error:
            await self._end_call({"outcome": str(getattr(error, "code", type(error).__name__))})
            raise
        await self._end_call(facts_of_end(result))
        return result

    async def _begin_call(self) -> None:
        try:
            self._begin = await self._add({**self._facts, "phase": "begin"})
        except redis_errors.ResponseError as error:
            if code_of(error) == "OOM":
                # A call that destroys frees memory, so it may run. It is recorded here instead.
                self._log_facts({**self._facts, "phase": "begin"})
                return
            if self._is_destroying:
                raise Refused(
                    "auditNotWritten",
                    "Redis refuses the record of this call, so it has not run",
                    status=503,
                    hint="The user of Redis needs XADD for NS:x:audit.",
                    headers={"Retry-After": "1"},
                ) from error
            _log.warning("a call is not recorded: %s", type(error).__name__)
        except (redis_errors.RedisError, OSError):
            raise unavailable() from None

    def _log_facts(self, facts: Mapping[str, str]) -> None:
        self._is_logged = True
        _log.warning("Redis has no memory for a record of a call: %s", json.dumps(facts))

    async def _end_call(self, end: Mapping[str, str]) -> None:
        if self._is_logged:
            self._log_facts({**self._facts, "phase": "end", **end})
        if self._begin is None:
            return
        facts: dict[str, str | bytes] = {
            **self._facts,
            "phase": "end",
            **end,
            "begin": self._begin,
        }
        try:
            await self._add(facts)
        except (redis_errors.RedisError, RSMQError, OSError) as error:
            _log.warning("the end of a call is not recorded: %s", type(error).__name__)

    async def _add(self, facts: Mapping[str, str | bytes]) -> bytes:
        return await add_entry(self._queues, facts)


async def record_end(queues: Client, facts: Mapping[str, str], outcome: str) -> None:
    """Record the end of what a call has begun, and of work after its answer."""
    try:
        await add_entry(queues, {**facts, "phase": "end", "outcome": outcome})
    except (redis_errors.RedisError, RSMQError, OSError) as error:
        _log.warning("the end of an operation is not recorded: %s", type(error).__name__)


async def add_entry(queues: Client, facts: Mapping[str, str | bytes]) -> bytes:
    """Add an entry to the stream, as one of its caller's share, and return its id."""
    id = await queues.run(_add_entry(queues.namespace, facts))
    await shares_of(queues).keep(queues, id, facts)
    return id


def _add_entry(namespace: Namespace, facts: Mapping[str, str | bytes]) -> Operation[bytes]:
    words = [
        each if isinstance(each, bytes) else each.encode(errors="backslashreplace")
        for pair in facts.items()
        for each in pair
    ]
    return plain_command("XADD", namespace.audit, "MAXLEN", "~", MAX_AUDIT_ENTRIES, "*", *words)


async def read_entries(
    queues: Client,
    limit: int,
    before: str | None,
    fits: Callable[[Mapping[str, str]], bool],
    since_ms: int | None = None,
) -> tuple[list[dict[str, str]], str | None]:
    """
    Return entries that fit, the newest first, and the id before which the next ones are.

    It takes one command, and one for each thousand entries behind the first ``limit``.

    Args:
        before: the id of an entry; only earlier ones.
        since_ms: Unix ms; only later ones. None has no limit.
    """
    first = "-" if since_ms is None else str(since_ms)
    found: list[dict[str, str]] = []
    count = limit
    while True:
        last = "+" if before is None else f"({before}"
        command = plain_command(
            "XREVRANGE", queues.namespace.audit, last, first, "COUNT", count, parse=_parse
        )
        entries: list[dict[str, str]] = await queues.run(command)
        for each in entries:
            before = each["id"]
            if fits(each):
                found.append(each)
                if len(found) == limit:
                    return found, before
        if len(entries) < count:
            return found, None
        count = _STEP


def _parse(reply: Any) -> list[dict[str, str]]:
    entries = []
    for id, fields in reply or ():
        read = {
            decode_name(name): decode_name(value) for name, value in parse_fields(fields).items()
        }
        entries.append({"id": decode_name(id), **read})
    return entries
