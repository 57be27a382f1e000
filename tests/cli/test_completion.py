"""``rsmq completion``: its scripts, and the completions for the shell."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.cli.conftest import PROGRAM, ROOT
from tests.ports import free_port


@pytest.fixture
def complete(cli, monkeypatch):
    """A function that returns the completions after some words."""

    def complete_words(*words):
        monkeypatch.setenv("_RSMQ_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("rsmq", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        result = cli()
        assert (result.code, result.stderr) == (0, "")
        return [line.partition(",")[2] for line in result.lines if line]

    return complete_words


def test_completion_offers_commands_and_options(complete):
    assert complete("rec") == ["receive", "recover"]
    assert "--state" in complete("peek", "--st")
    assert complete("peek", "--state", "in") == ["in_flight"]
    assert complete("rfq", "list") == ["list-queue", "list-topics"]


def test_completion_offers_queues(complete, rsmq):
    for name in ("orders", "orders-dead", "mail"):
        rsmq.create_queue(name)

    assert complete("send", "or") == ["orders", "orders-dead"]
    assert complete("receive", "orders", "m") == ["mail"]
    assert complete("redrive", "orders-dead", "--to", "m") == ["mail"]
    assert complete("--ns", "none", "send", "or") == []
    assert complete("rfq", "consume", "-t", "ma") == ["mail"]


def test_completion_leaves_out_queues_of_the_line(complete, rsmq):
    for name in ("orders", "orders-dead"):
        rsmq.create_queue(name)

    assert complete("dead-letter", "orders", "or") == ["orders-dead"]
    assert complete("receive", "orders", "or") == ["orders-dead"]


def test_completion_joins_words_that_bash_splits(complete, rsmq, ns, server):
    rsmq.create_queue("orders")
    scheme, _, rest = server.url.partition(":")
    host, _, port = rest.partition(":")

    assert complete("--url", scheme, ":", host, ":", port, "send", "o") == ["orders"]
    assert complete("--url", "=", scheme, ":", host, ":", port, "send", "o") == ["orders"]
    assert complete("redrive", "dead", "--to", "=", "o") == ["orders"]
    assert complete("redrive", "dead", "--to", "=") == ["orders"]
    assert complete("--ns", "=", ns, "rec") == ["receive", "recover"]
    # Only the text after the last separator is completed.
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
def test_completion_of_an_invalid_line_is_empty(complete, words):
    assert [each for each in complete(*words) if each != "--url"] == []


def test_completion_leaves_files_to_the_shell(cli, monkeypatch):
    monkeypatch.setenv("_RSMQ_COMPLETE", "bash_complete")
    for words in ("send q -f a", "send q --file = a", "export -o a", "import a"):
        monkeypatch.setenv("COMP_WORDS", f"rsmq {words}")
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        assert cli().out == "file,a\n"


def test_completion_offers_profiles(complete, monkeypatch, tmp_path):
    path = tmp_path / "config"
    path.write_text("[profiles.local]\n[profiles.live]\n")
    monkeypatch.setenv("RSMQ_CONFIG", str(path))

    assert complete("--profile", "l") == ["local", "live"]
    path.write_text("broken")
    assert complete("--profile", "l") == []


def test_completion_without_redis_is_empty(complete, monkeypatch):
    monkeypatch.setenv("RSMQ_URL", f"redis://127.0.0.1:{free_port()}/0")
    assert complete("send", "") == []
    monkeypatch.setenv("RSMQ_URL", "nonsense")
    assert complete("send", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_valid_for_its_shell(cli, tmp_path, shell):
    script = cli("completion", shell).out

    assert "_RSMQ_COMPLETE=" + shell in script.replace("env ", "")
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def test_bash_completes_with_the_script(cli, processes, rsmq, tmp_path):
    rsmq.create_queue("orders")
    program = tmp_path / "rsmq"
    program.write_text(f"#!/bin/sh\nPYTHONPATH={ROOT} exec {PROGRAM[0]} -c '{PROGRAM[2]}' \"$@\"\n")
    program.chmod(0o755)
    processes.environment["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "script").write_text(cli("completion", "bash").out)
    script_lines = (
        "source script; COMP_WORDS=(rsmq send or); COMP_CWORD=2; "
        '_rsmq_completion rsmq; echo "${COMPREPLY[@]}"; complete -p rsmq'
    )
    completed = subprocess.run(
        ["bash", "--norc", "-c", script_lines], env=processes.environment, cwd=tmp_path, check=True,
        capture_output=True, text=True,
    )  # fmt: skip

    assert completed.stdout.splitlines()[0] == "orders"
    assert "-F _rsmq_completion rsmq" in completed.stdout
