"""``rsmq-worker``, as people start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from rsmq.operations.worker import Identity, register_worker
from rsmq.worker import list_workers
from tests.servers import free_port
from tests.workers.until import until

ROOT = Path(__file__).parents[2]

APP = """
import logging
from rsmq import JSON, RSMQ
from rsmq.worker import Worker

rsmq = RSMQ.from_url({url!r}, ns={ns!r})
worker = Worker(rsmq, name={name!r}, concurrency=3, grace=5)
log = logging.getLogger("app")

@worker.listener("q", codec=JSON, max_retries=0, dead_letter_queue="dead")
def handle(order, message):
    log.info("handles %s", order)
    if order == "bad":
        raise ValueError("no such order")

empty = Worker(rsmq)
number = 5

class inside:
    worker = worker
"""


class Command:
    """The command in a folder with an app, and what it says."""

    def __init__(self, place, folder, module):
        self._place = place
        self._folder = folder
        self.module = module
        self._processes = []
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RSMQ_", "COVERAGE_"))
        }
        self.environment |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

    def app(self, text=APP, **values):
        given = {"url": self._place.url, "ns": self._place.ns, "name": None, **values}
        for name, value in given.items():
            text = text.replace("{" + name + "!r}", repr(value))
        (self._folder / f"{self.module}.py").write_text(text)

    def start(self, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "rsmq.cli.commands.worker", *map(str, arguments)],
            cwd=self._folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def ends(self, *arguments, seconds=15):
        """Exit code, standard output and standard error of one that ends by itself."""
        process = self.start(*arguments)
        out, said = process.communicate(timeout=seconds)
        return process.returncode, out, said

    def close(self):
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def command(place, tmp_path):
    command = Command(place, tmp_path, f"app_{place.ns}")
    yield command
    command.close()


def alive(rsmq):
    """Those that have begun, which say what they hold then."""
    return [each for each in list_workers(rsmq) if each.alive and each.queues]


def stopped(process):
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate(timeout=10)
    return process.returncode, out, said


def one_line(said, code, returned):
    """Standard error is one line of ours."""
    assert returned == code
    assert len(said.splitlines()) == 1, said
    assert said.startswith("rsmq-worker: ")
    return said.removeprefix("rsmq-worker: ").rstrip("\n")


def test_help_tells_of_every_option(command):
    code, out, said = command.ends("--help")

    assert (code, said) == (0, "")
    assert out.startswith("usage: rsmq-worker ")
    for option in (
        "MODULE:NAME", "--url", "--ns", "--name", "--concurrency", "--grace", "--log-level",
        "--log-format", "--metrics-port", "--metrics-host", "--list", "--pause", "--resume",
    ):  # fmt: skip
        assert option in out


def test_a_worker_of_the_working_folder_runs_until_it_is_told_to_stop(place, rsmq, command):
    place.queues("q", "dead")
    command.app(name="orders-1")
    process = command.start(f"{command.module}:worker")
    (info,) = until(lambda: alive(rsmq))
    assert (info.name, info.pid, info.queues) == ("orders-1", process.pid, {"q": 0})
    _, bad = rsmq.send_messages("q", ['{"id": 1}', '"bad"'])
    until(lambda: list(place.scores("dead")) == [bad] and place.empty("q"))
    code, out, said = stopped(process)

    assert (code, out) == (0, "")
    lines = said.splitlines()
    assert lines[0].endswith("worker orders-1 begins: q, concurrency 3")
    assert any("app: handles {'id': 1}" in line for line in lines)
    assert any(
        f"q {bad}: to dead after attempt 1: ValueError on attempt 1" in line for line in lines
    )
    assert "ValueError: no such order" in lines
    assert "worker orders-1 stops, by SIGTERM: handlers have 5 s to end" in said
    assert lines[-1].endswith(
        "worker orders-1 ends: 2 received, 1 handled, 1 failed, 0 retried, 1 dead, 0 dropped, "
        "0 lost, 0 released, 0 hung"
    )
    assert list_workers(rsmq) == []


def test_lines_may_be_json(place, rsmq, command):
    place.queues("q", "dead")
    command.app(name="w")
    process = command.start(f"{command.module}:worker", "--log-format", "json")
    until(lambda: alive(rsmq))
    ids = rsmq.send_messages("q", ['"bad"', '"good"'])
    until(lambda: place.empty("q"))
    code, _, said = stopped(process)

    assert code == 0
    lines = [json.loads(line) for line in said.splitlines()]
    assert all({"time", "level", "logger", "text"} <= line.keys() for line in lines)
    handled = {(line["message_id"], line["text"]) for line in lines if line["logger"] == "app"}
    assert handled == {(ids[0], "handles bad"), (ids[1], "handles good")}
    (dead,) = (line for line in lines if line["level"] == "error")
    assert (dead["queue"], dead["message_id"], dead["attempt"]) == ("q", ids[0], 1)
    assert dead["traceback"].endswith("ValueError: no such order")
    assert lines[-1]["text"].startswith("worker w ends: 2 received")


def test_what_the_command_line_says_comes_before_what_the_module_says(place, rsmq, command):
    place.queues("q", "dead")
    command.app(url="redis://127.0.0.1:1/0", ns="elsewhere", name="module")
    process = command.start(
        f"{command.module}:inside.worker", "--url", place.url, "--ns", place.ns, "--name", "line",
        "--concurrency", 7, "--grace", 1.5, "--log-level", "debug",
    )  # fmt: skip
    (info,) = until(lambda: alive(rsmq))
    id = rsmq.send_message("q", "1")
    until(lambda: place.empty("q"))
    code, _, said = stopped(process)

    assert (code, info.name) == (0, "line")
    assert "worker line begins: q, concurrency 7" in said
    assert "handlers have 1.5 s to end" in said
    assert f"q {id}: handled in 0." in said


def test_the_environment_says_where_redis_is(place, rsmq, command):
    place.queues("q", "dead")
    command.app(url="redis://127.0.0.1:1/0")
    command.environment["RSMQ_URL"] = place.url
    process = command.start(f"{command.module}:worker")
    until(lambda: alive(rsmq))

    assert stopped(process)[0] == 0


def test_the_environment_says_which_namespace(place, rsmq, command):
    place.queues("q", "dead")
    command.app(ns="elsewhere")
    command.environment["RSMQ_NS"] = place.ns
    process = command.start(f"{command.module}:worker", "--url", place.url)
    until(lambda: alive(rsmq))

    assert stopped(process)[0] == 0


def catches(process, number):
    """Whether a process has a handler for this signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return int(caught, 16) >> (number - 1) & 1


