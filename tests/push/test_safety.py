"""The lines on safety in docs/webhooks.md, each with an attack."""

from __future__ import annotations

import gzip
import ipaddress
import logging
import socket
import ssl
import subprocess
import sys
from types import SimpleNamespace

import aiohttp
import pytest

from rsmq import InvalidFormat, MissingExtra
from rsmq.webhooks import http_client
from rsmq.webhooks.http_client import PushClient
from rsmq.webhooks.observed_connection import ObservedConnection, parse_answer
from rsmq.worker import Worker
from tests.ports import free_port
from tests.push.conftest import dead_letters, wait_until
from tests.push.receiver import Reply, reply
from tests.scale import WAIT_SECONDS

_REFUSED = "the host 'hooks.example' has no address that may be connected to; see the log"


def run(worker):
    worker.run(until_empty=True, timeout=WAIT_SECONDS)


def failure_of(rsmq, worker):
    """Push a message that fails for the last time, and return the text of the failure."""
    id = rsmq.send_message("q", "x")
    run(worker)
    return dead_letters(rsmq)[id].reason.exception.removeprefix("PushFailed: ")


@pytest.fixture
def resolve(monkeypatch):
    """Let the resolver return these addresses for names of .example, a list for each lookup."""
    lookups = []
    real = socket.getaddrinfo

    def install(*answers):
        answers = list(answers)

        def getaddrinfo(host, port, *arguments, **options):
            if not str(host).endswith(".example"):  # Redis
                return real(host, port, *arguments, **options)
            lookups.append(host)
            addresses = answers.pop(0) if len(answers) > 1 else answers[0]
            return [
                (
                    socket.AF_INET6 if ":" in address else socket.AF_INET,
                    socket.SOCK_STREAM,
                    6,
                    "",
                    (address, port, 0, 0) if ":" in address else (address, port),
                )
                for address in addresses
            ]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return lookups

    return install


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, "Use https"),
        ({"allow_http": True}, "address 127.0.0.1 is not public"),
        ({"allow": "127.0.0.1"}, "Use https"),
        ({"allow_http": True, "allow": "10.0.0.0/8"}, "is not public"),
    ],
)
def test_http_and_private_addresses_must_be_allowed(rsmq, receiver, options, rule):
    with pytest.raises(InvalidFormat) as caught:
        Worker(rsmq).webhook("q", receiver.url, **options)

    assert rule in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
     "fe80::1", "fd00:ec2::254", "0.0.0.0"],
)  # fmt: skip
def test_a_name_of_an_address_that_is_not_public_is_refused(
    rsmq, receiver, make_worker, resolve, address, caplog
):
    """Who may see the failure learns no address of the network; the operator does, from the log."""
    resolve([address])
    url = f"http://hooks.example:{receiver.port}/"
    text = failure_of(rsmq, make_worker(url, allow="192.168.0.0/16", max_retries=0))

    assert text == _REFUSED
    assert f"{url}: address {ipaddress.ip_address(address)}" in caplog.text
    assert "is not public" in caplog.text
    assert receiver.connections == 0


def test_several_addresses_that_do_not_answer_are_not_named():
    refused = OSError("Multiple exceptions: [Errno 111] Connect call failed ('10.0.0.1', 80)")
    error = aiohttp.ClientConnectorError(SimpleNamespace(), refused)

    text, details = http_client._describe(error, "hooks.example")

    assert text == "no connection: several addresses, and none answers"
    assert details == str(refused)


def test_a_name_whose_address_changes_reaches_nothing_else(
    rsmq, make_receiver, make_worker, resolve
):
    """DNS rebinding: the first lookup returns an allowed address, all others a refused one."""
    port = free_port()
    public = make_receiver(host="127.0.0.2", port=port)
    private = make_receiver(host="127.0.0.1", port=port)
    lookups = resolve(["127.0.0.2"], ["127.0.0.1"])
    public.answer = lambda _: reply(200, close=True)
    worker = make_worker(
        f"http://hooks.example:{public.port}/", allow="127.0.0.2", max_retries=0, concurrency=1
    )
    rsmq.send_message("q", "first")
    run(worker)

    assert lookups == ["hooks.example"]  # it is not looked up again to connect
    assert [each.body for each in public.requests] == [b"first"]
    assert public.requests[0].headers["host"] == f"hooks.example:{public.port}"

    text = failure_of(rsmq, worker)

    assert text == _REFUSED
    assert private.connections == 0


