"""
The batches of a stream that are received and not yet acknowledged.

It lives in the one process that Spark keeps for a stream on the driver. What it holds is kept in
Redis, by lease, batch and part; so a process that comes after this one goes on where it stopped,
and nothing is received twice for one batch. While it lives it hides what it holds again and again;
when it dies, the messages come back after their visibility timeout.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import msgpack
from redis.exceptions import RedisError, ResponseError

from rsmq.errors import BatchLost, InvalidOption, QueueNotFound, RSMQError
from rsmq.operations.spark.in_flight_batches import (
    PART,
    Batch,
    acknowledge_leased,
    extend_leased,
    forget_leases,
    hold_lease,
    keep_acknowledged,
    lease_messages,
    sizes_of,
)
from rsmq.spark.connections import Server
from rsmq.spark.options import SourceOptions, StreamOptions
from rsmq.wire.keys import QueueKeys

log = logging.getLogger(__name__)

#: How long somebody is the holder of a named lease without saying so again, seconds.
HOLD = 15.0

#: How long the list of queues that match a pattern is good, seconds.
_LIST = 10.0


@dataclass(slots=True)
class Tally:
    """
    What became of messages, since this process began.

    Attributes:
        acknowledged: removed after their batch was done.
        lost: not removed, because another consumer had received them meanwhile.
    """

    acknowledged: int = 0
    lost: int = 0


class Lease:
    """Receives, keeps, and acknowledges the batches of a stream."""

    def __init__(
        self, at: Server, name: str, source: SourceOptions, options: StreamOptions
    ) -> None:
        self.name = name
        # A name may be given to several queries, of queues that differ.
        self._query = name
        if options.group is not None:
            self._query += ":" + (source.pattern or ",".join(sorted(source.queues)))
        self.tally = Tally()
        self._at = at
        self._source = source
        self._options = options
        self._queues: list[QueueKeys] = []
        self._listed = float("-inf")
        self._lock = threading.Lock()
        self._held: dict[int, list[tuple[QueueKeys, int]]] = {}
        self._acknowledged: int | None = None
        self._looked_for: int | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._holder = secrets.token_hex(8)
        self._holding: set[QueueKeys] = set()
        self._taken_over = False
        self._renewed = time.monotonic()
        for keys in self.queues():
            at.rsmq.run(forget_leases(keys))
        if options.group is not None:
            self._start()

    def queues(self) -> list[QueueKeys]:
        """The queues of the stream; those that match a pattern are looked for now and then."""
        if time.monotonic() - self._listed > _LIST:
            dead_letters = self._options.dead_letters
            self._queues = [
                keys
                for keys in self._at.queues(self._source)
                if dead_letters is None or keys.name != dead_letters.queue
            ]
            self._listed = time.monotonic()
            if self._options.group is not None:
                self._hold([keys for keys in self._queues if keys not in self._holding])
        return self._queues

    def _gone(self, keys: QueueKeys) -> None:
        """A queue is missing: of a pattern it is left out from now on, else it is an error."""
        if self._source.pattern is None:
            raise QueueNotFound(keys.name)
        self._queues = [each for each in self._queues if each != keys]

    def begin(self) -> tuple[int, dict[str, int]]:
        """
        Return the batch behind which a new checkpoint of a named lease starts.

        Returns:
            Its number, 0 if there is none: the last that was acknowledged, or the one before a
            batch that is held. And the queues where an acknowledgement of it was broken off, with
            how many messages the batch had there.
        """
        stored = self._at.raw.hget(self._at.namespace.acknowledged, self._query)
        last: int = 0 if stored is None else msgpack.unpackb(stored, raw=True)[0]
        held = {
            int(field.split(b":")[1])
            for keys in self.queues()
            for field in self._at.raw.hkeys(keys.leases)
            if field.startswith(f"{self.name}:".encode()) and field.count(b":") == 1
        }
        last = max(last, min(held, default=1) - 1)
        left = self.sizes(last, self.queues())
        return last, {queue: sum(sizes) for queue, sizes in left.items()}

    def receive(self, number: int, most: int | None, latest_ms: int | None) -> dict[str, int]:
        """
        The messages of a batch, by queue; received now unless they have been already.

        Args:
            number: the batch's.
            most: how many at most; None is all.
            latest_ms: those that became visible until then; None is now.

        Raises:
            CheckpointSetBack: the batch was acknowledged, so there is nothing left of it.
        """
        self._still_holder()
        if self._looked_for != number:
            # Only a process before this one, or a call before this one, can have received it.
            found = self.sizes(number, self.queues())
            if found:
                self.keep(number, found)
                self._extend()
                return {queue: sum(sizes) for queue, sizes in found.items()}
            self._looked_for = number
        return self._receive(number, most, latest_ms)

    def _receive(self, number: int, most: int | None, latest_ms: int | None) -> dict[str, int]:
        queues = self.queues()
        left = most if most is not None else 2**53
        parts = dict.fromkeys(queues, 0)
        counts = dict.fromkeys(queues, 0)
        more = list(queues)
        while more and left > 0:
            # Each gets its share; what one leaves goes to the others in the next round.
            share = -(-left // len(more))
            for keys in list(more):
                want = min(share, left)
                while want > 0:
                    got, full = self._receive_part(number, keys, parts[keys], want, latest_ms)
                    if got:
                        parts[keys] += 1
                    counts[keys] += got
                    want, left = want - got, left - got
                    if not full:
                        more.remove(keys)
                        break
        found = {keys.name: count for keys, count in counts.items() if count}
        if found:
            self._looked_for = None
        else:
            self._forget(number)
        return found

    def _receive_part(
        self, number: int, keys: QueueKeys, part: int, most: int, latest_ms: int | None
    ) -> tuple[int, bool]:
        """How many messages there are now in a part, and whether there may be more."""
        self._add(number, keys, part)
        operation = lease_messages(
            self._at.namespace,
            keys,
            Batch(self.name, number),
            part,
            min(most, PART),
            vt=self._options.vt,
            latest_ms=latest_ms,
            lifetime=self._options.retention,
            dead_letters=self._options.dead_letters,
            query=self._query,
        )
        try:
            return self._at.rsmq.run(operation)
        except QueueNotFound:
            self._gone(keys)
            return 0, False

    def wait(self, number: int, most: int | None) -> dict[str, int]:
        """The messages of a batch, as soon as there are some; none after a while."""
        zsets = [keys.zset for keys in self.queues()]
        if not zsets:
            self._stopped.wait(self._options.idle_wait)
            return {}
        return self._at.watcher.wait(
            lambda: self._receive(number, most, None),
            lambda _: None,  # what was received stays in the lease
            {},
            zsets,
            self._options.idle_wait,
        )

    def sizes(self, number: int, queues: Iterable[QueueKeys]) -> dict[str, list[int]]:
        """Of a batch, by queue, the sizes of its parts as they are in Redis."""
        field = str(Batch(self.name, number))
        found = {keys.name: sizes_of(self._at.raw.hget(keys.leases, field)) for keys in queues}
        return {queue: sizes for queue, sizes in found.items() if sizes}

    def planned(self, number: int, counts: dict[str, int]) -> dict[str, list[int]]:
        """
        The parts of a batch that Spark reads now, kept from coming back.

        Args:
            number: the batch's.
            counts: of each queue how many messages it had.

        Raises:
            BatchLost: not all of it is there, and ``failOnDataLoss`` is true.
        """
        self._still_holder()
        queues = [self._at.namespace.queue(queue) for queue in counts]
        found = self.sizes(number, queues)
        for queue, count in counts.items():
            if sum(found.get(queue, ())) != count:
                self._lost(queue, number)
        if number not in self._held:
            self.keep(number, found)
            self._extend()
        return found

    def _lost(self, queue: str, number: int) -> None:
        text = (
            f"Batch {number} of lease {self.name} is not in Redis any more: queue {queue} was "
            "purged or deleted, Redis lost data, or the query was down for longer than "
            "leaseRetention"
        )
        if self._options.fail_on_data_loss:
            raise BatchLost(
                text,
                value=queue,
                hint="With failOnDataLoss=false the query goes on without it. Messages that are "
                "still in the queue come back after their visibility timeout.",
            )
        log.warning("%s. The query goes on without it.", text)

    def keep(self, number: int, found: dict[str, list[int]]) -> None:
        """Hide a batch again and again from now on."""
        for queue, sizes in found.items():
            keys = self._at.namespace.queue(queue)
            for part in range(len(sizes)):
                self._add(number, keys, part)

    def acknowledge(self, number: int, queues: Iterable[str]) -> None:
        """
        Remove the messages of a batch that Spark has done with, and forget the batch.

        An acknowledgement that was broken off is completed by the next. The number of the batch
        is stored with the first removal, so that a checkpoint that is set back is noticed.
        """
        if self._acknowledged == number:
            return
        self._still_holder()
        batch = Batch(self.name, number)
        for queue in queues:
            keys = self._at.namespace.queue(queue)
            sizes = sizes_of(self._at.raw.hget(keys.leases, str(batch)))
            if not sizes and number in self._held:
                log.warning("Batch %s of queue %s is not in Redis any more.", batch, queue)
            for part in range(max(1, len(sizes))):  # without one, its number is stored all the same
                removed, lost = self._at.rsmq.run(
                    acknowledge_leased(
                        self._at.namespace,
                        keys,
                        batch,
                        part,
                        lifetime=self._options.retention,
                        query=self._query,
                    )
                )
                self.tally.acknowledged += removed
                self.tally.lost += lost
            self._at.raw.hdel(keys.leases, str(batch))
        self._forget(number)
        self._acknowledged = number

    def backlog(self) -> dict[str, dict[str, int]]:
        """Of each queue how many messages are visible, and how many are hidden."""
        backlog = {}
        for keys in list(self.queues()):
            try:
                attributes = self._at.rsmq.get_queue_attributes(keys.name)
            except QueueNotFound:
                self._gone(keys)
                continue
            backlog[keys.name] = {
                "visible": attributes.visible_messages,
                "hidden": attributes.hidden_messages,
            }
        return backlog

    def stop(self) -> None:
        """End the heartbeat; what is held stays so until its visibility timeout."""
        self._stopped.set()

    def _add(self, number: int, keys: QueueKeys, part: int) -> None:
        with self._lock:
            parts = self._held.setdefault(number, [])
            if (keys, part) not in parts[-1:]:
                parts.append((keys, part))
        self._start()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="rsmq-lease", daemon=True)
            self._thread.start()

    def _forget(self, number: int) -> None:
        with self._lock:
            self._held.pop(number, None)

    def _beat(self) -> None:
        due = time.monotonic() + self._options.vt / 3
        keep_at = time.monotonic() + self._options.retention / 4
        pause = self._options.vt / 3 if self._options.group is None else HOLD / 3
        while not self._stopped.wait(max(0.01, min(pause, due - time.monotonic()))):
            try:
                if self._options.group is not None:
                    self._renew()
                if time.monotonic() >= keep_at:
                    self._keep_acknowledged()
                    keep_at = time.monotonic() + self._options.retention / 4
                if time.monotonic() >= due:
                    self._extend()
                    due = time.monotonic() + self._options.vt / 3
            except (RedisError, RSMQError) as error:
                due = time.monotonic() + min(1.0, self._options.vt / 10)
                log.warning(
                    "The heartbeat of lease %s failed, and is repeated: %s", self.name, error
                )

    def _keep_acknowledged(self) -> None:
        self._at.rsmq.run(
            keep_acknowledged(self._at.namespace, self._query, lifetime=self._options.retention)
        )

    def _extend(self) -> None:
        with self._lock:
            held = [(number, *part) for number, parts in self._held.items() for part in parts]
        failed: Exception | None = None
        for number, keys, part in held:
            if number not in self._held:
                continue
            operation = extend_leased(
                keys,
                Batch(self.name, number),
                part,
                vt=self._options.vt,
                lifetime=self._options.retention,
            )
            try:
                self._at.rsmq.run(operation)
            except ResponseError as error:  # of one queue: the others go on
                failed = error
        if failed is not None:
            raise failed

    def _hold(self, queues: list[QueueKeys]) -> None:
        """
        Become the holder of a named lease on queues, when whoever held it is silent.

        Raises:
            InvalidOption: another query holds it, and lives.
        """
        until = time.monotonic() + HOLD + 1
        while other := self._ask_hold(queues):
            if time.monotonic() > until:
                raise InvalidOption(
                    "consumerGroup",
                    f"another query holds the lease {self.name}, and lives. Give this one another "
                    "name, or none; or stop that one.",
                    value=self.name,
                )
            time.sleep(min(other, 1.0))
        self._holding.update(queues)

    def _ask_hold(self, queues: Iterable[QueueKeys]) -> float:
        """Seconds for which somebody else holds one of them; 0 if all are this one's now."""
        longest = 0.0
        for keys in queues:
            operation = hold_lease(
                keys, self.name, self._holder, seconds=HOLD, lifetime=self._options.retention
            )
            try:
                longest = max(longest, self._at.rsmq.run(operation))
            except QueueNotFound:
                self._holding.discard(keys)  # whoever reads it says so
        return longest

    def _renew(self) -> None:
        self._renewed = time.monotonic()
        if self._ask_hold(list(self._holding)):
            self._taken_over = True

    def _still_holder(self) -> None:
        if self._options.group is not None and time.monotonic() - self._renewed > HOLD / 2:
            self._renew()  # the process may have been stopped for a time
        if self._taken_over:
            raise InvalidOption(
                "consumerGroup",
                f"another query took over the lease {self.name}, while this one was silent for "
                f"{HOLD:g} s.",
                value=self.name,
            )
