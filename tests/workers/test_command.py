"""The program ``rsmq-worker``, started as a user starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from rsmq import RSMQ
from rsmq.worker import list_workers
from rsmq.worker.operations import Identity, register_worker
from tests.ports import free_port
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.workers.polling import wait_until

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


class WorkerProgram:
    """The program in a folder with an app, and its output."""

    def __init__(self, env, folder, module):
        self._env = env
        self._folder = folder
        self.module = module
        self._processes = []
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("RSMQ_")
        }
        self.environment |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

    def write_app(self, text=APP, **values):
        settings = {"url": self._env.url, "ns": self._env.ns, "name": None, **values}
        for name, value in settings.items():
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

    def run(self, *arguments, seconds=50):
        """
        Run the program until it exits by itself; return exit code, standard output and standard
        error. The time is shorter than that for which the program waits for Redis.
        """
        process = self.start(*arguments)
        out, errors = process.communicate(timeout=seconds)
        return process.returncode, out, errors

    def close(self):
        for process in self._processes:
            with process:  # closes its pipes, and waits
                process.kill()


@pytest.fixture
def program(env, tmp_path):
    program = WorkerProgram(env, tmp_path, f"app_{env.ns}")
    yield program
    program.close()


def live_workers(rsmq):
    """
    Return the live workers that have reported how many messages are in flight: those that have
    started.
    """
    return [each for each in list_workers(rsmq) if each.alive and each.queues]


def stop(process):
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate()
    return process.returncode, out, errors


def error_line(errors, code, actual_code):
    """Check that standard error is one line of the program, and return it without its prefix."""
    assert actual_code == code
    assert len(errors.splitlines()) == 1, errors
    assert errors.startswith("rsmq-worker: ")
    return errors.removeprefix("rsmq-worker: ").rstrip("\n")


def test_help_lists_every_option(program):
    code, out, errors = program.run("--help")

    assert (code, errors) == (0, "")
    assert out.startswith("Usage: rsmq-worker ")
    for option in (
        "MODULE:NAME", "--url", "--ns", "--name", "--concurrency", "--grace", "--log-level",
        "--log-format", "--metrics-port", "--metrics-host", "--list", "--pause", "--resume",
        "--wait-for-redis", "--burst", "--strict", "--processes", "--max-jobs-per-child",
        "--max-memory-per-child", "--reload", "--health-port", "--health-host",
    ):  # fmt: skip
        assert option in out


def test_worker_from_working_folder_runs_until_sigterm(env, rsmq, program):
    env.create_queues("q", "dead")
    program.write_app(name="orders-1")
    process = program.start(f"{program.module}:worker")
    (info,) = wait_until(lambda: live_workers(rsmq))
    assert (info.name, info.pid, info.queues) == ("orders-1", process.pid, {"q": 0})
    _, bad = rsmq.send_messages("q", ['{"id": 1}', '"bad"'])
    wait_until(lambda: list(env.scores("dead")) == [bad] and env.is_empty("q"))
    code, out, errors = stop(process)

    assert (code, out) == (0, "")
    lines = errors.splitlines()
    assert lines[0].endswith("worker orders-1 begins: q, concurrency 3")
    assert any("app: handles {'id': 1}" in line for line in lines)
    assert any(
        f"q {bad}: to dead after attempt 1: ValueError on attempt 1" in line for line in lines
    )
    assert "ValueError: no such order" in lines
    assert "worker orders-1 stops, by SIGTERM: handlers have 5 s to end" in errors
    assert lines[-1].endswith(
        "worker orders-1 ends: 2 received, 1 handled, 1 failed, 0 retried, 0 deferred, 1 dead, "
        "0 dropped, 0 lost, 0 released, 0 hung"
    )
    assert list_workers(rsmq) == []


def test_log_lines_are_json_with_log_format_json(env, rsmq, program):
    env.create_queues("q", "dead")
    program.write_app(name="w")
    process = program.start(f"{program.module}:worker", "--log-format", "json")
    wait_until(lambda: live_workers(rsmq))
    ids = rsmq.send_messages("q", ['"bad"', '"good"'])
    wait_until(lambda: env.is_empty("q"))
    code, _, errors = stop(process)

    assert code == 0
    lines = [json.loads(line) for line in errors.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert {(line["pid"], line["worker"]) for line in lines} == {(process.pid, "w")}
    handled = {(line["message_id"], line["message"]) for line in lines if line["logger"] == "app"}
    assert handled == {(ids[0], "handles bad"), (ids[1], "handles good")}
    (dead,) = (line for line in lines if line["level"] == "error")
    assert (dead["queue"], dead["message_id"], dead["attempt"]) == ("q", ids[0], 1)
    assert dead["traceback"].endswith("ValueError: no such order")
    assert lines[-1]["message"].startswith("worker w ends: 2 received")


def test_burst_ends_when_the_queues_are_empty(env, rsmq, program):
    env.create_queues("q", "dead")
    program.write_app(name="w")
    rsmq.send_messages("q", ['"good"', '"bad"'])
    code, _, errors = program.run(f"{program.module}:worker", "--burst")

    assert code == 0
    assert "handles good" in errors
    assert env.is_empty("q")
    assert len(env.scores("dead")) == 1


def test_strict_program_refuses_a_listener_without_a_choice(env, program):
    env.create_queues("q", "dead")
    program.write_app(APP.replace(', max_retries=0, dead_letter_queue="dead"', ""), name="w")
    code, _, errors = program.run(f"{program.module}:worker", "--strict")

    assert "retry_forever=True" in error_line(errors, 2, code)


def test_worker_waits_at_its_start_for_a_redis_that_is_away(env, program):
    server = Server(redis_7())
    with RSMQ.from_url(server.url, ns=env.ns) as rsmq:
        rsmq.create_queue("q")
        rsmq.create_queue("dead")
        rsmq.send_message("q", '"good"')
    server.raw().config_set("appendonly", "yes")
    wait_until(lambda: not server.raw().info("persistence")["aof_rewrite_in_progress"])
    server.kill()
    program.write_app(url=server.url, name="w")
    process = program.start(f"{program.module}:worker", "--burst")
    wait_until(lambda: "Waiting for up to 60 seconds" in process.stderr.readline())
    server.command += ["--appendonly", "yes"]
    server.start()
    _, errors = process.communicate()
    server.stop()

    assert process.returncode == 0
    assert "handles good" in errors


def test_worker_waits_no_longer_than_it_should(program):
    program.write_app(url=f"redis://127.0.0.1:{free_port()}")
    code, _, errors = program.run(f"{program.module}:worker", "--wait-for-redis", "1")

    assert code == 4
    assert errors.splitlines()[-1].startswith("rsmq-worker: ")


HANGS = """
import threading
from rsmq import RSMQ
from rsmq.worker import Worker

