"""Listeners with process=True: their handlers run in child processes."""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rsmq import InvalidFormat
from rsmq.errors import BodyNotDecodable
from rsmq.worker import (
    Discard,
    HandlerCancelled,
    HandlerProcessDied,
    HandlerTimedOut,
    Middleware,
    RemoteError,
    Retry,
    StopEvent,
    Unroutable,
    Worker,
)
from rsmq.worker.children import channel, child_process, process_starter, processes
from rsmq.worker.loop import heartbeat
from tests.bytecodes import Raised, raising
from tests.scale import WAIT_SECONDS
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
    except (FileNotFoundError, ProcessLookupError):  # also between its open and its read
        return False


def is_process(pid):
    """Return whether there is a process, also a zombie."""
    return Path(f"/proc/{pid}").exists()


def test_a_message_in_a_child_is_tried_as_often_as_its_sender_says(env, app):
    app.module.rsmq.send_message("q", "raise", max_retries=0)
    app.module.rsmq.send_message("batches", "raise", max_retries=2)
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert app.dead_letters()["raise"][0] == "ValueError on attempt 3, the last"
    assert [details for _, *details in app.events("call")] == [["raise", "1"]]
    assert sorted(each.reason.attempts for each in env.rsmq.peek_messages("dead")) == [1, 3]


def test_calls_run_in_child_processes_that_are_used_again(env, app):
    app.module.rsmq.send_messages("q", [1, 2, 3])
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
    app.module.rsmq.send_messages("q", [4])
    app.worker.name = "named"
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
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


def test_outcomes_are_those_of_threads(env, app, caplog):
    caplog.set_level(logging.CRITICAL, "rsmq.worker")  # pytest-xdist can't send half a character
    bodies = ["fine", "raise", "final", "retry", "discard", "dead", {"any": "thing"}, "surrogate",
              "bad_note"]  # fmt: skip
    found = {}
    for worker in (app.worker, app.module.threads):
        app.module.rsmq.send_messages("q", bodies)
        env.rsmq.send_message("q", "no JSON")
        worker.run(until_empty=True, timeout=WAIT_SECONDS)
        assert env.is_empty("q")
        found[worker] = read_dead_letters(env)
        env.rsmq.purge_queue("dead")

    assert found[app.worker] == found[app.module.threads]
    assert [text for text, *_ in found[app.worker]] == [
        '"dead"', '"final"', '"raise"', '"surrogate"', "no JSON"
    ]  # fmt: skip


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


def test_deferred_messages_have_no_attempt(env, app):
    app.module.rsmq.send_messages("q", ["defer"])
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS, raise_errors=True)

    assert len(app.events("call")) == 4
    numbers = app.worker.numbers
    assert (numbers.deferred, numbers.failed, numbers.handled) == (3, 0, 1)
    assert read_dead_letters(env) == []
    assert env.is_empty("q")


def test_hooks_get_the_remote_error(env, app):
    app.module.rsmq.send_messages("q", ["raise", "final"])
    app.module.rsmq.send_messages("routes", [{"type": "other"}, {"type": "created", "id": 7}])
    env.rsmq.send_message("routes", "no JSON")
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
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


def test_retry_that_was_changed_has_the_back_off_of_the_listener(env, app):
    app.module.rsmq.send_messages("q", ["bad_retry"])
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
    reason, error = app.dead_letters()["bad_retry"]

    assert reason == "Retry on attempt 2, the last"
    assert (type(error), str(error)) == (Retry, "later")


@pytest.mark.parametrize("kind", ["__str__", "__class__", "raising __getattribute__"])
def test_error_that_cannot_be_read_in_the_child_has_a_reason(env, app, kind):
    app.module.rsmq.send_messages("q", [f"hostile {kind}", "done"])
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
    reason, error = app.dead_letters()[f"hostile {kind}"]

    assert reason.endswith("on attempt 2, the last")
    assert isinstance(error, RemoteError)
    assert "raise make_hostile_error" in str(error.__cause__)


