"""The figures of scripts/bench-spark are computed as its page says, from sources that agree."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from scripts.benchmark.spark import processor_time
from scripts.benchmark.spark.cases import DURATIONS, Case, Run
from scripts.benchmark.spark.floors import MemorySource
from scripts.benchmark.spark.latency import Latency
from scripts.benchmark.spark.processor_time import ProcessorTime
from scripts.benchmark.spark.report import find_best_rate, report


def make_case(name, us, processor, longest=None, durations=None, **more):
    """Return a case with two runs of a million messages; times in microseconds per message."""
    run = Run(1_000_000, us, ProcessorTime(*processor), longest, durations or {})
    case = Case(name, 0, lambda: 0, **more)
    case.runs += [run, run]
    return case


def read_row(text, name):
    """Return the cells of the first row with a name, after the name."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def make_report(*cases):
    latency = Latency("rsmq", "0", [float(number) for number in range(101)])
    return report(list(cases), [latency], 2.25, 1_000_000, 3)


@pytest.mark.parametrize(
    ("redis", "floor_us", "floor_processor", "best_us"),
    [
        (3.0, 1.0, (0.5, 0.5, 0), 3.0),  # Redis's one thread is the limit
        (1.0, 4.0, (1.0, 1.0, 0), 4.0),  # Spark waits for itself
        (2.0, 2.0, (3.0, 1.0, 0), 3.0),  # two processors for all
    ],
)
def test_best_rate_is_the_slowest_of_redis_spark_and_the_processors(
    redis, floor_us, floor_processor, best_us
):
    case = make_case("x", 9.0, (5.0, 5.0, redis))
    floor = make_case("floor", floor_us, floor_processor)

    assert find_best_rate(case, floor) == pytest.approx(1e6 / best_us)


def test_ratios_are_those_to_the_last_plain_loop():
    text = make_report(
        make_case("first", 4.0, (0, 2, 2), is_plain=True),
        make_case("second", 5.0, (1, 2, 2), floor="floor", target=0.9),
        make_case("floor", 2.0, (1, 1, 0)),
        make_case("third", 10.0, (0, 2, 2), is_plain=True),
        make_case("fourth", 5.0, (1, 2, 3), target=1.5, target_rate=300_000.0),
    )

    assert read_row(text, "second")[:4] == ["200,000", "0.80x", "2.00x", "0.9x, **not met**"]
    assert read_row(text, "fourth")[:4] == ["200,000", "2.00x", "", "300,000/s, **not met**"]


def test_parts_of_a_run_are_reported():
    text = make_report(
        make_case(
            "read",
            4.0,
            (1.5, 2.25, 3.0),
            longest=(23.4, "ZSCAN"),
            durations=dict.fromkeys(DURATIONS, 7),
            is_plain=True,
            has_default_options=True,
        ),
        make_case("other", 4.0, (0, 2, 2), longest=(99.0, "ZRANGE")),
    )
    rows = [line for line in text.splitlines() if line.startswith("| read |")]

    assert rows[1] == "| read | 1.50 | 2.25 | 3.00 | 6.75 | 23.4 ms, ZSCAN |"
    assert rows[2] == "| read |" + " 7 |" * len(DURATIONS)
    assert read_row(text, "rsmq") == ["0", "50", "90", "99"]
    assert "| 23.4 ms, ZSCAN | at most 20 ms, **not met** |" in text
    assert "| 2.2 | at most 4, met |" in text


def test_memory_source_yields_as_many_rows_as_rsmq_would():
    source = MemorySource({"messages": "10007"})
    schema = source.schema()
    reader = source.reader(schema)
    batches = [batch for each in reader.partitions() for batch in reader.read(each)]

    assert sum(batch.num_rows for batch in batches) == 10_007
    assert max(batch.num_rows for batch in batches) == 2000
    assert pa.Table.from_batches(batches).column_names == schema.fieldNames()
    assert batches[0].column("message")[0].as_py() == "x" * 200
    assert source.writer(schema, overwrite=False).write(iter(batches)).rows == 10_007


def test_memory_stream_ends_at_its_number_of_messages():
    source = MemorySource({"messages": "2500", "maxMessagesPerTrigger": "1000"})
    reader = source.streamReader(source.schema())
    offset, sizes = reader.initialOffset(), []
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        parts = reader.partitions(offset, end)
        sizes.append(sum(batch.num_rows for each in parts for batch in reader.read(each)))
        offset = end

    assert sizes == [1000, 1000, 500]


def test_memory_stream_with_a_rate_yields_the_times_when_its_messages_are_due():
    source = MemorySource({"messages": "3", "rate": "1000"})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, ReadMaxRows(10)))["end"] < 3:
        time.sleep(0.001)
    (partition,) = reader.partitions(start, end)
    (batch,) = reader.read(partition)

    assert batch.column("message").to_pylist() == [
        str(start["begin_us"] + number * 1000) for number in (1, 2, 3)
    ]


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")  # noqa: PTH110
def test_processor_time_of_the_jvm_and_of_its_children(monkeypatch):
    """A process with the name of Java's, and children: one that runs, and one that has ended."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\n"
    program = (
        "import subprocess, sys, time\n"
        "open('/proc/self/comm', 'w').write('java')\n"
        f"burn = {burn!r}\n"
        "subprocess.run([sys.executable, '-c', burn])\n"
        "lasting = burn + 'print(1, flush=True); input()'\n"
        "child = subprocess.Popen([sys.executable, '-c', lasting], stdin=-1, stdout=-1)\n"
        "child.stdout.readline()\n"
        "exec(burn)\n"
        "print(2, flush=True)\n"
        "sys.stdin.read()\n"
        "child.communicate()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        client = Mock(info=lambda _: {"used_cpu_user": 1.0, "used_cpu_sys": 2.0})
        monkeypatch.setattr(processor_time.time, "process_time", lambda: 10.0)
        clock = processor_time.ProcessorClock(client)
        measured = clock.read()
        process.stdin.close()
    later = clock.read()
    assert clock.read().python == later.python

    assert measured.redis == 3.0
    assert measured.jvm >= 0.28  # in ticks of 10 ms
    assert measured.python >= 10.0 + 2 * 0.28
    assert later.python == measured.python  # the clock has seen the child
