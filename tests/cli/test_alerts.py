"""``rsmq alerts``: targets and silences, their outputs and exit codes."""

from __future__ import annotations

import json

import pytest

URL = "https://hooks.slack.com/services/T/B/s3cret"


def test_targets_are_added_listed_tested_and_removed(cli, raw, ns):
    assert cli("alerts", "list", "--json").json == []
    assert cli("alerts", "add", "team", URL, "--format", "slack").out == "team: added\n"
    assert cli("alerts", "add", "team", URL, "--format", "slack").out == "team: changed\n"
    pagerduty = ("--format", "pagerduty", "--secret-env", "PAGERDUTY_KEY")
    added = cli("alerts", "add", "oncall", *pagerduty, "--json").json
    assert added == {"name": "oncall", "format": "pagerduty", "added": True}
    stored = json.loads(raw.hget(f"{ns}:x:alerts", "target:oncall"))
    assert stored["url"] == "https://events.pagerduty.com/v2/enqueue"
    assert stored["secret_env"] == "PAGERDUTY_KEY"
    listed = cli("alerts", "list")
    assert [line.split()[:4] for line in listed.lines] == [
        ["NAME", "FORMAT", "URL", "SECRET"],
        ["oncall", "pagerduty", "https://events.pagerduty.com/***", "PAGERDUTY_KEY"],
        ["team", "slack", "https://hooks.slack.com/***", "-"],
    ]
    assert "s3cret" not in listed.out + cli("alerts", "list", "--json").out
    assert cli("alerts", "test", "team").out == "team: tested\n"
    messages = [each for each in raw.hkeys(f"{ns}:x:alerts") if each.startswith(b"message:")]
    assert len(messages) == 2
    assert cli("alerts", "remove", "team").code == 0
    assert raw.hkeys(f"{ns}:x:alerts") == [b"target:oncall"]
    for command in ("remove", "test"):
        gone = cli("alerts", command, "team")
        assert (gone.code, gone.out) == (1, "team: no such target\n")


def test_an_alert_is_silenced_and_its_silence_is_ended(cli, raw, ns):
    words = ("--for", "1h", "--by", "ann", "--why", "new workers")
    made = cli("alerts", "silence", "not-received", "orders", *words)
    assert made.out.startswith("not-received orders: silent until 20")
    cli("alerts", "silence", "all", *words)
    stored = json.loads(raw.hget(f"{ns}:x:alerts", "silence:not-received:orders"))
    assert (stored["by"], stored["why"]) == ("ann", "new workers")
    assert stored["until_ms"] - stored["created_ms"] == 3_600_000
    listed = cli("alerts", "silences", "--json").json
    assert [(each["kind"], each["subject"]) for each in listed] == [
        ("all", ""), ("not-received", "orders"),
    ]  # fmt: skip
    assert cli("alerts", "unsilence", "all").out == "all: ended\n"
    assert cli("alerts", "unsilence", "not-received", "orders").code == 0
    gone = cli("alerts", "unsilence", "all")
    assert (gone.code, gone.out) == (1, "all: no such silence\n")
    assert not raw.exists(f"{ns}:x:alerts")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "a.b", URL], "1 to 64 characters"),
        (["add", "a", "ftp://example.org/s3cret"], "URL with a host"),
        (["add", "a", URL, "--secret-env", "whsec_s3cret"], "name of an environment variable"),
        (["silence", "lost", "--for", "1h", "--by", "a", "--why", "b"], "one of alerts-not-sent"),
        (["silence", "all", "--for", "0s", "--by", "a", "--why", "b"], "between 1 and"),
    ],
)
def test_what_is_not_valid_changes_nothing(cli, raw, ns, arguments, says):
    refused = cli("alerts", *arguments)
    assert refused.code != 0
    assert says in refused.stderr
    assert "s3cret" not in refused.stderr
    assert not raw.exists(f"{ns}:x:alerts")
