"""The command exporter, as a process."""

from __future__ import annotations

import signal
import urllib.request

import pytest

from rsmq import RSMQ
from tests.ports import free_port
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until


def scrape(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as reply:
            return reply.read().decode()
    except OSError:
        return ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_exporter_serves_the_state_of_queues(processes, rsmq, ns, number):
    rsmq.create_queue("orders")
    rsmq.create_queue("other")
    rsmq.send_message("orders", "x")
    port = free_port()
    process = processes.start("exporter", "orders*", "--port", port, "--interval", "1s")
    queue = f'rsmq_queue_unfinished{{ns="{ns}",queue="orders"}}'
    wait_until(lambda: f"{queue} 1.0" in scrape(port))
    text = scrape(port)
    rsmq.pop_message("orders")
    wait_until(lambda: f"{queue} 0.0" in scrape(port))
    process.send_signal(number)

    assert process.wait(WAIT_SECONDS) == 0
    assert f'rsmq_up{{ns="{ns}"}} 1.0' in text
    assert 'queue="other"' not in text
    assert "_created" not in "".join(line for line in text.splitlines() if "rsmq" in line)
    assert process.stderr.read().decode() == f"http://127.0.0.1:{port}/metrics: Ctrl-C ends it\n"


def test_exporter_starts_while_redis_is_away(processes, rsmq, ns):
    port = free_port()
    process = processes.start(
        "exporter", "--url", f"redis://127.0.0.1:{free_port()}", "--port", port, "--interval", "1s"
    )
    wait_until(lambda: f'rsmq_up{{ns="{ns}"}} 0.0' in scrape(port))
    process.terminate()

    assert process.wait(WAIT_SECONDS) == 0


def test_exporter_serves_several_namespaces_and_one_that_fails(processes, server, raw, ns):
    for name in ("a", "b"):
        with RSMQ.from_url(server.url, ns=f"{ns}:{name}") as rsmq:
            rsmq.create_queue("q")
    raw.set(f"{ns}:broken:QUEUES", "not a set")
    port = free_port()
    places = [word for name in ("broken", "a", "b") for word in ("--ns", f"{ns}:{name}")]
    process = processes.start("exporter", *places, "--port", port, "--interval", "1s")
    for line in (
        f'rsmq_up{{ns="{ns}:a"}} 1.0',
        f'rsmq_up{{ns="{ns}:b"}} 1.0',
        f'rsmq_up{{ns="{ns}:broken"}} 0.0',
        f'rsmq_queue_messages{{ns="{ns}:a",queue="q"}} 0.0',
        f'rsmq_queue_messages{{ns="{ns}:b",queue="q"}} 0.0',
    ):
        wait_until(lambda line=line: line in scrape(port))
    process.terminate()

    assert process.wait(WAIT_SECONDS) == 0


def test_port_in_use_is_an_error(processes, server):
    assert processes("exporter", "--port", server.port) == (
        2, b"", f"rsmq: port {server.port}: Address already in use\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "fault"),
    [
        ("--port", "0", "port must be between 1 and 65535, not 0."),
        ("--interval", "100ms", "interval must be between 1.0 and 9999999, not 0.1."),
    ],
)
def test_wrong_options_are_refused(processes, rsmq, option, value, fault):
    code, _, stderr = processes("exporter", option, value)

    assert code == 2
    assert stderr.startswith(f"rsmq: {fault}")
