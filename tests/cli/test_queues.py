"""``rsmq`` and queues: what it writes, and what stands in Redis after it."""

from __future__ import annotations

import pytest


def test_a_queue_is_created_with_its_attributes(cli, raw, ns):
    ended = cli("create", "q", "--vt", 60, "--delay", 5, "--maxsize", -1)

    assert (ended.code, ended.out, ended.stderr) == (0, "q: created\n", "")
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay", "maxsize") == [b"60", b"5", b"-1"]
    assert raw.smembers(f"{ns}:QUEUES") == {b"q"}


def test_a_queue_that_exists_is_an_error_or_is_told(cli, raw, ns):
    cli("create", "q", "--vt", 60)
    ended = cli("create", "q")

    assert (ended.code, ended.out) == (3, "")
    assert ended.error.startswith("Queue exists. Queue 'q' keeps its attributes: --exist-ok ")
    assert cli("create", "q", "--exist-ok").out == "q: exists\n"
    assert cli("create", "q", "--exist-ok", "--json").json == {"queue": "q", "created": False}
    assert raw.hget(f"{ns}:q:Q", "vt") == b"60"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("create", "a b"), "Invalid qname format"),
        (("create", "q", "--vt", "1.5"), "vt must be between 0 and 9999999"),
        (("create", "q", "--vt", "-1"), "vt must be between 0 and 9999999"),
        (("create", "q", "--vt", "nan"), "vt must be between 0 and 9999999"),
        (("create", "q", "--vt", "long"), "'long' is no number of seconds"),
        (("create", "q", "--maxsize", "7"), "maxsize must be between 1024 and 65536"),
        (("create",), "Missing argument 'QUEUE'"),
    ],
)
def test_a_wrong_value_is_told_and_nothing_is_created(cli, raw, ns, arguments, part):
    ended = cli(*arguments)

    assert ended.code == 2
    assert part in ended.error
    assert raw.keys(f"{ns}:*") == []


def test_names_that_node_refuses_need_a_word(cli, raw, ns):
    ended = cli("create", "a.b")

    assert ended.code == 2
    assert "--any-names reaches" in ended.error
    assert cli("--any-names", "create", "a.b").code == 0
    assert cli("create", "c\nd", "--any-names").out == '"c\\nd": created\n'
    assert raw.smembers(f"{ns}:QUEUES") == {b"a.b", b"c\nd"}


def test_queues_are_listed_a_name_a_line(cli, rsmq):
    assert cli("ls").raw == b""
    assert cli("list", "--json").json == []
    for name in ("b", "a"):
        rsmq.create_queue(name)

    assert cli("ls").out == "a\nb\n"
    assert cli("--json", "ls").json == ["a", "b"]


def test_attributes_are_shown_and_set(cli, raw, ns, rsmq):
    rsmq.create_queue("q", vt=5)
    shown = cli("attributes", "q")
    told = cli("attr", "q", "--vt", 7, "--json").json

    assert shown.lines[0].split() == ["queue", "q"]
    assert shown.lines[1].split() == ["vt", "5"]
    assert (told["queue"], told["vt"], told["delay"], told["paused"]) == ("q", 7, 0, False)
    assert told["created"] == rsmq.get_queue_attributes("q").created.isoformat()
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay") == [b"7", b"0"]
    assert cli("attributes", "none").code == 3


def test_stats_count_by_state(cli, rsmq):
    rsmq.create_queue("q")
    rsmq.create_queue("other")
    rsmq.send_messages("q", ["a", "b", "c"])
    rsmq.send_message("q", "later", delay=100)
    rsmq.receive_message("q")
    (told,) = cli("stats", "q", "--json").json
    lines = cli("count").lines

    assert {name: told[name] for name in ("queue", "visible", "in_flight", "delayed")} == {
        "queue": "q", "visible": 2, "in_flight": 1, "delayed": 1,
    }  # fmt: skip
    assert (told["total_sent"], told["total_received"]) == (4, 1)
    assert told["oldest_sent_ms"] == rsmq.count_messages("q").oldest_sent_ms
    assert lines[0].split()[:3] == ["QUEUE", "VISIBLE", "IN"]
    assert [line.split()[0] for line in lines[1:]] == ["other", "q"]
    assert lines[2].split()[1:6] == ["2", "1", "1", "4", "1"]


