"""What is recorded of queues in each minute, by whom, and how it is stored and read."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest

from rsmq import RSMQ, AsyncRSMQ
from rsmq.errors import InvalidFormat, InvalidValue, QueueNotFound
from rsmq.history import HistoryGap, HistoryRecorder
from rsmq.history.operations import claim_minute, record_minute
from rsmq.history.recorder import record_queues
from rsmq.operations.plain import plain_command

_numbers = itertools.count()
_MINUTE_MS = 60_000


def _time(minute):
    return datetime.fromtimestamp(minute * 60, UTC)


async def _raw(client, *words):
    return await client.run(plain_command(*words))


class Place:
    """
    A client, and minutes that pass when a test says so.

    Attributes:
        minute: Unix minutes, the one that runs; queues that are created now belong to it.
    """

    def __init__(self, queues, minute):
        self.queues = queues
        self.begin = self.minute = minute

    async def record(self, minutes=1):
        """Record after some minutes have passed, which nobody has recorded but the last one."""
        self.minute += minutes
        return await record_queues(self.queues, self.minute)

    async def read(self, queue="q", step=60):
        return await self.queues.history(
            queue, start=_time(self.begin), end=_time(self.minute), step=step
        )


@pytest.fixture
def at():
    """The minute of an hour in which a test begins."""
    return 0


@pytest.fixture
def place(runner, at):
    """A Place on a new server, whose queue q is recorded."""

    async def make():
        queues = AsyncRSMQ.from_url(f"memory://history{next(_numbers)}")
        await queues.create_queue("q")
        created = int(await _raw(queues, "HGET", "rsmq:q:Q", "created")) // 60
        hour = created - created % 60 + 60
        place = Place(queues, hour + at)
        await record_queues(queues, place.minute)
        return place

    place = runner.run(make())
    yield place
    runner.run(place.queues.close())


async def test_a_minute_has_what_was_sent_and_received_and_the_gauges_at_its_end(place):
    await place.queues.send_messages("q", ["a"] * 5)
    await place.queues.send_message("q", "later", delay=9999)
    await place.queues.receive_messages("q", 2, vt=9999)
    assert await place.record() == 1
    assert await place.record() == 1
    history = await place.read()
    assert (history.start_ms, history.step) == (place.begin * _MINUTE_MS, 60)
    assert (history.sent, history.received) == ([6, 0], [2, 0])
    assert (history.visible, history.in_flight, history.delayed) == ([3, 3], [2, 2], [1, 1])
    first, second = history.oldest_seconds
    assert second == first + 60
    assert (history.gaps, history.total_sent, history.total_received) == ([], 6, 2)
    assert (await place.read(None)).sent == [6, 0]


async def test_minutes_that_nobody_has_recorded_are_a_gap_whose_sums_are_kept(place):
    await place.queues.send_message("q", "a")
    await place.record()
    await place.queues.send_messages("q", ["b"] * 3)
    await place.record(5)
    await place.queues.send_message("q", "c")
    await place.record()
    for queue in ("q", None):
        history = await place.read(queue)
        assert history.sent == [1, None, None, None, None, None, 1]
        assert history.visible == [1, None, None, None, None, None, 5]
        start = (place.begin + 1) * _MINUTE_MS
        assert history.gaps == [HistoryGap(start, start + 5 * _MINUTE_MS, 3, 0)]
        assert history.total_sent == 5


async def test_a_gap_within_a_step_is_a_part_of_it_and_one_across_two_is_not(place):
    await place.record()
    await place.queues.send_messages("q", ["a"] * 3)
    await place.record(9)
    by_ten = await place.read(step=600)
    assert (by_ten.sent, by_ten.gaps) == ([3], [])
    await place.queues.send_messages("q", ["a"] * 4)
    await place.record(65)
    await place.record()
    hours = await place.read(step=3600)
    assert (hours.sent, hours.total_sent) == ([3, 0], 7)
    assert [each.sent for each in hours.gaps] == [4]


async def test_a_minute_is_recorded_once_however_often_it_is_tried(place):
    await place.queues.send_message("q", "a")
    await place.record()
    before = await _raw(place.queues, "HGETALL", "rsmq:x:history")
    assert await record_queues(place.queues, place.minute) == 0
    assert await _raw(place.queues, "HGETALL", "rsmq:x:history") == before
    assert (await place.read(None)).sent == [1]


async def test_the_sums_are_complete_if_a_recorder_ends_between_two_steps(place):
    queues, minute = place.queues, place.minute + 1
    await queues.create_queue("r")
    await _raw(queues, "HSET", "rsmq:r:Q", "created", str(place.minute * 60))
    await queues.send_message("q", "a")
    await queues.send_message("r", "b")
    # It ends here: r is not recorded, and the sums are not complete.
    await queues.run(record_minute(queues.namespace, minute, ["q"], is_last=False))
    await place.record(2)
    sums = await place.read(None)
    assert (await place.read("q")).sent == [1, 0]
    assert (await place.read("r")).sent == [None, None]
    assert (sums.sent, [gap.sent for gap in sums.gaps], sums.total_sent) == ([1, 0], [1], 2)


async def test_a_purge_keeps_the_history_and_makes_nothing_negative(place):
    await place.queues.send_messages("q", ["a"] * 3)
    await place.record()
    await place.queues.purge_queue("q")
    await place.record()
    history = await place.read()
    assert (history.sent, history.visible) == ([3, 0], [3, 0])


async def test_a_queue_that_is_created_again_has_a_history_of_its_own(place):
    await place.queues.send_messages("q", ["a"] * 3)
    await place.record()
    await place.queues.delete_queue("q")
    assert await _raw(place.queues, "EXISTS", "rsmq:q:x:history") == 0
    with pytest.raises(QueueNotFound):
        await place.read()
    await place.queues.create_queue("q")
    await _raw(place.queues, "HSET", "rsmq:q:Q", "created", str(place.minute * 60 + 1))
    assert (await place.read()).sent == [None]
    await place.queues.send_message("q", "a")
    await place.record()
    assert (await place.read()).sent == [None, 1]
    assert (await place.read(None)).sent == [3, 1]


async def test_a_queue_that_node_has_deleted_and_created_again_begins_anew(place):
    await place.queues.send_messages("q", ["a"] * 3)
    await place.record()
    await _raw(place.queues, "DEL", "rsmq:q", "rsmq:q:Q")
    created = str(place.minute * 60)
    fields = ["vt", "30", "delay", "0", "maxsize", "65536", "created", created]
    await _raw(place.queues, "HSET", "rsmq:q:Q", *fields, "totalsent", "1")
    await place.record()
    assert (await place.read()).sent == [None, 1]


async def test_totals_that_begin_again_are_not_negative(place):
    await place.queues.send_messages("q", ["a"] * 9)
    await place.record()
    await _raw(place.queues, "HSET", "rsmq:q:Q", "totalsent", "2")
    await place.record()
    assert (await place.read()).sent == [9, 2]


async def test_an_older_queue_begins_without_what_was_sent_before(place):
    await place.queues.create_queue("old")
    await place.queues.send_message("old", "a")
    await _raw(place.queues, "HSET", "rsmq:old:Q", "created", "1000")
    await place.record()
    await place.queues.send_message("old", "a")
    await place.record()
    assert (await place.read("old")).sent == [None, 1]
    assert (await place.read(None)).sent == [0, 1]


async def test_an_idle_queue_needs_few_bytes_and_any_queue_only_a_bounded_number(place):
    await place.queues.send_message("q", "waits")
    for _ in range(70):
        await place.record()
    size = sum(map(len, (await _fields(place.queues, "rsmq:q:x:history")).values()))
    assert size < 150
    history = await place.read()
    assert history.sent == [1] + [0] * 69
    ages = history.oldest_seconds
    assert [after - before for before, after in itertools.pairwise(ages)] == [60] * 69


async def _fields(client, key):
    reply = await _raw(client, "HGETALL", key)
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


async def test_minutes_are_kept_for_26_hours_and_hours_for_90_days(place):
    for _ in range(28):
        await place.record(60)
    names = await _fields(place.queues, "rsmq:q:x:history")
    hours = sorted(int(name[1:]) for name in names if name.startswith(b"m"))
    assert place.minute // 60 - hours[0] == 26
    for _ in range(46):
        await place.record(2880)
    names = await _fields(place.queues, "rsmq:q:x:history")
    days = sorted(int(name[1:]) for name in names if name.startswith(b"d"))
    assert place.minute // 1440 - days[0] in {89, 90}
    ttl = await _raw(place.queues, "PTTL", "rsmq:q:x:history")
    assert ttl > 90 * 86_400_000


async def test_histories_are_kept_for_a_shorter_time_if_they_need_too_many_bytes(place):
    queues = place.queues
    for _ in range(30):
        place.minute += 60
        await queues.run(
            record_minute(queues.namespace, place.minute, ["q"], is_last=True, max_bytes=1200)
        )
    found = await _fields(queues, "rsmq:x:history")
    assert int(found[b"share"]) < 100
    assert int(found[b"bytes"]) < 1200 * 1.25


@pytest.mark.parametrize("at", [17])
async def test_the_sums_of_steps_of_any_length_equal_the_ledger(place):
    chance = random.Random(7)
    ledger = {"sent": 0, "received": 0}
    for _ in range(60):
        for _ in range(chance.randrange(3)):
            number = chance.randrange(1, 4)
            await place.queues.send_messages("q", ["a"] * number)
            ledger["sent"] += number
        got = await place.queues.receive_messages("q", chance.randrange(1, 4))
        ledger["received"] += len(got)
        await place.record(chance.choice([1, 1, 1, 1, 2, 7, 61]))
    for step, queue in itertools.product((60, 600, 3600, 86_400), ("q", None)):
        history = await place.read(queue, step)
        gaps = history.gaps
        assert history.total_sent == ledger["sent"]
        assert history.total_received == ledger["received"]
        in_steps = sum(each or 0 for each in history.sent)
        assert in_steps + sum(gap.sent for gap in gaps) == ledger["sent"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"step": 90}, InvalidValue),
        ({"step": 420}, InvalidValue),
        ({"step": 5 * 3600}, InvalidValue),
        ({"step": 60.5}, InvalidValue),
        ({"start": datetime(2026, 1, 1)}, InvalidFormat),  # noqa: DTZ001 - that is the fault
        ({"end": 17}, InvalidFormat),
        ({"start": _time(60), "end": _time(30)}, InvalidValue),
        ({"start": _time(0)}, InvalidValue),
    ],
)
async def test_a_range_that_can_not_be_read_is_refused(options, error, place):
    with pytest.raises(error):
        await place.queues.history("q", **options)


async def test_of_several_recorders_exactly_one_records_a_minute(server, ns):
    async with (
        AsyncRSMQ.from_url(server.url, ns=ns) as one,
        AsyncRSMQ.from_url(server.url, ns=ns) as other,
    ):
        await one.create_queue("q")
        await _raw(one, "HSET", f"{ns}:x:history", "minute", "1")
        claims = await asyncio.gather(*(client.run(_claim(client)) for client in (one, other) * 5))
        granted = [each for each in claims if each.is_granted]
        minutes = {each.minute for each in claims}
        assert len(granted) == len(minutes)  # more than one minute if one has just begun
        # A process that was stopped for so long that another one has the next minute.
        late = granted[0].minute - 1
        assert await record_queues(one, late) == 0
        assert await _raw(one, "EXISTS", f"{ns}:q:x:history") == 0


def _claim(client):
    """Return a claim at any time of the minute."""
    operation = claim_minute(client.namespace, "test")
    operation.args = (operation.args[0], b"60000")
    return operation


async def test_a_recorder_records_until_its_block_ends(server, ns):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        await queues.create_queue("q")
        async with HistoryRecorder(queues):
            while not await _raw(queues, "EXISTS", f"{ns}:x:history"):
                await asyncio.sleep(0.02)
                # Now it is early enough in the minute, whatever the time is.
                await queues.run(_claim(queues))
        found = await _fields(queues, f"{ns}:x:history")
        assert b"owner" in found


def test_the_synchronous_client_reads_the_last_hour_by_default(server, ns):
    with RSMQ.from_url(server.url, ns=ns) as queues:
        queues.create_queue("q")
        history = queues.history("q")
        assert len(history.sent) in {60, 61}
        assert set(history.sent) == {None}
        assert timedelta(milliseconds=history.end_ms - history.start_ms) >= timedelta(hours=1)
        with pytest.raises(QueueNotFound):
            queues.history("none")
