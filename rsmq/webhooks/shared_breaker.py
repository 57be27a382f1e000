"""
The breaker of a push target as all processes share it: a copy here, and the state in Redis.

Handlers ask the copy whether they may push, and report answers to it, in any thread. The worker's
loop writes the reports to Redis and reads what other processes have written. A write replaces the
state that was read, or is repeated from the state that is stored then.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.webhooks.breaker import (
    MAX_TEXT_CHARACTERS,
    TRIAL_MS,
    Breaker,
    PushEvent,
    PushEventKind,
    TargetState,
    transition,
)
from rsmq.webhooks.operations import change_push_target, list_push_targets
from rsmq.webhooks.targets import Target, redact_url, target_field
from rsmq.wire.keys import Namespace

#: The fact of a stored state that the breaker itself does not use.
_REFUSAL = "refusal"
#: Seconds between two reads of the stored state while messages are pushed, and otherwise.
ACTIVE_READ_SECONDS, IDLE_READ_SECONDS = 0.25, 1.0


@dataclass(frozen=True, slots=True)
class Permit:
    """
    The right to push one message.

    Attributes:
        owner: the token of the trial that the push is; empty if it is not a trial.
    """

    owner: str


#: The right to a push that is not a trial.
_PERMIT = Permit("")
_SUCCESS = PushEvent(PushEventKind.SUCCEED)


class SharedBreaker:
    """The breaker of one target, for messages of one queue."""

    def __init__(self, queue: str, target: Target) -> None:
        """Make it; the state is unknown before the first ``sync``."""
        self._queue = queue
        self._target = target
        self._field = target_field(queue, target.url)
        self._owner = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._breaker = Breaker()
        self._events: list[PushEvent] = []
        self._is_trial_running = False
        #: How many pushes were answered 2xx, and how many of them Redis knows.
        self._successes = self._written_successes = 0
        #: The server's clock minus the monotonic one, seconds.
        self._offset = time.time() - time.monotonic()
        self._read_at = float("-inf")

    @property
    def breaker(self) -> Breaker:
        """The state, as far as this process knows."""
        return self._breaker

    @property
    def target(self) -> str:
        """The URL, without the text of its query."""
        return self._target.shown

    @property
    def state(self) -> str:
        """The state, as it is stored."""
        return self._breaker.state.value

    @property
    def text(self) -> str:
        """The last answer that was not 2xx; empty if there was none."""
        return self._breaker.text

    def server_seconds(self) -> float:
        """Return the server's time, Unix seconds."""
        return time.monotonic() + self._offset

    # For handlers.

    def permit(self) -> Permit | None:
        """Return the right to push a message; None if the message is to be released."""
        with self._lock:
            breaker = self._breaker
            if breaker.state is TargetState.CLOSED:
                return _PERMIT
            if breaker.has_trial(self._owner) and not self._is_trial_running:
                self._is_trial_running = True
                return Permit(self._owner)
            return None

    def report_success(self, permit: Permit) -> None:
        """Report that a push was answered 2xx."""
        with self._lock:
            self._end_trial(permit)
            self._successes += 1
            self._record(_SUCCESS, 0)

    def report(
        self, permit: Permit, kind: PushEventKind, *, seconds: float = 0.0, text: str = ""
    ) -> None:
        """
        Report an answer that was not 2xx.

        Args:
            permit: the permit of the push.
            kind: FAIL, PAUSE or END.
            seconds: for PAUSE how long the target asks for.
            text: the answer, one line.
        """
        now_ms = self._now_ms()
        event = PushEvent(kind, permit.owner, now_ms + round(seconds * 1000), text)
        with self._lock:
            self._end_trial(permit)
            self._record(event, now_ms)

    def _record(self, event: PushEvent, now_ms: int) -> None:
        following = transition(self._breaker, event, now_ms)
        if following is not self._breaker:
            self._breaker = following
            self._events.append(event)

    def withdraw(self, permit: Permit) -> None:
        """Report that a push has ended without an answer, because its call was cancelled."""
        with self._lock:
            self._end_trial(permit)

    def _end_trial(self, permit: Permit) -> None:
        if permit.owner:
            self._is_trial_running = False

    # For the worker's loop.

    def allowance(self) -> int | None:
        """Return how many messages may be received now; None is any number."""
        with self._lock:
            if self._breaker.state is TargetState.CLOSED:
                return None
            return int(self._breaker.has_trial(self._owner) and not self._is_trial_running)

    def due_at(self, *, is_active: bool) -> float:
        """
        Return the monotonic seconds at which ``sync`` is to be called next.

        Args:
            is_active: whether messages are being pushed, or wait for that.
        """
        with self._lock:
            if self._events:
                return 0.0
            due_at = self._read_at + (ACTIVE_READ_SECONDS if is_active else IDLE_READ_SECONDS)
            if self._breaker.state in (TargetState.OPEN, TargetState.PAUSED):
                until = self._breaker.until_ms / 1000 - self._offset
                due_at = min(due_at, max(until, self._read_at + 0.001))
            return due_at

    def sync(self, rsmq: RSMQ) -> None:
        """
        Write the reports to Redis, read the state, and claim the trial if it is due.

        Raises:
            Errors of redis-py: Redis could not be reached, or refuses the script.
        """
        namespace = rsmq.namespace
        with self._lock:
            events = list(self._events)
            successes = self._successes
        has_succeeded = successes > self._written_successes
        began = time.monotonic()
        now_ms, stored = self._change(rsmq, namespace, b"", b"")
        self._offset = now_ms / 1000 - (began + time.monotonic()) / 2
        while True:
            breaker = self._fold(decode(stored), events, now_ms, has_succeeded=has_succeeded)
            state = self._encode(breaker)
            if stored == state:
                break
            now_ms, after = self._change(rsmq, namespace, stored, state)
            if after == state:
                break
            stored = after
        with self._lock:
            del self._events[: len(events)]
            self._written_successes = successes
            self._breaker = self._apply(breaker, self._events, now_ms)
            self._read_at = time.monotonic()

    def sync_alone(self) -> None:
        """Continue without Redis: it refuses the script. The breaker is that of this process."""
        with self._lock:
            self._events.clear()
            self._breaker = self._claim(self._breaker, self._now_ms())
            self._read_at = time.monotonic()

    def _change(
        self, rsmq: RSMQ, namespace: Namespace, expected: bytes, state: bytes
    ) -> tuple[int, bytes]:
        return rsmq.run(change_push_target(namespace, self._field, expected, state))

    def _fold(
        self, breaker: Breaker, events: Sequence[PushEvent], now_ms: int, *, has_succeeded: bool
    ) -> Breaker:
        """Return the stored breaker after the events of this process, and its claim."""
        if has_succeeded and breaker.state is TargetState.CLOSED:
            # Other processes may have counted failures: they are not in a row.
            breaker = transition(breaker, _SUCCESS, now_ms)
        return self._claim(self._apply(breaker, events, now_ms), now_ms)

    @staticmethod
    def _apply(breaker: Breaker, events: Sequence[PushEvent], now_ms: int) -> Breaker:
        for event in events:
            breaker = transition(breaker, event, now_ms)
        return breaker

    def _claim(self, breaker: Breaker, now_ms: int) -> Breaker:
        """Claim the trial if it is due, or extend the claim of this process."""
        if breaker.has_trial(self._owner) and breaker.until_ms - now_ms > TRIAL_MS // 2:
            return breaker
        return transition(breaker, PushEvent(PushEventKind.CLAIM, self._owner), now_ms)

    def _encode(self, breaker: Breaker) -> bytes:
        return encode(self._queue, self._target.shown, breaker)

    def _now_ms(self) -> int:
        return round(self.server_seconds() * 1000)


