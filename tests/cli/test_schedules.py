"""``rsmq schedule``; ``rsmq scheduler`` is tested in tests/schedules."""

from __future__ import annotations

import re


def test_a_schedule_is_added_shown_paused_run_and_removed(cli, rsmq):
    rsmq.create_queue("q")
    added = cli("schedule", "add", "night", "q", '{"a": 1}', "--cron", "30 2 * * *",
                "--timezone", "Europe/Berlin", "--missed", "skip", "--jitter", "1m")  # fmt: skip
    assert re.fullmatch(r"night: stored, next at \d{4}-\d\d-\d\dT\d\d:30:00Z", added.lines[0])
    again = cli("schedule", "add", "night", "q", '{"a": 1}', "--cron", "30 2 * * *", "--json",
                "--timezone", "Europe/Berlin", "--missed", "skip", "--jitter", "1m")  # fmt: skip
    assert again.json["changed"] is False
    cli("schedule", "add", "often", "q", "--every", "90s")

    heading, first, second = cli("schedule", "list").lines
    assert heading.split() == ["NAME", "WHEN", "QUEUE", "NEXT", "LAST", "STATE"]
    assert first.startswith("night  30 2 * * * Europe/Berlin  q ")
    assert second.startswith("often  every 90 s ")
    shown = cli("schedule", "show", "night", "--next", "3").lines
    assert {'body      {"a": 1}', "missed    skip", "jitter    60 s"} <= set(shown)
    assert sum(line.startswith("next ") for line in shown) == 3
    document = cli("schedule", "show", "night", "--json").json
    assert (document["cron"], document["body"], len(document["upcoming"])) == (
        "30 2 * * *", '{"a": 1}', 5,
    )  # fmt: skip

    assert cli("schedule", "pause", "night", "often").lines == ["night: paused", "often: paused"]
    twice = cli("schedule", "pause", "night")
    assert (twice.code, twice.lines) == (1, ["night: was paused already"])
    assert cli("schedule", "list").lines[1].endswith("paused")
    (id,) = cli("schedule", "run", "night").lines
    assert rsmq.get_message("q", id).raw == b'{"a": 1}'
    assert cli("schedule", "resume", "night").lines == ["night: resumed"]
    assert cli("schedule", "remove", "night", "often").lines == [
        "night: removed", "often: removed",
    ]  # fmt: skip
    assert cli("schedule", "list", "--json").json == []


def test_the_messages_of_a_schedule_have_the_options_of_a_send(cli, rsmq):
    rsmq.create_queue("q")
    cli("schedule", "add", "s", "q", "m", "--every", "1h", "--unique-key", "k", "--expires", "1h",
        "--max-retries", "2")  # fmt: skip
    shown = cli("schedule", "show", "s").lines
    assert {"unique-key k", "expires   3600 s", "max-retries 2"} <= set(shown)
    document = cli("schedule", "show", "s", "--json").json
    assert (document["unique_key"], document["expires"], document["max_retries"]) == ("k", 3600, 2)
    (id,) = cli("schedule", "run", "s").lines
    assert cli("schedule", "run", "s").lines == [id]
    wrong = cli("schedule", "add", "t", "q", "--every", "1h", "--expires", "0")
    assert (wrong.code, "--expires" in wrong.error) == (2, True)


def test_a_failure_is_listed_with_its_reason(cli, rsmq, raw, ns):
    rsmq.schedules.add("a", every=60, queue="missing")
    raw.hset(f"{ns}:x:schedules", "a:failure", "1795649004057 2 Queue not found")

    assert cli("schedule", "list").lines[1].endswith("Queue not found")
    (document,) = cli("schedule", "list", "--json").json
    assert (document["failure"], document["failures"]) == ("Queue not found", 2)


def test_what_is_not_there_or_not_valid_ends_with_a_code(cli):
    assert cli("schedule", "show", "a").code == 1
    assert cli("schedule", "remove", "a").code == 1
    assert "There is no schedule 'a'" in cli("schedule", "run", "a").error
    for times in ((), ("--cron", "@daily", "--every", "1h")):
        refused = cli("schedule", "add", "a", "q", *times)
        assert (refused.code, "either --cron or --every" in refused.error) == (2, True)
    assert "0-9 . _ -." in cli("schedule", "add", "a b", "q", "--every", "1h").error
    assert "minute" in cli("schedule", "add", "a", "q", "--cron", "x").error
    unknown = cli("schedule", "stop", "a")
    assert (unknown.code, "no command 'stop'" in unknown.error) == (2, True)
