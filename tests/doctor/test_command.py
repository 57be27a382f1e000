"""The command ``rsmq doctor``, in a terminal and with ``--json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pexpect
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from rsmq import RSMQ, cli
from tests.doctor.conftest import NamespaceUnderTest
from tests.servers import Server, redis_7

GHOST = "hod98j94h7HkqVvzKrlMYXegVzlPtuLy"
BODY = "hod98j94h8HkqVvzKrlMYXegVzlPtuLy"


@pytest.fixture(scope="module")
def clean_server():
    """A server without a fault."""
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


@pytest.fixture
def faulty(clean_server, ns, monkeypatch, tmp_path):
    """A queue that is not listed, with a ghost id and an orphan body."""
    monkeypatch.setenv("RSMQ_URL", clean_server.url)
    monkeypatch.setenv("RSMQ_NS", ns)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with clean_server.raw() as raw, RSMQ.from_url(clean_server.url, ns=ns) as rsmq:
        rsmq.create_queue("q")
        raw.srem(f"{ns}:QUEUES", "q")
        raw.zadd(f"{ns}:q", {GHOST: 5})
        raw.hset(f"{ns}:q:Q", BODY, "kept")
        yield NamespaceUnderTest(rsmq, raw)
        raw.flushdb()


@pytest.fixture
def run_doctor(capsys):
    """A function that runs the command: its exit code, standard output and standard error."""

    def call(*arguments):
        code = cli.main(["doctor", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def refuse_scripts(monkeypatch, name, error, *, until_end=False):
    """Let a script fail; ``until_end`` lets all scripts after it fail too."""
    run = RSMQ.run
    has_failed = []

    def fail(self, operation):
        if operation.script.name == name or (has_failed and until_end):
            has_failed.append(True)
            raise error
        return run(self, operation)

    monkeypatch.setattr(RSMQ, "run", fail)


def test_examination_prints_findings_and_changes_nothing(faulty, run_doctor):
    before = faulty.dump()
    code, out, err = run_doctor()

    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert "warning  q: the queue is not listed  [unlisted-queue]" in lines
    assert "warning  q: ids without a body: 1  [ghost]" in lines
    assert f"         such as: {GHOST}" in lines
    assert "         --fix:   Removes them, with their counters." in lines
    assert any(line.startswith("         --also:  orphan-body:restore or ") for line in lines)
    assert lines[-1] == "1 queue, 1 message: 3 warnings"
    assert all(len(line) <= 100 for line in lines)
    assert faulty.dump() == before


def test_exit_code_is_zero_without_faults(faulty, run_doctor):
    faulty.raw.flushdb()
    faulty.rsmq.create_queue("q")

    assert run_doctor() == (0, "1 queue, 0 messages: nothing found\n", "")
    assert run_doctor("--fix", "--yes")[:2] == (
        0, "1 queue, 0 messages: nothing found\nNothing to do.\n",
    )  # fmt: skip


def test_json_has_all_attributes_of_findings(faulty, run_doctor):
    code, out, _ = run_doctor("--json")
    document = json.loads(out)

    assert code == 1
    assert (document["ns"], document["queues"], document["messages"]) == (faulty.ns, 1, 1)
    assert [each["code"] for each in document["findings"]] == [
        "unlisted-queue",
        "ghost",
        "orphan-body",
    ]
    ghost = document["findings"][1]
    assert (ghost["queue"], ghost["number"], ghost["examples"]) == ("q", 1, [GHOST])
    assert (ghost["severity"], ghost["safe"], ghost["ways"]) == ("warning", True, [])
    assert (document["repairs"], document["left"]) == ([], None)


def test_fix_makes_only_safe_repairs(faulty, run_doctor):
    code, out, _ = run_doctor("--fix", "--yes")

    assert code == 1
    assert out.splitlines()[-4:] == [
        "repaired q: done  [unlisted-queue]",
        "repaired q: 1 of 1  [ghost]",
        "left     q: [orphan-body]",
        "After repairs, 1 queue, 0 messages: 1 warning",
    ]
    assert faulty.read_listed() == {"q"}
    assert faulty.read_scores() == {}
    assert faulty.read_fields()[BODY] == "kept"


def test_fix_and_also_together_repair_everything(faulty, run_doctor):
    faulty.raw.hset(faulty.hash(), f"{BODY}:rc", "x")
    code, out, _ = run_doctor("--fix", "--also", "orphan-body:restore", "--yes", "--json")
    document = json.loads(out)

    assert (code, document["left"]) == (0, [])
    # Only the second examination can find the bad counter of the restored body.
    assert [(each["code"], each["number"]) for each in document["repairs"]] == [
        ("unlisted-queue", 1), ("ghost", 1), ("orphan-body", 1), ("bad-counter", 1),
    ]  # fmt: skip
    assert faulty.read_scores().keys() == {BODY}
    assert faulty.read_fields()[f"{BODY}:rc"] == "1"


def test_also_without_fix_makes_only_that_repair(faulty, run_doctor):
    code, _, _ = run_doctor("q", "--also", "orphan-body:remove", "--yes")

    assert code == 1
    assert BODY not in faulty.read_fields()
    assert faulty.read_listed() == set()
    assert faulty.read_scores().keys() == {GHOST}


def test_milliseconds_are_divided_once(faulty, run_doctor):
    faulty.rsmq.create_queue("m")
    fields = {"vt": 30_000_000, "delay": 5_000_000, "totalsent": 0, "totalrecv": 0}
    faulty.raw.hset(faulty.hash("m"), mapping=fields)
    code, out, _ = run_doctor("m", "--fix", "--also", "milliseconds", "--yes")

    assert (faulty.read_fields("m")["vt"], faulty.read_fields("m")["delay"]) == ("30000", "5000")
    assert [line for line in out.splitlines() if line.startswith("repaired")] == [
        "repaired m: 2 of 2  [milliseconds]",
        "repaired m: 0 of 1  [bad-attribute]",
    ]
    assert code == 0
    # In another call too, although they still look like milliseconds.
    code, out, _ = run_doctor("m", "--also", "milliseconds", "--yes")
    assert (code, out.splitlines()[-1]) == (0, "Nothing to do.")
    assert faulty.read_fields("m")["vt"] == "30000"


def test_refused_repair_does_not_stop_the_others(faulty, run_doctor):
    """The list of queues is a key of another type: no queue can be listed."""
    faulty.raw.delete(faulty.index)
    faulty.raw.set(faulty.index, "another program")
    code, out, err = run_doctor("--fix", "--also", "orphan-body:remove", "--yes")
    lines = out.splitlines()

    assert (code, err) == (1, "")
    (failed,) = [line for line in lines if line.startswith("failed")]
    assert failed.startswith("failed   q: Redis: WRONGTYPE ")
    assert failed.endswith("  [unlisted-queue]")
    assert "repaired q: 1 of 1  [ghost]" in lines
    assert "repaired q: 1 of 1  [orphan-body]" in lines
    assert lines[-1].endswith("; repairs that failed: 1")
    assert faulty.read_scores() == {}
    assert BODY not in faulty.read_fields()


def test_refused_repair_of_a_note_has_an_exit_code(faulty, run_doctor, monkeypatch):
    """Without faults that remain, the exit code says that a repair failed."""
    faulty.raw.flushdb()
    faulty.rsmq.create_queue("q")
    faulty.raw.hset(faulty.hash(), mapping={BODY: "kept", f"{BODY}:rc": 1})
    faulty.raw.zadd(faulty.zset(), {BODY: 1795264742384})
    refuse_scripts(monkeypatch, "repair_fields", ResponseError("NOPERM no right"))
    code, out, _ = run_doctor("--fix", "--yes", "--json")
    document = json.loads(out)

    assert code == 1
    assert [each["code"] for each in document["left"]] == ["count-without-time"]
    (done,) = document["repairs"]
    assert (done["code"], done["number"]) == ("count-without-time", 0)
    assert done["error"].startswith("Redis: NOPERM")


def test_lost_connection_ends_the_run_after_a_report(faulty, run_doctor, monkeypatch):
    refuse_scripts(monkeypatch, "remove_ghost_ids", RedisConnectionError("gone"), until_end=True)
    arguments = ("--fix", "--also", "orphan-body:remove", "--yes")
    code, out, err = run_doctor(*arguments)
    lines = [
        line.replace("orphan-body", "o...")
        for line in out.splitlines()
        if line.startswith(("repaired", "failed"))
    ]

    assert code == 4
    assert lines == [
        "repaired q: done  [unlisted-queue]",
        "failed   q: Redis: gone. Another URL is passed by --url, RSMQ_URL or a profile.  [ghost]",
        "failed   q: Redis: gone. Another URL is passed by --url, RSMQ_URL or a profile.  [o...]",
    ]
    assert err.startswith("rsmq: Redis: gone.")
    assert BODY in faulty.read_fields()


def test_lost_connection_ends_the_run_with_a_document(faulty, run_doctor, monkeypatch):
    refuse_scripts(monkeypatch, "remove_ghost_ids", RedisConnectionError("gone"), until_end=True)
    code, out, err = run_doctor("--fix", "--yes", "--json")
    document = json.loads(out)

    assert code == 4
    assert [(each["code"], each["number"]) for each in document["repairs"]] == [
        ("unlisted-queue", 1), ("ghost", 0),
    ]  # fmt: skip
    assert document["left"] is None
    assert json.loads(err)["error"] == "unreachable"


def test_repairs_of_a_queue_as_a_whole_print_no_numbers(faulty, run_doctor):
    faulty.rsmq.create_queue("half")
    faulty.raw.hdel(faulty.hash("half"), "vt", "delay")
    faulty.raw.expire(faulty.hash("half"), 5000)
    _, out, _ = run_doctor("half", "--fix", "--yes")

    assert faulty.raw.ttl(faulty.hash("half")) == -1
    assert out.splitlines()[-3:] == [
        "repaired half: done  [expiring]",
        "repaired half: done  [half-queue]",
        "After repairs, 1 queue, 0 messages: nothing found",
    ]


def test_remaining_faults_name_five_queues_at_most(faulty, run_doctor):
    for name in "abcdefg":
        faulty.rsmq.create_queue(name)
        faulty.raw.hset(faulty.hash(name), BODY, "kept")
    _, out, _ = run_doctor("--fix", "--yes")

    assert "left     a, b, c, d, e and 3 more: [orphan-body]" in out.splitlines()


def test_by_hand_is_printed_once(faulty, run_doctor):
    faulty.raw.config_set("appendfsync", "everysec")
    try:
        _, out, _ = run_doctor()
    finally:
        faulty.raw.config_set("appendfsync", "always")

    assert "by hand: where nothing may be lost" in " ".join(out.split())
    assert "By hand" not in out


def test_queue_removed_by_its_repair_has_no_faults(faulty, run_doctor):
    faulty.raw.zadd(faulty.zset("left"), {GHOST: 5})
    code, out, _ = run_doctor("left", "--also", "ids-without-queue", "--yes")

    assert code == 0
    assert out.splitlines()[-1] == "After repairs, 0 queues, 0 messages: nothing found"
    assert not faulty.raw.exists(faulty.zset("left"))


def test_repair_without_a_terminal_needs_yes_option(faulty, run_doctor):
    before = faulty.dump()
    code, _, err = run_doctor("--fix")

    assert code == 2
    assert "Add --yes. Nothing was changed." in err
    assert faulty.dump() == before


def test_invalid_arguments_are_refused(faulty, run_doctor):
    assert run_doctor("--also", "everything")[0] == 2
    assert run_doctor("a b:Q", "--fix", "--yes")[0] == 2
    assert run_doctor("q", "nosuch")[0] == 3


def test_repair_in_a_terminal_asks_for_confirmation(faulty, clean_server, tmp_path):
    root = Path(__file__).parents[2]
    program = "import sys; from rsmq.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = {
        "PATH": "/usr/bin:/bin", "PYTHONPATH": str(root), "HOME": str(tmp_path), "LANG": "C.UTF-8",
        "RSMQ_URL": clean_server.url, "RSMQ_NS": faulty.ns, "TERM": "xterm",
    }  # fmt: skip
    for answer, code in (("n", 1), ("y", 1)):
        before = faulty.dump()
        process = pexpect.spawn(
            sys.executable, ["-c", program, "doctor", "--fix"], env=environment,
            encoding="utf-8", timeout=20, dimensions=(40, 120),
        )  # fmt: skip
        process.expect_exact("Repair unlisted-queue, ghost? [y/N]: ")
        process.sendline(answer)
        process.expect(pexpect.EOF)
        process.close()

        assert process.exitstatus == code
        assert (faulty.dump() == before) is (answer == "n")
    assert faulty.read_listed() == {"q"}
