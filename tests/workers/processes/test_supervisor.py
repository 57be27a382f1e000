"""rsmq-worker --processes: a supervisor and its worker processes."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from rsmq import RSMQ
from rsmq.cli import run_worker
from rsmq.worker import list_workers
from rsmq.worker.children.channel import Channel
from rsmq.worker.health import Health
from rsmq.worker.loop.shutdown import SAME_SIGNAL_SECONDS
from rsmq.worker.operations import Identity, register_worker
from rsmq.worker.state.numbers import Numbers
from rsmq.worker.supervisor import supervised_worker
from rsmq.worker.supervisor import supervisor as worker_supervisor
from tests.ports import free_port
from tests.scale import WAIT_SECONDS
from tests.workers.processes.conftest import wait_until

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow

APP = """
import os, pathlib, time
from rsmq import JSON, RSMQ
from rsmq.worker import Worker

{first}
rsmq = RSMQ.from_url({url!r}, ns={ns!r}, codec=JSON)
worker = Worker(rsmq, concurrency=2)

@worker.listener("q", max_retries=1, backoff=0.05, drop=True, create=True, vt=30)
def handle(body):
    with open({events!r}, "a") as file:
        file.write(f"{{os.getpid()}} {{body}}\\n")
    if body == "kill":
        os.kill(os.getpid(), 9)
    if body == "slow":
        time.sleep(1)
    if body == "hang":
        time.sleep(60)
    if body == "memory":
        globals()["kept"] = b"x" * 200_000_000
    while body == "wait" and not pathlib.Path({go!r}).exists():
        time.sleep(0.01)

