"""The commands for queues: their output, and the keys in Redis."""

from __future__ import annotations

import pytest

from rsmq.vocabulary.queues import CREATE


def test_a_queue_is_created_with_its_attributes(cli, raw, ns):
    result = cli("create", "q", "--vt", 60, "--delay", 5, "--maxsize", -1)

    assert (result.code, result.out, result.stderr) == (0, "q: created\n", "")
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay", "maxsize") == [b"60", b"5", b"-1"]
    assert raw.smembers(f"{ns}:QUEUES") == {b"q"}


def test_several_queues_are_created_in_one_call(cli, raw, ns):
    result = cli("create", "b", "a", "b", "--vt", 60)

    assert (result.code, result.out) == (0, "b: created\na: created\n")
    assert [raw.hget(f"{ns}:{name}:Q", "vt") for name in "ab"] == [b"60", b"60"]
    again = cli("create", "a", "c", "--exist-ok", "--json").json
    assert again == [{"queue": "a", "created": False}, {"queue": "c", "created": True}]
    result = cli("create", "d", "a", "e")
    assert (result.code, result.out) == (3, "d: created\n")
    assert result.error.startswith(f"Queue exists: 'a' (namespace {ns!r})")
    assert raw.smembers(f"{ns}:QUEUES") == {b"a", b"b", b"c", b"d"}


def test_existing_queue_is_an_error_without_exist_ok(cli, raw, ns):
    cli("create", "q", "--vt", 60)
    result = cli("create", "q")

    assert (result.code, result.out) == (3, "")
    assert result.error.startswith(f"Queue exists: 'q' (namespace {ns!r}). Use --exist-ok ")
    assert cli("create", "q", "--exist-ok").out == "q: exists\n"
    assert cli("create", "q", "--exist-ok", "--json").json == {"queue": "q", "created": False}
    assert raw.hget(f"{ns}:q:Q", "vt") == b"60"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("create", "a b"), "Invalid qname format"),
        (("create", "q", "--vt", "1.5"), "vt must be between 0 and 9999999"),
        (("create", "q", "--vt", "-1"), "vt must be between 0 and 9999999"),
        (("create", "q", "--vt", "nan"), "'nan' is not a duration."),
        (("create", "q", "--vt", "long"), "'long' is not a duration. Give seconds, or a "),
        (("create", "q", "--maxsize", "7"), "maxsize must be between 1024 and 65536"),
        (("create",), "Missing argument 'QUEUE...'"),
    ],
)
def test_invalid_value_creates_nothing(cli, raw, ns, arguments, part):
    result = cli(*arguments)

    assert result.code == 2
    assert part in result.error
    assert raw.keys(f"{ns}:*") == []


def test_names_that_node_refuses_need_an_option(cli, raw, ns):
    result = cli("create", "a.b")

    assert result.code == 2
    assert "Pass --any-names" in result.error
    assert cli("--any-names", "create", "a.b").code == 0
    assert cli("create", "c\nd", "--any-names").out == '"c\\nd": created\n'
    assert raw.smembers(f"{ns}:QUEUES") == {b"a.b", b"c\nd"}


def test_queues_are_listed_one_per_line(cli, rsmq):
    assert cli("ls").raw == b""
    assert cli("list", "--json").json == []
    for name in ("b", "a"):
        rsmq.create_queue(name)

    assert cli("ls").out == "a\nb\n"
    assert cli("--json", "ls").json == ["a", "b"]


def test_attributes_are_shown_and_set(cli, raw, ns, rsmq):
    rsmq.create_queue("q", vt=5)
    attributes = cli("attributes", "q")
    fields = cli("attr", "q", "--vt", 7, "--json").json

    assert attributes.lines[0].split() == ["queue", "q"]
    assert attributes.lines[1].split() == ["vt", "5"]
    assert (fields["queue"], fields["vt"], fields["delay"], fields["paused"]) == ("q", 7, 0, False)
    created = rsmq.get_queue_attributes("q").created
    assert fields["created"] == f"{created:%Y-%m-%dT%H:%M:%SZ}"
    assert ["created", fields["created"]] in [line.split() for line in attributes.lines]
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay") == [b"7", b"0"]
    assert cli("attributes", "none").code == 3


