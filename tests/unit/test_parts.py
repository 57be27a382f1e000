"""scripts/parts: lanes of parts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.parts.__main__ import run_and_print
from scripts.parts.busy import busy_processes, delays
from scripts.parts.lanes import Part, run_parts
from scripts.parts.table import all_parts, parts_of_version, quick_parts, repeated_parts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("option", "programs"),
    [
        ("--quick", "redis-server"),
        ("--python=3.13", "redis-server"),
        ("--spark 4.1", "redis-server java"),
        ("--spark=4.1", "redis-server java"),
        ("--strict", "redis-server java chromium chromedriver"),
    ],
)
def test_a_run_requires_the_programs_of_its_parts(tmp_path, option, programs):
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "test", tmp_path / "scripts")
    requirements = tmp_path / "scripts" / "requirements"
    requirements.write_text('#!/bin/sh\necho "$@"\nexit 1\n')
    requirements.chmod(0o755)
    run = subprocess.run([script, *option.split()], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == programs


def shell(name, text, **options):
    return Part(name, 30, ["sh", "-c", text], **options)


def run(parts, **options):
    """Run parts; return the names in the order of their starts, and each status."""
    started, ended = [], {}
    run_parts(
        parts,
        lambda part: started.append(part.name),
        lambda result: ended.setdefault(result.part.name, result.status),
        **options,
    )
    return started, ended


def test_a_part_that_waits_runs_beside_one_that_computes(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    # Each opens the pipe only while the other one runs.
    started, ended = run(
        [
            shell("a", f"read line <{tmp_path}/fifo"),
            shell("b", "true"),
            shell("w", f"echo line >{tmp_path}/fifo", is_waiting=True),
        ]
    )

    assert set(started[:2]) == {"a", "w"}
    assert ended == {"a": "passed", "b": "passed", "w": "passed"}


def test_two_parts_that_wait_run_beside_one_that_computes(tmp_path):
    for name in ("first", "second"):
        os.mkfifo(tmp_path / name)
    started, ended = run(
        [
            shell("a", f"read line <{tmp_path}/first; echo line >{tmp_path}/second"),
            shell("b", "true"),
            shell("w", f"echo line >{tmp_path}/first", is_waiting=True),
            shell("v", f"read line <{tmp_path}/second", is_waiting=True),
        ],
        waiting_lanes=2,
    )

    assert set(started[:3]) == {"a", "w", "v"}
    assert set(ended.values()) == {"passed"}


def test_only_one_part_runs_beside_a_delicate_one():
    parts = [
        shell(name, "sleep 0.05", is_waiting=name != "a", is_delicate=name == "w")
        for name in ("a", "b", "v", "w", "c", "d")
    ]
    running, most = set(), []

    def start(part):
        running.add(part.name)
        if "w" in running:
            most.append(len(running))

    run_parts(parts, start, lambda result: running.discard(result.part.name), waiting_lanes=2)

    assert most
    assert max(most) == 2


def test_a_lane_without_parts_of_its_kind_runs_the_others(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    _, ended = run(
        [shell("a", f"read line <{tmp_path}/fifo"), shell("b", f"echo line >{tmp_path}/fifo")]
    )

    assert ended == {"a": "passed", "b": "passed"}


def test_a_part_starts_after_those_that_it_needs(tmp_path):
    started, ended = run(
        [
            shell("second", f"cat {tmp_path}/made", needs=["first"]),
            shell("first", f"sleep 0.1; touch {tmp_path}/made"),
        ]
    )

    assert started == ["first", "second"]
    assert ended == {"first": "passed", "second": "passed"}


def test_a_part_that_needs_a_failed_one_is_not_run():
    _, ended = run(
        [
            shell("fails", "exit 3"),
            shell("second", "true", needs=["fails"]),
            shell("third", "true", needs=["second"]),
            shell("other", "true"),
        ]
    )

    assert ended == {"fails": "FAILED", "second": "NOT RUN", "third": "NOT RUN", "other": "passed"}


def test_output_is_printed_whole_and_the_summary_in_the_order_of_the_table(capfdbinary):
    parts = [
        shell("slow", "echo one; sleep 0.3; echo two >&2"),
        shell("w", "echo other; kill -9 $$", is_waiting=True),
    ]

    assert not run_and_print(parts, is_strict=False)
    output = capfdbinary.readouterr().out.decode()
    assert "== slow\none\ntwo\n-- passed: slow\n" in output
    assert "== w\nother\n-- FAILED: w\n" in output
    summary = output.partition("budget")[2]
    assert summary.index("passed") < summary.index("FAILED")


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_slow_part_fails_if_it_is_strict(is_strict, capfdbinary):
    part = Part("slow", 0, ["sleep", "0.1"])

    assert run_and_print([part], is_strict=is_strict) is not is_strict
    output = capfdbinary.readouterr().out
    assert (b"FAILED by its budget" if is_strict else b"passed, but slow") in output


def test_an_interruption_ends_all_parts(tmp_path):
    # The first part ignores SIGINT in its shell, but its child ends, as pytest does.
    program = f"""
