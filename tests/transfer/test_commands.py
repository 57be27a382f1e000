"""``rsmq export`` and ``rsmq import``, as people call them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parents[2]


def filled(rsmq, queue="q", bodies=("a", "b")):
    rsmq.create_queue(queue)
    return rsmq.send_messages(queue, bodies)


@pytest.mark.parametrize("name", ["queues.jsonl", "queues.jsonl.gz"])
def test_queues_go_to_a_file_and_back(cli, rsmq, tmp_path, name, source, target):
    filled(rsmq)
    filled(rsmq, "p", ["c"])
    path = tmp_path / name
    exported = cli("export", "-o", path)
    imported = cli("import", path, "--ns", target.ns)

    assert (exported.code, exported.lines, exported.stderr) == (
        0, ["p: 1 message", "q: 2 messages"], ""
    )  # fmt: skip
    assert (imported.code, imported.stderr) == (0, "")
    assert imported.lines == [
        "p: 1 message added; the queue was created",
        "q: 2 messages added; the queue was created",
    ]
    assert path.read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert target.scores("q") == source.scores("q")
    again = cli("import", path, "--ns", target.ns, "--json")
    assert again.json["complete"]
    assert [queue["present"] for queue in again.json["queues"]] == [1, 2]


def test_without_a_file_they_go_through_a_pipe(cli, rsmq, source, target):
    filled(rsmq)
    exported = cli("export", "q")
    imported = cli("import", stdin=gzip.compress(exported.raw))

    assert exported.stderr == "q: 2 messages\n"
    assert json.loads(exported.raw.splitlines()[0])["type"] == "export"
    assert imported.lines == ["q: 0 messages added, 2 are there already"]
    assert cli("import", "-", "--ns", target.ns, stdin=exported.raw).code == 0
    assert target.scores("q") == source.scores("q")
    quiet = cli("export", "q", "--json")
    assert (quiet.stderr, quiet.raw.count(b"\n")) == ("", 5)


def test_a_report_for_programs(cli, rsmq, source, tmp_path):
    filled(rsmq)
    source.raw.zadd(f"{source.ns}:q", {"g" * 32: 1})
    source.raw.sadd(f"{source.ns}:QUEUES", "odd name")
    ended = cli("export", "-o", tmp_path / "f", "--json")

    assert ended.code == 1
    assert ended.json["file"] == str(tmp_path / "f")
    assert ended.json["queues"] == [{"queue": "q", "messages": 2, "ghosts": 1, "deleted": False}]
    assert ended.json["messages"] == 2
    assert list(ended.json["left_out"]) == ["odd name"]
    ended = cli("export", "-o", tmp_path / "f")
    assert ended.lines[0] == "q: 2 messages; 1 ids without a body are left out"
    assert ended.lines[1].startswith("odd name: left out. Invalid qname format. ")
    assert "--any-names" in ended.lines[1]


def test_queues_are_chosen_and_renamed(cli, rsmq, source, target):
    filled(rsmq)
    filled(rsmq, "p")
    data = cli("export").raw
    where = ("--ns", target.ns)
    dry = cli("import", "--queue", "q=new", "--queue", "x", "--dry-run", *where, stdin=data)
    assert dry.lines == [
        "q as new: 2 messages would be added; the queue would be created",
        "x: the file has no such queue",
    ]
    assert (dry.code, target.all()) == (1, {})
    done = cli("import", "--queue", "q=new", *where, stdin=data)

    assert (done.code, done.lines) == (0, ["q as new: 2 messages added; the queue was created"])
    assert target.scores("new") == source.scores("q")
    assert target.scores("p") == []


def test_messages_may_be_sent_anew(cli, rsmq, target):
    ids = filled(rsmq)
    data = cli("export").raw
    for _ in range(2):
        assert cli("import", "--new-ids", "--ns", target.ns, stdin=data).code == 0

    found = [id.decode() for id, _ in target.scores("q")]
    assert len(found) == 4
    assert not set(found) & set(ids)


def test_what_differs_is_told(cli, rsmq, source):
    filled(rsmq)
    data = cli("export").raw
    rsmq.set_queue_attributes("q", vt=5)

    assert cli("import", stdin=data).lines == [
        "q: 0 messages added, 2 are there already",
        "  vt stays 5; the export has 30",
    ]


def test_files_that_are_not_whole(cli, rsmq, target):
    filled(rsmq)
    data = cli("export").raw
    lines = data.splitlines(keepends=True)
    where = ("--ns", target.ns)
    cut = cli("import", *where, stdin=b"".join(lines[:3]))
    assert (cut.code, cut.lines) == (1, [
        "q: 1 message added; the queue was created",
        "The file is not as it was exported: it has no end.",
    ])  # fmt: skip

    broken = cli("import", *where, stdin=b"".join([*lines[:4], b"nonsense\n"]))
    assert broken.code == 1
    assert broken.error.startswith("Line 5 of the export is no JSON. ")
    assert broken.error.endswith(" Messages that were added before: 1.")
    assert len(target.scores("q")) == 2

    none = cli("import", "--json", *where, stdin=b'{"hello": 1}\n')
    assert none.code == 2
    assert json.loads(none.stderr)["error"] == "invalidExport"


def test_errors_are_one_line(cli, rsmq, tmp_path):
    filled(rsmq)
    path = tmp_path / "f"
    missing = cli("export", "q", "nothing", "-o", path)
    assert (missing.code, path.exists()) == (3, False)
    assert missing.error.startswith("Queue not found. There is no queue 'nothing'")

    nowhere = cli("export", "-o", tmp_path / "no" / "f")
    assert nowhere.code == 2
    assert "No such file or directory" in nowhere.error
    absent = cli("import", path)
    assert absent.code == 2
    assert str(path) in absent.error
    odd = cli("import", "--queue", "q=a b", stdin=cli("export").raw)
    assert odd.code == 2
    assert "--any-names" in odd.error


def test_help_has_examples(cli):
    for name in ("export", "import"):
        ended = cli(name, "--help")
        assert ended.code == 0
        assert f"rsmq {name} " in ended.out.partition("Examples:")[2]


@pytest.fixture
def environment(server, ns):
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("RSMQ_")},
        "RSMQ_URL": server.url, "RSMQ_NS": ns, "RSMQ_CONFIG": "/dev/null",
        "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120",
    }  # fmt: skip


PROGRAM = [sys.executable, "-c", "import sys, rsmq.cli; sys.exit(rsmq.cli.main())"]


def test_one_program_writes_into_the_other(rsmq, environment, source, target):
    filled(rsmq, bodies=[f"{n}" * 100 for n in range(3000)])
    export = subprocess.Popen([*PROGRAM, "export"], env=environment, stdout=subprocess.PIPE)
    there = subprocess.run(
        [*PROGRAM, "import", "--ns", target.ns], env=environment, stdin=export.stdout,
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    export.stdout.close()

    assert (export.wait(10), there.returncode) == (0, 0)
    assert target.scores("q") == source.scores("q")


def test_a_reader_that_leaves_ends_it_quietly(rsmq, environment):
    filled(rsmq, bodies=["x" * 10_000] * 1000)
    with subprocess.Popen(
        [*PROGRAM, "export"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as export:
        export.stdout.readline()
        export.stdout.close()
        assert export.stderr.read() == b""

    assert export.returncode == 0


def test_a_person_sees_how_far_it_is(rsmq, environment, tmp_path):
    filled(rsmq, bodies=["x"] * 3000)
    path = tmp_path / "f.gz"
    for arguments, unit in (
        (["export", "q", "-o", str(path)], "messages"),
        (["import", str(path)], "bytes"),
    ):
        seen = pexpect.spawn(
            PROGRAM[0], [*PROGRAM[1:], *arguments], env=environment, timeout=20, encoding="utf-8"
        )
        said = seen.read()
        seen.close()
        assert seen.exitstatus == 0
        size = "3,000" if unit == "messages" else f"{path.stat().st_size:,}"
        assert f"{size} of {size} {unit}" in said


def test_an_import_needs_a_file_at_a_terminal(environment):
    seen = pexpect.spawn(PROGRAM[0], [*PROGRAM[1:], "import"], env=environment, timeout=20)
    said = seen.read()
    seen.close()

    assert seen.exitstatus == 2
    assert b"rsmq: Give a file, or pipe one into the standard input" in said
