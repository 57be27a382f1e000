"""Clusters and Sentinels with TLS, whose certificates have a host name and no address."""

from __future__ import annotations

import asyncio
import subprocess
import threading

import pytest
import redis.exceptions as redis_errors

from rsmq import RSMQ, AsyncRSMQ
from rsmq.transport.topology.address import SLOT_COUNT
from tests.blocking import Blocking
from tests.nodes import Node, wait_until
from tests.ports import free_port
from tests.servers import redis_7

#: Namespaces of both nodes.
NAMESPACES = ("{a}", "{b}", "{c}")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A folder with a certificate for ``localhost``, its key, and its authority."""
    folder = tmp_path_factory.mktemp("tls")

    def run(*arguments):
        subprocess.run(("openssl", *arguments), cwd=folder, check=True, capture_output=True)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run(
        "req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2",
        "-subj", "/CN=authority",
    )  # fmt: skip
    run("req", *new_key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost")
    run(
        "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
        "-CAcreateserial", "-out", "server.crt", "-days", "2", "-extfile", "names",
    )  # fmt: skip
    return folder


def start(folder, *config, is_sentinel=False):
    """Start a server; return it with its port for TLS. The other port is for the test."""
    port = free_port()
    lines = [
        f"tls-port {port}",
        f"tls-cert-file {folder / 'server.crt'}",
        f"tls-key-file {folder / 'server.key'}",
        f"tls-ca-cert-file {folder / 'ca.crt'}",
        "tls-auth-clients no",
        "tls-replication yes",
        *config,
    ]
    node = Node(redis_7(), lines, is_sentinel=is_sentinel)
    node.start()
    return node, port


@pytest.fixture(scope="module")
def cluster_url(certificates):
    """The URL of a cluster of two nodes that announce their host name."""
    config = ("cluster-enabled yes", "tls-cluster yes", "cluster-announce-hostname localhost")
    started = [start(certificates, *config) for _ in range(2)]
    (first, port), (second, other_port) = started
    first.ask("CLUSTER", "ADDSLOTSRANGE", 0, SLOT_COUNT // 2 - 1)
    second.ask("CLUSTER", "ADDSLOTSRANGE", SLOT_COUNT // 2, SLOT_COUNT - 1)
    second.ask("CLUSTER", "SET-CONFIG-EPOCH", 2)
    first.ask("CLUSTER", "MEET", "127.0.0.1", other_port)
    for node, _ in started:
        wait_until(lambda node=node: knows_names(node))
    yield f"rediss+cluster://localhost:{port}?ssl_ca_certs={certificates / 'ca.crt'}"
    for node, _ in started:
        node.stop()


def knows_names(node):
    """Return whether a node serves all slots, and knows the host names of both nodes."""
    nodes = node.ask("CLUSTER", "SLOTS")
    names = [each[2] for each in nodes if len(each) > 2]
    return len(names) == 2 and all(b"localhost" in str(each).encode() for each in names)


@pytest.fixture(scope="module")
def sentinel_url(certificates):
    """The URL of a Sentinel and a primary that have TLS."""
    primary, port = start(certificates)
    sentinel, sentinel_port = start(
        certificates,
        "sentinel resolve-hostnames yes",
        "sentinel announce-hostnames yes",
        f"sentinel monitor m localhost {port} 1",
        is_sentinel=True,
    )
    yield f"rediss+sentinel://localhost:{sentinel_port}/m/0?ssl_ca_certs={certificates / 'ca.crt'}"
    sentinel.stop()
    primary.stop()


@pytest.fixture(params=["sync", "asyncio"])
def connect(request):
    """A function that opens a client."""
    runner = asyncio.Runner()
    opened = []

    def open_client(url, **options):
        if request.param == "sync":
            client = RSMQ.from_url(url, **options)
        else:
            client = Blocking(runner, AsyncRSMQ.from_url(url, **options))
        opened.append(client)
        return client

    yield open_client
    for client in opened:
        client.close()
    runner.close()


def send_later(url, **options):
    def send():
        with RSMQ.from_url(url, **options) as producer:
            producer.send_message("q", "later")

    threading.Timer(0.3, send).start()


@pytest.mark.parametrize("ns", NAMESPACES)
def test_calls_and_waits_on_a_cluster(cluster_url, connect, ns):
    client = connect(cluster_url, ns=ns)
    client.create_queue("q", exist_ok=True)
    client.send_message("q", "a")
    assert client.pop_message("q").body == "a"
    send_later(cluster_url, ns=ns)
    assert client.pop_message("q", wait=20).body == "later"


def test_sentinels_and_their_primary(sentinel_url, connect):
    client = connect(sentinel_url, ns="s")
    client.create_queue("q", exist_ok=True)
    client.send_message("q", "a")
    assert client.pop_message("q").body == "a"
    send_later(sentinel_url, ns="s")
    assert client.pop_message("q", wait=20).body == "later"


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_certificates_are_checked(request, connect, kind):
    """Without the authority, and by an address that the certificate does not have."""
    url = request.getfixturevalue(f"{kind}_url")
    for wrong in (url.partition("?")[0], url.replace("localhost", "127.0.0.1")):
        # The last of several attempts could end by the time that is left.
        client = connect(wrong, ns="{a}", retry_deadline=0)
        with pytest.raises(redis_errors.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            client.list_queues()


@pytest.fixture(scope="module")
def tls_address(certificates):
    """The host and the port with TLS of a server."""
    node, port = start(certificates)
    yield f"127.0.0.1:{port}"
    node.stop()


@pytest.mark.parametrize(
    ("kind", "path", "remark"),
    [("", "", ""), ("+cluster", "", " (Redis Cluster)"), ("+sentinel", "/m", " (Sentinels)")],
)
class TestTheOtherKindOfPort:
    def test_a_url_with_tls(self, connect, server, kind, path, remark):
        """A port without TLS waits for more of the command, so there is no answer."""
        address = f"127.0.0.1:{server.port}"
        url = f"rediss{kind}://{address}{path}"
        client = connect(url, ns="{a}", retry_deadline=0, socket_connect_timeout=0.2)
        with pytest.raises(redis_errors.TimeoutError) as caught:
            client.list_queues()

        assert str(caught.value) == (
            f"Timeout connecting to server. Is Redis running at {address}{remark} with TLS? "
            "For a port without TLS, use redis:// instead of rediss://"
        )

    def test_a_url_without_tls(self, connect, tls_address, kind, path, remark):
        client = connect(f"redis{kind}://{tls_address}{path}", ns="{a}", retry_deadline=0)
        with pytest.raises(redis_errors.ConnectionError) as caught:
            client.list_queues()

        assert str(caught.value).endswith(
            f". Is Redis running at {tls_address}{remark}? "
            "For a port with TLS, use rediss:// instead of redis://"
        )


def test_an_unknown_authority_has_its_own_advice(connect, tls_address):
    client = connect(f"rediss://{tls_address}", ns="{a}", retry_deadline=0)
    with pytest.raises(redis_errors.ConnectionError) as caught:
        client.list_queues()

    assert str(caught.value).endswith(
        f". Check ssl_ca_certs, and the names in the certificate of {tls_address} with TLS"
    )
