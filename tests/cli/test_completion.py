"""``rsmq completion``: its scripts, and what the shell is told."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.cli.conftest import PROGRAM, ROOT
from tests.servers import free_port


@pytest.fixture
def complete(cli, monkeypatch):
    """What TAB offers after these words."""

    def offered(*words):
        monkeypatch.setenv("_RSMQ_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("rsmq", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        ended = cli()
        assert (ended.code, ended.stderr) == (0, "")
        return [line.partition(",")[2] for line in ended.lines if line]

    return offered


def test_commands_and_options_are_completed(complete):
    assert complete("rec") == ["receive", "recover"]
    assert "--state" in complete("peek", "--st")
    assert complete("peek", "--state", "in") == ["in_flight"]
    assert complete("rfq", "list") == ["list-queue", "list-topics"]


def test_queues_are_completed(complete, rsmq):
    for name in ("orders", "orders-dead", "mail"):
        rsmq.create_queue(name)

    assert complete("send", "or") == ["orders", "orders-dead"]
    assert complete("receive", "orders", "m") == ["mail"]
    assert complete("redrive", "orders-dead", "--to", "m") == ["mail"]
    assert complete("--ns", "none", "send", "or") == []
    assert complete("rfq", "consume", "-t", "ma") == ["mail"]


def test_a_queue_that_was_given_is_not_offered_again(complete, rsmq):
    for name in ("orders", "orders-dead"):
        rsmq.create_queue(name)

    assert complete("dead-letter", "orders", "or") == ["orders-dead"]
    assert complete("receive", "orders", "or") == ["orders-dead"]


def test_options_before_the_command_come_in_pieces(complete, rsmq, ns, server):
    rsmq.create_queue("orders")
    scheme, _, rest = server.url.partition(":")
    host, _, port = rest.partition(":")

    assert complete("--url", scheme, ":", host, ":", port, "send", "o") == ["orders"]
    assert complete("--url", "=", scheme, ":", host, ":", port, "send", "o") == ["orders"]
    assert complete("redrive", "dead", "--to", "=", "o") == ["orders"]
    assert complete("redrive", "dead", "--to", "=") == ["orders"]
    assert complete("--ns", "=", ns, "rec") == ["receive", "recover"]
    # What stands before the last sign stays on the line.
    assert complete("doctor", "--also", "orphan-body", ":", "rest") == ["restore"]
    assert complete("doctor", "--also", "orphan-body", ":") == ["restore", "remove"]


@pytest.mark.parametrize(
    "words",
    [
        ["nosuch", ""],
        ["nosuch", "--o"],
        ["a", ":", "b", "x"],
        ["--url"],
        ["rfq", "nosuch", "x"],
        ["send", "q", "--nosuch", "="],
        ["peek", "--state", "nosuch", "x"],
        ["worker", "a", ":", "b"],
    ],
)
def test_what_is_no_call_completes_nothing_in_silence(complete, words):
    assert [each for each in complete(*words) if each != "--url"] == []


def test_files_are_completed_by_the_shell(cli, monkeypatch):
    monkeypatch.setenv("_RSMQ_COMPLETE", "bash_complete")
    for words in ("send q -f a", "send q --file = a", "export -o a", "import a"):
        monkeypatch.setenv("COMP_WORDS", f"rsmq {words}")
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        assert cli().out == "file,a\n"


def test_profiles_are_completed(complete, monkeypatch, tmp_path):
    path = tmp_path / "config"
    path.write_text("[profiles.local]\n[profiles.live]\n")
    monkeypatch.setenv("RSMQ_CONFIG", str(path))

    assert complete("--profile", "l") == ["local", "live"]
    path.write_text("broken")
    assert complete("--profile", "l") == []


def test_what_is_wrong_completes_nothing_in_silence(complete, monkeypatch):
    monkeypatch.setenv("RSMQ_URL", f"redis://127.0.0.1:{free_port()}/0")
    assert complete("send", "") == []
    monkeypatch.setenv("RSMQ_URL", "nonsense")
    assert complete("send", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_that_the_shell_reads(cli, tmp_path, shell):
    script = cli("completion", shell).out

    assert "_RSMQ_COMPLETE=" + shell in script.replace("env ", "")
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True, timeout=20)


def test_bash_completes_with_it(cli, processes, rsmq, tmp_path):
    rsmq.create_queue("orders")
    program = tmp_path / "rsmq"
    program.write_text(f"#!/bin/sh\nPYTHONPATH={ROOT} exec {PROGRAM[0]} -c '{PROGRAM[2]}' \"$@\"\n")
    program.chmod(0o755)
    processes.environment["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "script").write_text(cli("completion", "bash").out)
    asked = (
        "source script; COMP_WORDS=(rsmq send or); COMP_CWORD=2; "
        '_rsmq_completion rsmq; echo "${COMPREPLY[@]}"; complete -p rsmq'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asked], env=processes.environment, cwd=tmp_path, check=True,
        capture_output=True, text=True, timeout=20,
    )  # fmt: skip

    assert done.stdout.splitlines()[0] == "orders"
    assert "-F _rsmq_completion rsmq" in done.stdout
