"""The report of scripts/bench says which published machine a run resembles, and its figures."""

from __future__ import annotations

import pytest

from scripts.benchmark import machine
from scripts.benchmark.limit import read_seconds
from scripts.benchmark.report import describe_resemblance, published_figures, table_of_targets
from scripts.benchmark.targets import TARGETS


@pytest.mark.parametrize(
    ("kib", "name"), [(1024, "EPYC"), (1280, "Xeon"), (1250, "Xeon"), (2048, None), (512, None)]
)
def test_a_machine_is_recognized_by_its_second_level_cache(kib, name):
    assert machine.find_published(kib) == name
    text = describe_resemblance({"second_level_cache_kib": kib, "cpu": "AMD EPYC"})
    assert (f"that of the {name}: compare" in text) is (name is not None)
    assert f"({kib} KiB" in text


def test_a_system_that_does_not_say_its_caches_resembles_none(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "CACHES", tmp_path / "cache")
    assert machine.second_level_cache_kib() is None
    assert describe_resemblance({"second_level_cache_kib": None}).endswith(
        "is that of no published run."
    )


def test_the_cache_of_the_second_level_is_read(monkeypatch, tmp_path):
    for index, (level, size) in enumerate(
        [("1", "48K"), ("1", "32K"), ("2", "1280K"), ("3", "9K")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    monkeypatch.setattr(machine, "CACHES", tmp_path)
    assert machine.second_level_cache_kib() == 1280


@pytest.mark.parametrize("name", machine.PUBLISHED)
def test_each_figure_of_a_published_machine_is_of_a_target(name):
    figures = published_figures(name)

    assert len(figures) > 40
    assert figures.keys() <= {target.case for target in TARGETS}
    assert all(float(figure.removesuffix("x")) > 0 for figure in figures.values())


def test_the_targets_of_a_run_are_beside_the_published_figures():
    case = "send_message, against Node"
    line = {"case": case, "target": "≥ 1.5x", "reached": 1.2, "unit": "x", "met": False}
    new = {"case": "new", "target": "≥ 1x", "reached": None, "unit": "x", "met": None}
    headings, _, first, second = table_of_targets({"targets": [line, new]}).splitlines()
    epyc, xeon = published_figures("EPYC")[case], published_figures("Xeon")[case]

    assert headings == "| case | target | reached | met | EPYC | Xeon |"
    assert epyc != xeon
    assert first == f"| {case} | ≥ 1.5x | 1.20x | **no** | {epyc} | {xeon} |"
    assert second == "| new | ≥ 1x |  | not measured |  |  |"


@pytest.mark.parametrize(("rate", "seconds"), [("inf", 0.001), ("128000.00", 0.001), ("64", 1)])
def test_a_run_of_redis_benchmark_takes_a_millisecond_or_more(rate, seconds):
    assert read_seconds(f'"test","rps"\n"EVALSHA","{rate}"\n', 64) == seconds
