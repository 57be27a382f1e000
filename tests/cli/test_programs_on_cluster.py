"""Programs that run until they are ended, on a Redis Cluster: each reaches its queues."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal

import pytest

from rsmq import RSMQ
from tests.cli.test_exporter import scrape
from tests.ports import free_port
from tests.workers.polling import wait_until

_numbers = itertools.count()

APP = """
from rsmq import RSMQ
from rsmq.worker import Worker

worker = Worker(RSMQ.from_url("redis://127.0.0.1:1/0"))


@worker.listener("q", drop=True)
def handle(body):
    print(f"handles {body}\\n", end="", flush=True)
"""


@pytest.fixture
def rsmq(cluster, processes):
    """A client of a namespace on the cluster, which the programs use, too."""
    ns = f"{{programs{next(_numbers)}}}"
    processes.environment |= {"RSMQ_URL": cluster.url, "RSMQ_NS": ns}
    with RSMQ.from_url(cluster.url, ns=ns) as rsmq:
        rsmq.create_queue("q")
        yield rsmq
        rsmq.delete_queue("q")


@contextlib.contextmanager
def running(processes, *arguments):
    """A program, which Ctrl-C ends."""
    process = processes.start(*arguments)
    yield process
    process.send_signal(signal.SIGINT)
    process.communicate()


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_worker(processes, rsmq, options):
    (processes.folder / "cluster_app.py").write_text(APP)
    rsmq.send_messages("q", ["a", "b"])
    code, out, errors = processes("worker", "cluster_app:worker", "--burst", *options)
    assert (code, sorted(out.split(b"\n"))) == (0, [b"", b"handles a", b"handles b"]), errors
    assert rsmq.get_queue_attributes("q").messages == 0


def test_exporter(processes, rsmq):
    ns = rsmq.namespace.name
    port = free_port()
    rsmq.send_message("q", "a")
    with running(processes, "exporter", "--port", port, "--interval", "1s"):
        wait_until(lambda: f'rsmq_queue_unfinished{{ns="{ns}",queue="q"}} 1.0' in scrape(port))
        assert f'rsmq_up{{ns="{ns}"}} 1.0' in scrape(port)


def test_tail(processes, rsmq):
    rsmq.send_message("q", "a")
    with running(processes, "tail", "q", "--from-start", "--json", "--interval", "0.02") as tail:
        assert json.loads(tail.stdout.readline())["body"] == "a"
        id = rsmq.send_message("q", "b")
        assert json.loads(tail.stdout.readline())["id"] == id


def test_bridge(processes, rsmq, cluster):
    key = f"{rsmq.namespace.name}-work"
    with running(processes, "bridge", "--from", f"list:{key}", "--to", "q"):
        for body in ("a", "b"):
            cluster.raw.lpush(key, body)
        bodies = [rsmq.pop_message("q", wait=20).body for _ in range(2)]
    assert bodies == ["a", "b"]
    assert cluster.raw.llen(key) == 0
