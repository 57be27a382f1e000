"""``rsmq doctor``, as people and programs call it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pexpect
import pytest

from rsmq import cli
from tests.doctor.conftest import Patient
from tests.servers import Server, redis_7

GHOST = "hod98j94h7HkqVvzKrlMYXegVzlPtuLy"
BODY = "hod98j94h8HkqVvzKrlMYXegVzlPtuLy"


@pytest.fixture(scope="module")
def saving():
    """A server of which nothing is to be said."""
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


@pytest.fixture
def sick(saving, ns, monkeypatch, tmp_path):
    """A queue that is not listed, with a ghost and an orphan."""
    from rsmq import RSMQ

    monkeypatch.setenv("RSMQ_URL", saving.url)
    monkeypatch.setenv("RSMQ_NS", ns)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with saving.raw() as raw, RSMQ.from_url(saving.url, ns=ns) as rsmq:
        rsmq.create_queue("q")
        raw.srem(f"{ns}:QUEUES", "q")
        raw.zadd(f"{ns}:q", {GHOST: 5})
        raw.hset(f"{ns}:q:Q", BODY, "kept")
        yield Patient(rsmq, raw)
        raw.flushdb()


@pytest.fixture
def called(capsys):
    """Exit code, standard output and standard error of a call."""

    def call(*arguments):
        code = cli.main(["doctor", *arguments])
        out, said = capsys.readouterr()
        return code, out, said

    return call


def test_findings_are_told_and_nothing_is_changed(sick, called):
    before = sick.state()
    code, out, said = called()

    assert (code, said) == (1, "")
    lines = out.splitlines()
    assert "warning  q: the queue is not listed  [unlisted-queue]" in lines
    assert "warning  q: ids without a body: 1  [ghost]" in lines
    assert f"         such as: {GHOST}" in lines
    assert "         --fix:   Removes them, with their counters." in lines
    assert any(line.startswith("         --also:  orphan-body:restore or ") for line in lines)
    assert lines[-1] == "1 queue, 1 message: 3 warnings"
    assert all(len(line) <= 100 for line in lines)
    assert sick.state() == before


def test_a_healthy_place_ends_with_zero(sick, called):
    sick.raw.flushdb()
    sick.rsmq.create_queue("q")

    assert called() == (0, "1 queue, 0 messages: nothing found\n", "")
    assert called("--fix", "--yes")[:2] == (
        0, "1 queue, 0 messages: nothing found\nNothing to do.\n",
    )  # fmt: skip


def test_json_has_all_of_every_finding(sick, called):
    code, out, _ = called("--json")
    told = json.loads(out)

    assert code == 1
    assert (told["ns"], told["queues"], told["messages"]) == (sick.ns, 1, 1)
    assert [each["code"] for each in told["findings"]] == ["unlisted-queue", "ghost", "orphan-body"]
    ghost = told["findings"][1]
    assert (ghost["queue"], ghost["number"], ghost["examples"]) == ("q", 1, [GHOST])
    assert (ghost["severity"], ghost["safe"], ghost["ways"]) == ("warning", True, [])
    assert (told["repairs"], told["left"]) == ([], None)


def test_safe_repairs_leave_what_someone_must_decide_on(sick, called):
    code, out, _ = called("--fix", "--yes")

    assert code == 1
    assert out.splitlines()[-4:] == [
        "repaired q: done  [unlisted-queue]",
        "repaired q: 1 of 1  [ghost]",
        "left     q: [orphan-body]",
        "After repairs, 1 queue, 0 messages: 1 warning",
    ]
    assert sick.listed() == {"q"}
    assert sick.scores() == {}
    assert sick.fields()[BODY] == "kept"


def test_all_that_is_asked_for_is_done_and_told(sick, called):
    sick.raw.hset(sick.hash(), f"{BODY}:rc", "x")
    code, out, _ = called("--fix", "--also", "orphan-body:restore", "--yes", "--json")
    told = json.loads(out)

    assert (code, told["left"]) == (0, [])
    # A restored body had a bad counter, which only the next round could see.
    assert [(each["code"], each["number"]) for each in told["repairs"]] == [
        ("unlisted-queue", 1), ("ghost", 1), ("orphan-body", 1), ("bad-counter", 1),
    ]  # fmt: skip
    assert sick.scores().keys() == {BODY}
    assert sick.fields()[f"{BODY}:rc"] == "1"


def test_what_is_asked_for_alone_is_all_that_is_done(sick, called):
    code, _, _ = called("q", "--also", "orphan-body:remove", "--yes")

    assert code == 1
    assert BODY not in sick.fields()
    assert sick.listed() == set()
    assert sick.scores().keys() == {GHOST}


def test_a_repair_that_was_asked_for_is_done_once(sick, called):
    sick.rsmq.create_queue("m")
    fields = {"vt": 30_000_000, "delay": 5_000_000, "totalsent": 0, "totalrecv": 0}
    sick.raw.hset(sick.hash("m"), mapping=fields)
    code, out, _ = called("m", "--fix", "--also", "milliseconds", "--yes")

    assert (sick.fields("m")["vt"], sick.fields("m")["delay"]) == ("30000", "5000")
    assert [line for line in out.splitlines() if line.startswith("repaired")] == [
        "repaired m: 2 of 2  [milliseconds]",
        "repaired m: 0 of 1  [bad-attribute]",
    ]
    # A person has to know what they are now.
    assert code == 1
    assert "left     m: [milliseconds]" in out.splitlines()


def test_what_is_mended_as_a_whole_does_not_read_like_a_part(sick, called):
    sick.rsmq.create_queue("half")
    sick.raw.hdel(sick.hash("half"), "vt", "delay")
    sick.raw.expire(sick.hash("half"), 5000)
    _, out, _ = called("half", "--fix", "--yes")

    assert sick.raw.ttl(sick.hash("half")) == -1
    assert out.splitlines()[-3:] == [
        "repaired half: done  [expiring]",
        "repaired half: done  [half-queue]",
        "After repairs, 1 queue, 0 messages: nothing found",
    ]


def test_many_queues_with_what_is_left_are_named_in_part(sick, called):
    for name in "abcdefg":
        sick.rsmq.create_queue(name)
        sick.raw.hset(sick.hash(name), BODY, "kept")
    _, out, _ = called("--fix", "--yes")

    assert "left     a, b, c, d, e and 3 more: [orphan-body]" in out.splitlines()


def test_what_is_done_by_hand_says_so_once(sick, called):
    sick.raw.config_set("appendfsync", "everysec")
    try:
        _, out, _ = called()
    finally:
        sick.raw.config_set("appendfsync", "always")

    assert "by hand: where nothing may be lost" in " ".join(out.split())
    assert "By hand" not in out


def test_a_queue_of_which_a_repair_leaves_nothing_is_in_order_then(sick, called):
    sick.raw.zadd(sick.zset("left"), {GHOST: 5})
    code, out, _ = called("left", "--also", "ids-without-queue", "--yes")

    assert code == 0
    assert out.splitlines()[-1] == "After repairs, 0 queues, 0 messages: nothing found"
    assert not sick.raw.exists(sick.zset("left"))


def test_without_a_terminal_a_repair_needs_a_yes(sick, called):
    before = sick.state()
    code, _, said = called("--fix")

    assert code == 2
    assert "Add --yes. Nothing was changed." in said
    assert sick.state() == before


def test_wrong_words_are_refused(sick, called):
    assert called("--also", "everything")[0] == 2
    assert called("a b:Q", "--fix", "--yes")[0] == 2
    assert called("q", "nosuch")[0] == 3


def test_in_a_terminal_it_asks(sick, saving, tmp_path):
    root = Path(__file__).parents[2]
    program = "import sys; from rsmq.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = {
        "PATH": "/usr/bin:/bin", "PYTHONPATH": str(root), "HOME": str(tmp_path), "LANG": "C.UTF-8",
        "RSMQ_URL": saving.url, "RSMQ_NS": sick.ns, "TERM": "xterm",
    }  # fmt: skip
    for answer, code in (("n", 1), ("y", 1)):
        before = sick.state()
        process = pexpect.spawn(
            sys.executable, ["-c", program, "doctor", "--fix"], env=environment,
            encoding="utf-8", timeout=20, dimensions=(40, 120),
        )  # fmt: skip
        process.expect_exact("Repair unlisted-queue, ghost? [y/N]: ")
        process.sendline(answer)
        process.expect(pexpect.EOF)
        process.close()

        assert process.exitstatus == code
        assert (sick.state() == before) is (answer == "n")
    assert sick.listed() == {"q"}
