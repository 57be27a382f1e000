"""``rsmq export`` and ``rsmq import`` on the command line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pexpect
import pytest

from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.workers.polling import wait_until

ROOT = Path(__file__).parents[2]


def create_filled_queue(rsmq, queue="q", bodies=("a", "b")):
    rsmq.create_queue(queue)
    return rsmq.send_messages(queue, bodies)


@pytest.mark.parametrize("name", ["queues.jsonl", "queues.jsonl.gz"])
def test_queues_are_exported_to_a_file_and_imported(cli, rsmq, tmp_path, name, source, target):
    create_filled_queue(rsmq)
    create_filled_queue(rsmq, "p", ["c"])
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
    second = cli("import", path, "--ns", target.ns, "--json")
    assert second.json["complete"]
    assert [queue["present"] for queue in second.json["queues"]] == [1, 2]


def test_export_and_import_use_pipes_without_a_file(cli, rsmq, source, target):
    create_filled_queue(rsmq)
    exported = cli("export", "q")
    imported = cli("import", stdin=gzip.compress(exported.raw))

    assert exported.stderr == "q: 2 messages\n"
    assert json.loads(exported.raw.splitlines()[0])["type"] == "export"
    assert imported.lines == ["q: 0 messages added, 2 are there already"]
    assert cli("import", "-", "--ns", target.ns, stdin=exported.raw).code == 0
    assert target.scores("q") == source.scores("q")
    quiet = cli("export", "q", "--json")
    assert (quiet.stderr, quiet.raw.count(b"\n")) == ("", 5)


def test_json_report_of_an_export(cli, rsmq, source, tmp_path):
    create_filled_queue(rsmq)
    source.raw.zadd(f"{source.ns}:q", {"g" * 32: 1})
    source.raw.sadd(f"{source.ns}:QUEUES", "odd name")
    completed = cli("export", "-o", tmp_path / "f", "--json")

    assert completed.code == 1
    assert completed.json["file"] == str(tmp_path / "f")
    assert completed.json["queues"] == [
        {"queue": "q", "messages": 2, "ghosts": 1, "deleted": False, "left_behind": []}
    ]
    assert completed.json["messages"] == 2
    assert list(completed.json["left_out"]) == ["odd name"]
    completed = cli("export", "-o", tmp_path / "f")
    assert completed.lines[0] == "q: 2 messages; left out: 1 id without a body"
    assert completed.lines[1].startswith("odd name: left out. Invalid qname format: 'odd name'. ")
    assert "--any-names" in completed.lines[1]


def test_queues_are_chosen_and_renamed(cli, rsmq, source, target):
    create_filled_queue(rsmq)
    create_filled_queue(rsmq, "p")
    data = cli("export").raw
    where = ("--ns", target.ns)
    dry = cli("import", "--queue", "q=new", "--queue", "x", "--dry-run", *where, stdin=data)
    assert dry.lines == [
        "q as new: 2 messages would be added; the queue would be created",
        "x: the file has no such queue",
    ]
    assert (dry.code, target.dump()) == (1, {})
    real = cli("import", "--queue", "q=new", *where, stdin=data)

    assert (real.code, real.lines) == (0, ["q as new: 2 messages added; the queue was created"])
    assert target.scores("new") == source.scores("q")
    assert target.scores("p") == []


def test_new_ids_sends_messages_again(cli, rsmq, target):
    ids = create_filled_queue(rsmq)
    data = cli("export").raw
    for _ in range(2):
        assert cli("import", "--new-ids", "--ns", target.ns, stdin=data).code == 0

    found = [id.decode() for id, _ in target.scores("q")]
    assert len(found) == 4
    assert not set(found) & set(ids)


def test_differing_attributes_are_reported(cli, rsmq, source):
    create_filled_queue(rsmq)
    data = cli("export").raw
    rsmq.set_queue_attributes("q", vt=5)

    assert cli("import", stdin=data).lines == [
        "q: 0 messages added, 2 are there already",
        "  vt stays 5; the export has 30",
    ]


def test_incomplete_files_are_reported(cli, rsmq, target):
    create_filled_queue(rsmq)
    data = cli("export").raw
    lines = data.splitlines(keepends=True)
    where = ("--ns", target.ns)
    truncated = cli("import", *where, stdin=b"".join(lines[:3]))
    assert (truncated.code, truncated.lines) == (1, [
        "q: 1 message added; the queue was created",
        "The file is not as it was exported: it has no end.",
    ])  # fmt: skip

    broken = cli("import", *where, stdin=b"".join([*lines[:4], b"nonsense\n"]))
    assert broken.code == 1
    assert broken.error.startswith("Line 5 of the export is not JSON. ")
    assert broken.error.endswith(" Messages that were added before: 1.")
    assert len(target.scores("q")) == 2

    not_an_export = cli("import", "--json", *where, stdin=b'{"hello": 1}\n')
    assert not_an_export.code == 2
    assert json.loads(not_an_export.stderr)["error"] == "invalidExport"


def test_import_on_a_full_server_says_what_was_done(cli, rsmq, ns):
    """It can be run again when there is memory."""
    rsmq.create_queue("q", vt=7)
    for _ in range(4):
        rsmq.send_messages("q", ["x"] * 10_000)
    data = cli("export").raw
    own = Server(redis_7())
    with own.raw() as raw:

        def fill():
            wait_until(lambda: raw.zcard(f"{ns}:q") > 0)
            raw.config_set("maxmemory", 1)

        filling = threading.Thread(target=fill)
        filling.start()
        result = cli("import", "--url", own.url, stdin=data)
        filling.join()
        raw.config_set("maxmemory", 0)
        added = raw.zcard(f"{ns}:q")

        assert 0 < added < 40_000
        assert result.code == 5
        assert "Nothing was changed" not in result.error
        assert result.error.endswith(
            f"Messages that were added before: {added}. Run it again: it adds those that are "
            "missing."
        )
        again = cli("import", "--url", own.url, stdin=data)
        assert again.code == 0
        assert raw.zcard(f"{ns}:q") == 40_000
    own.stop()


def test_errors_are_one_line(cli, rsmq, tmp_path):
    create_filled_queue(rsmq)
    path = tmp_path / "f"
    missing = cli("export", "q", "nothing", "-o", path)
    assert (missing.code, path.exists()) == (3, False)
    assert missing.error.startswith("Queue not found: 'nothing' (namespace ")

    no_folder = cli("export", "-o", tmp_path / "no" / "f")
    assert no_folder.code == 1
    assert "No such file or directory" in no_folder.error
    no_file = cli("import", path)
    assert no_file.code == 1
    assert str(path) in no_file.error
    odd = cli("import", "--queue", "q=a b", stdin=cli("export").raw)
    assert odd.code == 2
    assert "--any-names" in odd.error


def test_help_has_examples(cli):
    for name in ("export", "import"):
        completed = cli(name, "--help")
        assert completed.code == 0
        assert f"rsmq {name} " in completed.out.partition("Examples:")[2]


@pytest.fixture
def environment(server, ns):
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("RSMQ_")},
        "RSMQ_URL": server.url, "RSMQ_NS": ns, "RSMQ_CONFIG": "/dev/null",
        "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120",
    }  # fmt: skip


PROGRAM = [sys.executable, "-c", "import sys, rsmq.cli; sys.exit(rsmq.cli.main())"]


def test_export_can_be_piped_into_import(rsmq, environment, source, target):
    create_filled_queue(rsmq, bodies=[f"{n}" * 100 for n in range(3000)])
    export = subprocess.Popen([*PROGRAM, "export"], env=environment, stdout=subprocess.PIPE)
    completed_import = subprocess.run(
        [*PROGRAM, "import", "--ns", target.ns], env=environment, stdin=export.stdout,
        capture_output=True, check=False,
    )  # fmt: skip
    export.stdout.close()

    assert (export.wait(WAIT_SECONDS), completed_import.returncode) == (0, 0)
    assert target.scores("q") == source.scores("q")


def test_export_ends_with_a_code_when_the_reader_closes_the_pipe(rsmq, environment):
    create_filled_queue(rsmq, bodies=["x" * 10_000] * 1000)
    with subprocess.Popen(
        [*PROGRAM, "export"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as export:
        export.stdout.readline()
        export.stdout.close()
        assert export.stderr.read() == b""

    assert export.returncode == 141


def test_progress_is_shown_on_a_terminal(rsmq, environment, tmp_path):
    create_filled_queue(rsmq, bodies=["x"] * 3000)
    path = tmp_path / "f.gz"
    for arguments, unit in (
        (["export", "q", "-o", str(path)], "messages"),
        (["import", str(path)], "bytes"),
    ):
        terminal = pexpect.spawn(
            PROGRAM[0], [*PROGRAM[1:], *arguments], env=environment, timeout=20, encoding="utf-8"
        )
        output = terminal.read()
        terminal.close()
        assert terminal.exitstatus == 0
        size = "3,000" if unit == "messages" else f"{path.stat().st_size:,}"
        assert f"{size} of {size} {unit}" in output


def test_import_on_a_terminal_needs_a_file(environment):
    terminal = pexpect.spawn(PROGRAM[0], [*PROGRAM[1:], "import"], env=environment, timeout=20)
    output = terminal.read()
    terminal.close()

    assert terminal.exitstatus == 2
    assert b"rsmq: Give a file, or pipe one into the standard input" in output
