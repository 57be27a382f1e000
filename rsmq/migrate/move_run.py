"""
The right of one run of a move: a lock at the source, and a claim at the target queue.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from rsmq.errors import RunReplaced
from rsmq.migrate.operations import NO_CLAIM, RunClaim, ToAside, begin_move, forget_copies
from rsmq.migrate.run_lock import RunLock
from rsmq.migrate.server import Server
from rsmq.migrate.set_aside import describe_target, refuse_other_target
from rsmq.migrate.sources.base import Source
from rsmq.migrate.target import COPY_LIFETIME_SECONDS
from rsmq.wire.keys import QueueKeys, run_field

# Seconds after which a run stores its claim again: it is kept for 30 days.
_CLAIM_SECONDS = 86_400.0


class MoveRun:
    """
    The right to move the messages of a queue. A move in atomic steps needs none.

    The lock keeps a second run from beginning. It ends by itself, so a run that was suspended may
    continue without it. Therefore each script that adds messages checks the claim, which the next
    run replaces.

    Attributes:
        claim: the claim, for the scripts at the target.
    """

    def __init__(
        self, source: Source, queue: str, target: Server, keys: QueueKeys, *, is_atomic: bool
    ) -> None:
        """
        Prepare a run without changing anything.

        Args:
            queue: the name of the queue at the source.
            keys: the keys of the target queue, which must exist when the run begins.
            is_atomic: whether the move is made in atomic steps.
        """
        self._source = source
        self._queue = queue
        self._target = target
        self._keys = keys
        name = f"{source.kind}:{queue}"
        self._lock = None if is_atomic else RunLock(source.server, name)
        self.claim = NO_CLAIM
        if self._lock is not None:
            self.claim = RunClaim(run_field(name), self._lock.run)
        self._claimed_at: float | None = None
        self._target_name = b""

    def acquire(self) -> bool:
        """
        Acquire the lock and the claim, or renew them.

        Returns:
            Whether this run has had both since the last call. If not, another run may have moved
            the messages that this one has read.

        Raises:
            NotPossible: another run has the lock; or messages were set aside for another queue.
        """
        if self._lock is None:
            return True
        had_lock = self._lock.acquire()
        now = time.monotonic()
        if had_lock and self._claimed_at is not None and now < self._claimed_at + _CLAIM_SECONDS:
            return True
        had_both = had_lock and self._claimed_at is not None
        refuse_other_target(self._source, self._queue, self._target, self._keys)
        self._target_name = describe_target(self._target, self._keys)
        claim = begin_move(self._keys, self.claim, lifetime=COPY_LIFETIME_SECONDS)
        self._target.rsmq.run(claim)
        self._claimed_at = now
        return had_both

    def lose_claim(self) -> None:
        """Note that another run has replaced the claim, so that it is acquired again."""
        self._claimed_at = None

    def destination(self) -> ToAside | None:
        """Return where messages are set aside; None for a move in atomic steps."""
        if self._lock is None:
            return None
        key = self._source.aside_key(self._queue)
        return ToAside(key, self._lock.key, self._lock.run, self._target_name)

    def complete(self, fields: Sequence[bytes]) -> None:
        """
        Delete the claim and other fields in the record of copies: there is nothing to continue.

        Args:
            fields: the names of the other fields.
        """
        own = [self.claim.field] if self.claim.field else []
        with suppress(RunReplaced):
            self._target.rsmq.run(forget_copies(self._keys, [*own, *fields], self.claim))

    def release(self) -> None:
        """Release the lock, so that another run can move the messages."""
        if self._lock is not None:
            self._lock.release()
