"""Requests that cost their sender little: another caller of rsmq web is served meanwhile."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse
from contextlib import closing, suppress
from pathlib import Path

import pytest

from rsmq.web.access.secrets import hash_token
from rsmq.web.json_requests import MAX_VALUES
from tests.scale import WAIT_SECONDS

_TICK = 1 / os.sysconf("SC_CLK_TCK")
#: Processor time of the server until another caller has its answer.
_MOST_SECONDS = 0.25


class _Web:
    """A running rsmq web: its API and, at the second port, the routes of rest-rsmq."""

    def __init__(self, url, ns, users):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rsmq", "web", "--port", "0", "--rest-rsmq-port", "0",
             "--users", users],
            env={**os.environ, "RSMQ_URL": url, "RSMQ_NS": ns, "RSMQ_CONFIG": "/dev/null"},
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        lines = (self.process.stderr.readline() for _ in range(2))
        self.ports = [urllib.parse.urlsplit(line.partition(": ")[0]).port for line in lines]

    def seconds(self):
        """Return the processor time that it has used."""
        parts = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(parts[11]) + int(parts[12])) * _TICK

    def close(self):
        with self.process:
            self.process.kill()


@pytest.fixture
def web(server, ns, rsmq, tmp_path):
    rsmq.create_queue("q")
    users = tmp_path / "users.toml"
    users.write_text(
        f'[tokens.sender]\nsha256 = "{hash_token("send only")}"\nscopes = ["send"]\n'
        f'[tokens.reader]\nsha256 = "{hash_token("all")}"\nrole = "admin"\n'
    )
    users.chmod(0o600)
    running = _Web(server.url, ns, str(users))
    yield running
    running.close()


class _Witness:
    """Another caller, as long as its block runs."""

    def __init__(self, web):
        self._web = web
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.worst = 0.0
        self.answers = 0

    def _run(self):
        with closing(http.client.HTTPConnection("127.0.0.1", self._web.ports[0])) as connection:
            while not self._is_over.is_set() or not self.answers:
                begun = self._web.seconds()
                connection.request("GET", "/healthz")
                with connection.getresponse() as answer:
                    answer.read()
                self.worst = max(self.worst, self._web.seconds() - begun)
                self.answers += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()


def _request(method, path, headers="", body=b"", token=None):
    bearer = f"authorization: Bearer {token}\r\n" if token else ""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{bearer}{headers}"
    return f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body


_JSON = "content-type: application/json\r\n"
_EMPTY = b'{"json":[' + b"{}," * (16 * MAX_VALUES) + b"{}]}"
_SHAPES = {
    "many headers": (0, _request("GET", "/api/v1/queues", "x: a\r\n" * 300_000), 431),
    "a header without end": (0, b"GET /healthz HTTP/1.1\r\nx: " + b"a" * 2_000_000, 431),
    "an address without end": (0, b"GET /" + b"a" * 2_000_000, 431),
    "a quoted cookie": (0, _request("GET", "/", 'cookie: a="' + "\\" * 40_000 + '"\r\n'), 401),
    "a tag with blanks": (
        1, _request("GET", "/queues", f"if-none-match: a{' ' * 30_000}b\r\n", token="all"),
        200,
    ),
    "a media type with blanks": (
        1, _request("POST", "/queues/q", f"content-type: a/b{' ' * 30_000};\r\n", b"{}"), 401,
    ),
    "a list of many objects": (
        0, _request("POST", "/api/v1/queues/q/messages", _JSON, _EMPTY, "send only"), 413,
    ),
    "a list of many numbers": (
        0, _request(
            "POST", "/api/v1/queues/q/messages", _JSON, b'{"json":[' + b"0," * 9_000_000 + b"0]}",
            "send only",
        ), 413,
    ),
    "a large message": (
        0, _request(
            "POST", "/api/v1/queues/q/messages", _JSON,
            b'{"body":"' + b"\\u1234" * 3_000_000 + b'"}', "send only",
        ), 413,
    ),
}  # fmt: skip


def _answer(port, request):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(WAIT_SECONDS)
        with suppress(OSError):  # it was refused before its end
            connection.sendall(request)
        try:
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except ConnectionResetError:
            return b""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("shape", _SHAPES)
def test_another_caller_is_served_while_a_request_is_refused(web, shape):
    which, request, status = _SHAPES[shape]
    with _Witness(web) as witness:
        answer = _answer(web.ports[which], request)
    assert witness.worst < _MOST_SECONDS
    # A client that is still sending may find the connection reset.
    assert answer[:12] in {f"HTTP/1.1 {status}".encode(), b""}


def test_the_filter_of_many_ways_is_answered_by_a_running_server(web, rsmq, ns):
    rsmq.set_queue_attributes("q", maxsize=-1)
    rsmq.send_message("q", "[" * 26 + "]" * 26)
    path = f"/api/v1/queues/q/messages?filter=json.{'.'.join('*' * 13)}.x:1"
    with _Witness(web) as witness:
        # On a busy machine, Redis may answer the server too late.
        while (answer := _answer(web.ports[0], _request("GET", path, token="all")))[9:12] == b"503":
            pass
    assert witness.worst < _MOST_SECONDS
    assert answer.startswith(b"HTTP/1.1 200")
    web.process.send_signal(signal.SIGTERM)
    assert web.process.wait(WAIT_SECONDS) == 0
