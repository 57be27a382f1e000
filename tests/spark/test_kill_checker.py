"""The checker of runs with kills finds each fault that it counts."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.spark.session.kill_checker import (
    Arrival,
    Verdict,
    compare,
    find_leftovers,
    read_files,
    read_ledger,
    read_queue,
)


def arrivals(*numbers):
    """Return arrivals of a query "q": even numbers are in one group, and odd ones in another."""
    return [Arrival(f"q {n} g{n % 2} x", f"g{n % 2}") for n in numbers]


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        ([0, 1, 2, 3], {}),
        ([1, 3, 0, 2], {}),
        ([0, 1, 3], {"lost": 1}),
        ([0, 1, 2, 3, 3], {"doubled": 1}),
        ([0, 1, 2, 3, 4], {"unknown": 1}),
        ([2, 1, 0, 3], {"disordered": 1}),
        ([], {"lost": 4}),
    ],
)
def test_each_fault_is_counted(found, faults):
    verdict = compare("q", 4, arrivals(*found))
    none = dict.fromkeys(("lost", "doubled", "unknown", "disordered", "regrouped"), 0)
    assert verdict == Verdict(4, **none | faults)
    assert verdict.is_clean is not bool(faults)


def test_a_message_of_another_query_or_group_is_counted():
    found = [Arrival("other 0 g0", "g0"), Arrival("q 0 g0", "g1"), Arrival("q 1 g1", None)]
    verdict = compare("q", 2, found)
    assert (verdict.unknown, verdict.regrouped, verdict.lost) == (1, 2, 0)
    assert not verdict.is_clean


def test_a_ledger_without_a_call_is_refused(tmp_path):
    path = tmp_path / "sent.jsonl"
    calls = [{"query": "q", "first": n, "messages": 2} for n in (0, 2)]
    path.write_text("".join(f"{json.dumps(call)}\n" for call in calls))
    assert read_ledger(path) == {"q": 4}
    path.write_text(f"{json.dumps(calls[1])}\n")
    with pytest.raises(ValueError, match="a call is missing"):
        read_ledger(path)


def test_a_queue_is_read_in_the_order_of_its_groups(rsmq, raw, ns):
    rsmq.create_queue("target")
    rsmq.create_queue("q")
    bodies = [f"q {n} g{n % 3}" for n in range(30)]
    rsmq.send_messages("target", bodies, groups=[body.split()[2] for body in bodies])
    rsmq.send_message("target", "q 30 g0")

    found = read_queue(raw, ns, "target")

    assert compare("q", 31, found) == Verdict(31, 0, 0, 0, 0, regrouped=1)
    for part in ("calls", "dedup"):
        raw.set(f"{ns}:q:x:{part}", "kept")
    assert find_leftovers(raw, ns, ["q"], "target") == []
    raw.hset(f"{ns}:q:Q", "x:lease", "left")
    for part in ("calls", "staged"):
        raw.set(f"{ns}:target:x:{part}", "left")
    left = ["q: x:lease", "target:x:calls", "target:x:staged"]
    assert find_leftovers(raw, ns, ["q"], "target") == left


def test_files_are_read_in_the_order_of_batches_without_those_of_no_batch(tmp_path):
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for number in range(5):
        rows = {"message": [f"q {number} g0"], "group": ["g0"]}
        pa.parquet.write_table(pa.table(rows), tmp_path / f"part-{9 - number}.parquet")

    def lines(*numbers):
        paths = [f"file://{tmp_path}/part-{9 - n}.parquet" for n in numbers]
        return "".join(["v1", *(f'\n{{"path": "{path}", "action": "add"}}' for path in paths)])

    (log / "1.compact").write_text(lines(0, 1))
    (log / "0").write_text(lines(0))
    (log / "2").write_text(lines(2))
    (log / "10").write_text(lines(3))

    found = read_files(tmp_path)

    assert [each.body for each in found] == [f"q {n} g0" for n in range(4)]
    assert compare("q", 4, found).is_clean
