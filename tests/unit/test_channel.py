"""The channel between a worker and a child process."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from rsmq.worker.children.channel import Channel


@pytest.fixture
def ends():
    sockets = socket.socketpair()
    yield sockets
    for each in sockets:
        each.close()


def test_messages_arrive_in_order(ends):
    own, other = map(Channel, ends)
    own.send({"a": 1})
    own.send(["\ud800", b"\xff"])

    assert other.has_message(1)
    assert other.receive() == {"a": 1}
    assert other.receive() == ["\ud800", b"\xff"]
    assert not other.has_message(0)


def test_part_of_a_message_is_not_waited_for(ends):
    own, other = ends
    channel = Channel(other)
    packed = b"\xa5hello"
    message = struct.pack(">I", len(packed)) + packed
    for at in range(len(message)):
        assert not channel.has_message(0)
        own.sendall(message[at : at + 1])

    assert channel.has_message(0)
    assert channel.receive() == "hello"


def test_send_to_an_end_that_does_not_read_has_a_deadline(ends):
    own, _ = map(Channel, ends)
    with pytest.raises(TimeoutError):
        own.send(b"x" * 10_000_000, time.monotonic() + 0.1)

    assert not own.has_room()


def test_message_that_can_not_be_packed_sends_nothing(ends):
    own, other = map(Channel, ends)
    with pytest.raises(TypeError):
        own.send(object())
    own.send(1)

    assert other.receive() == 1


def test_end_of_the_other_end_is_an_error(ends):
    own, other = map(Channel, ends)
    own.send(1)
    own.close()

    assert other.receive() == 1
    assert other.has_message(0)
    with pytest.raises(EOFError):
        other.receive()
