"""
The past of the demo: three weeks by hours and a day by minutes, so that charts are not empty.

The recorder's own steps write it. Before each of them, the totals and the gauges of the queues are
set to what they might have been then.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, replace

import redis

from rsmq import AsyncRSMQ
from rsmq.history.recorder import record_queues

from .past_calls import CALLS, record_past_calls

_DAY = 24 * 60
_DAYS = 20
#: Minutes ago between which no recorder ran: a gap.
_GAP = (310, 324)
#: Visible messages of a calm queue at the busiest time.
_MAX_CALM = 60
_chance = random.Random(7)  # noqa: S311


@dataclass
class Shape:
    """
    The past of a queue.

    Attributes:
        rate: messages a minute, on average.
        waiting: visible messages at the busiest time.
        lost: of a hundred messages, those that were received twice.
        is_growing: whether the visible messages became more and more.
        burst: minutes between bursts; 0 without.
    """

    rate: float
    waiting: int = 3
    lost: int = 0
    is_growing: bool = False
    burst: int = 0

    def sent(self, ago: int) -> int:
        """
        Return how many messages were sent in a minute.

        The numbers rise and fall in a day, and are now what the traffic sends.

        Args:
            ago: how many minutes ago.
        """
        daily = 1 - 0.7 * math.sin(math.tau * (ago % _DAY) / _DAY)
        if self.burst and ago % self.burst:
            return 0
        return max(round(self.rate * max(self.burst, 1) * daily * _chance.uniform(0.8, 1.2)), 0)

    def visible(self, ago: int, sent: int) -> int:
        """Return how many messages were visible some minutes ago."""
        if self.is_growing:
            return max(round(self.waiting * (1 - ago / _DAY)), 0)
        return round(self.waiting * _chance.random() * sent / max(self.rate, 1))


SHAPES = {
    "orders": Shape(300, 12, lost=3),
    "mail": Shape(150, 60, burst=2),
    "search-index": Shape(300, 400, is_growing=True),
    "thumbnails": Shape(25, 80),
    "legacy": Shape(120, 4, lost=2),
    "exports": Shape(5, 3),
    "events": Shape(30, 2),
    "reports": Shape(3, 1),
    "orders-dead": Shape(0.3, 40, is_growing=True),
}


def record_past(url: str, *, is_calm: bool) -> None:
    """
    Record the past of the queues of a new server, before anything is sent to them.

    Args:
        is_calm: whether nothing was wrong.
    """
    asyncio.run(_record_past(url, _calm_shapes() if is_calm else SHAPES))


#: The rates that the calm traffic has for other queues than SHAPES says.
_CALM_RATES = {"mail": 120.0, "search-index": 60.0}


def _calm_shapes() -> dict[str, Shape]:
    return {
        name: replace(
            shape, lost=0, waiting=min(shape.waiting, _MAX_CALM), is_growing=False,
            rate=_CALM_RATES.get(name, shape.rate), burst=0,
        )
        for name, shape in SHAPES.items()
        if name != "orders-dead"
    }  # fmt: skip


async def _record_past(url: str, shapes: dict[str, Shape]) -> None:
    with redis.Redis.from_url(url) as raw:
        now, second = divmod(int(raw.time()[0]), 60)
        begin = (now - _DAYS * _DAY) // 60 * 60
        last_day = (now - _DAY) // 60 * 60
        for name in shapes:
            raw.hset(f"rsmq:{name}:Q", "created", begin * 60)
        minutes = [*range(begin, last_day, 60), *range(last_day, now + 1)]
        shown = dict.fromkeys(shapes, 0)
        sent = {
            name: [shape.sent(ago) for ago in range(now - begin, -1, -1)]
            for name, shape in shapes.items()
        }
        async with AsyncRSMQ.from_url(url) as queues:
            for before, minute in zip([begin - 1, *minutes], minutes, strict=False):
                if not _GAP[0] < now - minute < _GAP[1]:
                    of_step = {
                        name: sum(each[max(before - begin, 0) : minute - begin])
                        for name, each in sent.items()
                    }
                    times = minute, minute - before, now - minute
                    _set_queues(raw, shapes, of_step, times, shown)
                    await record_queues(queues, minute)
        for name, numbers in sent.items():
            raw.unlink(f"rsmq:{name}")
            # The traffic has the rest of the present minute, so that the past ends without a gap.
            numbers[-1] = numbers[-1] * second // 60
            raw.hincrby(f"rsmq:{name}:Q", "totalsent", numbers[-1])
            raw.hincrby(f"rsmq:{name}:Q", "totalrecv", numbers[-1])
            if name in CALLS:
                record_past_calls(raw, name, begin * 60, now, numbers)


def _due(minute: int) -> int:
    """Return the score of a message that becomes visible then."""
    return minute * 60_000


def _set_queues(
    raw: redis.Redis,
    shapes: dict[str, Shape],
    sent_by_name: dict[str, int],
    times: tuple[int, int, int],
    shown: dict[str, int],
) -> None:
    minute, length, ago = times
    with raw.pipeline(transaction=False) as pipe:
        for name, shape in shapes.items():
            sent = sent_by_name[name]
            pipe.hincrby(f"rsmq:{name}:Q", "totalsent", sent)
            pipe.hincrby(f"rsmq:{name}:Q", "totalrecv", sent + sent * shape.lost // 100)
            wanted = shape.visible(ago, sent // length)
            ids = range(min(shown[name], wanted), max(shown[name], wanted))
            if wanted > shown[name]:
                # Visible, but for the age of the oldest one, which is that of then.
                pipe.zadd(f"rsmq:{name}", {f"past{each:028}": _due(minute + ago) for each in ids})
            elif ids:
                pipe.zrem(f"rsmq:{name}", *(f"past{each:028}" for each in ids))
            if wanted:
                age = _chance.randint(1, 20) + wanted // 2
                pipe.zadd(f"rsmq:{name}", {f"past{0:028}": _due(minute) - age * 1000})
            shown[name] = wanted
        pipe.execute()
