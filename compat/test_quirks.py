"""The quirks in the matrix, each shown on the client itself."""

from __future__ import annotations

import pytest

from compat.peers import PEERS, Node, OldNode, Php, PyRSMQ, Refused, Shim

UNLIMITED = {"vt": 30, "delay": 0, "maxsize": -1, "created": 1, "modified": 1}


def error_name(call, *args, **options):
    with pytest.raises(Refused) as caught:
        call(*args, **options)
    return caught.value.name


def cannot_create_unlimited(peer, our_client, keys):
    assert error_name(peer.create_queue, "q", maxsize=-1) == "invalidValue"
    assert keys.list_keys() == []


def cannot_set_unlimited(peer, our_client, keys):
    our_client.create_queue("q")
    assert error_name(peer.set_queue_attributes, "q", maxsize=-1) == "invalidValue"
    assert keys.fields("q")[b"maxsize"] == b"65536"


def cannot_set_unlimited_nor_modified(peer, our_client, keys):
    cannot_set_unlimited(peer, our_client, keys)
    keys.raw.hset(f"{keys.ns}:q:Q", "modified", 5)
    peer.set_queue_attributes("q", vt=9)
    assert keys.fields("q")[b"modified"] == b"5"


def cannot_send_to_unlimited(peer, our_client, keys):
    our_client.create_queue("q", maxsize=-1)
    assert error_name(peer.send_message, "q", "") == "messageTooLong"


def sent_has_no_decimals(peer, our_client, keys):
    our_client.create_queue("q")
    id = our_client.send_message("q", "m")
    assert peer.receive_message("q", vt=0)["sent"] == int(id[:10], 36) // 1000


def reports_no_hidden_messages(peer, our_client, keys):
    our_client.create_queue("q", delay=3600)
    our_client.send_message("q", "m")
    assert our_client.get_queue_attributes("q")["hiddenmsgs"] == 1
    assert peer.get_queue_attributes("q")["hiddenmsgs"] == 0


def counts_code_points(peer, our_client, keys):
    our_client.create_queue("q", maxsize=1024)
    assert peer.send_message("q", "\U0001f600" * 1024)
    assert error_name(peer.send_message, "q", "\U0001f600" * 1025) == "messageTooLong"
    assert error_name(our_client.send_message, "q", "\U0001f600" * 513) == "messageTooLong"


def first_received_is_text(operation):
    def show(peer, our_client, keys):
        our_client.create_queue("q")
        our_client.send_message("q", "m")
        result = peer.request(operation, qname="q")
        assert result["fr"].isdecimal()

    return show


def publishes_on_another_channel(peer, our_client, keys):
    our_client.create_queue("q")
    with our_client.listening(f"{keys.ns}:rt:*") as received:
        try:
            peer.send_message("q", "m", realtime=True)
        except Refused:
            assert peer.is_original  # on PHP 8 it raises after it has stored the message
    assert received == ([] if peer.is_original else [(f"{keys.ns}:rt:$q", "1")])
    assert len(keys.scores("q")) == 1


def has_larger_default(peer, our_client, keys):
    peer.create_queue("q")
    assert keys.fields("q")[b"maxsize"] == b"65565"
    assert error_name(our_client.create_queue, "r", maxsize=65565) == "invalidValue"
    our_client.send_message("q", "x" * 65565)


def creates_incomplete_queue(peer, our_client, keys):
    assert error_name(peer.set_queue_attributes, "q", vt=5) == "TypeError"
    assert sorted(keys.fields("q")) == [b"modified", b"vt"]
    assert error_name(our_client.send_message, "q", "m") == "queueNotFound"
    assert our_client.create_queue("q")


def does_not_enforce_maxsize(peer, our_client, keys):
    our_client.create_queue("q", maxsize=1024)
    id = peer.send_message("q", "x" * 2000)
    assert our_client.receive_message("q")["id"] == id


def refuses_empty_body_and_does_not_enforce_maxsize(peer, our_client, keys):
    does_not_enforce_maxsize(peer, our_client, keys)
    assert peer.request("sendMessage", qname="q", message="") is False
    assert len(keys.scores("q")) == 1


