"""Durations, patterns, help, suggestions and other conveniences of the command line."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from rsmq.cli import run_pipeline, run_worker
from rsmq.cli.app.command_table import ALIASES, COMMANDS, OTHER_TERMS
from rsmq.cli.app.durations import parse_duration
from rsmq.cli.commands.top_screen import HEADINGS, choose_columns, fit_columns
from rsmq.worker.logging import TextLines
from tests.cli.conftest import ROOT
from tests.servers import Server, redis_7

# Durations.


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("30", 30), ("1.5", 1.5), ("-1", -1), ("1e3", 1000), (".5", 0.5),
        ("500ms", 0.5), ("30s", 30), ("10m", 600), ("2h", 7200), ("7d", 604_800), ("1w", 604_800),
        ("1h30m", 5400), ("1.5h", 5400), ("1m0.25s", 60.25), ("100ms", 0.1),
    ],
)  # fmt: skip
def test_durations(text, seconds):
    found = parse_duration(text)

    assert found == seconds
    assert isinstance(found, int) == (seconds == int(seconds))


@pytest.mark.parametrize(
    "text", ["", "x", "10x", "m", "1h 30m", "nan", "inf", "--1", "1h30", "10M"]
)
def test_other_texts_are_no_durations(text):
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is not a duration. Give seconds")):
        parse_duration(text)


def test_options_take_durations_with_units(cli, rsmq, raw, ns):
    assert cli("create", "q", "--vt", "10m", "--delay", "1m30s").code == 0
    assert raw.hmget(f"{ns}:q:Q", "vt", "delay") == [b"600", b"90"]
    assert cli("attributes", "q", "--vt", "2h", "--delay", "0").code == 0
    assert raw.hget(f"{ns}:q:Q", "vt") == b"7200"
    cli("send", "q", "a", "--delay", "1h")
    (score,) = [score for _, score in raw.zrange(f"{ns}:q", 0, -1, withscores=True)]
    assert score / 1000 - time.time() == pytest.approx(3600, abs=60)
    assert cli("receive", "q", "--wait", "10ms", "--vt", "5m").code == 1
    assert cli("recover", "q", "--idle", "1d").code == 1
    assert cli("create", "r", "--vt", "500ms").error.startswith("--vt must be between")


def test_wrong_grace_of_the_worker_program_names_the_rule(capsys):
    assert run_worker(["a:b", "--grace", "soon"]) == 2
    assert "'soon' is not a duration. Give seconds, or a number with" in capsys.readouterr().err


# Patterns.


@pytest.fixture
def queues(rsmq):
    for name in ("orders", "orders-dead", "mail"):
        rsmq.create_queue(name)
        rsmq.send_message(name, name)


def test_patterns_stand_for_the_queues_that_match(cli, rsmq, queues, raw, ns):
    assert [line.split()[0] for line in cli("stats", "orders*").lines[1:]] == [
        "orders", "orders-dead",
    ]  # fmt: skip
    assert cli("pause", "*").lines == ["mail: paused", "orders: paused", "orders-dead: paused"]
    assert cli("resume", "o*").lines == ["orders: resumed", "orders-dead: resumed"]
    bodies = cli("receive", "*", "-n", "10", "--raw").lines
    assert sorted(bodies) == ["mail", "orders", "orders-dead"]
    assert cli("publish", "order?", "mail", "--body", "x").code == 0
    assert rsmq.pop_message("orders").body == "x"
    assert cli("purge", "[mo]*", "--yes").lines == [
        "mail: 2 removed", "orders: 1 removed", "orders-dead: 1 removed",
    ]  # fmt: skip
    assert cli("top", "o*").lines[1].split()[0] == "orders"
    assert len(cli("export", "orders*").lines) == 1 + 2 + 1
    assert "2 queues, 0 messages" in cli("doctor", "orders*").out
    assert cli("delete-queue", "orders*", "--yes").lines == [
        "orders: deleted", "orders-dead: deleted",
    ]  # fmt: skip
    assert raw.smembers(f"{ns}:QUEUES") == {b"mail"}


def test_pattern_without_a_match_changes_nothing(cli, queues, raw, ns):
    before = raw.smembers(f"{ns}:QUEUES")
    for command in (
        ("delete-queue", "--yes"),
        ("purge", "--yes"),
        ("pause",),
        ("stats",),
        ("pop",),
    ):
        result = cli(*command, "mail", "x*")
        assert (result.code, result.out) == (3, "")
        assert result.error == "No queue matches 'x*'. rsmq list shows all queues."
    assert raw.smembers(f"{ns}:QUEUES") == before
    assert raw.zcard(f"{ns}:mail") == 1


def test_name_with_a_wildcard_is_itself(cli, raw, ns):
    for name in ("a*", "ab"):
        assert cli("create", name, "--any-names").code == 0

    assert cli("delete-queue", "a*", "--any-names", "--yes").lines == ["a*: deleted"]
    assert raw.smembers(f"{ns}:QUEUES") == {b"ab"}


# Help and suggestions.


def test_help_is_a_command(cli):
    assert cli("help").out == cli("--help").out
    assert cli("help", "send").out == cli("send", "--help").out
    assert cli("help", "rfq", "consume").out == cli("rfq", "consume", "--help").out
    assert cli("help", "sned").error.startswith("There is no command 'sned'. Did you mean send")


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("ack", "delete"),
        ("len", "stats"),
        ("ENQUEUE", "send"),
        ("nack", "release"),
    ],
)
def test_terms_of_other_systems_suggest_commands(cli, word, command):
    result = cli(word, "orders")

    assert result.code == 2
    assert f"There is no command {word!r}. Did you mean {command}?" in result.error


@pytest.mark.parametrize("arguments", [["orders"], ["orders", "hello"]])
def test_push_without_a_url_suggests_send(cli, arguments):
    result = cli("push", *arguments)

    assert result.code == 2
    assert "To add a message to a queue, use rsmq send." in result.error


def test_suggested_commands_exist():
    assert {each for commands in OTHER_TERMS.values() for each in commands} <= COMMANDS.keys()
    assert not OTHER_TERMS.keys() & (COMMANDS.keys() | ALIASES.keys())


# top on a narrow terminal.

ROWS = [["orders", "1", "2", "3", "4", "5", "6.0", "7.0", "8s", "9s"]]


def test_narrow_tables_lose_the_columns_at_the_right():
    names = choose_columns([], has_namespaces=False)
    assert names == [name for name in HEADINGS if name not in {"ns", "held_back"}]
    assert fit_columns(names, ROWS, None) == fit_columns(names, ROWS, 200) == names
    for width in range(1, 80):
        fitting = fit_columns(names, ROWS, width)
        assert fitting == names[: len(fitting)]
        assert fitting[0] == "queue"
        needed = sum(max(len(HEADINGS[each]), len(ROWS[0][names.index(each)])) for each in fitting)
        assert needed + 2 * (len(fitting) - 1) <= max(width, len("orders"))
        assert len(fitting) == len(names) or fit_columns(names, ROWS, width + 20) != fitting


def test_top_fits_into_a_narrow_terminal(processes, rsmq):
    rsmq.create_queue("orders")
    process = processes.terminal("top", "--once")
    process.setwinsize(30, 100)
    process.expect("OLDEST")
    narrow = processes.terminal("top", "--interval", "0.1")
    narrow.setwinsize(30, 40)
    narrow.expect("orders")
    narrow.send("s")
    narrow.expect("visible")
    narrow.send("q")


# Other conveniences.


def test_sweep_without_a_policy_says_so(cli, rsmq):
    rsmq.create_queue("q")
    rsmq.create_queue("dead")
    result = cli("sweep", "q")
    assert (result.code, result.out) == (1, "")
    assert result.stderr == (
        "q: no dead-letter policy, so nothing is moved. rsmq dead-letter sets one.\n"
    )
    rsmq.set_dead_letter_policy("q", "dead", 1)
    assert (cli("sweep", "q").code, cli("sweep", "q").stderr) == (0, "")


@pytest.mark.parametrize("command", ["receive", "peek", "pop"])
def test_bodies_without_the_last_line_end(cli, rsmq, command):
    rsmq.create_queue("q")
    rsmq.send_messages("q", [f"{number}" for number in range(12)])

    assert (
        cli(command, "q", "-n", 12, "--no-newline").raw
        == "\n".join(f"{number}" for number in range(12)).encode()
    )
    result = cli(command, "q", "--no-newline", "--null")
    assert (result.code, result.out) == (2, "")


def test_completion_offers_systems(cli, monkeypatch, rsmq):
    rsmq.create_queue("rates")

    def complete(*words):
        monkeypatch.setenv("_RSMQ_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("rsmq", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return [line.partition(",")[2] for line in cli().lines if line]

    assert complete("migrate", "--from", "r") == ["rfq:", "rqueue:", "redisrq:", "rsmq:"]
    assert complete("bridge", "--from", "r") == ["rfq:", "rqueue:", "redisrq:", "rsmq:", "rates"]
    assert complete("bridge", "--to", "s") == ["sqs:", "stream:"]


def test_realtime_publishes_the_number_of_messages(cli, rsmq, raw, ns):
    rsmq.create_queue("q")
    with raw.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(f"{ns}:rt:q")
        listener.get_message(timeout=5)
        cli("send", "q", "a", "--realtime")
        cli("send", "q", "b")
        cli("--realtime", "send", "q", "c", "d")
        numbers = [listener.get_message(timeout=5)["data"] for _ in range(2)]
        assert listener.get_message(timeout=0.05) is None

    assert numbers == [b"1", b"4"]


def test_times_of_log_lines_have_the_format_of_all_times():
    record = logging.makeLogRecord({"created": 1_800_000_000.25, "msecs": 250.0})

    assert TextLines().formatTime(record) == "2027-01-15T08:00:00.250Z"


@pytest.mark.parametrize("run", [run_worker, run_pipeline])
def test_argument_errors_do_not_show_passwords(capsys, run):
    code = run(["report", "--url", "redis://h/0", "q", "redis://user:geheim@host/0"])

    assert code == 2
    error = capsys.readouterr().err
    assert "redis://***@host/0" in error
    assert "geheim" not in error


def test_too_many_clients_have_their_own_text(cli):
    server = Server(redis_7())
    with server.raw() as raw:
        raw.config_set("maxclients", 1)
        result = cli("list", "--url", server.url)
    server.stop()

    assert result.code == 5
    assert "as many clients as its setting maxclients allows." in result.error
    assert "Is Redis running" not in result.error


@pytest.mark.parametrize(
    ("function", "module"),
    [
        ("main", "app.program"),
        ("run_worker", "app.program"),
        ("run_pipeline", "app.program"),
    ],
)
def test_interrupt_during_the_start_ends_with_130(tmp_path, function, module):
    """The program waits in the import of its modules until it is interrupted."""
    program = (
        "import builtins, sys, time, rsmq.cli\n"
        "load = builtins.__import__\n"
        "def slow(name, *others):\n"
        f"    if name == 'rsmq.cli.{module}':\n"
        "        print('importing', flush=True)\n"
        "        time.sleep(30)\n"
        "    return load(name, *others)\n"
        "builtins.__import__ = slow\n"
        f"sys.exit(rsmq.cli.{function}(['--version']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout.readline() == b"importing\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()

    assert (process.returncode, errors) == (130, b"")