def test_a_worker_that_is_told_to_stop_while_it_waits_for_its_name_ends_in_order(
    place, rsmq, command
):
    place.queues("q", "dead")
    rsmq.run(register_worker(Identity(rsmq.namespace, "w", "t"), {}, ttl=4, dead=""))
    command.app(name="w")
    process = command.start(f"{command.module}:worker")
    until(lambda: catches(process, signal.SIGTERM))
    code, _, said = stopped(process)

    assert code == 0
    assert "worker w ends before it began" in said.splitlines()[-1]


def test_workers_are_listed(place, rsmq, command):
    place.queues("q", "dead")
    where = ("--url", place.url, "--ns", place.ns)
    code, out, said = command.ends("--list", *where)
    assert (code, out.split()[:2], said) == (0, ["NAME", "ALIVE"], "")
    assert len(out.splitlines()) == 1
    command.app(name="w")
    process = command.start(f"{command.module}:worker")
    until(lambda: alive(rsmq))
    rsmq.run(register_worker(Identity(rsmq.namespace, "dead", "t"), {}, ttl=0.01, dead=""))
    time.sleep(0.02)
    code, out, _ = command.ends("--list", *where)

    assert code == 0
    heading, dead, live = (line.split() for line in out.splitlines())
    assert heading[:2] == ["NAME", "ALIVE"]
    assert dead[:2] == ["dead", "no"]
    assert live[:2] == ["w", "yes"]
    assert live[2].startswith("20")
    assert live[-5:] == [str(process.pid), "q:", "0", "0", "0"]


def test_output_of_list_and_errors_is_json_with_the_log_format(place, command):
    where = ("--url", place.url, "--ns", place.ns, "--log-format", "json")
    code, out, said = command.ends("--list", *where)
    assert (code, json.loads(out), said) == (0, [], "")
    code, out, said = command.ends("--pause", "none", *where)
    assert (code, out, json.loads(said)["error"]) == (3, "", "queueNotFound")


