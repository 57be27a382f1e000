"""``rsmq push``: a process that pushes, its exit codes, --list, --resume and --remove."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from standardwebhooks import Webhook

from tests.push.conftest import SECRET, wait_until
from tests.push.receiver import OK, reply

OPTIONS = ("--allow-http", "--allow", "127.0.0.0/8")


@pytest.fixture
def start(server, ns):
    """Start ``rsmq push`` with these arguments in a process of its own."""
    processes = []

    def run(*arguments):
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", "from rsmq.cli import main; main()", "push", *arguments,
                 "--url", server.url, "--ns", ns],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        return processes[-1]

    yield run
    for process in processes:
        with process:  # closes its pipes, and waits
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_pushes_until_a_signal(raw, ns, rsmq, receiver, start, tmp_path, number):
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["{}"] * 20)
    process = start(
        "q", receiver.url, *OPTIONS, "--secret-file", str(tmp_path / "secret"),
        "--concurrency", "3", "--content-type", "application/json",
    )  # fmt: skip
    wait_until(lambda: raw.hlen(f"{ns}:x:push") and not raw.zcard(f"{ns}:q"))
    process.send_signal(number)
    _, errors = process.communicate()

    assert process.returncode == 0, errors
    assert "20 handled" in errors
    assert len(receiver.requests) == 20
    assert receiver.connections <= 3
    for request in receiver.requests:
        Webhook(SECRET).verify(request.body, request.headers)
        assert request.headers["content-type"] == "application/json"


def test_410_ends_it_with_exit_code_1_until_it_is_resumed(raw, ns, rsmq, receiver, start, cli):
    receiver.answer = lambda _: reply(410)
    rsmq.create_queue("q")
    rsmq.send_message("q", "x")
    for _ in range(2):  # also the next start
        _, errors = start("q", receiver.url, *OPTIONS).communicate()
        assert errors.splitlines()[-1] == (
            f"rsmq: {receiver.url} has answered 410: the subscription has ended. The messages stay "
            "in the queue. rsmq push q --resume allows the next start."
        )
    assert len(receiver.requests) == 1
    assert cli("push", "--list", "--json").json == [
        {"queue": "q", "url": receiver.url, "state": "gone", "failures": 0, "until_ms": None,
         "answer": "410 Gone", "refusal": None}
    ]  # fmt: skip
    receiver.answer = lambda _: OK

    assert cli("push", "q", "--resume").out == f"q -> {receiver.url}: resumed\n"
    process = start("q", receiver.url, *OPTIONS)
    wait_until(lambda: not raw.zcard(f"{ns}:q"))
    process.terminate()
    process.communicate()

    assert process.returncode == 0


def store(raw, ns, field, queue, url, **state):
    facts = {
        "queue": queue, "url": url, "state": "closed", "failures": 0, "openings": 0, "until_ms": 0,
        "owner": "", "answer": "", **state,
    }  # fmt: skip
    raw.hset(f"{ns}:x:push", field, json.dumps(facts))


def test_targets_are_listed_resumed_and_removed(raw, ns, cli):
    assert cli("push", "--list", "--json").json == []
    store(
        raw, ns, "f1", "orders", "https://a/", state="open", openings=2, until_ms=1_700_000_000_000
    )
    store(raw, ns, "f2", "orders", "https://b/?***", failures=3, answer="500 Oh")
    store(raw, ns, "f3", "mail", "https://a/", state="paused", until_ms=1_700_000_000_000)
    listed = cli("push", "--list").out

    assert [line.split()[:3] for line in listed.splitlines()] == [
        ["QUEUE", "URL", "STATE"],
        ["mail", "https://a/", "paused"],
        ["orders", "https://a/", "open"],
        ["orders", "https://b/?***", "closed"],
    ]
    assert [line.split()[3] for line in listed.splitlines()] == ["FAILURES", "0", "11", "3"]
    assert "2023-11-14T22:13:20" in listed
    assert [each["queue"] for each in cli("push", "orders", "--list", "--json").json] == [
        "orders"
    ] * 2
    assert cli("push", "orders", "--resume", "--json").json == [
        {"queue": "orders", "url": "https://a/", "resumed": True},
        {"queue": "orders", "url": "https://b/?***", "resumed": True},
    ]
    assert cli("push", "orders", "--resume").lines == [
        "orders -> https://a/: was not stopped",
        "orders -> https://b/?***: was not stopped",
    ]
    assert json.loads(raw.hget(f"{ns}:x:push", "f1"))["state"] == "closed"
    assert cli("push", "orders", "--remove").lines == [
        "orders -> https://a/: removed",
        "orders -> https://b/?***: removed",
    ]
    assert raw.hkeys(f"{ns}:x:push") == [b"f3"]
    missing = cli("push", "orders", "--remove")
    assert (missing.code, missing.out) == (1, "")
    assert "no such target" in missing.stderr
    assert cli("push", "mail", "https://other/", "--resume").code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((), 2, "Missing argument 'QUEUE'"),
        (("q",), 2, "Missing argument 'URL'"),
        (("q", "--list", "--resume"), 2, "Use one of --list, --resume and --remove"),
        (("--resume",), 2, "Missing argument 'QUEUE'"),
        (("q q", "--resume"), 2, "A queue name has"),
        (("q", "http://example.org/"), 2, "Use https, or --allow-http"),
        (("q", "https://127.0.0.1/"), 2, "address 127.0.0.1 is not public"),
        (("q", "https://127.0.0.1/"), 2, "allow its range, as in --allow 127.0.0.1/32"),
        (("q", "https://example.org/", "--allow", "x"), 2, "Invalid --allow format: 'x'"),
        (("q", "https://example.org/", "--concurrency", "0"), 2, "concurrency"),
        (("q", "https://example.org/", "--content-type", "x"), 2, "Invalid --content-type format"),
        (
            ("q", "https://example.org/", "--secret-file", "/dev/null"),
            2,
            "--secret-file format: '0",
        ),
        (("q", "https://example.org/", "--secret-file", "/nowhere"), 1, "No such file"),
        (("q", "https://example.org/"), 3, "Queue not found: 'q'"),
    ],
)
def test_wrong_usage(cli, arguments, code, text):
    result = cli("push", *arguments)

    assert result.code == code
    assert text in result.stderr


def test_a_secret_in_a_file_is_not_shown(cli, tmp_path):
    (tmp_path / "secret").write_text("my-s3cret-text!\n")
    result = cli("push", "q", "https://example.org/", "--secret-file", str(tmp_path / "secret"))

    assert result.code == 2
    assert "openssl rand -base64 32" in result.stderr
    assert "s3cret" not in result.stderr