import scripts.parts.lanes as lanes
from scripts.parts.lanes import Part, run_parts

lanes.GRACE_SECONDS = 0.2
text = "echo $$ >{tmp_path}/$0; trap '' INT; while true; do sleep 0.05; done"
parts = [Part(name, 30, ["sh", "-c", text, name]) for name in ("a", "b")]
run_parts(parts, lambda part: print(part.name, flush=True), print)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    files = [tmp_path / name for name in ("a", "b")]
    while not all(file.exists() and file.read_text().endswith("\n") for file in files):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()

    assert b"KeyboardInterrupt" in errors
    for file in files:
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


@pytest.mark.parametrize("text", ["sleep 1000", "trap '' INT; while true; do sleep 0.05; done"])
def test_a_part_that_hangs_fails_at_its_limit_and_the_others_run(monkeypatch, text):
    monkeypatch.setattr("scripts.parts.lanes.GRACE_SECONDS", 0.1)

    _, ended = run([shell("hangs", text, limit_seconds=0.3), shell("next", "true")])

    assert ended == {"hangs": "FAILED: it had not ended after 0.3 s", "next": "passed"}


def test_processes_that_a_part_has_left_are_killed(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)

    _, ended = run([shell("leaves", f"exec 3>{tmp_path}/fifo; sleep 1000 &")])

    assert ended == {"leaves": "passed"}
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # the process with the other end has ended
    os.close(reader)


@pytest.mark.parametrize(
    "parts",
    [
        all_parts(Path("x"), is_measured=True),
        quick_parts(),
        parts_of_version("3.13"),
        repeated_parts(3, ["tests/unit"], seed=0),
    ],
    ids=["all", "quick", "version", "repeated"],
)
def test_each_table_has_what_its_parts_need(parts):
    names = [part.name for part in parts]

    assert len(set(names)) == len(names)
    assert {name for part in parts for name in part.needs} <= set(names)


def test_every_folder_of_tests_is_in_a_part():
    words = {word for part in all_parts(Path("x"), is_measured=True) for word in part.command}
    folders = {
        path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")
    }

    for folder in folders - {"tests/spark/session", "tests/workers/processes"}:
        assert folder in words, folder


def test_busy_processes_end_with_the_block_also_after_a_failure():
    with pytest.raises(KeyboardInterrupt), busy_processes() as processes:
        assert [process.poll() for process in processes] == [None, None]
        raise KeyboardInterrupt

    assert [process.returncode for process in processes] == [-signal.SIGKILL] * 2


def test_a_child_process_has_delays_around_its_calls_to_redis():
    program = """
import importlib, sitecustomize
for module, classes in sitecustomize._SLOWED.items():
    for name, methods in classes.items():
        for method in methods:
            function = getattr(getattr(importlib.import_module(module), name), method)
            print(function.__code__.co_filename)
"""
    environment = os.environ | delays(1)
    output = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)

    assert set(output.split()) == {str(ROOT / "tests" / "busy" / "sitecustomize.py")}