@dataclass(frozen=True, slots=True)
class PushTarget:
    """
    The stored state of a push target.

    Attributes:
        queue: the queue whose messages are pushed.
        url: the URL, without the text of its query.
        state: ``closed`` (messages are pushed), ``open``, ``trial``, ``paused`` or ``gone``.
        failures: failures since the last success; 0 after a 410.
        until_ms: the end of the pause or of the trial, Unix ms; None if there is none.
        answer: the last answer that was not 2xx; None if there was none.
        refusal: why a process that should push to it does not, such as a variable that it lacks;
            None if no process has said so since one has pushed.
    """

    queue: str
    url: str
    state: str
    failures: int
    until_ms: int | None
    answer: str | None
    refusal: str | None = None


def list_targets(rsmq: RSMQ) -> list[tuple[str, PushTarget]]:
    """Return the stored state of each push target, with its field, by queue and URL."""
    return parse_targets(rsmq.run(list_push_targets(rsmq.namespace))[1])


def parse_targets(stored: Mapping[str, bytes]) -> list[tuple[str, PushTarget]]:
    """Return the result of ``list_targets`` from that of the operation."""
    found = []
    for field, state in stored.items():
        breaker, facts = decode(state), _load(state)
        target = PushTarget(
            str(facts.get("queue", "")),
            str(facts.get("url", "")),
            breaker.state.value,
            breaker.failures_in_a_row,
            breaker.until_ms or None,
            breaker.text or None,
            str(facts[_REFUSAL]) if facts.get(_REFUSAL) else None,
        )
        found.append((field, target))
    return sorted(found, key=lambda each: (each[1].queue, each[1].url, each[0]))