def test_stats_count_by_state(cli, rsmq):
    rsmq.create_queue("q")
    rsmq.create_queue("other")
    rsmq.send_messages("q", ["a", "b", "c"])
    rsmq.send_message("q", "later", delay=100)
    rsmq.receive_message("q")
    (fields,) = cli("stats", "q", "--json").json
    lines = cli("count").lines

    assert {name: fields[name] for name in ("queue", "visible", "in_flight", "delayed")} == {
        "queue": "q", "visible": 2, "in_flight": 1, "delayed": 1,
    }  # fmt: skip
    assert (fields["total_sent"], fields["total_received"]) == (4, 1)
    assert fields["oldest_sent_ms"] == rsmq.count_messages("q").oldest_sent_ms
    assert fields["due_since_ms"] == rsmq.count_messages("q").due_since_ms
    assert lines[0].split()[:3] == ["QUEUE", "VISIBLE", "IN"]
    assert [line.split()[0] for line in lines[1:]] == ["other", "q"]
    assert lines[2].split()[1:7] == ["2", "1", "0", "1", "4", "1"]


def test_stats_report_a_listed_queue_that_is_missing(cli, raw, ns, rsmq):
    rsmq.create_queue("q")
    raw.sadd(f"{ns}:QUEUES", "ghost")
    result = cli("stats")

    assert (result.code, len(result.lines)) == (1, 2)
    assert result.stderr == (
        "ghost: left out. It is listed, but there is no such queue; rsmq doctor reports more.\n"
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


def test_results_of_earlier_queues_are_written_before_an_error(cli, raw, ns, rsmq):
    rsmq.create_queue("q")
    result = cli("pause", "q", "none", "--json")

    assert (result.code, result.json) == (3, [{"queue": "q", "paused": True}])
    assert raw.hexists(f"{ns}:q:Q", "x:paused")


@pytest.mark.parametrize("command", ["purge", "delete-queue"])
def test_removal_without_a_terminal_needs_yes(cli, raw, ns, rsmq, command):
    rsmq.create_queue("q")
    rsmq.send_message("q", "a")
    result = cli(command, "q")

    assert (result.code, result.out) == (2, "")
    assert "Add --yes. Nothing was changed." in result.error
    assert raw.zcard(f"{ns}:q") == 1


def test_messages_are_purged(cli, raw, ns, rsmq):
    rsmq.create_queue("q", vt=5)
    rsmq.send_messages("q", ["a", "b"])

    assert cli("purge", "q", "--yes").out == "q: 2 removed\n"
    assert not raw.exists(f"{ns}:q")
    assert raw.hget(f"{ns}:q:Q", "vt") == b"5"
    assert cli("purge", "q", "-y", "--json").json == [{"queue": "q", "removed": 0}]


def test_missing_queue_prevents_the_deletion_of_all_queues(cli, raw, ns, rsmq):
    for name in ("a", "b"):
        rsmq.create_queue(name)

    assert cli("delete-queue", "a", "none", "--yes").code == 3
    assert raw.exists(f"{ns}:a:Q")
    assert cli("delete-queue", "a", "b", "--yes").out == "a: deleted\nb: deleted\n"
    assert raw.keys(f"{ns}:*") == []


@pytest.fixture
def unreadable_queues(rsmq, raw, ns):
    """A readable queue, and listed names that can't be read; returns those names."""
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
def test_unreadable_queue_does_not_hide_the_others(
    cli, unreadable_queues, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    result = cli(*command)

    assert result.code == 1
    assert "good" in result.out
    fields = [line for line in (result.out + result.stderr).splitlines() if "left out. " in line]
    # rfq info only counts messages, which does not need a valid vt.
    unreadable = unreadable_queues - ({"vt"} if "rfq" in command else set())
    assert {line.partition(":")[0] for line in fields} == unreadable
    assert all("rsmq doctor" in line for line in fields)
    assert "user_script" not in result.out + result.stderr
    assert "good" in cli(*command, "--json").out


def test_unreadable_queue_that_is_named_is_an_error(cli, unreadable_queues):
    result = cli("stats", "good", "zset")

    assert result.code == 5
    assert "user_script" not in result.error
    assert "has another type" in result.error
    assert cli("top", "--once", "vt").code == 2


def test_question_for_one_message_uses_the_singular(cli, rsmq, processes):
    rsmq.create_queue("one")
    rsmq.send_message("one", "x")
    process = processes.terminal("purge", "one")
    process.expect_exact("Remove 1 message of one?")
    process.sendline("y")
    process.expect_exact("one: 1 removed")


def test_attributes_set_the_retention_and_a_sweep_removes_expired_messages(cli, rsmq, raw, ns):
    rsmq.create_queue("q")
    assert cli("attributes", "q", "--keep", "1h", "--json").json["keep"] == 3600
    old = "g0000000001234567890123456789ABC"
    raw.hset(f"{ns}:q:Q", old, "m")
    raw.zadd(f"{ns}:q", {old: 1})
    assert cli("sweep-expired", "q").lines == [old]
    assert cli("attributes", "q", "--keep", "0", "--json").json["keep"] is None
    assert cli("attributes", "q", "--expired", "dead-letter").code == 2


def test_messages_are_sent_with_a_group_which_excludes_the_front(cli, rsmq, tmp_path):
    rsmq.create_queue("q")
    lines = tmp_path / "lines"
    lines.write_text("c\nd\n")
    cli("send", "q", "a", "--group", "g")
    cli("send", "q", "b", "--group", "g")
    cli("send", "q", "--file", str(lines), "--group", "g")
    states = [(each.body, each.state, each.group) for each in rsmq.peek_messages("q")]
    assert states == [("a", "visible", "g"), *((body, "held_back", "g") for body in "bcd")]
    refused = cli("send", "q", "e", "--group", "g", "--front")
    assert (refused.code, rsmq.get_queue_attributes("q").messages) == (2, 4)
    assert "--front can't be combined with --group" in refused.error


def test_a_sweep_of_groups_prints_how_many_messages_became_due(cli, rsmq, raw, ns):
    rsmq.create_queue("q")
    first, second = rsmq.send_messages("q", ["a", "b"], groups=["g", "g"])
    raw.zrem(f"{ns}:q", first)
    assert cli("sweep-groups", "q").lines == ["1 admitted"]
    assert cli("sweep-groups", "q", "--json").json == {"admitted": 0}
    assert rsmq.receive_message("q").id == second


def test_what_was_purged_or_deleted_with_undo_can_be_restored(cli, rsmq):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    purged = cli("purge", "q", "--yes", "--undo").lines
    [gone] = cli("delete-queue", "q", "--yes", "--undo", "--json").json
    listed = cli("undo").lines

    assert purged == [f"q: 2 removed; rsmq undo {purged[0].split()[5]} restores them"]
    assert listed[0].split() == ["ID", "WHAT", "QUEUE", "MESSAGES", "UNTIL", "STATE", "BY"]
    assert sorted(line.split()[1] for line in listed[1:]) == ["delete-queue", "purge"]
    assert cli("undo", gone["undo"]).lines == ["q: 0 restored"]
    assert cli("undo", purged[0].split()[5], "--json").json[0]["messages"] == 2
    assert [message.body for message in rsmq.peek_messages("q")] == ["a", "b"]
    assert cli("undo", gone["undo"]).code != 0


def test_limits_are_shown_set_and_removed(cli, raw, ns, rsmq):
    rsmq.create_queue("q")
    assert cli("limit", "q").out == "q: no limits\n"
    both = cli("limit", "q", "--max-running", 1, "--rate", "100/m")
    assert both.out == "q: at most 1 message in flight, at most 100/m\n"
    assert raw.hget(f"{ns}:q:Q", "x:throttle") == b"1:100/m"
    assert cli("limit", "q", "--json").json == {"queue": "q", "max_running": 1, "rate": "100/m"}
    assert cli("limit", "q", "--rate", "5/d").out == "q: at most 5/d\n"
    assert cli("limit", "q", "--remove").out == "q: no limits\n"
    assert not raw.hexists(f"{ns}:q:Q", "x:throttle")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--rate", "100/min"), "Invalid --rate format"),
        (("--max-running", "0"), "--max-running must be between 1 and 1000"),
        (("--rate", "5/s", "--remove"), "--remove goes without"),
    ],
)
def test_limits_that_are_none_are_refused(cli, rsmq, options, part):
    rsmq.create_queue("q")
    result = cli("limit", "q", *options)

    assert result.code == 2
    assert part in result.error


@pytest.mark.parametrize("name", CREATE.options)
def test_each_attribute_has_an_option_that_sets_it(cli, rsmq, name):
    option, value = f"--{name.replace('_', '-')}", int(CREATE.options[name].high) - 1
    assert cli("create", "q", option, value).code == 0
    assert getattr(rsmq.get_queue_attributes("q"), name) == value
    assert cli("attributes", "q", option, value - 1, "--json").json[name] == value - 1
    assert f"{value - 1}" in cli("attributes", "q").out
    assert cli("stats", "q", "--json").json[0][name] == value - 1
    for command in ("create", "attributes"):
        words = " ".join(cli(command, "--help").out.split())
        assert option in words
        assert CREATE.options[name].text.split()[0] in words
