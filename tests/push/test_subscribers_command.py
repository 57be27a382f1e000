"""``rsmq subscribers`` and ``rsmq push --subscribers``: outputs, exit codes, signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.push.conftest import SECRET, wait_until

URL = "https://example.org/hooks?token=t0ken"
OPTIONS = ("--allow-http", "--allow", "127.0.0.0/8")


def test_subscribers_are_added_listed_and_removed(raw, ns, rsmq, cli):
    rsmq.create_queue("q")
    assert cli("subscribers", "list", "--json").json == []
    added = cli("subscribers", "add", "q", "crm", URL, "--secret-env", "CRM_SECRET")
    cli("subscribers", "add", "q", "mail", URL, "--max-retries", "2", "--concurrency", "1")

    assert added.out == "q -> https://example.org/hooks?***: by way of the queue q-crm\n"
    listed = cli("subscribers", "list")
    assert [line.split()[:5] for line in listed.lines] == [
        ["QUEUE", "NAME", "OWN", "QUEUE", "URL"],
        ["q", "crm", "q-crm", "https://example.org/hooks?***", "CRM_SECRET"],
        ["q", "mail", "q-mail", "https://example.org/hooks?***", "-"],
    ]
    [_, mail] = cli("subscribers", "list", "q", "--json").json
    assert "t0ken" not in listed.out + json.dumps(mail)
    assert (mail["max_retries"], mail["concurrency"], mail["removed_ms"]) == (2, 1, None)
    assert json.loads(raw.hget(f"{ns}:x:subscribers", "q/crm"))["url"] == URL

    exists = cli("subscribers", "add", "q", "crm", "https://example.org/")
    assert exists.code == 3
    assert "--replace" in exists.stderr
    assert cli("subscribers", "add", "q", "crm", "https://example.org/", "--replace").code == 0
    rsmq.send_message("q-crm", "m")
    assert cli("subscribers", "remove", "q", "crm").out == "q crm: removed\n"
    assert "draining" in cli("subscribers", "list").out
    assert cli("subscribers", "remove", "q", "crm", "--drop", "--json").json["removed"] is True
    assert not raw.exists(f"{ns}:q-crm:Q")
    missing = cli("subscribers", "remove", "q", "crm")
    assert (missing.code, missing.out) == (1, "q crm: no such subscriber\n")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("subscribers", "add", "q", "a", "https://example.org/"), 3, "Queue not found: 'q'"),
        (("subscribers", "add", "q", "a", "example.org"), 2, "URL with a host"),
        (("subscribers", "add", "q", "a", URL, "--secret-env", SECRET), 2, "not the secret"),
        (("push", "--subscribers", "--list"), 2, "--subscribers goes with a QUEUE"),
        (("push", "q", "https://example.org/", "--subscribers"), 2, "rsmq subscribers add"),
        (("push", "q q", "--subscribers"), 2, "A queue name has"),
        (("push", "--subscribers", "--allow", "x"), 2, "Invalid --allow format: 'x'"),
    ],
)
def test_wrong_usage(cli, arguments, code, text):
    result = cli(*arguments)

    assert (result.code, result.out) == (code, "")
    assert text in result.stderr
    assert SECRET not in result.stderr


def test_it_pushes_to_subscribers_until_a_signal(server, raw, ns, rsmq, cli, make_receiver):
    receivers = {"a": make_receiver(), "b": make_receiver()}
    rsmq.create_queue("q")
    cli("subscribers", "add", "q", "a", receivers["a"].url)
    process = subprocess.Popen(
        [sys.executable, "-c", "from rsmq.cli import main; main()", "push", "--subscribers",
         *OPTIONS, "--url", server.url, "--ns", ns],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        rsmq.send_messages("q", ["1", "2", "3"])
        wait_until(lambda: len(receivers["a"].answered) == 3)
        cli("subscribers", "add", "q", "b", receivers["b"].url)
        rsmq.send_message("q", "4")
        wait_until(lambda: receivers["b"].answered)
        wait_until(lambda: not raw.zcard(f"{ns}:q-a") and not raw.zcard(f"{ns}:q-b"))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0, errors
    assert "subscriber b of q is pushed to" in errors
    assert [each.body for each in receivers["b"].requests] == [b"4"]
    assert not raw.hlen(f"{ns}:x:workers")