def note_refusal(rsmq: RSMQ, queue: str, url: str, reason: str) -> None:
    """
    Store why this process does not push to a target, for those who look at its state.

    The breaker stays as it is. A process that pushes stores the state without it.

    Args:
        reason: one line, without secrets.
    """
    namespace, shown = rsmq.namespace, redact_url(url)
    field = target_field(queue, url.partition("#")[0])
    _, stored = rsmq.run(change_push_target(namespace, field, b"", b""))
    while True:
        facts = json.loads(encode(queue, shown, decode(stored)))
        facts[_REFUSAL] = reason[:MAX_TEXT_CHARACTERS]
        state = json.dumps(facts, separators=(",", ":")).encode()
        if stored == state:
            return
        _, after = rsmq.run(change_push_target(namespace, field, stored, state))
        if after == state:
            return
        stored = after


def resume_target(rsmq: RSMQ, field: str) -> bool:
    """Let messages be pushed to a target again. Return whether that changed anything."""
    _, stored = rsmq.run(change_push_target(rsmq.namespace, field, b"", b""))
    while stored:
        facts, breaker = _load(stored), decode(stored)
        resumed = transition(breaker, PushEvent(PushEventKind.RESUME), 0)
        if resumed == breaker:
            return False
        state = encode(str(facts.get("queue", "")), str(facts.get("url", "")), resumed)
        _, after = rsmq.run(change_push_target(rsmq.namespace, field, stored, state))
        if after == state:
            return True
        stored = after
    return False


def remove_target(rsmq: RSMQ, field: str) -> bool:
    """Delete the stored state of a target. Return whether there was one."""
    _, stored = rsmq.run(change_push_target(rsmq.namespace, field, b"", b""))
    has_existed = bool(stored)
    while stored:
        _, stored = rsmq.run(change_push_target(rsmq.namespace, field, stored, b""))
    return has_existed


def encode(queue: str, url: str, breaker: Breaker) -> bytes:
    """Return the stored state of a target; equal states are equal bytes."""
    facts = {
        "queue": queue,
        "url": url,
        "state": breaker.state.value,
        "failures": breaker.failures,
        "openings": breaker.openings,
        "until_ms": breaker.until_ms,
        "owner": breaker.owner,
        "answer": breaker.text,
    }
    return json.dumps(facts, separators=(",", ":")).encode()


def decode(stored: bytes) -> Breaker:
    """Return the breaker of a stored state; a closed one if there is none, or it is invalid."""
    facts = _load(stored)
    try:
        return Breaker(
            TargetState(facts["state"]),
            int(facts["failures"]),
            int(facts["openings"]),
            int(facts["until_ms"]),
            str(facts["owner"]),
            str(facts["answer"]),
        )
    except (KeyError, TypeError, ValueError):
        return Breaker()


def _load(stored: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(stored)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