worker = Worker(RSMQ.from_url({url!r}, ns={ns!r}), name={name!r}, concurrency=1, grace=0)

@worker.listener("q", max_runtime=0.1, retry_forever=True, backoff=900)
def handle(body):
    threading.Event().wait()
"""


def test_hanging_calls_have_an_exit_code_of_their_own(env, rsmq, program):
    env.create_queues("q")
    rsmq.send_messages("q", ["x"] * 3)
    program.write_app(HANGS)
    code, _, errors = program.run(f"{program.module}:worker")

    assert code == 6
    assert errors.splitlines()[-1].startswith("rsmq-worker: Too many handler calls hang.")


ENDS = """
import asyncio
import sys
from rsmq import RSMQ
from rsmq.worker import Worker

worker = Worker(RSMQ.from_url({url!r}, ns={ns!r}), name={name!r}, grace=5)

async def end():
    sys.exit(3)

@worker.listener("q", retry_forever=True)
async def handle(body):
    asyncio.create_task(end())
    await asyncio.sleep(60)
"""


def test_end_of_the_event_loop_has_an_exit_code_of_its_own(env, rsmq, program):
    env.create_queues("q")
    rsmq.send_messages("q", ["x"] * 3)
    program.write_app(ENDS)
    code, _, errors = program.run(f"{program.module}:worker")

    assert code == 8
    assert (
        "rsmq-worker: The handlers of the worker can't be called any more. Its event loop" in errors
    )
    assert rsmq.get_queue_attributes("q").visible_messages == 3


BLOCKS = """
import time
from rsmq import RSMQ
from rsmq.worker import Worker

worker = Worker(RSMQ.from_url({url!r}, ns={ns!r}), name={name!r}, grace=5)

@worker.listener("q", vt=3, max_runtime=1.5, retry_forever=True, backoff=900)
async def block_the_loop(body):
    time.sleep(3600)
