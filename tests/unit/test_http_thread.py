"""The HTTP server for probes and metrics."""

from __future__ import annotations

import http.client
import socket

import pytest

from rsmq import metrics
from rsmq.cli.app.errors import Failed
from rsmq.cli.commands.health_server import serve_health
from tests.ports import free_port


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


#: The address to listen on, and the one to ask.
ADDRESSES = [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("localhost", "localhost")]
if has_ipv6():
    ADDRESSES += [("::1", "::1"), ("::", "::1")]


@pytest.fixture
def no_names(monkeypatch):
    """Let DNS know no names of addresses, and fail if it is asked for one."""

    def refuse(*_args):
        raise AssertionError("DNS is asked for the name of an address")

    for function in ("getfqdn", "gethostbyaddr", "getnameinfo"):
        monkeypatch.setattr(socket, function, refuse)


def ask(host, port, path, method="GET"):
    connection = http.client.HTTPConnection(host, port)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.headers["Content-Length"], answer.read().decode()


@pytest.mark.parametrize(("address", "asked"), ADDRESSES)
def test_probes_are_answered_on_each_kind_of_address(no_names, address, asked):
    port = free_port()
    is_ready = []
    serve_health(port, address, lambda: True, lambda: bool(is_ready))

    assert ask(asked, port, "/healthz") == (200, "3", "ok\n")
    assert ask(asked, port, "/readyz?verbose") == (503, "10", "not ready\n")
    is_ready.append(1)
    assert ask(asked, port, "/readyz") == (200, "3", "ok\n")
    assert ask(asked, port, "/readyz", "HEAD") == (200, "3", "")
    assert ask(asked, port, "/") == (404, "31", "not found: /healthz or /readyz\n")
    assert ask(asked, port, "/healthz", "POST")[0] == 405


@pytest.mark.parametrize(("address", "asked"), ADDRESSES)
def test_metrics_are_served_on_each_kind_of_address(no_names, address, asked):
    port = free_port()
    metrics.serve(port, address)

    status, _, text = ask(asked, port, "/metrics")
    assert status == 200
    assert "python_info" in text


def test_port_in_use_and_wrong_address_are_errors():
    port = free_port()
    serve_health(port, "127.0.0.1", bool, bool)

    with pytest.raises(Failed, match=f"^port {port}: Address already in use$"):
        serve_health(port, "127.0.0.1", bool, bool)
    with pytest.raises(Failed, match=f"^port {port}: 'no.such.invalid': "):
        serve_health(port, "no.such.invalid", bool, bool)