@pytest.mark.parametrize(("body", "end"), [("exit", "with code 3"), ("kill", "by SIGKILL")])
def test_a_dead_child_fails_only_its_own_message(env, app, body, end):
    app.module.rsmq.send_messages("q", [*range(10), body, *range(10, 20)])
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
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
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
    reason, error = app.dead_letters()["sleep"]

    assert reason == "HandlerTimedOut on attempt 2, the last"
    assert isinstance(error, HandlerTimedOut)
    assert "time.sleep(60)" in str(error.__cause__)
    assert app.worker.numbers.hung == 2


@pytest.mark.parametrize("body", ["stubborn", "gil"])
def test_a_handler_that_goes_on_is_killed_with_its_processes(env, app, body, monkeypatch):
    monkeypatch.setattr(child_process, "KILL_SECONDS", 0.5)
    app.module.rsmq.send_messages("short", [body])
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
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


def test_a_process_that_a_handler_forked_is_ended_by_sigterm(env, app):
    app.module.rsmq.send_message("q", "fork")
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
    [(_, number)] = app.events("fork_ended")

    assert int(number) == signal.SIGTERM


def test_children_live_as_long_as_any_thread_of_the_program(env, app):
    program = (
        "import threading, time\n"
        "from tests.workers.process_app import GO, note, worker\n"
        "def keep_alive():\n"
        "    threading.main_thread().join()\n"
        "    note('main_has_ended')\n"
        "    while not GO.exists():\n"
        "        time.sleep(0.01)\n"
        "threading.Thread(target=keep_alive).start()\n"
        "worker.start()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: app.events("main_has_ended"))
        app.module.rsmq.send_messages("q", [1, 2])
        wait_until(lambda: env.is_empty("q"))
        [pid] = {pid for pid, *_ in app.events("call")} & {
            pid for pid, *_ in app.events("child_start")[:1]
        }
        assert is_alive(pid)
    finally:
        app.module.GO.touch()
        process.communicate()


def hold_start(app, monkeypatch):
    """Start a call in the first child; let no other child become ready."""
    monkeypatch.setattr(heartbeat, "_MAX_CHILD_END_SECONDS", 0)
    app.worker.start()
    app.module.HOLD_START.touch()
    app.module.rsmq.send_message("q", "wait")
    wait_until(lambda: app.events("call"))
    app.module.rsmq.send_message("short", 1)
    wait_until(lambda: len(app.events("child_start")) == 2)


def test_start_of_a_child_is_not_runtime_of_the_handler(env, app, monkeypatch):
    checks = []
    abandon = heartbeat.Heartbeat.abandon_hung_calls

    def count(self, *arguments, **options):
        checks.append(1)
        abandon(self, *arguments, **options)

    monkeypatch.setattr(heartbeat.Heartbeat, "abandon_hung_calls", count)
    hold_start(app, monkeypatch)
    seen = len(checks)
    wait_until(lambda: len(checks) >= seen + 3)  # one each second: max_runtime is shorter
    assert app.worker.numbers.hung == 0
    app.module.HOLD_START.unlink()
    wait_until(lambda: env.is_empty("short"))
    app.module.GO.touch()
    wait_until(lambda: env.is_empty("q"))

    assert list(env.scores("dead")) == []
    assert app.worker.numbers.failed == 0


def test_call_that_waits_for_a_child_takes_one_that_becomes_idle(env, app, monkeypatch):
    hold_start(app, monkeypatch)
    app.module.GO.touch()
    wait_until(lambda: env.is_empty("short"))
    first, second = (pid for pid, *_ in app.events("call"))

    assert first == second
    app.module.HOLD_START.unlink()


def test_refused_thread_for_the_start_of_a_child_is_logged_once(env, app, monkeypatch, caplog):
    monkeypatch.setattr(processes, "_MAX_WAIT_SECONDS", 0.01)
    refusals, start = [], threading.Thread.start

    def refuse(thread):
        if thread.name == "rsmq-child-start":
            refusals.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    app.worker.start()
    env.rsmq.send_messages("q", ['"sleep"'] * 2)
    wait_until(lambda: len(refusals) >= 5)

    assert caplog.text.count("no child process starts: can't start new thread") == 1


def test_child_that_does_not_receive_a_call_is_replaced(env, app, monkeypatch):
    monkeypatch.setattr(child_process, "_SEND_SECONDS", 0.5)
    env.rsmq.set_queue_attributes("q", maxsize=-1)
    app.worker.start()
    [(pid, *_)] = wait_until(lambda: app.events("child_start"))
    os.kill(pid, signal.SIGSTOP)
    app.module.rsmq.send_message("q", "x" * 2_000_000)
    try:
        wait_until(lambda: env.is_empty("q"))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    [(other, _, attempt)] = app.events("call")

    assert (other != pid, attempt) == (True, "1")
    assert app.worker.numbers.failed == 0
    wait_until(lambda: not is_process(pid))


def test_call_that_no_child_receives_fails(env, app, monkeypatch):
    """The process is killed before each call, as by the system when memory is short."""
    app.worker.start()
    describe = child_process.describe_call

    def kill_children(*arguments):
        for pid, *_ in app.events("child_start"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not is_alive(pid))  # noqa: B023
        return describe(*arguments)

    monkeypatch.setattr(child_process, "describe_call", kill_children)
    app.module.rsmq.send_message("q", "fine")
    wait_until(app.dead_letters)
    reason, error = app.dead_letters()["fine"]

    assert reason == "HandlerProcessDied on attempt 2, the last"
    assert "was ended by SIGKILL" in str(error)
    assert app.events("call") == []


def test_a_child_that_does_not_read_is_killed_after_max_runtime(env, app, monkeypatch):
    """The changes of 10,000 leases don't fit in the buffer of a socket."""
    monkeypatch.setattr(child_process, "KILL_SECONDS", 0.5)
    program = (
        "import signal, socket, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "from rsmq.worker.children.channel import Channel\n"
        "channel = Channel(socket.socket(fileno=int(sys.argv[1])))\n"
        "channel.receive()\n"
        "channel.send({'ready': []})\n"
        "channel.receive()\n"
        "time.sleep(60)\n"
    )
    children = make_children(monkeypatch, program)
    try:
        children.start()
        error = call_with_changing_leases(children)
    finally:
        children.close()

    assert isinstance(error, HandlerTimedOut)


def make_children(monkeypatch, program):
    """Return child processes that run this program instead of their own."""
    monkeypatch.setattr(
        process_starter,
        "_start_process",
        lambda number: subprocess.Popen(
            [sys.executable, "-c", program, str(number)],
            pass_fds=(number,),
            process_group=0,
            cwd=ROOT,
        ),
    )
    return processes.ChildProcesses(child_process.ChildSettings("m:w", []))


def test_a_call_that_is_cancelled_while_it_waits_for_a_child_is_not_made(monkeypatch):
    children = make_children(monkeypatch, DISCARDING)
    try:
        children.start()
        job = SimpleNamespace(leases=[SimpleNamespace(is_cancelled=True)])
        with pytest.raises(HandlerCancelled, match="before its handler was called"):
            children.call(job)
        call_once(children, 1)
        assert len(children._all) == 1
    finally:
        children.close()


def test_answer_to_another_call_is_ignored_and_logged(monkeypatch, caplog):
    program = (
        "import socket, sys\n"
        "from rsmq.worker.children.channel import Channel\n"
        "channel = Channel(socket.socket(fileno=int(sys.argv[1])))\n"
        "channel.receive()\n"
        "channel.send({'ready': []})\n"
        "description = dict.fromkeys(('traceback', 'notes', 'after'), ())\n"
        "failed = dict(description, kind='discard', name='Discard', text='old', is_final=False)\n"
        "while True:\n"
        "    call = channel.receive()\n"
        "    if 'leases' not in call:\n"
        "        for number, error in ((call['number'] - 1, None), (call['number'], failed)):\n"
        "            answer = {'error': error, 'type': '', 'errors': {}, 'next': None}\n"
        "            channel.send({'number': number, **answer})\n"
    )
    children = make_children(monkeypatch, program)
    try:
        children.start()
        errors = [call_with_changing_leases(children, max_runtime=60) for _ in range(3)]
    finally:
        children.close()

    assert [type(error) for error in errors] == [Discard] * 3
    ignored = [each for each in caplog.messages if "the answer is ignored" in each]
    assert len(ignored) == 3
    assert "has answered call 1 during call 2" in ignored[1]


def call_with_changing_leases(children, max_runtime=1.0):
    leases = [
        SimpleNamespace(
            is_cancelled=False,
            id=f"{number:032}", raw=b"x", count=1, unbegun=0, first_received_ms=1, failure=None,
            is_over=False, expires_at=1e9,
        )
        for number in range(10_000)
    ]  # fmt: skip
    listener = SimpleNamespace(max_runtime=max_runtime)
    job = SimpleNamespace(
        leases=leases, received_at=1.0,
        lane=SimpleNamespace(name="q", listener=listener, stopping=StopEvent()),
        started_at=None,
    )  # fmt: skip
    errors = []

    def call():
        try:
            children.call(job)
        except Exception as error:  # noqa: BLE001 - the result
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    expiries = itertools.count(2e9)
    deadline = time.monotonic() + 20
    while thread.is_alive() and time.monotonic() < deadline:
        for lease in leases:
            lease.expires_at = next(expiries)
        thread.join(0.05)
    assert errors, "the call has not ended"
    return errors[0]


# Discards each message, with its id as the text; starts fast.
DISCARDING = """
import socket, struct, sys
import msgpack

own = socket.socket(fileno=int(sys.argv[1]))
stream = own.makefile("rwb")

def receive():
    (size,) = struct.unpack(">I", stream.read(4))
    return msgpack.unpackb(stream.read(size))

def send(message):
    packed = msgpack.packb(message)
    stream.write(struct.pack(">I", len(packed)) + packed)
    stream.flush()

receive()
send({"ready": []})
error = dict.fromkeys(("traceback", "notes", "after"), ())
error |= {"kind": "discard", "name": "Discard", "is_final": False}
while True:
    call = receive()
    error["text"] = call["messages"][0]["id"]
    send({"number": call["number"], "error": error, "type": "", "errors": {}, "next": None})
"""


def call_once(children, number, size=1):
    """Return the error of a call of one message."""
    lease = SimpleNamespace(
        is_cancelled=False,
        id=f"{number:032}", raw=bytes(size), count=1, unbegun=0, first_received_ms=1,
        failure=None, is_over=False, expires_at=1e9,
    )  # fmt: skip
    listener = SimpleNamespace(max_runtime=20.0)
    job = SimpleNamespace(
        leases=[lease], received_at=1.0,
        lane=SimpleNamespace(name="q", listener=listener, stopping=StopEvent()),
        started_at=None,
    )  # fmt: skip
    with pytest.raises((Discard, Raised)) as caught:
        children.call(job)
    assert type(caught.value) is Raised or str(caught.value) == lease.id
    return caught.value


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_exception_in_the_middle_of_a_call_gives_no_call_the_answer_of_another(monkeypatch):
    children = make_children(monkeypatch, DISCARDING)
    numbers = itertools.count()
    files = child_process.__file__, channel.__file__
    try:
        children.start()
        for number in itertools.count(1):
            with raising(Raised, number, *files) as raised:
                call_once(children, next(numbers), 1_000_000)  # more than a socket buffers
            later = [call_once(children, next(numbers)) for _ in range(2)]
            assert [type(each) for each in later] == [Discard] * 2, raised
            if not raised:
                break
    finally:
        children.close()
        gc.collect()  # child processes that an exception kept from being closed, with a warning
    assert number > 40


def test_child_whose_answer_at_the_start_cannot_be_read_is_killed(monkeypatch):
    """It would wait for calls as long as the worker runs."""

    def fail(*_, **__):
        raise MemoryError

    started = []

    def start_process(_starter, number):
        process = subprocess.Popen(
            [sys.executable, "-c", DISCARDING, str(number)], pass_fds=(number,), process_group=0
        )
        started.append(process)
        return process

    children = processes.ChildProcesses(child_process.ChildSettings("m:w", []))
    monkeypatch.setattr(process_starter.ProcessStarter, "start_process", start_process)
    try:
        monkeypatch.setattr(channel.msgpack, "unpackb", fail)
        with pytest.raises(MemoryError):
            children.start()
        (process,) = started
        assert process.returncode == -signal.SIGKILL
    finally:
        children.close()


def test_handler_of_a_process_that_has_ended_is_interrupted(app):
    """Only ``kill`` may reap a process: until then, its number names its process group."""
    settings = child_process.ChildSettings("m:w", [])
    child = child_process.Child(
        settings, lambda _: subprocess.Popen([sys.executable, "-c", ""], process_group=0)
    )
    wait_until(lambda: child.has_ended)
    child.interrupt_handler()
    assert is_process(child.process.pid)
    child.kill()

    assert not is_process(child.process.pid)


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
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
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
    [(pid, *_)] = wait_until(lambda: app.events("call"))
    assert is_alive(pid)
    program.kill()
    program.communicate()

    wait_until(lambda: not is_alive(pid))


def test_graceful_stop_ends_the_children_and_releases_their_messages(env, app):
    app.module.rsmq.send_message("q", "stubborn")
    app.worker.start()
    [(pid, *_)] = wait_until(lambda: app.events("call"))
    [(_, started)] = wait_until(lambda: app.events("started"))
    app.worker.stop(grace=0.1)
    [id] = env.scores("q")

    assert env.due_in("q", id) <= 0
    wait_until(lambda: not is_alive(pid) and not is_alive(int(started)))


def test_handler_in_a_child_sees_that_the_worker_stops(env, app):
    app.module.rsmq.send_message("q", "until_stopped")
    app.worker.start()
    wait_until(lambda: app.events("call"))
    app.worker.stop(grace=60)

    assert [details for _, *details in app.events("stopping")] == [["False", "True"]]
    assert [details for _, *details in app.events("read")] == [["True"]]
    assert app.worker.numbers.deferred == 1


def test_end_of_the_grace_period_lets_finally_run_in_a_child(env, app):
    app.module.rsmq.send_message("q", "with_finally", track=True)
    app.worker.start()
    [(pid, *_)] = wait_until(lambda: app.events("call"))
    wait_until(lambda: app.worker.health().is_running)
    app.worker.stop(grace=0.1)
    [id] = env.scores("q")

    assert app.events("finally") == [(pid,)]
    assert not app.events("swallowed")
    assert env.due_in("q", id) <= 0
    assert env.raw.hget(f"{env.ns}:q:x:unbegun", id) is not None  # so it is no attempt
    assert app.worker.numbers.failed == 0
    assert app.worker.numbers.released == 1
    assert not is_alive(pid)


def test_child_that_does_not_end_after_the_grace_period_is_killed(env, app, monkeypatch):
    monkeypatch.setattr(child_process, "KILL_SECONDS", 0.5)
    app.module.rsmq.send_message("q", "slow_finally")
    app.worker.start()
    [(pid, *_)] = wait_until(lambda: app.events("call"))
    app.worker.stop(grace=0.1)
    [id] = env.scores("q")

    assert app.events("finally") == [(pid,)]
    assert env.due_in("q", id) <= 0
    assert app.worker.numbers.failed == 0
    wait_until(lambda: not is_alive(pid))


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
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)

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
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)
    assert env.is_empty("q")


def test_plain_listeners_beside_process_listeners_are_refused(env, app):
    app.worker.listener("plain", create=True, retry_forever=True)(len)
    with pytest.raises(InvalidFormat, match="mixed=True"):
        app.worker.start()
    app.worker.mixed = True
    app.module.rsmq.create_queue("plain")
    app.module.rsmq.send_message("plain", "x")
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)

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
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert env.is_empty("q")
