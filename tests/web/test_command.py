"""rsmq web and rsmq web-user."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from urllib.parse import quote

import pytest

from rsmq import RSMQ
from rsmq.cli.commands.web_user import SCOPES
from rsmq.web.access.secrets import hash_token, is_password
from rsmq.web.access.users import read_users
from rsmq.web.table import Scope
from tests.push.conftest import wait_until
from tests.push.receiver import Receiver
from tests.scale import WAIT_SECONDS
from tests.servers import free_port


class _Web:
    """A running rsmq web, and the lines that it has printed."""

    def __init__(self, url, ns, *arguments):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rsmq", "web", "--port", "0", *arguments],
            env={**os.environ, "RSMQ_URL": url, "RSMQ_NS": ns, "RSMQ_CONFIG": "/dev/null"},
            stderr=subprocess.PIPE,
            text=True,
        )
        # Before it, a successor of a killed process may say what it has taken over.
        lines = iter(self._process.stderr.readline, "")
        self.url = next(each for each in lines if each.startswith("http")).partition(": ")[0]

    def line(self):
        return self._process.stderr.readline().strip()

    def get(self, path, key=None, url=None):
        request = urllib.request.Request((url or self.url) + path)
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def stop(self, number=signal.SIGTERM):
        """Send a signal, and return the exit code; ``said`` is what it writes then."""
        if not self._process.stderr.closed:
            self._process.send_signal(number)
            self.said = self._process.stderr.read()
            self._process.stderr.close()
        return self._process.wait(WAIT_SECONDS)


@pytest.fixture
def start(server, ns):
    running = []

    def start(*arguments):
        running.append(_Web(server.url, ns, *arguments))
        return running[-1]

    yield start
    for each in running:
        each.stop()


def test_without_users_it_prints_a_key_which_may_do_everything(start, rsmq):
    rsmq.create_queue("q")
    web = start()
    key = web.line().removeprefix("The key of this run: ")
    assert web.get("/queues")[0] == 401
    status, found = web.get("/queues/q", key)
    assert (status, found["name"]) == (200, "q")
    assert web.stop() == 0
    assert web.said.endswith("Stopped by SIGTERM\n")


def test_several_namespaces_are_served(start, server, ns):
    others = (f"{ns}-1", f"{{{ns}.2}}")
    web = start("--no-auth", "--ns", ns, *(each for name in others for each in ("--ns", name)))
    shown = web.get("/ns")[1]["namespaces"]
    assert [each["name"] for each in shown] == [ns, *others]
    for name in others:
        path = f"/ns/{quote(name, safe='')}"
        with RSMQ.from_url(server.url, ns=name) as queues:
            queues.create_queue("q")
            assert web.get(f"{path}/queues/q")[0] == 200
    assert web.get("/queues/q")[0] == 404
    assert web.stop() == 0


def test_it_serves_on_if_nobody_reads_what_it_says(server, ns):
    reader, writer = os.pipe()
    os.close(reader)
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "rsmq", "web", "--no-auth", "--port", str(port)],
        env={**os.environ, "RSMQ_URL": server.url, "RSMQ_NS": ns, "RSMQ_CONFIG": "/dev/null"},
        stderr=writer,
    )
    os.close(writer)

    def is_ready():
        assert process.poll() is None
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30)

    wait_until(is_ready).close()
    process.terminate()
    assert process.wait(WAIT_SECONDS) == 0


@pytest.fixture
def hangups():
    """Let programs that start have the usual SIGHUP; nohup lets them ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
def test_the_routes_of_rest_rsmq_can_have_a_port_of_their_own(start, rsmq):
    rsmq.create_queue("q")
    web = start("--no-auth", "--rest-rsmq-port", "0")
    url = web.line().partition(": ")[0]
    assert web.get("/queues", url=url) == (200, {"queues": ["q"]})
    assert web.stop(signal.SIGHUP) == 0
    assert web.said.endswith("Stopped by SIGHUP\n")


@pytest.mark.parametrize(
    ("prefix", "left"),
    [("/rsmq", ""), ("/rsmq", "/rsmq"), ("/a b/c", "/a%20b/c"), ("/queues", "")],
)
def test_a_proxy_may_leave_the_prefix_in_paths(start, rsmq, prefix, left):
    rsmq.create_queue("q")
    web = start("--no-auth", "--root-path", prefix)
    url = web.url.removesuffix("/api/v1") + left
    shown = prefix.replace(" ", "%20")
    assert web.get("/api/v1/queues/q", url=url)[1]["name"] == "q"
    assert web.get("/api/v1/openapi.json", url=url)[1]["servers"] == [{"url": f"{shown}/api/v1"}]
    assert web.get("/rest-rsmq/queues", url=url) == (200, {"queues": ["q"]})
    for page in ("/", "/queues/q"):
        with urllib.request.urlopen(url + page, timeout=30) as reply:
            assert f'href="{shown}/queues"' in reply.read().decode()
    # Of a health check beside the proxy.
    with urllib.request.urlopen(web.url.replace("/api/v1", "/healthz"), timeout=30) as reply:
        assert reply.status == 200


