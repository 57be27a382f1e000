"""Figures of calls by task: how they are counted, stored, bounded and read."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from prometheus_client import CollectorRegistry

from rsmq import RSMQ
from rsmq.errors import InvalidFormat
from rsmq.history.call_operations import read_calls_in_steps, record_calls
from rsmq.history.call_records import (
    BUCKETS,
    CallCounts,
    Percentiles,
    bucket_of,
    find_percentiles,
    make_histogram,
    parse_counts,
    seconds_of,
)
from rsmq.metrics import QueueMetrics
from rsmq.operations.plain import plain_command
from rsmq.tasks import Tasks
from rsmq.worker import Discard, Retry, Worker
from rsmq.worker.state.call_tally import CALLS_PER_SAMPLE, MEASURED_CALLS
from tests.workers.polling import wait_until

_numbers = itertools.count()


@pytest.fixture
def queues():
    with RSMQ.from_url(f"memory://calls{next(_numbers)}") as queues:
        queues.create_queue("q")
        yield queues


def _run(queues, *words):
    return queues.run(plain_command(*words))


def _counts(calls=1, seconds=(0.1,), waits=(), **others):
    counts = CallCounts(calls, **others)
    for target, values in ((counts.durations, seconds), (counts.waits, waits)):
        for each in values:
            target[bucket_of(each)] = target.get(bucket_of(each), 0) + 1
    return counts


def _record(queues, *tasks, minute=None, **options):
    minute = _minute(queues) if minute is None else minute
    packed = [(name, counts.pack()) for name, counts in tasks]
    return queues.run(record_calls(queues.namespace.queue("q"), minute, packed, **options))


def _minute(queues):
    (seconds, _) = queues.run(plain_command("TIME", key=b"x"))
    return int(seconds) // 60


@pytest.mark.parametrize("seed", range(5))
def test_each_duration_is_at_most_two_percent_wrong(seed):
    chance = random.Random(seed)
    for _ in range(2000):
        seconds = math.exp(chance.uniform(math.log(1e-5), math.log(700_000)))
        assert abs(seconds_of(bucket_of(seconds)) / seconds - 1) <= 0.02


def test_durations_beyond_the_scale_are_in_its_first_and_last_buckets():
    assert [bucket_of(each) for each in (-1, 0, 1e-9, 1e-5)] == [0] * 4
    assert bucket_of(10**9) == BUCKETS - 1


def test_percentiles_are_those_of_all_durations_and_none_without_any():
    chance = random.Random(7)
    values = sorted(chance.lognormvariate(-3, 2) for _ in range(5000))
    found = find_percentiles(_counts(seconds=values).durations)
    assert isinstance(found, Percentiles)
    for share, seconds in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99)):
        assert seconds == pytest.approx(values[math.ceil(share * 5000) - 1], rel=0.021)
    assert find_percentiles({}) is None


def test_a_histogram_counts_up_to_each_bound():
    buckets, total = make_histogram(_counts(seconds=(0.002, 0.3, 0.3, 9000)).durations)
    by_bound = dict(buckets)
    assert (by_bound["0.001"], by_bound["0.0025"], by_bound["0.5"]) == (0, 1, 3)
    assert (by_bound["3600.0"], by_bound["+Inf"]) == (3, 4)
    assert total == pytest.approx(9000.6, rel=0.02)


def test_packed_counts_are_read_as_they_were():
    counts = _counts(300, (1e-5, 0.1, 0.1, 1e6), (5,), failed=129, retried=2, dead_letters=1)
    assert parse_counts(counts.pack(), 0) == (0, counts)
    assert parse_counts(counts.pack()[:-3], 0) is None


def test_counts_of_several_workers_are_added_in_each_step(queues):
    minute = _minute(queues)
    assert _record(queues, ("mail", _counts(2, (0.1, 0.2))), ("", _counts()), minute=minute) == 2
    assert _record(queues, ("mail", _counts(1, (0.1,), (3,), failed=1, retried=1)), minute=minute)
    for span, steps, unit in (("1h", 60, 1), ("24h", 24, 60), ("7d", 28, 360), ("90d", 90, 1440)):
        nameless, mail = queues.task_figures(span=span)
        assert (nameless.task, nameless.calls) == ("", 1)
        assert (mail.queue, mail.task, mail.calls, mail.failed) == ("q", "mail", 3, 1)
        assert (mail.retried, mail.dead_letters, mail.running) == (1, 0, 0)
        assert (len(mail.calls_by_step), mail.step) == (steps, unit * 60)
        assert (sum(mail.calls_by_step), sum(mail.failed_by_step)) == (3, 1)
        assert mail.wait.p50 == pytest.approx(3, rel=0.02)
        assert mail.duration.p50 == pytest.approx(0.1, rel=0.02)
        assert mail.duration.p99 == pytest.approx(0.2, rel=0.02)
        assert mail.calls_per_minute == round(3 / (unit * steps), 3)


def test_the_stored_records_are_as_the_protocol_says(queues):
    _record(queues, ("mail", CallCounts(1, durations={200: 1})), minute=(minute := _minute(queues)))
    fields = _run(queues, "HGETALL", "rsmq:q:x:call_times")
    tail = bytes([1, 0, 0, 0, 0, 1, 200 & 127 | 128, 1, 1])
    slots = {
        b"m%d:mail" % (minute % 60), b"h%d:mail" % (minute // 60 % 24),
        b"q%d:mail" % (minute // 360 % 28), b"d%d:mail" % (minute // 1440 % 90),
    }  # fmt: skip
    assert fields.keys() == slots | {b"bytes"}
    assert all(fields[each].endswith(tail) for each in slots)
    assert int(fields[b"bytes"]) == sum(len(fields[each]) for each in slots)
    assert _run(queues, "HGET", "rsmq:q:x:calls", "mail").endswith(tail)
    assert 0 < _run(queues, "PTTL", "rsmq:q:x:calls") <= 91 * 86_400_000


def test_a_step_of_an_earlier_time_is_replaced_and_not_counted(queues):
    minute = _minute(queues)
    _record(queues, ("mail", _counts(5)), minute=minute)
    field = f"m{minute % 60}:mail"
    old = _run(queues, "HGET", "rsmq:q:x:call_times", field)
    # The same slot an hour before: its time is the second number of the record.
    created = int(_run(queues, "HGET", "rsmq:q:Q", "created"))
    earlier = _pack(created, minute - 60) + old[len(_pack(created, minute)) :]
    _run(queues, "HSET", "rsmq:q:x:call_times", field, earlier)
    assert queues.task_figures()[0].calls == 0
    _record(queues, ("mail", _counts(2)), minute=minute)
    assert queues.task_figures()[0].calls == 2
    assert queues.task_figures(span="24h")[0].calls == 7


def _pack(*numbers):
    packed = bytearray()
    for number in numbers:
        rest = number
        while rest >= 128:
            packed.append(rest & 127 | 128)
            rest >>= 7
        packed.append(rest)
    return bytes(packed)


def test_a_minute_that_is_not_possible_becomes_the_nearest_one(queues):
    for wrong in (0, 10**9):
        _record(queues, ("mail", _counts()), minute=wrong)
    calls = queues.task_figures()[0].calls_by_step
    assert calls[-2:] in ([1, 1], [2, 0], [0, 2])  # a minute may have begun in between


def test_figures_of_a_deleted_queue_are_gone_and_those_of_a_purged_one_stay(queues):
    _record(queues, ("mail", _counts()))
    queues.purge_queue("q")
    assert queues.task_figures()[0].calls == 1
    queues.delete_queue("q")
    assert _run(queues, "EXISTS", "rsmq:q:x:calls", "rsmq:q:x:call_times") == 0
    assert _record(queues, ("mail", _counts())) == 0
    assert _run(queues, "EXISTS", "rsmq:q:x:calls") == 0


def test_figures_of_a_queue_that_another_client_made_again_are_void(queues):
    _record(queues, ("mail", _counts(3)))
    _run(queues, "HSET", "rsmq:q:Q", "created", 1)
    assert queues.task_figures() == []
    _record(queues, ("mail", _counts(1)))
    assert queues.task_figures()[0].calls == 1


def test_a_record_that_another_program_has_broken_is_replaced(queues):
    _record(queues, ("mail", _counts(3)))
    for key in ("rsmq:q:x:calls", "rsmq:q:x:call_times"):
        for field in _run(queues, "HKEYS", key):
            _run(queues, "HSET", key, field, b"\xff\xff")
    assert queues.task_figures() == []
    _record(queues, ("mail", _counts(1)))
    assert queues.task_figures()[0].calls == 1


def test_beyond_a_hundred_names_calls_count_without_their_names(queues):
    for at in range(0, 100, 10):
        _record(queues, *((f"t{at + each}", _counts()) for each in range(10)))
    _record(queues, ("new", _counts(7)))
    found = {each.task: each.calls for each in queues.task_figures()}
    assert len(found) == 101
    assert ("new" in found, found[""]) == (False, 7)


def test_the_room_of_names_without_calls_in_ninety_days_is_used_again(queues):
    minute = _minute(queues)
    for at in range(0, 100, 10):
        _record(queues, *((f"t{at + each}", _counts()) for each in range(10)), minute=minute)
    created = int(_run(queues, "HGET", "rsmq:q:Q", "created"))
    old = _pack(created, minute - 90 * 1440 - 1, 1, 0, 0, 0, 0, 0)
    _run(queues, "HSET", "rsmq:q:x:calls", "t5", old)
    _record(queues, ("new", _counts(7)), minute=minute)
    found = {each.task: each.calls for each in queues.task_figures()}
    assert (found["new"], "t5" in found, len(found)) == (7, False, 100)
    fields = _run(queues, "HKEYS", "rsmq:q:x:call_times")
    assert not [each for each in fields if each.endswith(b":t5")]
    stored = _run(queues, "HGETALL", "rsmq:q:x:call_times")
    sizes = {name: len(each) for name, each in stored.items()}
    assert (
        int(_run(queues, "HGET", "rsmq:q:x:call_times", "bytes"))
        == sum(sizes.values()) - sizes[b"bytes"]
    )


def test_beyond_the_limit_of_bytes_steps_have_no_distributions(queues):
    _record(queues, ("mail", _counts()), limit=0)
    _record(queues, ("mail", _counts()), limit=0)
    mail = queues.task_figures()[0]
    assert (mail.calls, mail.duration) == (2, None)
    _, found = queues.run_steps(read_calls_in_steps(queues.namespace, ["q"]))
    assert sum(found["q", "mail"].total.durations.values()) == 2


def test_an_unknown_span_is_refused(queues):
    with pytest.raises(InvalidFormat, match="span"):
        queues.task_figures(span="2h")


def test_a_worker_counts_calls_failures_retries_and_dead_letters_by_task(queues):
    tasks = Tasks(queues)

    @tasks.task(queue="work", name="fails", max_retries=1, backoff=0.01)
    def fails():
        raise ValueError

    @tasks.task(queue="work", name="works")
    def works():
        pass

    fails.send()
    for _ in range(3):
        works.send()
    tasks.worker().run(until_empty=True)
    found = {each.task: each for each in queues.task_figures(["work"])}
    assert found.keys() == {"fails", "works"}
    works_, fails_ = found["works"], found["fails"]
    assert (works_.calls, works_.failed) == (3, 0)
    assert (fails_.calls, fails_.failed, fails_.retried, fails_.dead_letters) == (2, 2, 1, 1)
    assert works_.duration is not None
    assert fails_.wait is not None
    _, stored = queues.run_steps(read_calls_in_steps(queues.namespace, ["work"]))
    total = stored["work", "fails"].total
    assert (sum(total.durations.values()), sum(total.waits.values())) == (2, 1)


def test_requested_retries_and_discards_are_no_failures(queues):
    worker = Worker(queues)
    seen = []

    @worker.listener("q")
    def handle(body):
        seen.append(body)
        raise Discard("done") if len(seen) > 1 else Retry(after=0)

    queues.send_message("q", "a")
    worker.run(until_empty=True)
    (found,) = queues.task_figures()
    assert (found.task, found.calls, found.failed, found.retried) == ("", 2, 0, 1)


def test_a_batch_is_one_call_with_the_wait_of_its_first_message(queues):
    worker = Worker(queues)

    @worker.listener("q", batch=10)
    def handle(bodies):
        pass

    queues.send_messages("q", ["a"] * 5)
    worker.run(until_empty=True)
    (found,) = queues.task_figures()
    _, stored = queues.run_steps(read_calls_in_steps(queues.namespace, ["q"]))
    assert found.calls == 1
    assert sum(stored["q", ""].total.waits.values()) == 1


def test_of_many_calls_of_a_task_some_are_measured_for_all_of_them(queues):
    worker = Worker(queues, concurrency=8)

    @worker.listener("q")
    def handle(body):
        pass

    total = MEASURED_CALLS + 10 * CALLS_PER_SAMPLE
    queues.send_messages("q", ["a"] * total)
    worker.run(until_empty=True)
    _, stored = queues.run_steps(read_calls_in_steps(queues.namespace, ["q"]))
    counts = stored["q", ""].total
    assert counts.ended == total
    # The first calls, and each 64th; the run may have crossed a minute.
    for buckets in (counts.durations, counts.waits):
        assert total - 2 * CALLS_PER_SAMPLE <= sum(buckets.values()) <= total + 2 * CALLS_PER_SAMPLE


def test_the_exporter_has_the_figures_as_counters_and_histograms(queues):
    _record(queues, ("mail", _counts(3, (0.3, 0.3, 7), (2,), failed=2)))
    registry = CollectorRegistry()
    metrics = QueueMetrics(queues, registry=registry)
    labels = {"ns": "rsmq", "queue": "q", "task": "mail"}

    def read(name, **more):
        return registry.get_sample_value(f"rsmq_task_{name}", {**labels, **more})

    try:
        wait_until(lambda: read("calls_total") == 3)
        assert (read("failed_total"), read("retried_total")) == (2, 0)
        assert read("duration_seconds_bucket", le="0.25") == 0
        assert read("duration_seconds_bucket", le="0.5") == 2
        assert read("duration_seconds_bucket", le="+Inf") == 3
        assert read("wait_seconds_count") == 1
    finally:
        metrics.close()