"""


def test_blocked_event_loop_has_an_exit_code_of_its_own(env, rsmq, program):
    env.create_queues("q")
    id = rsmq.send_message("q", "x")
    program.write_app(BLOCKS)
    code, _, errors = program.run(f"{program.module}:worker", seconds=WAIT_SECONDS)

    assert code == 9
    assert f"The handler of q with message {id} blocks the event loop" in errors
    assert f"{program.module}.py:10, block_the_loop" in errors
    assert "    time.sleep(3600)" in errors, "the stack"
    assert "rsmq-worker: The handlers of the worker could not be called for too long." in errors
    assert env.due_in("q", id) > 600


def test_command_line_options_override_module(env, rsmq, program):
    env.create_queues("q", "dead")
    program.write_app(url="redis://127.0.0.1:1/0", ns="elsewhere", name="module")
    process = program.start(
        f"{program.module}:inside.worker", "--url", env.url, "--ns", env.ns, "--name", "line",
        "--concurrency", 7, "--grace", 1.5, "--log-level", "debug",
    )  # fmt: skip
    (info,) = wait_until(lambda: live_workers(rsmq))
    id = rsmq.send_message("q", "1")
    wait_until(lambda: env.is_empty("q"))
    code, _, errors = stop(process)

    assert (code, info.name) == (0, "line")
    assert "worker line begins: q, concurrency 7" in errors
    assert "handlers have 1.5 s to end" in errors
    assert f"q {id}: handled in 0." in errors


def test_environment_sets_url(env, rsmq, program):
    env.create_queues("q", "dead")
    program.write_app(url="redis://127.0.0.1:1/0")
    program.environment["RSMQ_URL"] = env.url
    process = program.start(f"{program.module}:worker")
    wait_until(lambda: live_workers(rsmq))

    assert stop(process)[0] == 0


def test_environment_sets_namespace(env, rsmq, program):
    env.create_queues("q", "dead")
    program.write_app(ns="elsewhere")
    program.environment["RSMQ_NS"] = env.ns
    process = program.start(f"{program.module}:worker", "--url", env.url)
    wait_until(lambda: live_workers(rsmq))

    assert stop(process)[0] == 0


def test_another_namespace_needs_a_url(program):
    program.write_app(ns="mine")
    code, _, stderr = program.run(f"{program.module}:worker", "--ns", "other")

    assert code == 2
    assert "the namespace 'other', of --ns or RSMQ_NS, goes with --url or RSMQ_URL" in stderr


def has_signal_handler(process, number):
    """Return whether a process has a handler for this signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught_signals,) = (
        line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")
    )
    return int(caught_signals, 16) >> (number - 1) & 1


def test_sigterm_during_wait_for_name_ends_worker_cleanly(env, rsmq, program):
    env.create_queues("q", "dead")
    rsmq.run(register_worker(Identity(rsmq.namespace, "w", "t"), {}, ttl=4, dead=""))
    program.write_app(name="w")
    # An exception that a signal raises in coverage's lock leaves it locked: the process hangs.
    program.environment.pop("COVERAGE_PROCESS_CONFIG", None)
    process = program.start(f"{program.module}:worker")
    wait_until(lambda: has_signal_handler(process, signal.SIGTERM))
    code, _, errors = stop(process)

    assert code == 0
    assert "worker w ends before it began" in errors.splitlines()[-1]


def test_workers_are_listed(env, rsmq, program):
    env.create_queues("q", "dead")
    where = ("--url", env.url, "--ns", env.ns)
    code, out, errors = program.run("--list", *where)
    assert (code, out.split()[:2], errors) == (0, ["NAME", "ALIVE"], "")
    assert len(out.splitlines()) == 1
    program.write_app(name="w")
    process = program.start(f"{program.module}:worker")
    wait_until(lambda: live_workers(rsmq))
    rsmq.run(register_worker(Identity(rsmq.namespace, "dead", "t"), {}, ttl=0.01, dead=""))
    time.sleep(0.02)
    code, out, _ = program.run("--list", *where)

    assert code == 0
    heading, dead, live = (line.split() for line in out.splitlines())
    assert heading == [
        "NAME", "ALIVE", "FOR", "HANDLED", "FAILED", "HOLDS", "PROCESS", "HOST"
    ]  # fmt: skip
    assert dead[:2] == ["dead", "no"]
    assert live[:2] == ["w", "yes"]
    assert live[2].rstrip("hms").isdigit()
    assert live[-5:] == ["0", "0", "-", str(process.pid), socket.gethostname()]


def test_output_of_list_and_errors_is_json_with_the_log_format(env, program):
    where = ("--url", env.url, "--ns", env.ns, "--log-format", "json")
    code, out, errors = program.run("--list", *where)
    assert (code, json.loads(out), errors) == (0, [], "")
    code, out, errors = program.run("--pause", "none", *where)
    assert (code, out, json.loads(errors)["error"]) == (3, "", "queueNotFound")


def test_queues_are_paused_and_resumed(env, rsmq, program):
    env.create_queues("q")
    where = ("--url", env.url, "--ns", env.ns)

    assert program.run("--pause", "q", *where) == (0, "q: paused\n", "")
    assert rsmq.get_queue_attributes("q").paused
    assert program.run("--pause", "q", *where) == (0, "q: was paused already\n", "")
    assert program.run("--resume", "q", *where) == (0, "q: resumed\n", "")
    assert not rsmq.get_queue_attributes("q").paused
    assert program.run("--resume", "q", *where) == (0, "q: was resumed already\n", "")


