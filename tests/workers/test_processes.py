"""Listeners with process=True: their handlers run in child processes."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rsmq import InvalidFormat
from rsmq.errors import BodyNotDecodable
from rsmq.worker import (
    HandlerProcessDied,
    HandlerTimedOut,
    Middleware,
    RemoteError,
    Unroutable,
    Worker,
)
from rsmq.worker.runtime import processes
from tests.workers import process_app
from tests.workers.polling import wait_until

ROOT = Path(__file__).parents[2]


class App:
    """The module ``process_app``, with its events."""

    def __init__(self, module, path):
        self.module = module
        self.worker = module.worker
        self._path = path

    def events(self, kind):
        """Return the process id and the details of each event of a kind."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        found = [line.split(" ") for line in lines]
        return [(int(pid), *details) for pid, each, *details in found if each == kind]

    def dead_letters(self):
        """Return the body, the reason and the error of each dead letter, by body."""
        return {body: (reason, error) for body, reason, error in self.module.hooks.calls}


@pytest.fixture
def app(env, monkeypatch, tmp_path):
    path = tmp_path / "events"
    monkeypatch.setenv("PROCESS_APP_URL", env.url)
    monkeypatch.setenv("PROCESS_APP_NS", env.ns)
    monkeypatch.setenv("PROCESS_APP_EVENTS", str(path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    env.create_queues("q", "short", "batches", "routes", "dead")
    app = App(importlib.reload(process_app), path)
    yield app
    app.worker.stop(0)
    app.module.rsmq.close()


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def is_process(pid):
    """Return whether there is a process, also a zombie."""
    return Path(f"/proc/{pid}").exists()


def test_calls_run_in_child_processes_that_are_used_again(env, app):
    app.module.rsmq.send_messages("q", [1, 2, 3])
    app.worker.run(until_empty=True, timeout=60)
    app.module.rsmq.send_messages("q", [4])
    app.worker.name = "named"
    app.worker.run(until_empty=True, timeout=60)
    pids = {pid for pid, *_ in app.events("call")}

    assert sorted(details[0] for _, *details in app.events("call")) == ["1", "2", "3", "4"]
    assert os.getpid() not in pids
    assert pids <= {pid for pid, *_ in app.events("child_start")}
    assert len(app.events("child_start")) == len({pid for pid, *_ in app.events("child_start")})
    assert env.is_empty("q")
    assert not any(map(is_process, pids))
    names = [name for _, name in app.events("child_start")]
    assert names[-1] == "named"
    assert names[0].startswith(re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname()))


def test_outcomes_are_those_of_threads(env, app):
    bodies = ["fine", "raise", "final", "retry", "discard", "dead", {"any": "thing"}]
    found = {}
    for worker in (app.worker, app.module.threads):
        app.module.rsmq.send_messages("q", bodies)
        env.rsmq.send_message("q", "no JSON")
        worker.run(until_empty=True, timeout=60)
        assert env.is_empty("q")
        found[worker] = read_dead_letters(env)
        env.rsmq.purge_queue("dead")

    assert found[app.worker] == found[app.module.threads]
    assert [text for text, *_ in found[app.worker]] == ['"dead"', '"final"', '"raise"', "no JSON"]


def read_dead_letters(env):
    """Return the body, the reason and the exception of each dead letter, as stored."""
    bodies = env.raw.hgetall(f"{env.ns}:dead:Q")
    stored = env.raw.hgetall(f"{env.ns}:dead:x:reasons")
    found = []
    for id in env.scores("dead"):
        reason = json.loads(stored[id.encode()].decode().partition(":")[2].replace(id, "ID"))
        texts = reason["text"], reason["exception"], reason["attempts"]
        found.append((bodies[id.encode()].decode(), *texts))
    return sorted(found)


def test_hooks_get_the_remote_error(env, app):
    app.module.rsmq.send_messages("q", ["raise", "final"])
    app.module.rsmq.send_messages("routes", [{"type": "other"}, {"type": "created", "id": 7}])
    env.rsmq.send_message("routes", "no JSON")
    app.worker.run(until_empty=True, timeout=60)
    letters = app.module.hooks.calls
    by_name = {type(error).__name__: (reason, error) for _, reason, error in letters
               if not isinstance(error, BodyNotDecodable)}  # fmt: skip

    assert app.events("created")[0][1:] == ("7",)
    reason, error = by_name["ValueError"]
    assert isinstance(error, RemoteError)
    assert (str(error), error.is_final) == ("no stock", False)
    assert reason == "ValueError on attempt 2, the last"
    assert 'raise ValueError("no stock")' in str(error.__cause__)
    reason, error = by_name["NoSuchItem"]
    assert (str(error), error.is_final) == ("no item", True)
    assert reason == "NoSuchItem on attempt 1, which is not retried"
    assert isinstance(by_name["Unroutable"][1], Unroutable)


@pytest.mark.parametrize(("body", "end"), [("exit", "with code 3"), ("kill", "by SIGKILL")])
def test_a_dead_child_fails_only_its_own_message(env, app, body, end):
    app.module.rsmq.send_messages("q", [*range(10), body, *range(10, 20)])
    app.worker.run(until_empty=True, timeout=60)
    begun = [details[0] for _, *details in app.events("call")]
    reason, error = app.dead_letters()[body]

    assert begun.count(body) == 2
    assert sorted(begun) == sorted([*map(str, range(20)), body, body])
    assert reason == "HandlerProcessDied on attempt 2, the last"
    assert isinstance(error, HandlerProcessDied)
    assert end in str(error)
    assert list(env.scores("q")) == []
    assert not any(is_process(pid) for pid, *_ in app.events("call"))


def test_max_runtime_raises_an_error_in_the_handler(env, app):
    app.module.rsmq.send_messages("short", ["sleep"])
    app.worker.run(until_empty=True, timeout=60)
    reason, error = app.dead_letters()["sleep"]

    assert reason == "HandlerTimedOut on attempt 2, the last"
    assert isinstance(error, HandlerTimedOut)
    assert "time.sleep(60)" in str(error.__cause__)
    assert app.worker.numbers.hung == 2


@pytest.mark.parametrize("body", ["stubborn", "gil"])
def test_a_handler_that_goes_on_is_killed_with_its_processes(env, app, body, monkeypatch):
    monkeypatch.setattr(processes, "KILL_SECONDS", 0.5)
    app.module.rsmq.send_messages("short", [body])
    app.worker.run(until_empty=True, timeout=60)
    reason, error = app.dead_letters()[body]
    pids = [int(details[0]) for _, *details in app.events("started")]

    assert reason == "HandlerTimedOut on attempt 2, the last"
    assert "was killed" in str(error)
    assert len(app.events("caught")) == len(pids) == (2 if body == "stubborn" else 0)
    wait_until(lambda: not any(map(is_alive, pids)))


def test_sigterm_of_another_program_interrupts_no_call(env, app):
    env.rsmq.set_queue_attributes("q", vt=1)
    app.module.rsmq.send_message("q", "until_lost")
    app.worker.start()
    [(pid, *_)] = wait_until(lambda: app.events("call"))
    os.kill(pid, signal.SIGTERM)
    env.rsmq.delete_message("q", next(iter(env.scores("q"))))
    wait_until(lambda: app.events("lost"))

    assert is_alive(pid)


def test_a_lost_lease_is_reported_to_the_child(env, app):
    env.rsmq.set_queue_attributes("q", vt=1)
    app.module.rsmq.send_message("q", "until_lost")
    app.worker.start()
    wait_until(lambda: app.events("call"))
    assert not app.events("lost")
    [id] = env.scores("q")

    def receive():
        env.advance_time("q", 100)  # the worker may extend it at any time
        return env.rsmq.receive_message("q", vt=100)

    other = wait_until(receive)
    wait_until(lambda: app.events("lost"))
    wait_until(lambda: app.worker.numbers.lost)

    assert (other.id, list(env.scores("q"))) == (id, [id])  # the worker has not deleted it


def test_messages_of_a_batch_fail_one_by_one(env, app):
    app.module.rsmq.send_messages("batches", ["fine", "bad", "also fine"])
    env.rsmq.send_message("batches", "no JSON")
    app.worker.run(until_empty=True, timeout=60)
    found = {body: reason for body, reason, *_ in read_dead_letters(env)}

    assert env.is_empty("batches")
    assert found.keys() == {'"bad"', "no JSON"}
    assert "NoSuchItem on attempt 1" in found['"bad"']


def test_a_killed_worker_leaves_no_child(env, app, tmp_path):
    app.module.rsmq.send_message("q", "gil")
    program = subprocess.Popen(
        [sys.executable, "-m", "rsmq.cli.commands.worker", "tests.workers.process_app:worker"],
        cwd=ROOT, stderr=subprocess.PIPE,
    )  # fmt: skip
    [(pid, *_)] = wait_until(lambda: app.events("call"), 30)
    assert is_alive(pid)
    program.kill()
    program.communicate()

    wait_until(lambda: not is_alive(pid), 1)


def test_graceful_stop_ends_the_children_and_releases_their_messages(env, app):
    app.module.rsmq.send_message("q", "stubborn")
    app.worker.start()
    [(pid, *_)] = wait_until(lambda: app.events("call"))
    [(_, started)] = wait_until(lambda: app.events("started"))
    app.worker.stop(grace=0.1)
    [id] = env.scores("q")

    assert env.due_in("q", id) <= 0
    wait_until(lambda: not is_alive(pid) and not is_alive(int(started)))


def test_suspected_poison_message_runs_beside_others(env, app):
    app.module.rsmq.send_messages("q", ["sleep"])
    [id] = env.scores("q")
    env.raw.hset(f"{env.ns}:q:Q", mapping={f"{id}:rc": 4, f"{id}:fr": 1_000})
    app.worker.start()
    wait_until(lambda: app.events("call"))
    app.module.rsmq.send_messages("short", [1, 2])
    wait_until(lambda: env.is_empty("short"))

    assert app.events("call")[0][1:] == ("sleep", "5")
    assert env.raw.hgetall(f"{env.ns}:q:x:alone") != {}


def test_poison_message_without_an_outcome_is_moved(env, app):
    app.module.rsmq.send_messages("q", ["fine"])
    [id] = env.scores("q")
    env.raw.hset(f"{env.ns}:q:Q", mapping={f"{id}:rc": 8, f"{id}:fr": 1_000})
    env.raw.hset(f"{env.ns}:q:x:alone", id, "3:8")
    app.worker.run(until_empty=True, timeout=60)

    assert app.events("call") == []
    assert "begun 3 times in quarantine" in app.dead_letters()["fine"][0]


def test_worker_that_can_not_be_imported_is_refused(env):
    worker = env.create_worker()
    worker.listener("q", process=True, create=True, retry_forever=True)(len)
    with pytest.raises(InvalidFormat, match="must be a global of a module"):
        worker.start()

    assert env.raw.hgetall(f"{env.ns}:x:workers") == {}


@pytest.mark.parametrize(
    ("variable", "part"),
    [
        ("PROCESS_APP_FAILS_IN_CHILD", "RuntimeError: no model"),
        ("PROCESS_APP_STARTS", "the module starts the worker"),
    ],
)
def test_child_that_can_not_start_is_an_error_at_start(env, app, monkeypatch, variable, part):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(InvalidFormat, match=part):
        app.worker.start()

    assert env.raw.hgetall(f"{env.ns}:x:workers") == {}
    monkeypatch.delenv(variable)
    app.module.rsmq.send_message("q", 1)
    app.worker.run(until_empty=True, timeout=60)
    assert env.is_empty("q")


def test_plain_listeners_beside_process_listeners_are_refused(env, app):
    app.worker.listener("plain", create=True, retry_forever=True)(len)
    with pytest.raises(InvalidFormat, match="mixed=True"):
        app.worker.start()
    app.worker.mixed = True
    app.module.rsmq.create_queue("plain")
    app.module.rsmq.send_message("plain", "x")
    app.worker.run(until_empty=True, timeout=60)

    assert env.is_empty("plain")


def test_async_handlers_are_refused(env):
    async def handle(body):
        pass

    async def handle_route(body):
        pass

    worker = env.create_worker()
    with pytest.raises(InvalidFormat, match="plain functions only"):
        worker.listener("q", process=True)(handle)
    router = worker.router("q", by=lambda body: ("x", body), process=True)
    with pytest.raises(InvalidFormat, match="plain functions only"):
        router.on("x")(handle_route)


def test_child_start_of_a_worker_without_children_is_not_called(env, rsmq):
    class Recorder(Middleware):
        def child_start(self, worker):
            raise AssertionError

    env.create_queues("q")
    worker = Worker(rsmq, middleware=[Recorder()])
    worker.listener("q", retry_forever=True)(len)
    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=60)

    assert env.is_empty("q")
