"""Reading and writing of an open socket, with a peer that does what the test says."""

from __future__ import annotations

import gc
import socket
import struct
import weakref
from types import SimpleNamespace

import hiredis
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.transport import socket as transport_socket
from rsmq.transport.socket import SocketConnection, unsent_bytes

LARGE = b"x" * 20_000_000  # more than the buffers of both sockets


class WrappedSocket(socket.socket):
    """A socket of another class, as those of TLS and gevent are."""


@pytest.fixture
def pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    own.settimeout(0.3)
    with own, peer:
        yield own, peer


def connect(own):
    parser = SimpleNamespace(parse_error=ResponseError)
    return SocketConnection(SimpleNamespace(_sock=own, _parser=parser, disconnect=own.close))


def wrap(own):
    wrapped = WrappedSocket(fileno=own.detach())
    wrapped.settimeout(0.3)
    return wrapped


def reset(peer):
    """Close a socket so that the other side gets an error instead of the end of the data."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def test_a_reply_is_read_in_parts_and_an_error_reply_is_raised(pair):
    own, peer = pair
    connection = connect(own)
    peer.sendall(b"$5\r\nhel")
    assert connection.can_read(1)
    peer.sendall(b"lo\r\n-ERR no\r\n")

    assert connection.read_response() == b"hello"
    with pytest.raises(ResponseError, match="no"):
        connection.read_response()


def test_an_error_reply_leaves_no_reference_cycle(pair):
    own, peer = pair
    connection = connect(own)
    peer.sendall(b"-ERR no\r\n")
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ResponseError) as caught:
            connection.read_response()
        error = weakref.ref(caught.value)
        del caught
        assert error() is None
    finally:
        gc.enable()


def test_push_messages_are_left_out_unless_they_are_requested(pair):
    own, peer = pair
    connection = connect(own)
    push = b">2\r\n+invalidate\r\n*1\r\n+key\r\n"
    peer.sendall(push + b"+OK\r\n" + push)

    assert connection.read_response() == b"OK"
    assert isinstance(connection.read_response(push_request=True), hiredis.PushNotification)


def test_a_peer_that_sends_nothing_is_a_timeout(pair):
    own, _ = pair

    with pytest.raises(RedisTimeoutError, match="Timeout reading from socket"):
        connect(own).read_response()


@pytest.mark.parametrize(
    ("end", "text"),
    [(socket.socket.close, "Connection closed by server"), (reset, "Error while reading from")],
)
def test_a_peer_that_closes_or_resets_is_a_connection_error(pair, end, text):
    own, peer = pair
    connection = connect(own)
    end(peer)

    with pytest.raises(RedisConnectionError, match=text):
        connection.read_response()


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_write_to_a_peer_that_has_gone_is_a_connection_error(pair, is_wrapped):
    own, peer = pair
    connection = connect(wrap(own) if is_wrapped else own)
    reset(peer)

    with connection._socket, pytest.raises(RedisConnectionError, match="Error while writing"):
        for _ in range(10):
            connection.send_command(b"SET", b"k", LARGE)


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_peer_that_reads_nothing_is_a_timeout(pair, is_wrapped):
    own, _ = pair
    connection = connect(wrap(own) if is_wrapped else own)

    with connection._socket, pytest.raises(RedisTimeoutError, match="Timeout writing to socket"):
        connection.send_command(b"SET", b"k", LARGE)


def test_the_timeout_of_a_read_starts_when_a_large_command_is_sent(pair):
    own, peer = pair
    connection = connect(own)
    connection.send_command(b"SET", b"k", b"x" * 30_000)
    assert connection._is_sending
    while unsent_bytes(own):
        peer.recv(65536)
    peer.sendall(b"+OK\r\n")

    assert connection.read_response() == b"OK"
    assert not connection.can_read()


@pytest.mark.parametrize("has_poll", [True, False])
def test_an_idle_connection_has_nothing_to_read(pair, has_poll, monkeypatch):
    if not has_poll:
        monkeypatch.delattr(transport_socket.select, "poll")
    own, peer = pair
    connection = connect(own)
    assert connection.is_idle()
    peer.sendall(b"+unexpected\r\n")

    assert connection.can_read(1)
    assert not connection.is_idle()


def test_data_that_tls_has_decrypted_already_can_be_read(pair):
    own, _ = pair
    connection = connect(own)
    connection._pending_bytes = lambda: 5

    assert connection.can_read()


def test_the_bytes_of_a_closed_socket_are_unknown(pair):
    own, _ = pair
    own.close()

    assert unsent_bytes(own) == 0


def test_a_connection_belongs_to_the_process_that_opened_it(pair, monkeypatch):
    connection = connect(pair[0])
    assert not connection.is_inherited()
    monkeypatch.setattr(transport_socket, "_process_token", transport_socket._process_token)
    transport_socket._renew_process_token()  # as in a child process

    assert connection.is_inherited()
