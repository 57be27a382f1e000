"""A server with a worker in its process stops under load: all is answered, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from http.client import HTTPConnection, HTTPException

import pytest

from rsmq.tasks import Tasks
from tests.ports import free_port
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until

pytestmark = pytest.mark.redis


def request(port, method, path, headers=()):
    """Return status and body of the answer; None if the server accepts no connection."""
    connection = HTTPConnection("127.0.0.1", port)
    try:
        connection.request(method, path, headers={"Connection": "close", **dict(headers)})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def test_a_stop_under_load_answers_all_requests_and_loses_no_task(server, ns, tmp_path):
    port = free_port()
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "tests.asgi.app:app", "--port", str(port)],
            env={**os.environ, "TEST_URL": server.url, "TEST_NS": ns},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    answered: set[int] = set()
    ended = threading.Event()

    def send_requests(first):
        for number in range(first, 100_000, 8):
            answer = request(port, "POST", f"/orders/{number}", {"X-Request-ID": f"r{number}"})
            if answer == (200, number):
                answered.add(number)
            if answer is None or ended.is_set():
                return

    threads = [threading.Thread(target=send_requests, args=(first,)) for first in range(8)]
    try:
        ready = {"ok": True, "redis": True, "worker": True}
        wait_until(lambda: request(port, "GET", "/readyz") == (200, ready))
        assert request(port, "GET", "/healthz") == (200, {"ok": True, "worker": True})
        for thread in threads:
            thread.start()
        wait_until(lambda: len(answered) > 60)
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_SECONDS)
    finally:
        ended.set()
        process.kill()
        for thread in threads:
            if thread.ident is not None:
                thread.join(WAIT_SECONDS)
        process.wait()

    lines = [line.split() for line in log.read_text().splitlines()]
    begun = {int(line[1]) for line in lines if line[:1] == ["begun"]}
    ran = {int(line[1]): line[2] for line in lines if line[:1] == ["ran"]}
    with Tasks.from_url(server.url, ns=ns) as tasks:
        stored = tasks.client.peek_messages("work", 0, 10_000)
        left = {int(each.headers["request_id"][1:]) for each in stored}
        # They were released, so that the next worker need not wait.
        assert {each.state for each in stored} <= {"visible"}
    assert process.returncode == -signal.SIGTERM, log.read_text()
    assert begun == answered
    assert ran.keys() | left == answered
    assert not ran.keys() & left
    assert all(request_id == f"r{number}" for number, request_id in ran.items())