def test_stats_tell_of_a_name_that_is_listed_and_not_there(cli, raw, ns, rsmq):
    rsmq.create_queue("q")
    raw.sadd(f"{ns}:QUEUES", "ghost")
    ended = cli("stats")

    assert (ended.code, len(ended.lines)) == (1, 2)
    assert ended.stderr == (
        "ghost: left out. It is listed, and there is no such queue; rsmq doctor tells more.\n"
    )
    assert cli("stats", "ghost").code == 3


def test_queues_are_paused_and_resumed(cli, raw, ns, rsmq):
    rsmq.create_queue("q")

    assert cli("pause", "q").out == "q: paused\n"
    assert raw.hexists(f"{ns}:q:Q", "x:paused")
    assert cli("pause", "q", "--json").json == [{"queue": "q", "paused": False}]
    assert cli("resume", "q").out == "q: resumed\n"
    assert not raw.hexists(f"{ns}:q:Q", "x:paused")
    assert cli("resume", "q").out == "q: was resumed already\n"


def test_of_several_queues_what_was_done_before_one_that_fails_is_told(cli, raw, ns, rsmq):
    rsmq.create_queue("q")
    ended = cli("pause", "q", "none", "--json")

    assert (ended.code, ended.json) == (3, [{"queue": "q", "paused": True}])
    assert raw.hexists(f"{ns}:q:Q", "x:paused")


@pytest.mark.parametrize("command", ["purge", "delete-queue"])
def test_what_removes_needs_a_yes_where_nobody_can_be_asked(cli, raw, ns, rsmq, command):
    rsmq.create_queue("q")
    rsmq.send_message("q", "a")
    ended = cli(command, "q")

    assert (ended.code, ended.out) == (2, "")
    assert "Add --yes. Nothing was changed." in ended.error
    assert raw.zcard(f"{ns}:q") == 1


def test_messages_are_purged(cli, raw, ns, rsmq):
    rsmq.create_queue("q", vt=5)
    rsmq.send_messages("q", ["a", "b"])

    assert cli("purge", "q", "--yes").out == "q: 2 removed\n"
    assert not raw.exists(f"{ns}:q")
    assert raw.hget(f"{ns}:q:Q", "vt") == b"5"
    assert cli("purge", "q", "-y", "--json").json == [{"queue": "q", "removed": 0}]


def test_queues_are_deleted_all_or_none_when_one_is_missing(cli, raw, ns, rsmq):
    for name in ("a", "b"):
        rsmq.create_queue(name)

    assert cli("delete-queue", "a", "none", "--yes").code == 3
    assert raw.exists(f"{ns}:a:Q")
    assert cli("delete-queue", "a", "b", "--yes").out == "a: deleted\nb: deleted\n"
    assert raw.keys(f"{ns}:*") == []


@pytest.fixture
def among_odd_ones(rsmq, raw, ns):
    """A queue, one of another type, and names that are none."""
    for name in ("good", "hash", "zset", "vt"):
        rsmq.create_queue(name)
    rsmq.send_message("good", "x")
    raw.set(f"{ns}:hash:Q", "another type")
    raw.set(f"{ns}:zset", "another type")
    raw.hset(f"{ns}:vt:Q", "vt", "soon")
    raw.sadd(f"{ns}:QUEUES", "a b", "QUEUES")
    return {"hash", "zset", "vt", "a b", "QUEUES"}


@pytest.mark.parametrize(
    "command", [["stats"], ["top", "--once"], ["rfq", "info"], ["export", "-o", "queues.jsonl"]]
)
def test_an_odd_queue_does_not_hide_the_others(cli, among_odd_ones, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    ended = cli(*command)

    assert ended.code == 1
    assert "good" in ended.out
    told = [line for line in (ended.out + ended.stderr).splitlines() if "left out. " in line]
    # rfq counts alone, and needs no vt.
    odd = among_odd_ones - ({"vt"} if "rfq" in command else set())
    assert {line.partition(":")[0] for line in told} == odd
    assert all("rsmq doctor" in line for line in told)
    assert "user_script" not in ended.out + ended.stderr
    assert "good" in cli(*command, "--json").out


def test_an_odd_queue_that_is_named_is_an_error(cli, among_odd_ones):
    ended = cli("stats", "good", "zset")

    assert ended.code == 5
    assert "user_script" not in ended.error
    assert "holds another type than RSMQ's" in ended.error
    assert cli("top", "--once", "vt").code == 2


def test_one_message_is_not_messages(cli, rsmq, processes):
    rsmq.create_queue("one")
    rsmq.send_message("one", "x")
    process = processes.terminal("purge", "one")
    process.expect_exact("Remove 1 message of one?")
    process.sendline("y")
    process.expect_exact("one: 1 removed")