def test_metrics_are_served_over_http(env, rsmq, program):
    env.create_queues("q", "dead")
    program.write_app()
    port = free_port()
    process = program.start(f"{program.module}:worker", "--metrics-port", port)
    wait_until(lambda: live_workers(rsmq))
    rsmq.send_message("q", "1")
    wait_until(lambda: env.is_empty("q"))

    def handled():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            line = f'rsmq_messages_handled_total{{ns="{env.ns}",queue="q"}} 1.0'
            return line in answer.read().decode()

    wait_until(handled)
    assert stop(process)[0] == 0


# Errors are one line, and an exit code.


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "Missing argument 'MODULE:NAME'."),
        (("--no-such-option",), "No such option"),
        (("x:y", "--concurrency", "many"), "Invalid value for '--concurrency': 'many' is not a"),
    ],
)
def test_wrong_arguments_are_one_line_that_names_the_help(program, arguments, error):
    code, out, errors = program.run(*arguments)
    line = error_line(errors, 2, code)
    assert out == ""
    assert line.startswith(error)
    assert line.endswith("See rsmq-worker --help.")


def test_address_without_worker_is_reported(program):
    program.write_app()
    module = program.module
    expected_parts = {
        "no_such_module:worker": "no_such_module",
        f"{module}.inner:worker": f"{module}.inner",
        module: "MODULE:NAME",
        "my-app:worker": "write package.module:NAME",
        f"{module}:": "MODULE:NAME",
        f"{module}:nothing": "nothing",
        f"{module}:number": "int",
        f"{module}:empty": "It has no handlers",
    }
    for address, part in expected_parts.items():
        code, out, errors = program.run(address)
        assert out == ""
        assert part in error_line(errors, 2, code)


def test_missing_module_attribute_is_not_reported_as_none(program):
    program.write_app()
    code, _, errors = program.run(f"{program.module}:nothing")

    assert "NoneType" not in error_line(errors, 2, code)


def test_missing_dependency_of_module_is_raised_unchanged(program):
    program.write_app("import no_such_dependency\n")
    code, _, errors = program.run(f"{program.module}:worker")

    assert code == 1
    assert errors.splitlines()[-1] == "ModuleNotFoundError: No module named 'no_such_dependency'"


def test_a_server_that_does_not_answer_is_a_warning_and_then_ends_the_program(program):
    port = free_port()
    program.write_app(url=f"redis://127.0.0.1:{port}/0")
    code, _, errors = program.run(f"{program.module}:worker", "--wait-for-redis", "0")

    warning, last = errors.splitlines(keepends=True)
    assert re.search(
        rf"Z WARNING \[\d+\] rsmq.transport: Error 111 connecting to 127.0.0.1:{port}. Connection "
        rf"refused. Is Redis running at 127.0.0.1:{port}\? The call is retried for \d more "
        r"seconds? \(retry_deadline\)\.\n$",
        warning,
    )
    assert error_line(last, 4, code).startswith(f"Redis: Error 111 connecting to 127.0.0.1:{port}.")


@pytest.mark.parametrize(
    "url", ["http://user:geheim@127.0.0.1/0", "geheim", "redis://u:geheim@127.0.0.1:port/0"]
)
def test_wrong_url_is_reported_without_password(program, url):
    program.write_app()
    for arguments in ((f"{program.module}:worker",), ("--list",)):
        code, _, errors = program.run(*arguments, "--url", url)
        line = error_line(errors, 2, code)
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
def test_option_out_of_range_is_reported(env, program, arguments, part):
    env.create_queues("q", "dead")
    program.write_app()
    code, _, errors = program.run(f"{program.module}:worker", *arguments)

    assert part in error_line(errors, 2, code)


def test_name_of_live_worker_is_reported(env, rsmq, program):
    env.create_queues("q", "dead")
    program.write_app(name="w")
    first = program.start(f"{program.module}:worker")
    wait_until(lambda: live_workers(rsmq))
    code, _, errors = program.run(f"{program.module}:worker")

    assert "rsmq-worker: A worker named 'w' is running. It runs on host " in errors
    assert (code, len(errors.splitlines())) == (7, 2)
    assert "waits to see whether another one of its name is alive" in errors
    assert stop(first)[0] == 0


def test_missing_queue_is_reported(program):
    program.write_app()
    code, _, errors = program.run(f"{program.module}:worker")

    assert error_line(errors, 3, code).startswith("Queue not found: 'q' (namespace ")


def test_pause_of_missing_queue_is_reported(env, program):
    code, _, errors = program.run("--pause", "none", "--url", env.url, "--ns", env.ns)

    assert error_line(errors, 3, code).startswith("Queue not found: 'none' ")