{last}
"""


class Supervisor:
    """The program in a folder with an app."""

    def __init__(self, server, ns, rsmq, folder):
        self.rsmq = rsmq
        self.folder = folder
        self.module = re.sub(r"\W", "_", f"app_{ns}")
        self.go = folder / "go"
        self._settings = {
            "url": server.url, "ns": ns, "events": str(folder / "events"), "go": str(self.go),
        }  # fmt: skip
        self._log = folder / "log"
        self.process = None
        self.write_app()

    def write_app(self, first="", last=""):
        path = self.folder / f"{self.module}.py"
        path.write_text(APP.format(first=first, last=last, **self._settings))

    def start(self, *arguments):
        environment = {name: value for name, value in os.environ.items() if "RSMQ_" not in name}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rsmq.cli.commands.worker", f"{self.module}:worker",
                 *map(str, arguments)],
                cwd=self.folder, stderr=log, stdout=subprocess.PIPE,
                env={**environment, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip

    def create_process(self):
        """Return a process of the supervisor, to be started by the test."""
        program = [sys.executable, "-m", "rsmq.cli.commands.worker", f"{self.module}:worker"]
        path = f"{ROOT}:{self.folder}"
        return worker_supervisor.Process("w", program, {**os.environ, "PYTHONPATH": path})

    def run(self, *arguments):
        """Run it to its end, and return the exit code."""
        self.start(*arguments)
        return self.process.wait()

    @property
    def log(self):
        return self._log.read_text()

    def workers(self):
        """Return the process ids of live workers that have started, by name."""
        found = (each for each in list_workers(self.rsmq) if each.alive and each.queues)
        return {each.name: each.pid for each in found}

    def wait_for(self, number, not_pids=()):
        """Wait until so many workers are alive, and return their process ids by name."""

        def find():
            workers = self.workers()
            is_new = not set(not_pids) & set(workers.values())
            return workers if len(workers) == number and is_new else None

        return wait_until(find, failure=f"there are not {number} workers: {self.log[-3000:]}")

    def calls(self):
        path = Path(self._settings["events"])
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(line.split(" ")[0]), line.split(" ")[1]) for line in lines]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)


@pytest.fixture
def supervisor(server, ns, rsmq, tmp_path):
    supervisor = Supervisor(server, ns, rsmq, tmp_path)
    yield supervisor
    if supervisor.process is not None:
        pids = supervisor.workers().values()
        supervisor.process.kill()
        supervisor.process.communicate()
        wait_until(lambda: not any(map(is_alive, pids)))


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # also between its open and its read
        return False


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return None, ""


def counter(text, name):
    values = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, values))


def test_killed_process_is_started_again_and_counters_stay(supervisor, rsmq):
    port = free_port()
    supervisor.start("--name", "w", "--processes", 2, "--metrics-port", port)
    first = supervisor.wait_for(2)
    rsmq.send_messages("q", ["1"] * 20)
    handled = "rsmq_messages_handled_total"
    wait_until(lambda: counter(get(port, "/metrics")[1], handled) == 20)
    os.kill(first["w-0"], signal.SIGKILL)
    second = supervisor.wait_for(2, [first["w-0"]])
    rsmq.send_messages("q", ["1"] * 20)
    wait_until(lambda: counter(get(port, "/metrics")[1], handled) == 40)
    wait_until(lambda: counter(get(port, "/metrics")[1], "rsmq_worker_info") == 2)
    text = get(port, "/metrics")[1]

    assert second["w-1"] == first["w-1"]
    assert counter(text, "rsmq_worker_restarts_total") == 1
    assert counter(text, "rsmq_handler_duration_seconds_count") == 40
    assert "w-0 was ended by SIGKILL" in supervisor.log
    assert supervisor.stop() == 0
    assert supervisor.workers() == {}


def test_graceful_stop_waits_for_running_handlers(supervisor, rsmq, raw, ns):
    supervisor.start("--name", "w", "--processes", 2)
    supervisor.wait_for(2)
    rsmq.send_messages("q", ['"slow"'] * 4)
    wait_until(lambda: len(supervisor.calls()) == 4)

    assert supervisor.stop(signal.SIGINT) == 0
    assert raw.zcard(f"{ns}:q") == 0
    assert raw.hgetall(f"{ns}:x:workers") == {}


def test_second_signal_ends_all_processes_at_once(supervisor, rsmq):
    supervisor.start("--name", "w", "--processes", 1)
    pids = supervisor.wait_for(1).values()
    rsmq.send_message("q", '"hang"')
    wait_until(supervisor.calls)
    supervisor.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "stops, by SIGTERM" in supervisor.log)
    time.sleep(2 * SAME_SIGNAL_SECONDS)

    assert supervisor.stop() == 128 + signal.SIGTERM
    wait_until(lambda: not any(map(is_alive, pids)))


def test_two_signals_at_the_same_time_count_as_one(supervisor, rsmq, raw, ns):
    supervisor.start("--name", "w", "--processes", 1)
    supervisor.wait_for(1)
    rsmq.send_message("q", '"slow"')
    wait_until(supervisor.calls)
    supervisor.process.send_signal(signal.SIGTERM)

    assert supervisor.stop(signal.SIGINT) == 0
    assert raw.zcard(f"{ns}:q") == 0


def test_grace_is_that_of_the_worker(supervisor):
    supervisor.write_app(last="worker.grace = 1000")
    port = free_port()
    supervisor.start("--name", "w", "--processes", 1, "--health-port", port)
    wait_until(lambda: get(port, "/readyz")[0] == 200)

    assert supervisor.stop() == 0
    assert ": stops, by SIGTERM: handlers have 1000 s to end" in supervisor.log


def test_process_is_not_killed_within_the_grace_of_its_worker(supervisor, rsmq, monkeypatch):
    monkeypatch.setattr(worker_supervisor, "_DEFAULT_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(worker_supervisor, "_KILL_SECONDS", 0.0)
    supervisor.write_app(last="worker.grace = 1000")
    process = supervisor.create_process()
    process.start()

    def check():
        return process.check(lambda *_: None)

    try:
        wait_until(lambda: check() is None and process.is_ready)
        rsmq.send_message("q", '"slow"')
        wait_until(supervisor.calls)
        process.stop()
        code = wait_until(lambda: [code] if (code := check()) is not None else None)
    finally:
        process.kill()

    assert code == [0]


def test_killed_process_gives_the_exit_code_of_its_signal(supervisor, rsmq):
    supervisor.start("--name", "w", "--processes", 1)
    [pid] = supervisor.wait_for(1).values()
    rsmq.send_message("q", '"hang"')
    wait_until(supervisor.calls)
    supervisor.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "its supervisor stops it" in supervisor.log)
    os.kill(pid, signal.SIGKILL)

    assert supervisor.process.wait(WAIT_SECONDS) == 128 + signal.SIGKILL


def test_signal_without_a_name_is_reported(supervisor):
    supervisor.start("--name", "w", "--processes", 1)
    [pid] = supervisor.wait_for(1).values()
    os.kill(pid, signal.SIGRTMIN + 2)
    supervisor.wait_for(1, [pid])

    assert f"worker w-0 was ended by signal {signal.SIGRTMIN + 2}" in supervisor.log
    assert supervisor.stop() == 0


def test_process_that_can_not_be_started_is_tried_again(supervisor):
    supervisor.start("--name", "w", "--processes", 2)
    first = supervisor.wait_for(2)
    pid, limits = supervisor.process.pid, resource.RLIMIT_NOFILE
    soft, hard = resource.prlimit(pid, limits)
    resource.prlimit(pid, limits, (3, hard))
    os.kill(first["w-0"], signal.SIGKILL)
    wait_until(lambda: supervisor.log.count("worker w-0 can't start") == 2)
    resource.prlimit(pid, limits, (soft, hard))

    assert supervisor.wait_for(2, [first["w-0"]])["w-1"] == first["w-1"]
    assert supervisor.stop() == 0


def test_process_that_an_order_has_stopped_is_started_again_at_once(supervisor, rsmq):
    supervisor.start("--name", "w", "--processes", 1)
    [pid] = supervisor.wait_for(1).values()
    rsmq.workers.stop("w-0")

    supervisor.wait_for(1, [pid])
    assert "worker w-0 was stopped by an order or a signal, and restarts" in supervisor.log
    assert "nothing had asked it to" not in supervisor.log
    assert supervisor.stop() == 0


def test_process_that_ends_unasked_is_started_again_later(supervisor):
    supervisor.write_app("raise SystemExit(0)")
    supervisor.start("--name", "w", "--processes", 1)
    text = "worker w-0 ended with code 0 (nothing had asked it to), and restarts in"
    wait_until(lambda: supervisor.log.count(text) == 2)
    supervisor.write_app()
    supervisor.wait_for(1)

    assert supervisor.stop() == 0


def test_killed_supervisor_stops_its_processes_gracefully(supervisor, rsmq, raw, ns):
    supervisor.start("--name", "w", "--processes", 2)
    pids = supervisor.wait_for(2).values()
    rsmq.send_messages("q", ['"slow"'] * 2)
    wait_until(lambda: len(supervisor.calls()) == 2)
    supervisor.process.kill()
    wait_until(lambda: not any(map(is_alive, pids)))

    assert raw.zcard(f"{ns}:q") == 0
    assert raw.hgetall(f"{ns}:x:workers") == {}


def test_sighup_restarts_one_process_after_the_other(supervisor, rsmq):
    port = free_port()
    supervisor.start("--name", "w", "--processes", 2, "--health-port", port)
    first = supervisor.wait_for(2)
    wait_until(lambda: get(port, "/readyz")[0] == 200)
    supervisor.process.send_signal(signal.SIGHUP)
    least = []

    def observe():
        workers = supervisor.workers()
        least.append(len(workers))
        return len(workers) == 2 and not set(first.values()) & set(workers.values())

    wait_until(observe)

    assert min(least) == 1
    assert supervisor.stop() == 0


@pytest.mark.parametrize(
    ("option", "body"), [("--max-jobs-per-child=3", "1"), ("--max-memory-per-child=150M", "memory")]
)
def test_limits_restart_a_process_gracefully(supervisor, rsmq, option, body):
    supervisor.start("--name", "w", "--processes", 1, option)
    first = supervisor.wait_for(1)
    rsmq.send_messages("q", [json.dumps(body)] * 3)
    supervisor.wait_for(1, first.values())

    assert "restarts" in supervisor.log
    assert "was ended by" not in supervisor.log
    wait_until(lambda: len(supervisor.calls()) == 3)
    assert supervisor.stop() == 0


def test_limit_below_the_memory_of_an_idle_process_restarts_it_later(supervisor):
    supervisor.start("--name", "w", "--processes", 1, "--max-memory-per-child=1M")
    text = "worker w-0 reached a limit before it handled a message, and restarts in"
    wait_until(lambda: text in supervisor.log)

    assert supervisor.stop() == 0


def test_signal_after_a_limit_stops_gracefully(supervisor, rsmq, raw, ns):
    supervisor.start("--name", "w", "--processes", 1, "--max-jobs-per-child=1")
    [pid] = supervisor.wait_for(1).values()
    rsmq.send_messages("q", ['"wait"', "1"])
    wait_until(lambda: "restarts after 1 message" in supervisor.log)
    time.sleep(2 * SAME_SIGNAL_SECONDS)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: "worker w-0 stops, by SIGTERM" in supervisor.log)
    assert is_alive(pid)
    supervisor.go.touch()
    supervisor.wait_for(1, [pid])

    assert raw.zcard(f"{ns}:q") == 0
    assert [body for _, body in supervisor.calls()].count("wait") == 1
    assert supervisor.stop() == 0


def test_worker_that_can_not_start_ends_the_supervisor(supervisor):
    supervisor.write_app("raise SystemExit(5)")

    assert supervisor.run("--processes", 2) == 5
    assert "ended with code 5 before it was ready" in supervisor.log


def test_taken_name_has_an_exit_code_of_its_own(supervisor, rsmq):
    info = {"host": "another-host", "pid": 17, "since_ms": 0}
    other = Identity(rsmq.namespace, "w-0", "token")

    def keep_alive():
        rsmq.run(register_worker(other, info, ttl=5, dead="token"))

    supervisor.start("--name", "w", "--processes", 1)
    while supervisor.process.poll() is None:
        keep_alive()
        time.sleep(0.2)

    assert supervisor.process.returncode == 7
    assert "another-host" in supervisor.log


def test_names_come_from_the_host_and_from_the_name_of_the_worker(supervisor):
    """So the processes of two services on one host do not have the same names."""
    supervisor.start("--processes", 1)
    [name] = supervisor.wait_for(1)

    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())
    assert name == f"{host}-{supervisor.module}-worker-0"


def test_reload_restarts_with_the_new_code(supervisor, rsmq):
    supervisor.start("--name", "w", "--reload")
    first = supervisor.wait_for(1)
    supervisor.write_app("broken(")
    wait_until(lambda: "SyntaxError" in supervisor.log)
    supervisor.write_app("number = 5")
    supervisor.wait_for(1, first.values())

    assert supervisor.stop() == 0


def test_burst_ends_all_processes(supervisor, rsmq):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["1"] * 50)

    assert supervisor.run("--processes", 2, "--burst") == 0
    assert len(supervisor.calls()) == 50


def test_burst_continues_after_a_limit(supervisor, rsmq, raw, ns):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ['"slow"'] * 5)

    assert supervisor.run("--processes", 1, "--burst", "--max-jobs-per-child", 1) == 0
    assert raw.zcard(f"{ns}:q") == 0
    assert len({pid for pid, _ in supervisor.calls()}) > 1


def test_burst_continues_after_a_restart(supervisor, rsmq, raw, ns):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ['"wait"', '"wait"', "1"])
    supervisor.start("--processes", 1, "--burst")
    wait_until(lambda: len(supervisor.calls()) == 2)
    supervisor.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "its supervisor stops it" in supervisor.log)
    supervisor.go.touch()

    assert supervisor.process.wait(WAIT_SECONDS) == 0
    assert raw.zcard(f"{ns}:q") == 0


def test_process_that_reports_nothing_is_not_ready(supervisor):
    port = free_port()
    supervisor.start("--name", "w", "--processes", 1, "--health-port", port)
    [pid] = supervisor.wait_for(1).values()
    wait_until(lambda: get(port, "/readyz")[0] == 200)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: get(port, "/readyz")[0] == 503)
        assert get(port, "/healthz")[0] == 200
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: get(port, "/readyz")[0] == 200)


def test_a_missing_queue_makes_a_process_not_ready(supervisor, rsmq):
    rsmq.create_queue("other")
    supervisor.write_app(last='worker.listener("other", retry_forever=True)(print)')
    port = free_port()
    supervisor.start("--name", "w", "--processes", 2, "--health-port", port)
    wait_until(lambda: get(port, "/readyz")[0] == 200)
    rsmq.delete_queue("other")
    wait_until(lambda: get(port, "/readyz")[0] == 503)
    assert get(port, "/healthz")[0] == 200
    rsmq.create_queue("other")
    wait_until(lambda: get(port, "/readyz")[0] == 200)


def test_process_is_healthy_while_it_imports_the_worker(supervisor):
    """A process that sends no report for a minute is not healthy, so it reports meanwhile."""
    supervisor.write_app("time.sleep(60)")
    process = supervisor.create_process()
    process.start()

    def has_reported():
        assert process.check(lambda *_: None) is None
        return process._reported_at > process._started_at + 2 * supervised_worker.REPORT_SECONDS

    try:
        wait_until(has_reported)
        assert process.is_healthy
        assert not process.is_ready
    finally:
        process.kill()
        wait_until(lambda: process.check(lambda *_: None) is not None)


def test_last_report_waits_for_the_one_before(monkeypatch):
    """Two messages that are sent at the same time would mix."""
    monkeypatch.setattr(supervised_worker, "REPORT_SECONDS", 0.01)
    own, other = socket.socketpair()
    with own:
        supervised = supervised_worker.SupervisedWorker(
            other.detach(), max_jobs=None, max_memory=None
        )
        worker = SimpleNamespace(health=Health, numbers=Numbers(), grace=1)
        # Larger than the buffer of a socket: the thread that reports waits in the middle.
        supervised.observe(worker, lambda: "x" * 3_000_000)
        end = threading.Timer(0.5, supervised.end)
        end.start()
        channel = Channel(own)
        time.sleep(1)
        reports = []
        while end.is_alive() or channel.has_message(0.5):
            if channel.has_message(0.1):
                reports.append(channel.receive())
    supervised._channel.close()

    assert len(reports) >= 2
    assert len(reports[-1]["metrics"]) == 3_000_000


def test_probes_and_check(supervisor, server, ns, capsys):
    port = free_port()
    supervisor.start("--name", "w", "--processes", 2, "--health-port", port)
    wait_until(lambda: get(port, "/healthz")[0] == 200)
    workers = supervisor.wait_for(2)
    wait_until(lambda: get(port, "/readyz")[0] == 200)

    def check(*names):
        code = run_worker(["check", *names, "--url", server.url, "--ns", ns])
        return code, capsys.readouterr().out.splitlines()

    code, lines = check("w")
    assert code == 0
    assert lines == [
        f"{name}: alive, host {socket.gethostname()}, process {pid}"
        for name, pid in sorted(workers.items())
    ]
    assert check("w-1")[0] == check()[0] == 0
    assert check("other") == (1, ["there is no worker named other"])
    os.kill(workers["w-0"], signal.SIGSTOP)
    try:
        wait_until(lambda: check("w")[0] == 1)
        assert check("w-1")[0] == 0
    finally:
        os.kill(workers["w-0"], signal.SIGKILL)
    wait_until(lambda: get(port, "/readyz")[0] == 503)
    assert get(port, "/other")[0] == 404


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--max-jobs-per-child", 5), "--max-jobs-per-child needs --processes"),
        (("--processes", 0), "Invalid value for '--processes': 0 is not in the range 1<=x<=1000."),
        (("--processes", 1, "--max-memory-per-child", "much"), "'much' is not a size"),
        (
            ("--processes", 1, "--max-jobs-per-child", "0"),
            "Invalid value for '--max-jobs-per-child': 0 is not in the range x>=1.",
        ),
        (("more",), "Got unexpected extra argument (more)"),
    ],
)
def test_wrong_arguments_are_refused(capsys, arguments, part):
    assert run_worker(["app:worker", *map(str, arguments)]) == 2
    assert part in capsys.readouterr().err


def test_orders_reach_all_processes_of_a_name(supervisor, server, ns, capsys):
    supervisor.start("--name", "w", "--processes", 2)
    supervisor.wait_for(2)
    queues = RSMQ.from_url(server.url, ns=ns)

    def order(*words):
        code = run_worker([*map(str, words), "--url", server.url, "--ns", ns])
        return code, capsys.readouterr().out

    assert order("w", "pause", "--for", "1h") == (0, "w-0 pauses\nw-1 pauses\n")
    wait_until(lambda: all(each.paused for each in queues.workers.list()))
    assert order("w-1", "resume") == (0, "w-1 resumes\n")
    wait_until(lambda: [each.paused for each in queues.workers.list()] == [True, False])
    assert order("w-1", "concurrency", 3)[1] == "w-1 has concurrency 3\n"
    wait_until(lambda: queues.workers.list()[1].slots == 3)
    assert order("w-1", "concurrency")[1] == "w-1 has its own concurrency\n"
    code, out = order("w", "running", "--json")
    assert (code, json.loads(out)) == (0, [])
    before = {each.name: each.pid for each in queues.workers.list()}
    assert order("w-0", "stop", "--grace", "1") == (0, "w-0 stops\n")
    wait_until(lambda: [  # the supervisor has started it again, without its orders
        (each.pid == before[each.name], each.paused) for each in queues.workers.list()
    ] == [(False, False), (True, False)])  # fmt: skip
    assert order("none", "pause")[0] == 1
    queues.close()