def test_a_name_is_looked_up_and_checked_for_each_connection(
    rsmq, make_receiver, make_worker, resolve
):
    receiver = make_receiver(host="127.0.0.2")
    lookups = resolve(["127.0.0.2"])
    receiver.answer = lambda _: Reply(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", True)
    rsmq.send_messages("q", ["1", "2", "3"])
    run(make_worker(f"http://hooks.example:{receiver.port}/", allow="127.0.0.2", concurrency=1))

    assert receiver.connections == len(lookups) == 3


def test_only_the_allowed_addresses_of_a_name_are_connected_to(
    rsmq, make_receiver, make_worker, resolve
):
    port = free_port()
    allowed = make_receiver(host="127.0.0.2", port=port)
    refused = make_receiver(host="127.0.0.1", port=port)
    resolve(["127.0.0.1", "::1", "127.0.0.2"])
    rsmq.send_message("q", "x")
    run(make_worker(f"http://hooks.example:{allowed.port}/", allow="127.0.0.2"))

    assert len(allowed.requests) == 1
    assert refused.connections == 0


def test_a_socket_is_made_for_an_allowed_address_only(rsmq, receiver, make_worker, monkeypatch):
    """The second check, without the first one: whatever the resolver class returns."""
    monkeypatch.setattr("rsmq.webhooks.http_client._CheckedResolver", _TrustingResolver)
    url = f"http://hooks.example:{receiver.port}/"
    text = failure_of(rsmq, make_worker(url, allow="10.0.0.0/8", max_retries=0))

    assert text == _REFUSED
    assert receiver.connections == 0


def test_the_resolver_returns_allowed_addresses_only(
    rsmq, receiver, make_worker, resolve, monkeypatch
):
    """The first check, without the second one."""
    monkeypatch.setattr(PushClient, "_make_socket", lambda _, address: socket.socket(*address[:3]))
    resolve(["127.0.0.1"])
    url = f"http://hooks.example:{receiver.port}/"
    text = failure_of(rsmq, make_worker(url, allow="10.0.0.0/8", max_retries=0))

    assert text == _REFUSED
    assert receiver.connections == 0


@pytest.mark.parametrize("proxy", [None, "http://127.0.0.1:9"])
@pytest.mark.parametrize(
    ("host", "rule"),
    [
        ("127\u30020\u30020\u30021", "address 127.0.0.1 is not public"),
        ("\uff11\uff12\uff17.0.0.1", "Write the address as four decimal numbers"),
        ("0\uff58\uff17f.1", "Write the address as four decimal numbers"),
    ],
)
def test_an_address_in_other_characters_is_checked(rsmq, host, rule, proxy):
    """Only the HTTP client reads the address in this host."""
    with pytest.raises(InvalidFormat, match=rule):
        Worker(rsmq).webhook(
            "q", f"http://{host}/", allow="10.0.0.0/8", allow_http=True, proxy=proxy
        )


class _TrustingResolver:
    def __init__(self, rules):
        pass

    async def resolve(self, host, port=0, family=socket.AF_INET):
        return [
            {
                "hostname": host,
                "host": "127.0.0.1",
                "port": port,
                "family": socket.AF_INET,
                "proto": 0,
                "flags": 0,
            }
        ]

    async def close(self):
        pass


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate for hooks.example, which is its own authority."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=hooks.example", "-addext",
         "subjectAltName=DNS:hooks.example", "-keyout", folder / "key", "-out", folder / "cert"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def tls_receiver(make_receiver, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert", certificate / "key")
    names = []
    context.sni_callback = lambda _, name, __: names.append(name)
    made = make_receiver(tls=context)
    made.names = names
    return made


def test_the_certificate_is_verified_for_the_name_of_the_host(
    rsmq, tls_receiver, make_worker, resolve, certificate, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
    resolve(["127.0.0.1"])
    rsmq.send_message("q", "x")
    run(make_worker(f"https://hooks.example:{tls_receiver.port}/", allow_http=False))

    assert tls_receiver.names == ["hooks.example"]
    assert [each.headers["host"] for each in tls_receiver.requests] == [
        f"hooks.example:{tls_receiver.port}"
    ]
    for host in ("other.example", "127.0.0.1"):
        url = f"https://{host}:{tls_receiver.port}/"
        assert "certificate is refused" in failure_of(rsmq, make_worker(url, max_retries=0))
    assert len(tls_receiver.requests) == 1


def test_a_certificate_of_an_unknown_authority_is_refused(rsmq, tls_receiver, make_worker, resolve):
    resolve(["127.0.0.1"])
    url = f"https://hooks.example:{tls_receiver.port}/"

    assert "certificate is refused" in failure_of(rsmq, make_worker(url, max_retries=0))
    assert tls_receiver.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(rsmq, receiver, make_receiver, make_worker, status):
    other = make_receiver()
    receiver.answer = lambda _: reply(status, headers=[f"Location: {other.url}"])

    assert failure_of(rsmq, make_worker(receiver.url, max_retries=0)).startswith(str(status))
    assert other.connections == 0


def test_proxies_and_passwords_of_the_environment_are_not_used(
    rsmq, receiver, make_receiver, make_worker, monkeypatch, tmp_path
):
    proxy = make_receiver()
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    rsmq.send_message("q", "x")
    run(make_worker(receiver.url))

    assert proxy.connections == 0
    assert "authorization" not in receiver.requests[0].headers


def test_cookies_are_not_kept(rsmq, receiver, make_worker):
    receiver.answer = lambda _: reply(204, headers=["Set-Cookie: a=b"])
    rsmq.send_messages("q", ["1", "2"])
    run(make_worker(receiver.url, concurrency=1))

    assert all("cookie" not in each.headers for each in receiver.requests)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_answers_are_not_decompressed(rsmq, receiver, make_worker, encoding):
    bomb = gzip.compress(b"x" * 10_000_000)
    receiver.answer = lambda _: reply(500, bomb, headers=[f"Content-Encoding: {encoding}"])
    id = rsmq.send_message("q", "x")
    run(make_worker(receiver.url, max_retries=0))
    reason = dead_letters(rsmq)[id].reason

    assert reason.status == 500
    assert reason.answer == bomb[:2048].decode(errors="replace")


def test_a_header_without_an_end_is_refused(rsmq, receiver, make_worker):
    receiver.answer = lambda _: reply(500, headers=["X: " + "x" * 100_000])
    text = failure_of(rsmq, make_worker(receiver.url, max_retries=0))

    assert text == "500 Internal Server Error"


def test_tokens_and_secrets_are_not_in_logs_states_and_errors(
    raw, ns, rsmq, receiver, make_worker, caplog
):
    caplog.set_level(logging.DEBUG)
    receiver.answer = lambda _: reply(410)
    rsmq.send_message("q", "x")
    secret = "whsec_" + "c2VjcmV0" * 4
    with make_worker(f"{receiver.url}?token=t0ken", secret=secret, concurrency=1):
        wait_until(lambda: b"gone" in b"".join(raw.hvals(f"{ns}:x:push")))
        wait_until(lambda: "has ended the subscription" in caplog.text)
    stored = b"".join(raw.hvals(f"{ns}:x:push")).decode()

    assert receiver.requests[0].line == "POST /hooks?token=t0ken HTTP/1.1"
    for text in (caplog.text, stored):
        assert "/hooks?***" in text
        assert "t0ken" not in text
        assert "c2VjcmV0" not in text


def test_a_url_that_two_parsers_read_differently_is_refused(rsmq):
    for url in ("https://example.org:443:80/", "https://[::1]x/"):
        with pytest.raises(InvalidFormat):
            Worker(rsmq).webhook("q", url)


def test_without_the_extra_the_error_names_it(rsmq, monkeypatch):
    for name in list(sys.modules):
        if name.startswith(("rsmq.webhooks.http_client", "rsmq.worker.webhook", "aiohttp")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match="needs the extra 'push'"):
        Worker(rsmq).webhook("q", "https://example.org/")


def test_the_import_of_workers_and_clients_does_not_import_the_http_client():
    code = "import sys, rsmq.worker, rsmq.aio; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_the_private_attribute_of_aiohttp_exists():
    """If a release of aiohttp has no such attribute, the status line can't decide alone."""
    import asyncio

    import aiohttp

    async def kind_of_connections():
        connector = aiohttp.TCPConnector()
        try:
            from rsmq.webhooks.observed_connection import observe_connections

            before = connector._factory()
            observe_connections(connector)
            return type(before), type(connector._factory())
        finally:
            await connector.close()

    before, after = asyncio.run(kind_of_connections())

    assert after is ObservedConnection
    assert issubclass(after, before)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (b"", None),
        (b"HTTP/1.1 200", None),
        (b"HTTP/1.1 200 OK\r\n", (200, "OK", b"", None)),
        (b"HTTP/1.1 100 Continue\r\n\r\n", None),
        (b"HTTP/1.1 103 x\r\nA: b\r\n\r\nHTTP/1.1 201 \r\n", (201, "", b"", None)),
        (b"HTTP/1.0 429 x\r\nretry-AFTER:  5\r\n\r\nbody", (429, "x", b"body", "5")),
        (b"HTTP/1.1 500\r\n\r\nRetry-After: 5", (500, "", b"Retry-After: 5", None)),
        (b"xHTTP/1.1 200 OK\r\n", None),
        (b"220 mail\r\nHTTP/1.1 200 OK\r\n\r\n", None),
        (b"POST / HTTP/1.1\r\n\r\nHTTP/1.1 200 OK\r\n", None),
        (b"HTTP/1.1 100 x\r\n\r\nno\r\nHTTP/1.1 200 OK\r\n", None),
        (b"HTTP/1.1 103 x\r\nA: b\r\nHTTP/1.1 200 OK\r\n", None),
    ],
)
def test_the_beginning_of_an_answer(seen, expected):
    found = parse_answer(seen)

    assert (found and (found.status, found.text, found.body, found.retry_after)) == expected