def raises_when_nothing_is_due(operation):
    def show(peer, our_client, keys):
        our_client.create_queue("q")
        assert error_name(peer.request, operation, qname="q") == "NoMessageInQueue"
        our_client.send_message("q", "m")
        assert sorted(peer.request(operation, qname="q")) == ["id", "message", "rc", "ts"]

    return show


def raises_for_an_unknown_id(peer, our_client, keys):
    our_client.create_queue("q")
    unknown = {"qname": "q", "id": "0" * 32, "vt": 5}
    assert error_name(peer.request, "changeMessageVisibility", **unknown) == "NoMessageInQueue"


def denies_delete(peer, our_client, keys):
    our_client.create_queue("q")
    id = our_client.send_message("q", "m")
    assert peer.request("deleteMessage", qname="q", id=id) is False
    assert keys.scores("q") == {}


QUIRK_TESTS = {
    (OldNode, "createQueue"): cannot_create_unlimited,
    (OldNode, "setQueueAttributes"): cannot_set_unlimited_nor_modified,
    (OldNode, "sendMessage"): cannot_send_to_unlimited,
    (OldNode, "receiveMessage"): sent_has_no_decimals,
    (OldNode, "popMessage"): sent_has_no_decimals,
    (Php, "createQueue"): cannot_create_unlimited,
    (Php, "setQueueAttributes"): cannot_set_unlimited,
    (Php, "getQueueAttributes"): reports_no_hidden_messages,
    (Php, "sendMessage"): counts_code_points,
    (Php, "receiveMessage"): first_received_is_text("receiveMessage"),
    (Php, "popMessage"): first_received_is_text("popMessage"),
    (Php, "realtime"): publishes_on_another_channel,
    (PyRSMQ, "createQueue"): has_larger_default,
    (PyRSMQ, "setQueueAttributes"): creates_incomplete_queue,
    (PyRSMQ, "sendMessage"): refuses_empty_body_and_does_not_enforce_maxsize,
    (PyRSMQ, "receiveMessage"): raises_when_nothing_is_due("receiveMessage"),
    (PyRSMQ, "popMessage"): raises_when_nothing_is_due("popMessage"),
    (PyRSMQ, "changeMessageVisibility"): raises_for_an_unknown_id,
    (PyRSMQ, "deleteMessage"): denies_delete,
    (Shim, "sendMessage"): does_not_enforce_maxsize,
    (Shim, "receiveMessage"): raises_when_nothing_is_due("receiveMessage"),
    (Shim, "popMessage"): raises_when_nothing_is_due("popMessage"),
    (Shim, "changeMessageVisibility"): raises_for_an_unknown_id,
}


def test_every_quirk_has_a_test():
    quirks = {(kind, operation) for kind in PEERS for operation in kind.quirks}

    assert set(QUIRK_TESTS) == quirks


@pytest.mark.parametrize(
    ("kind", "operation"),
    QUIRK_TESTS,
    ids=[f"{kind.name}-{operation}" for kind, operation in QUIRK_TESTS],
)
def test_quirk(kind, operation, peers, our_client, keys):
    peer = peers(kind)
    peer.ns = keys.ns
    QUIRK_TESTS[kind, operation](peer, our_client, keys)
    peer.close_clients(keys.ns)


@pytest.mark.parametrize("kind", PEERS, ids=lambda kind: kind.name)
def test_version_of_a_client_agrees_with_its_name(kind, peers):
    version = peers(kind).version

    if kind is Shim:
        assert version
    elif kind is not Php or peers(kind).is_original:
        assert kind.name.split()[-1] == version.removeprefix("v")


@pytest.mark.parametrize("kind", PEERS, ids=lambda kind: kind.name)
def test_bytes_that_are_not_text_are_received_as_each_client_can(kind, peers, our_client, keys):
    peer = peers(kind)
    peer.ns = keys.ns
    our_client.create_queue("q")
    our_client.send_message("q", b"\xff\0ok")
    if kind is PyRSMQ:
        assert error_name(peer.receive_message, "q") == "UnicodeDecodeError"
    else:
        expected = "\ufffd\0ok" if issubclass(kind, Node) else b"\xff\0ok"
        assert peer.receive_message("q")["message"] == expected
    assert keys.fields("q")[b"totalrecv"] == b"1"
    peer.close_clients(keys.ns)
