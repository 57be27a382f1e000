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
#: The most messages in flight of a shape.
_MAX_RUNNING = 5
#: The workers begin so many seconds after the past.
_START_SECONDS = 5
#: Queues whose messages are delayed, and were so before.
_WAITING = ("reminders", "campaign")
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
        running: messages in flight.
    """

    rate: float
    waiting: int = 3
    lost: int = 0
    is_growing: bool = False
    burst: int = 0
    running: int = 0

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
    "orders": Shape(300, 3, lost=3),
    "mail": Shape(150, 60, burst=2),
    "search-index": Shape(300, 400, is_growing=True, running=2),
    "thumbnails": Shape(25, 5, running=2),
    "legacy": Shape(120, 4, lost=2),
    "exports": Shape(5, 3, running=5),
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
    asyncio.run(_record_past(url, _calm_shapes() if is_calm else SHAPES, is_calm=is_calm))


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


async def _record_past(url: str, shapes: dict[str, Shape], *, is_calm: bool) -> None:
    with redis.Redis.from_url(url) as raw:
        now = int(raw.time()[0]) // 60
        begin = (now - _DAYS * _DAY) // 60 * 60
        last_day = (now - _DAY) // 60 * 60
        for name in (*shapes, *_WAITING):
            raw.hset(f"rsmq:{name}:Q", "created", begin * 60)
        _run_calls(raw, shapes, _due(now + _DAY))
        minutes = [*range(begin, last_day, 60), *range(last_day, now + 1)]
        shown = dict.fromkeys(shapes, 0)
        sent = {
            name: [shape.sent(ago) for ago in range(now - begin, -1, -1)]
            for name, shape in shapes.items()
        }
        async with AsyncRSMQ.from_url(url) as queues:

            async def record(minute: int, length: int, ago: int) -> None:
                of_step = {
                    name: sum(each[max(minute - length - begin, 0) : minute - begin])
                    for name, each in sent.items()
                }
                _set_queues(raw, shapes, of_step, (minute, length, ago), shown)
                await record_queues(queues, minute)

            for before, minute in zip([begin - 1, *minutes], minutes, strict=False):
                if not _GAP[0] < now - minute < _GAP[1]:
                    await record(minute, minute - before, now - minute)
            # That took some seconds. No minute may end before the dashboard records.
            second = int(raw.time()[0]) % 60
            await asyncio.sleep(60 - second if second > 60 - 2 * _START_SECONDS else 0)
            present, second = divmod(int(raw.time()[0]), 60)
            for minute in range(now + 1, present + 1):
                await record(minute, 1, 0)
                for name, shape in shapes.items():
                    sent[name].append(shape.sent(0))
        begun = second + _START_SECONDS
        for name, numbers in sent.items():
            _end_past(raw, name, numbers, begun)
            if name in CALLS:
                record_past_calls(raw, name, begin * 60, present, numbers, is_calm=is_calm)


def _run_calls(raw: redis.Redis, shapes: dict[str, Shape], until_ms: int) -> None:
    """Have messages in flight until the past ends."""
    for name, shape in shapes.items():
        for each in range(shape.running):
            raw.zadd(f"rsmq:{name}", {f"run{each:029}": until_ms})
            raw.hset(f"rsmq:{name}:Q", f"run{each:029}:rc", 1)


def _end_past(raw: redis.Redis, name: str, numbers: list[int], seconds: int) -> None:
    """Remove the messages of the past, and have sent those of the present minute."""
    raw.unlink(f"rsmq:{name}")
    raw.hdel(f"rsmq:{name}:Q", *(f"run{each:029}:rc" for each in range(_MAX_RUNNING)))
    # The traffic has the rest of the minute, so that the past ends without a gap.
    numbers[-1] = numbers[-1] * seconds // 60
    raw.hincrby(f"rsmq:{name}:Q", "totalsent", numbers[-1])
    raw.hincrby(f"rsmq:{name}:Q", "totalrecv", numbers[-1])


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
                age = _chance.randint(0, 3) + wanted // 2
                pipe.zadd(f"rsmq:{name}", {f"past{0:028}": _due(minute) - age * 1000})
            shown[name] = wanted
        pipe.execute()
