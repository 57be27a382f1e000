"""Pushes through a proxy."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import socket
import ssl
import threading

import pytest

from rsmq import InvalidFormat
from rsmq.push.pusher import SubscriberPusher
from rsmq.push.subscribers import Subscribers
from rsmq.worker import Worker
from tests.push.conftest import wait_until
from tests.push.receiver import reply
from tests.push.test_safety import certificate, failure_of, run
from tests.scale import WAIT_SECONDS

__all__ = ["certificate"]

LOGIN = "Basic " + base64.b64encode(b"me:p@ss").decode()


class Proxy:
    """
    A proxy for HTTP, which connects to one receiver, whatever the name.

    Attributes:
        lines: the first lines of all requests.
        heads: the requests' heads.
        refusal: the answer to all requests; None connects.
        breaks_tunnels: whether a tunnel ends before anything goes through it.
    """

    def __init__(self):
        self.receiver, self.refusal, self.breaks_tunnels = None, None, False
        self.heads = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._tasks = set()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def lines(self):
        return [each.partition("\r\n")[0] for each in self.heads]

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT_SECONDS)

    def close(self):
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self):
        self._server.close()
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        with contextlib.closing(writer), contextlib.suppress(OSError, EOFError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode())
            if self.refusal is not None:
                writer.write(self.refusal)
                await writer.drain()
                return
            target = await asyncio.open_connection("127.0.0.1", self.receiver.port)
            with contextlib.closing(target[1]):
                if head.startswith(b"CONNECT "):
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    await writer.drain()
                    if self.breaks_tunnels:
                        return
                else:
                    target[1].write(head)
                await asyncio.gather(_copy(reader, target[1]), _copy(target[0], writer))
        self._tasks.discard(task)


async def _copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
def proxy():
    made = Proxy()
    yield made
    made.close()


@pytest.fixture
def tls_receiver(make_receiver, certificate, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert", certificate / "key")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
    return make_receiver(tls=context)


def test_messages_for_https_go_through_a_tunnel(rsmq, proxy, tls_receiver, make_worker):
    proxy.receiver = tls_receiver
    rsmq.send_messages("q", ["1", "2"])
    run(make_worker("https://hooks.example/a", allow_http=False, proxy=proxy.url, concurrency=1))

    assert proxy.lines == ["CONNECT hooks.example:443 HTTP/1.1"]  # and the tunnel is used again
    assert [each.body for each in tls_receiver.requests] == [b"1", b"2"]
    assert all("authorization" not in each.headers for each in tls_receiver.requests)


def test_messages_for_http_are_sent_to_the_proxy(rsmq, proxy, receiver, make_worker):
    proxy.receiver = receiver
    rsmq.send_message("q", "1")
    run(make_worker("http://hooks.example/a", proxy=proxy.url))

    assert proxy.lines == ["POST http://hooks.example/a HTTP/1.1"]
    assert receiver.requests[0].body == b"1"
    assert receiver.requests[0].headers["host"] == "hooks.example"


def test_the_login_of_the_proxy_is_only_for_the_proxy(
    rsmq, proxy, tls_receiver, make_worker, caplog
):
    caplog.set_level(logging.DEBUG)
    proxy.receiver = tls_receiver
    worker = make_worker("https://hooks.example/", proxy=f"http://me:p%40ss@127.0.0.1:{proxy.port}")
    rsmq.send_message("q", "1")
    run(worker)

    assert f"Proxy-Authorization: {LOGIN}" in proxy.heads[0]
    assert "webhook-id" not in proxy.heads[0]
    assert not {"authorization", "proxy-authorization"} & tls_receiver.requests[0].headers.keys()
    assert "p@ss" not in caplog.text
    assert "p%40ss" not in caplog.text


@pytest.mark.parametrize("is_tls", [True, False])
def test_a_proxy_that_is_away_is_an_attempt_that_names_no_address(
    rsmq, make_worker, caplog, is_tls
):
    url = f"http{'s' * is_tls}://hooks.example/"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        worker = make_worker(url, proxy=f"http://me:secret@127.0.0.1:{port}", max_retries=0)
        assert failure_of(rsmq, worker) == "no connection to the proxy"

    assert f"'127.0.0.1', {port}" in caplog.text
    assert "secret" not in caplog.text


def test_a_proxy_whose_name_is_not_found_is_not_named(rsmq, make_worker, caplog):
    worker = make_worker("https://hooks.example/", proxy="http://proxy.invalid:3128", max_retries=0)

    assert failure_of(rsmq, worker) == "the proxy was not found"
    assert "the proxy 'proxy.invalid' was not found" in caplog.text


@pytest.mark.parametrize("status", [b"403 Forbidden", b"407 Proxy Authentication Required",
                                    b"410 Gone", b"429 Too Many Requests"])  # fmt: skip
def test_a_refusal_of_the_tunnel_is_an_attempt_and_not_an_answer(rsmq, proxy, make_worker, status):
    proxy.refusal = b"HTTP/1.1 " + status + b"\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n"
    text = failure_of(rsmq, make_worker("https://hooks.example/", proxy=proxy.url, max_retries=0))

    assert text == f"the proxy refuses the connection: {status.decode()}"


def test_a_tunnel_that_breaks_is_not_a_success(rsmq, proxy, tls_receiver, make_worker):
    """The 200 of the proxy is not an answer to the message."""
    proxy.receiver, proxy.breaks_tunnels = tls_receiver, True
    text = failure_of(rsmq, make_worker("https://hooks.example/", proxy=proxy.url, max_retries=0))

    assert text.startswith(("no connection: ", "the connection was closed before an answer"))
    assert tls_receiver.requests == []


def test_the_certificate_of_the_target_is_verified(rsmq, proxy, tls_receiver, make_worker):
    proxy.receiver = tls_receiver
    worker = make_worker("https://other.example/", proxy=proxy.url, max_retries=0)

    assert "certificate is refused" in failure_of(rsmq, worker)


def test_an_answer_of_the_target_decides(rsmq, proxy, tls_receiver, make_worker):
    proxy.receiver = tls_receiver
    tls_receiver.answer = lambda _: reply(500)
    worker = make_worker("https://hooks.example/", proxy=proxy.url, max_retries=0)

    assert failure_of(rsmq, worker) == "500 Internal Server Error"


def test_addresses_that_are_not_allowed_are_refused_with_a_proxy_too(rsmq, proxy):
    with pytest.raises(InvalidFormat, match="is not public"):
        Worker(rsmq).webhook("q", "https://169.254.169.254/", proxy=proxy.url)


@pytest.mark.parametrize(
    "url",
    ["", "proxy", "proxy:3128", "https://proxy/", "socks5://me:secret@proxy/", "http://",
     "http://me:secret@proxy/path", "http://me:secret@proxy:port", "http://proxy:0", 7],
)  # fmt: skip
def test_what_is_not_the_url_of_a_proxy_is_refused_without_its_password(rsmq, url):
    for make in (
        lambda: Worker(rsmq).webhook("q", "https://example.org/", proxy=url),
        lambda: SubscriberPusher(rsmq, proxy=url),
    ):
        with pytest.raises(InvalidFormat, match="proxy") as caught:
            make()
        assert "secret" not in str(caught.value)


def test_subscribers_are_pushed_to_through_the_proxy(rsmq, proxy, receiver):
    proxy.receiver = receiver
    rsmq.create_queue("q")
    Subscribers(rsmq).add("q", "a", "http://hooks.example/a")
    rsmq.send_message("q", "1")
    with SubscriberPusher(rsmq, allow_http=True, proxy=proxy.url):
        wait_until(lambda: receiver.requests)

    assert proxy.lines == ["POST http://hooks.example/a HTTP/1.1"]
