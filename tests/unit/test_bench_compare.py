"""scripts/bench --compare tells changes of the code from those of the machine and from noise."""

from __future__ import annotations

import json

import pytest

from scripts.benchmark.cases import NODE, NODE_100, OURS, PYRSMQ
from scripts.benchmark.compare import NotComparable, compare, read_results
from scripts.benchmark.pushes import PLAIN, WEBHOOK

PEERS = {NODE: 20_000, NODE_100: 45_000, PYRSMQ: 5_000}


def make_rates(median, width=0.02, readings=25):
    """Return the figures of a case whose middle half has a width, relative to the median."""
    half = median * width / 2
    middle_half = [median - half, median + half]
    return {"median": median, "middle_half": middle_half, "readings": [median] * readings}


def make_run(rates, *, factor=1.0, versions=None, **more):
    """Return the results of a run with cases of sends, on a machine with a speed."""
    throughput = [
        {
            "action": "send",
            "contender": label,
            "body_bytes": 100,
            "messages_per_second": make_rates(rate * factor),
        }
        for label, rate in rates.items()
    ]
    machine = {"cpu": "CPU", "system": "Linux"}
    run = {"command": "scripts/bench", "date": "2026-01-01", "quick": False, "machine": machine}
    return run | {"versions": versions or {"Redis": "7"}, "throughput": throughput, **more}


def read_rows(text):
    """Return the cells of each case that changed, by its name."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[1:] for row in rows[2:]}


def test_a_slower_machine_is_no_change():
    text = compare(make_run({**PEERS, OURS: 30_000}), make_run({**PEERS, OURS: 30_000}, factor=0.7))

    assert read_rows(text) == {}
    assert "0.70 to 0.70 times as fast" in text
    assert "1 cases were compared, and 1 have not changed." in text


@pytest.mark.parametrize(
    ("ours", "change", "verdict"), [(36_000, "1.20x", "better"), (24_000, "0.80x", "**worse**")]
)
def test_a_change_is_corrected_for_the_machine(ours, change, verdict):
    text = compare(make_run({**PEERS, OURS: 30_000}), make_run({**PEERS, OURS: ours}, factor=0.7))
    row = read_rows(text)[f"send, 100 B: {OURS}"]

    assert row == ["30,000", f"{ours * 0.7:,.0f}", change, "± 1 %", verdict]


def test_a_change_that_peers_show_too_is_noise():
    uneven = {NODE: 20_000, NODE_100: 54_000, PYRSMQ: 4_200}
    text = compare(make_run({**PEERS, OURS: 30_000}), make_run({**uneven, OURS: 34_000}))

    assert read_rows(text) == {}
    assert "The ratio of a single peer differs from that by ± 20 %." in text


def test_each_kind_of_work_has_its_own_correction():
    old = {"rates": {PLAIN: make_rates(1000), WEBHOOK: make_rates(700)}}
    new = {"rates": {PLAIN: make_rates(2000), WEBHOOK: make_rates(700)}}
    rates = {**PEERS, OURS: 30_000}
    text = compare(make_run(rates, pushes=old), make_run(rates, pushes=new))

    assert {name: row[2] for name, row in read_rows(text).items()} == {
        f"pushes: {WEBHOOK}": "0.50x"
    }


def test_wide_readings_are_noise():
    before, now = make_run({**PEERS, OURS: 30_000}), make_run({**PEERS, OURS: 33_000})
    now["throughput"][-1]["messages_per_second"] = make_rates(33_000, width=0.6)

    assert read_rows(compare(before, now)) == {}


def test_other_versions_and_missing_cases_are_named():
    before = make_run({**PEERS, OURS: 30_000}, versions={"Redis": "7", "Node": "20", "rsmq": "1"})
    now = make_run(PEERS, versions={"Redis": "8", "Node": "20", "rsmq": "2"})
    text = compare(before, now)

    assert "Other versions: Redis 7, now 8.\n" in text
    assert f"Not in both runs, or without a peer: send, 100 B: {OURS}." in text


@pytest.mark.parametrize("contents", ["", "[]", "{}", '{"quick": false, "throughput": [1]}'])
def test_a_file_of_other_contents_is_refused(tmp_path, contents):
    path = tmp_path / "bench.json"
    path.write_text(contents)

    with pytest.raises(NotComparable, match=r"Pass a bench\.json of scripts/bench"):
        read_results(path)


def test_a_quick_run_is_refused(tmp_path):
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({**make_run(PEERS), "quick": True}))

    with pytest.raises(NotComparable, match="too short"):
        read_results(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(NotComparable, match=r"none\.json has no results"):
        read_results(tmp_path / "none.json")