def test_it_answers_a_client_that_waits_for_a_message_and_stops(start, rsmq, server):
    rsmq.create_queue("q")
    web = start("--no-auth")
    body = json.dumps({"queues": ["q"], "wait": 60}).encode()
    answers = []

    def wait():
        request = urllib.request.Request(
            f"{web.url}/receive", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            answers.append((reply.status, json.load(reply)))

    thread = threading.Thread(target=wait)
    thread.start()
    with server.raw() as raw:
        wait_until(lambda: any(each["flags"] == "t" for each in raw.client_list()))
    assert web.stop() == 0
    # On a busy machine the server may have said that Redis answered late.
    assert web.said.splitlines()[-1] == "Stopped by SIGTERM"
    assert "Traceback" not in web.said
    thread.join()
    assert answers == [(200, {"messages": []})]
    rsmq.send_message("q", "a")
    assert rsmq.get_queue_attributes("q").visible_messages == 1


def test_a_subscriber_that_is_added_over_http_gets_the_messages(start, rsmq):
    receiver = Receiver()
    rsmq.create_queue("q")
    web = start("--no-auth", "--push", "--push-allow", "127.0.0.1", "--push-allow-http")
    request = urllib.request.Request(
        f"{web.url}/queues/q/subscribers/a",
        json.dumps({"url": receiver.url}).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert reply.status == 201
    id = rsmq.send_message("q", "a")
    wait_until(lambda: receiver.requests)
    assert receiver.requests[0].headers["webhook-id"] == id
    assert web.stop() == 0
    receiver.close()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--host", "0.0.0.0"], "only programs of this machine"),
        (["--host", "0.0.0.0", "--no-auth"], "only programs of this machine"),
        (["--host", "example.org"], "only programs of this machine"),
        (["--no-auth", "--users", "u.toml"], "one of --users and --no-auth"),
        (["--user-header", "X-User"], "needs --trusted-proxy"),
        (["--trusted-proxy", "10.0.0.0/8", "--user-header", "X"], "needs --users"),
        (["--tls-cert", "a.pem"], "need each other"),
        (["--push-allow-http", "--read-only"], "not for --read-only"),
        (["--push", "--read-only"], "one of --push and --read-only"),
        (["--users", "/nowhere/users.toml"], "can't be read"),
    ],
)
def test_it_does_not_start_without_a_safe_decision_about_callers(cli, arguments, text):
    result = cli("web", *arguments)
    assert result.code == 2
    assert text in result.error


def test_a_port_that_is_in_use_is_an_error(cli, server):
    result = cli("web", "--no-auth", "--port", str(server.port))
    assert result.code == 2
    assert "in use" in result.error


def test_entries_of_users_and_tokens_make_a_users_file(cli, tmp_path):
    user = cli("web-user", "add", "anna b", "--queue", "orders*", stdin=b"sesame\n")
    token = cli("web-user", "token", "shop", "--role", "operator")
    path = tmp_path / "users.toml"
    path.write_bytes(user.raw + token.raw)
    path.chmod(0o600)
    users = read_users(path)
    assert is_password("sesame", users.passwords["anna b"])
    assert users.principals["anna b"].patterns == ("orders*",)
    secret = token.stderr.rpartition(" ")[2].strip()
    assert users.tokens[hash_token(secret)].name == "shop"
    assert cli("web-user", "add", "eve").code == 2
    assert "colon" in cli("web-user", "add", "a:b", stdin=b"sesame\n").error
    assert set(SCOPES) == {each.value for each in Scope}
    sensor = cli("web-user", "token", "sensor", "--scope", "send", "--scope", "stats")
    path.write_bytes(sensor.raw)
    secret = sensor.stderr.rpartition(" ")[2].strip()
    found = read_users(path).tokens[hash_token(secret)]
    assert found.scopes == {Scope.SEND, Scope.STATS}
    assert cli("web-user", "token", "x", "--scope", "send", "--role", "admin").code == 2
    both = cli("web-user", "token", "x", "--namespace", "shop", "--namespace", "{bills.*}")
    path.write_bytes(both.raw)
    assert next(iter(read_users(path).tokens.values())).namespaces == ("shop", "{bills.*}")
    shown = cli("web-user", "token", "--help").raw.decode()
    assert "--scope" in shown
