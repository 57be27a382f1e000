"""
A middleware that limits how many calls begin in a time, over all workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rsmq.wire.limits import check_duration, check_whole_number
from rsmq.worker.delivery import Delivery
from rsmq.worker.middlewares.decision_at_receive import (
    DecisionAtReceive,
    KeyOf,
    NotAdmitted,
    check_name,
)
from rsmq.worker.operations import take_permits
from rsmq.worker.outcome import MAX_DEFER_SECONDS

MAX_CALLS = 1_000_000
MAX_PERIOD_SECONDS = 86_400.0
_UNDECIDED_SECONDS = 1.0


class RateLimit(DecisionAtReceive):
    """
    A middleware that lets at most so many calls begin in a period, over all workers of a namespace.

    It is a token bucket in Redis, by the server's clock: up to ``calls`` may begin at once, and
    each becomes free again after ``period / calls`` seconds. So in one period after a pause up to
    twice as many may begin. Retries count too.

    A message beyond the limit is hidden until its turn, which is not an attempt. Each one gets the
    turn after the last one that was given, so a backlog is spread: each of its messages is received
    about twice. If another message takes the permit, it gets a new turn. A turn is a week away at
    most. A message may be deferred so often and for so long as ``max_deferrals`` and
    ``max_deferred_seconds`` of its listener allow. Messages may change their order.

    The limit is decided when messages are received, with one call to Redis for each receive, in the
    worker's own thread. It works for all kinds of handlers. If Redis does not answer, the messages
    are deferred for a second. Consumers of other clients ignore the limit.
    """

    def __init__(
        self,
        calls: int,
        period: float,
        *,
        queues: Iterable[str] | None = None,
        key: KeyOf | None = None,
        name: str | None = None,
    ) -> None:
        """
        Make it, for one worker; several workers share the limit through Redis.

        Args:
            calls: how many calls may begin in a period, from 1 to 1,000,000.
            period: seconds, from 0.001 to 86,400.
            queues: the queues that it limits; None is all queues of the worker.
            key: a function of the message that returns a str: each key has a limit of its own.
                None as a result means no limit for this message. An exception fails the message. It
                runs in the worker's own thread, so it must be quick. None is one limit for all.
            name: the name of the limit in Redis, by the rules of queues. Queues, workers and
                programs with this name share it. None is the name of each queue, which then has
                its own limit.

        Raises:
            InvalidValue: a number is out of range.
            InvalidFormat: key is not callable, or the name is invalid.
        """
        super().__init__(queues, key, _UNDECIDED_SECONDS)
        self._calls = check_whole_number("calls", calls, 1, MAX_CALLS)
        self._period = check_duration("period", period, low=0.001, high=MAX_PERIOD_SECONDS)
        self._name = check_name(name)

    def _admit(
        self, queue: str, keyed: Sequence[tuple[Delivery, str]]
    ) -> Sequence[Exception | None]:
        counts: dict[str, int] = {}
        for _, key in keyed:
            counts[key] = counts.get(key, 0) + 1
        client = self._worker.rsmq
        scope = queue if self._name is None else self._name
        keys = [client.namespace.rate(scope, key) for key in counts]
        results = client.run(take_permits(keys, self._calls, self._period, list(counts.values())))
        permits = {key: list(result) for key, result in zip(counts, results, strict=True)}
        interval = self._period / self._calls
        refusals: list[Exception | None] = []
        for _, key in keyed:
            permit = permits[key]
            if permit[0]:
                permit[0] -= 1
                refusals.append(None)
            else:
                after = min(permit[1], MAX_DEFER_SECONDS)
                refusals.append(NotAdmitted("rate limit", after=after))
                permit[1] += interval
        return refusals