def test_queues_are_paused_and_resumed(place, rsmq, command):
    place.queues("q")
    where = ("--url", place.url, "--ns", place.ns)

    assert command.ends("--pause", "q", *where) == (0, "q: paused\n", "")
    assert rsmq.get_queue_attributes("q").paused
    assert command.ends("--pause", "q", *where) == (0, "q: was paused already\n", "")
    assert command.ends("--resume", "q", *where) == (0, "q: resumed\n", "")
    assert not rsmq.get_queue_attributes("q").paused
    assert command.ends("--resume", "q", *where) == (0, "q: was resumed already\n", "")


def test_prometheus_is_answered(place, rsmq, command):
    place.queues("q", "dead")
    command.app()
    port = free_port()
    process = command.start(f"{command.module}:worker", "--metrics-port", port)
    until(lambda: alive(rsmq))
    rsmq.send_message("q", "1")
    until(lambda: place.empty("q"))

    def handled():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return 'rsmq_messages_handled_total{queue="q"} 1.0' in answer.read().decode()

    until(handled)
    assert stopped(process)[0] == 0


# Errors are one line, and an exit code.


def test_wrong_arguments_are_told_with_the_usage(command):
    for arguments in ((), ("--no-such-option",), ("x:y", "--concurrency", "many")):
        code, out, said = command.ends(*arguments)
        assert (code, out) == (2, "")
        assert said.startswith("usage: rsmq-worker ")


def test_a_name_that_leads_to_no_worker_is_told(command):
    command.app()
    module = command.module
    told = {
        "no_such_module:worker": "no_such_module",
        f"{module}.inner:worker": f"{module}.inner",
        module: "MODULE:NAME",
        f"{module}:": "MODULE:NAME",
        f"{module}:nothing": "nothing",
        f"{module}:number": "int",
        f"{module}:empty": "It has nothing to call",
    }
    for app, part in told.items():
        code, out, said = command.ends(app)
        assert out == ""
        assert part in one_line(said, 2, code)


def test_a_name_that_the_module_does_not_have_is_not_said_to_be_a_value(command):
    command.app()
    code, _, said = command.ends(f"{command.module}:nothing")

    assert "NoneType" not in one_line(said, 2, code)


def test_what_a_module_needs_and_is_missing_is_told_as_it_is(command):
    command.app("import no_such_dependency\n")
    code, _, said = command.ends(f"{command.module}:worker")

    assert code == 1
    assert said.splitlines()[-1] == "ModuleNotFoundError: No module named 'no_such_dependency'"


def test_a_server_that_does_not_answer_ends_the_program_with_one_line(command):
    command.app(url=f"redis://127.0.0.1:{free_port()}/0")
    code, _, said = command.ends(f"{command.module}:worker", seconds=50)

    assert one_line(said, 4, code).startswith("Redis: ")


@pytest.mark.parametrize(
    "url", ["http://user:geheim@127.0.0.1/0", "geheim", "redis://u:geheim@127.0.0.1:port/0"]
)
def test_a_wrong_url_is_told_without_its_password(command, url):
    command.app()
    for arguments in ((f"{command.module}:worker",), ("--list",)):
        code, _, said = command.ends(*arguments, "--url", url)
        line = one_line(said, 2, code)
        assert "url" in line.lower()
        assert ":geheim@" not in line


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--name", "a b"), "Invalid name format"),
        (("--concurrency", "0"), "concurrency must be between 1 and 10000"),
        (("--grace", "-1"), "grace must be between 0 and 9999999"),
        (("--metrics-port", "99999999"), "port"),
    ],
)
def test_an_option_out_of_range_is_told(place, command, arguments, part):
    place.queues("q", "dead")
    command.app()
    code, _, said = command.ends(f"{command.module}:worker", *arguments)

    assert part in one_line(said, 2, code)


def test_a_name_that_is_taken_is_told(place, rsmq, command):
    place.queues("q", "dead")
    command.app(name="w")
    first = command.start(f"{command.module}:worker")
    until(lambda: alive(rsmq))
    code, _, said = command.ends(f"{command.module}:worker")

    assert "rsmq-worker: A worker named w is alive. It says of itself: host " in said
    assert (code, len(said.splitlines())) == (2, 2)
    assert "waits to see whether another one of its name is alive" in said
    assert stopped(first)[0] == 0


def test_a_missing_queue_is_told(command):
    command.app()
    code, _, said = command.ends(f"{command.module}:worker")

    assert one_line(said, 3, code).startswith("Queue not found. There is no queue 'q'")


def test_a_missing_queue_can_not_be_paused(place, command):
    code, _, said = command.ends("--pause", "none", "--url", place.url, "--ns", place.ns)

    assert one_line(said, 3, code).startswith("Queue not found.")
