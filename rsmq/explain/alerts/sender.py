"""
The sender of alerts: of all processes that run one, one makes each step.

A step claims itself in the record, compares the present alerts with those that were announced, and
stores what has changed, with a message to each target, in one atomic script. Then it sends the
messages that wait. Each is claimed before it is sent, so no other server sends it, also if this one
dies meanwhile: then it is given up, because it may have arrived. Only an answer that is not 2xx, or
none within ten seconds, leads to another attempt.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from redis.exceptions import RedisError

from rsmq.errors import InvalidFormat, RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.explain.alerts.alert import Alert
from rsmq.explain.alerts.facts import RemovedMessage
from rsmq.explain.alerts.reader import read_facts
from rsmq.explain.alerts.record import (
    STEP,
    AlertMessage,
    AlertRecord,
    AlertTarget,
    Change,
    TargetStatus,
    check_secret_env,
    encode,
)
from rsmq.explain.alerts.record_operations import TEST, change_record, read_record
from rsmq.explain.alerts.rules import find_alerts
from rsmq.explain.alerts.templates import make_body
from rsmq.explain.alerts.transitions import find_changes
from rsmq.figures.facts import BACKLOG
from rsmq.figures.reading import read_queues_in_steps
from rsmq.history.recent_calls import RecentCalls
from rsmq.operations.background_task import BackgroundTask
from rsmq.operations.queues import list_queues_in_steps
from rsmq.webhooks.answers import Answer, Verdict, judge
from rsmq.webhooks.proxy import Reach
from rsmq.webhooks.signatures import Signer, parse_secrets

_log = get_logger("rsmq.alerts")

STEP_MS = 15_000
#: A message is given up after so long, and one whose server has died after the claim.
GIVE_UP_MS, CLAIM_MS = 3_600_000, 60_000
#: The pause of a target after a failure, which doubles with each further one.
FIRST_PAUSE_MS, MAX_PAUSE_MS = 15_000, 600_000
#: No message is begun later in a step.
_SENDING_SECONDS = 10.0
_SPREAD_SECONDS = 1.0
#: Seconds that a message on its way has to end when the sender stops.
_GRACE_SECONDS = 2.0

ReadRemovals = Callable[[int], Awaitable[Sequence[RemovedMessage]]]


class AlertSender(BackgroundTask):
    """
    Announces the alerts of an asyncio client's namespace to its targets while its block runs.

    Without targets, it is one command each fifteen seconds.
    """

    def __init__(
        self,
        queues: Any,
        reach: Reach,
        read_removals: ReadRemovals | None = None,
    ) -> None:
        """
        Make it; nothing is read.

        Args:
            queues: an AsyncRSMQ.
            reach: the targets that it may connect to.
            read_removals: see ``read_facts``.
        """
        self._client = queues
        self._reach = reach
        self._read_removals = read_removals
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._is_stopped = asyncio.Event()
        self._calls = RecentCalls()

    async def __aexit__(self, *error: object) -> None:
        self._is_stopped.set()
        await asyncio.wait([self._task], timeout=_GRACE_SECONDS)
        await super().__aexit__(*error)

    async def _run(self) -> None:
        has_failed = False
        while not self._is_stopped.is_set():
            wait_ms = STEP_MS
            try:
                wait_ms = await self.step()
                has_failed = False
            except Exception as error:  # noqa: BLE001 - also a fault of a rule ends no later step
                if not has_failed:
                    is_of_redis = isinstance(error, RedisError | RSMQError | OSError)
                    text = error if is_of_redis else type(error).__name__
                    _log.warning("alerts are not sent: %s", text)
                has_failed = True
            seconds = wait_ms / 1000 + random.uniform(0, _SPREAD_SECONDS)  # noqa: S311
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_stopped.wait(), seconds)

    async def step(self) -> int:
        """
        Make the step that is due, unless another process has made it.

        Returns:
            The ms until the next one.

        Raises:
            RedisError, RSMQError, OSError: the server can't be reached, or refuses.
        """
        record: AlertRecord = await self._client.run(read_record(self._client.namespace))
        if not record.targets and not record.open:
            return STEP_MS
        wait_ms = record.step_ms + STEP_MS - record.now_ms
        if 0 < wait_ms <= STEP_MS:
            return wait_ms
        step = STEP, record.fields.get(STEP, b""), f"{record.now_ms}:{self._owner}".encode()
        if not (await self._change([step]))[0]:
            return STEP_MS
        alerts = await self._read_alerts() if record.targets else []
        record = await self._client.run(read_record(self._client.namespace))
        if changes := find_changes(record, alerts):
            held = STEP, step[2], step[2]  # a later step, of another server, is not disturbed
            await self._change([held, *changes])
        if changes or record.messages:
            await self._send(await self._client.run(read_record(self._client.namespace)))
        return STEP_MS

    async def _read_alerts(self) -> Sequence[Alert]:
        client = self._client
        names = await client.run_steps(list_queues_in_steps(client.namespace))
        found = await client.run_steps(read_queues_in_steps(client.namespace, names, BACKLOG))
        states = {name: each[BACKLOG] for name, each in found.items()}
        tasks = await client.run_steps(self._calls.read_in_steps(client.namespace, names))
        facts = await read_facts(
            client, (states, 0.0), lambda _: True, sees_all=True,
            read_removals=self._read_removals, tasks=tasks,
        )  # fmt: skip
        return find_alerts(facts)

    async def _change(self, changes: Sequence[Change]) -> tuple[bool, AlertRecord]:
        result: tuple[bool, AlertRecord] = await self._client.run(
            change_record(self._client.namespace, changes)
        )
        return result

    async def _send(self, record: AlertRecord) -> None:
        """Send the messages that wait: to each target one after the other."""
        until = asyncio.get_running_loop().time() + _SENDING_SECONDS
        names = {each.target for each in record.messages.values()} & record.targets.keys()
        rounds = [_Round(self._client, self._reach, self._owner, record, name) for name in names]
        # An error of one round ends no other one.
        results = await asyncio.gather(
            *(each.run(lambda: self._may_send(until)) for each in rounds), return_exceptions=True
        )
        for result in results:
            if result is not None:
                raise result

    def _may_send(self, until: float) -> bool:
        return asyncio.get_running_loop().time() < until and not self._is_stopped.is_set()


class _Round:
    """The messages to one target in one step."""

    def __init__(
        self, client: Any, reach: Reach, owner: str, record: AlertRecord, name: str
    ) -> None:
        self._client = client
        self._reach = reach
        self._owner = owner
        self._record = record
        self._name = name
        self._target = record.targets[name]
        self._stored_target = record.fields[f"target:{name}"]
        self._http: Any = None

    @property
    def _status(self) -> TargetStatus:
        return self._record.statuses.get(self._name, TargetStatus())

    async def run(self, may_send: Callable[[], bool]) -> None:
        """Send the messages in their order, until one fails."""
        record = self._record
        chosen = [id for id, each in record.messages.items() if each.target == self._name]
        try:
            for id in chosen:
                is_pausing = self._status.until_ms > record.now_ms
                if is_pausing or not may_send():
                    return
                if not await self._take(id, record.messages[id], record.fields[f"message:{id}"]):
                    return
        finally:
            if self._http is not None:
                await self._http.close()

    async def _take(self, id: str, message: AlertMessage, stored: bytes) -> bool:
        """Send a message or give it up; return whether the next one may follow."""
        now_ms = self._record.now_ms
        if message.claimed_ms:
            if now_ms - message.claimed_ms < CLAIM_MS:
                return False  # another server sends it now
            why = "its server ended while it sent a message, which may have arrived"
            return await self._settle(id, stored, b"", lambda each: _lose(each, now_ms, why))
        if now_ms - message.at_ms > GIVE_UP_MS:
            return await self._settle(id, stored, b"", lambda each: _lose(each, now_ms))
        claim = encode(replace(message, sender=self._owner, claimed_ms=now_ms))
        target = f"target:{self._name}", self._stored_target, self._stored_target
        is_claimed, then = await self._change([(f"message:{id}", stored, claim), target])
        if not is_claimed:
            return False
        begun = time.monotonic()
        answer = await self._post(id, message, then.now_ms)
        now_ms = then.now_ms + round((time.monotonic() - begun) * 1000)
        if answer.is_success:
            return await self._settle(id, claim, b"", lambda each: _arrive(each, now_ms, answer))
        again = b"" if message.alert.kind == TEST else stored
        return await self._settle(id, claim, again, lambda each: _fail(each, now_ms, answer))

    async def _settle(
        self, id: str, claim: bytes, new: bytes, follow: Callable[[TargetStatus], TargetStatus]
    ) -> bool:
        """Store how a message went, unless its target was removed."""
        field = f"message:{id}"
        while True:
            status = follow(self._status)
            change = self._record.change(f"status:{self._name}", status)
            is_done, newer = await self._change([(field, claim, new), change])
            if is_done:
                self._record.statuses[self._name] = status
                self._record.fields[change[0]] = change[2]
                return True
            self._record = newer
            if newer.fields.get(field, b"") != claim:
                return False

    async def _change(self, changes: Sequence[Change]) -> tuple[bool, AlertRecord]:
        result: tuple[bool, AlertRecord] = await self._client.run(
            change_record(self._client.namespace, changes)
        )
        return result

    async def _post(self, id: str, message: AlertMessage, now_ms: int) -> Answer:
        """Send a message; a reason why it can't be sent is an answer without a status."""
        target, namespace = self._target, self._client.namespace.name
        headers: dict[str, str] = {}
        try:
            secret = _read_secret(target)
            body = make_body(namespace, target.format, message, secret)
            if target.format == "webhook":
                id = f"alert-{id.replace(':', '-')}"
                headers = {"webhook-id": id, "webhook-timestamp": str(now_ms // 1000)}
                if secret:
                    signer = Signer(parse_secrets(secret.split()))
                    headers["webhook-signature"] = signer.sign(id, now_ms // 1000, body)
            if self._http is None:
                from rsmq.webhooks.http_client import PushClient  # noqa: PLC0415 - an extra

                self._http = PushClient(
                    target.parse(self._reach.rules, allow_http=self._reach.allow_http),
                    self._reach.rules,
                    {"Content-Type": "application/json"},
                    proxy=self._reach.proxy,
                )
        except RSMQError as error:
            return Answer(None, str(error))
        answer: Answer = await self._http.post(body, headers)
        return answer


def _read_secret(target: AlertTarget) -> str:
    """
    Return the secret of a target; empty if it has none.

    Raises:
        MissingParameter, InvalidFormat: the environment variable is not set, or is not one for
            this format: others than this library may have stored its name.
    """
    name = target.secret_env
    check_secret_env(target.format, name)
    secret = "" if name is None else os.environ.get(name, "").strip()
    if name is not None and not secret:
        raise InvalidFormat(
            "secret_env", value=name, hint="Set this environment variable of the server."
        )
    return secret


def _arrive(status: TargetStatus, now_ms: int, answer: Answer) -> TargetStatus:
    return TargetStatus(str(answer), now_ms, lost=status.lost, lost_ms=status.lost_ms)


def _fail(status: TargetStatus, now_ms: int, answer: Answer) -> TargetStatus:
    verdict, seconds = judge(answer, now_ms / 1000)
    pause_ms = min(FIRST_PAUSE_MS << min(status.failures, 10), MAX_PAUSE_MS)
    if verdict is Verdict.PAUSE:
        pause_ms = round(min(seconds * 1000, GIVE_UP_MS))
    return replace(
        status,
        answer=str(answer),
        answered_ms=now_ms,
        failures=status.failures + 1,
        failing_ms=status.failing_ms or now_ms,
        until_ms=now_ms + pause_ms,
    )


def _lose(status: TargetStatus, now_ms: int, why: str = "") -> TargetStatus:
    return replace(
        status, answer=why or status.answer, answered_ms=now_ms if why else status.answered_ms,
        lost=status.lost + 1, lost_ms=now_ms,
    )  # fmt: skip
