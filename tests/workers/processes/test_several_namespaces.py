"""rsmq-worker with several --ns: one worker process or more for each namespace."""

from __future__ import annotations

import os
import re
import signal
import socket

import pytest

from rsmq import JSON, RSMQ
from rsmq.cli import run_worker
from rsmq.worker import list_workers
from tests.ports import free_port
from tests.workers.processes.conftest import wait_until
from tests.workers.processes.test_supervisor import Supervisor, counter, get, is_alive


class SeveralNamespaces(Supervisor):
    """The program in a folder with an app, and a client of each namespace."""

    def __init__(self, server, ns, folder, clients):
        super().__init__(server, ns, clients[0], folder)
        self.clients = clients
        self.names = [each.namespace.name for each in clients]
        self.url = server.url

    def start(self, *arguments):
        for name in reversed(self.names):
            arguments = ("--ns", name, *arguments)
        return super().start("--url", self.url, *arguments)

    def workers(self):
        """Return the process ids of workers that run, by the place of their namespace and name."""
        return {
            (index, each.name): each.pid
            for index, client in enumerate(self.clients)
            for each in list_workers(client)
            if each.alive and each.queues
        }

    def wait_for(self, number, not_pids=()):
        """Wait until so many workers are alive, which takes long on a machine that is busy."""

        def find():
            workers = self.workers()
            is_new = not set(not_pids) & set(workers.values())
            return workers if len(workers) == number and is_new else None

        return wait_until(find, failure="there are not so many workers")


@pytest.fixture
def program(server, ns, tmp_path):
    names = [ns, f"{ns}:second"]
    clients = [RSMQ.from_url(server.url, ns=name, codec=JSON) for name in names]
    program = SeveralNamespaces(server, ns, tmp_path, clients)
    yield program
    if program.process is not None:
        pids = program.workers().values()
        program.process.kill()
        program.process.communicate()
        wait_until(lambda: not any(map(is_alive, pids)))
    for client in clients:
        client.close()


def handled(text, ns):
    name = re.escape("rsmq_messages_handled_total")
    values = re.findall(rf'^{name}{{ns="{re.escape(ns)}",.*}} (\S+)$', text, re.MULTILINE)
    return sum(map(float, values))


def test_each_namespace_has_a_worker_and_a_killed_one_is_started_again(program):
    port, health = free_port(), free_port()
    program.start("--name", "w", "--metrics-port", port, "--health-port", health)
    first = program.wait_for(2)
    assert set(first) == {(0, "w-0"), (1, "w-0")}
    assert len(set(first.values())) == 2
    wait_until(lambda: get(health, "/readyz")[0] == 200)
    for number, client in enumerate(program.clients, 1):
        client.send_messages("q", ["1"] * 10 * number)

    def counts():
        text = get(port, "/metrics")[1]
        return [handled(text, ns) for ns in program.names]

    wait_until(lambda: counts() == [10, 20])
    os.kill(first[1, "w-0"], signal.SIGKILL)
    second = program.wait_for(2, [first[1, "w-0"]])
    program.clients[1].send_messages("q", ["1"] * 5)
    wait_until(lambda: counts() == [10, 25])
    text = get(port, "/metrics")[1]

    assert second[0, "w-0"] == first[0, "w-0"]
    assert counter(text, "rsmq_worker_restarts_total") == 1
    assert counter(text, "rsmq_worker_info") == 2
    assert f"w-0 of {program.names[1]} was ended by SIGKILL" in program.log
    assert f"[w-0 {program.names[0]} {first[0, 'w-0']}]" in program.log
    assert program.stop() == 0
    assert program.workers() == {}


def test_processes_are_spread_over_the_namespaces(program, capsys):
    program.start("--name", "w", "--processes", 3)
    workers = program.wait_for(3)
    assert set(workers) == {(0, "w-0"), (0, "w-1"), (1, "w-0")}

    def check(name):
        names = [argument for ns in program.names for argument in ("--ns", ns)]
        code = run_worker(["check", name, "--url", program.url, *names])
        return code, capsys.readouterr().out.splitlines()

    alive = [
        f"{program.names[index]}: {name}: alive, host {socket.gethostname()}, process {pid}"
        for (index, name), pid in sorted(workers.items())
    ]
    assert check("w") == (0, alive)
    assert check("w-1") == (1, [alive[1], f"{program.names[1]}: there is no worker named w-1"])
    assert program.stop() == 0


def test_a_restarted_worker_takes_over_the_messages_of_its_namespace(program):
    program.start("--name", "w")
    first = program.wait_for(2)
    program.clients[1].send_message("q", "wait")
    wait_until(lambda: program.calls() == [(first[1, "w-0"], "wait")])
    os.kill(first[1, "w-0"], signal.SIGKILL)
    second = program.wait_for(2, [first[1, "w-0"]])
    wait_until(lambda: (second[1, "w-0"], "wait") in program.calls())
    program.go.touch()
    wait_until(lambda: program.clients[1].count_messages("q").in_flight == 0)

    assert program.stop() == 0


def test_burst_ends_when_each_namespace_is_empty(program):
    for client in program.clients:
        client.create_queue("q")
        client.send_messages("q", ["1"] * 3)

    assert program.run("--burst") == 0
    assert len(program.calls()) == 6
    assert [client.count_messages("q").visible for client in program.clients] == [0, 0]


def test_each_namespace_needs_a_process(capsys):
    code = run_worker(
        ["app:worker", "--ns", "a", "--ns", "b", "--ns", "c", "--ns", "a", "--processes", "2"]
    )

    assert code == 2
    assert "--processes 2 is fewer than the 3 namespaces" in capsys.readouterr().err


def test_a_worker_that_can_not_start_in_a_namespace_ends_the_program(program):
    program.write_app(first="raise SystemExit(7)")

    assert program.run("--name", "w") == 7
    assert re.search(r"w-0 of \S+ ended with code 7 before it was ready", program.log)


@pytest.mark.parametrize("option", ["--pause", "--resume"])
def test_a_queue_is_paused_in_one_namespace(capsys, option):
    assert run_worker([option, "q", "--ns", "a", "--ns", "b"]) == 2
    assert "works on one namespace" in capsys.readouterr().err
