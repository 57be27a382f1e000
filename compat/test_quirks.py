"""What the matrix says of a client beside "both ways": each quirk, shown on the client itself."""

from __future__ import annotations

import pytest

from compat.peers import PEERS, Node, OldNode, Php, PyRSMQ, Refused, Shim

UNLIMITED = {"vt": 30, "delay": 0, "maxsize": -1, "created": 1, "modified": 1}


def refused(call, *args, **options):
    with pytest.raises(Refused) as caught:
        call(*args, **options)
    return caught.value.name


def cannot_create_unlimited(peer, ours, keys):
    assert refused(peer.create_queue, "q", maxsize=-1) == "invalidValue"
    assert keys.all() == []


def cannot_set_unlimited(peer, ours, keys):
    ours.create_queue("q")
    assert refused(peer.set_queue_attributes, "q", maxsize=-1) == "invalidValue"
    assert keys.fields("q")[b"maxsize"] == b"65536"


def cannot_set_unlimited_nor_modified(peer, ours, keys):
    cannot_set_unlimited(peer, ours, keys)
    keys.raw.hset(f"{keys.ns}:q:Q", "modified", 5)
    peer.set_queue_attributes("q", vt=9)
    assert keys.fields("q")[b"modified"] == b"5"


def cannot_send_to_unlimited(peer, ours, keys):
    ours.create_queue("q", maxsize=-1)
    assert refused(peer.send_message, "q", "") == "messageTooLong"


def sent_has_no_decimals(peer, ours, keys):
    ours.create_queue("q")
    id = ours.send_message("q", "m")
    assert peer.receive_message("q", vt=0)["sent"] == int(id[:10], 36) // 1000


def hides_what_is_hidden(peer, ours, keys):
    ours.create_queue("q", delay=3600)
    ours.send_message("q", "m")
    assert ours.get_queue_attributes("q")["hiddenmsgs"] == 1
    assert peer.get_queue_attributes("q")["hiddenmsgs"] == 0


def counts_code_points(peer, ours, keys):
    ours.create_queue("q", maxsize=1024)
    assert peer.send_message("q", "\U0001f600" * 1024)
    assert refused(peer.send_message, "q", "\U0001f600" * 1025) == "messageTooLong"
    assert refused(ours.send_message, "q", "\U0001f600" * 513) == "messageTooLong"


def first_received_is_text(operation):
    def shown(peer, ours, keys):
        ours.create_queue("q")
        ours.send_message("q", "m")
        answer = peer.ask(operation, qname="q")
        assert answer["fr"].isdecimal()

    return shown


def publishes_elsewhere(peer, ours, keys):
    ours.create_queue("q")
    with ours.listening(f"{keys.ns}:rt:*") as heard:
        try:
            peer.send_message("q", "m", realtime=True)
        except Refused:
            assert peer.real  # on PHP 8 it raises after it has stored the message
    assert heard == ([] if peer.real else [(f"{keys.ns}:rt:$q", "1")])
    assert len(keys.scores("q")) == 1


def larger_default(peer, ours, keys):
    peer.create_queue("q")
    assert keys.fields("q")[b"maxsize"] == b"65565"
    assert refused(ours.create_queue, "r", maxsize=65565) == "invalidValue"
    ours.send_message("q", "x" * 65565)


def makes_half_a_queue(peer, ours, keys):
    assert refused(peer.set_queue_attributes, "q", vt=5) == "TypeError"
    assert sorted(keys.fields("q")) == [b"modified", b"vt"]
    assert refused(ours.send_message, "q", "m") == "queueNotFound"
    assert ours.create_queue("q")


def enforces_no_size(peer, ours, keys):
    ours.create_queue("q", maxsize=1024)
    id = peer.send_message("q", "x" * 2000)
    assert ours.receive_message("q")["id"] == id


def refuses_nothing_and_enforces_no_size(peer, ours, keys):
    enforces_no_size(peer, ours, keys)
    assert peer.ask("sendMessage", qname="q", message="") is False
    assert len(keys.scores("q")) == 1


def raises_when_nothing_is_due(operation):
    def shown(peer, ours, keys):
        ours.create_queue("q")
        assert refused(peer.ask, operation, qname="q") == "NoMessageInQueue"
        ours.send_message("q", "m")
        assert sorted(peer.ask(operation, qname="q")) == ["id", "message", "rc", "ts"]

    return shown


def raises_for_an_unknown_id(peer, ours, keys):
    ours.create_queue("q")
    unknown = {"qname": "q", "id": "0" * 32, "vt": 5}
    assert refused(peer.ask, "changeMessageVisibility", **unknown) == "NoMessageInQueue"


def denies_a_delete(peer, ours, keys):
    ours.create_queue("q")
    id = ours.send_message("q", "m")
    assert peer.ask("deleteMessage", qname="q", id=id) is False
    assert keys.scores("q") == {}


SHOWN = {
    (OldNode, "createQueue"): cannot_create_unlimited,
    (OldNode, "setQueueAttributes"): cannot_set_unlimited_nor_modified,
    (OldNode, "sendMessage"): cannot_send_to_unlimited,
    (OldNode, "receiveMessage"): sent_has_no_decimals,
    (OldNode, "popMessage"): sent_has_no_decimals,
    (Php, "createQueue"): cannot_create_unlimited,
    (Php, "setQueueAttributes"): cannot_set_unlimited,
    (Php, "getQueueAttributes"): hides_what_is_hidden,
    (Php, "sendMessage"): counts_code_points,
    (Php, "receiveMessage"): first_received_is_text("receiveMessage"),
    (Php, "popMessage"): first_received_is_text("popMessage"),
    (Php, "realtime"): publishes_elsewhere,
    (PyRSMQ, "createQueue"): larger_default,
    (PyRSMQ, "setQueueAttributes"): makes_half_a_queue,
    (PyRSMQ, "sendMessage"): refuses_nothing_and_enforces_no_size,
    (PyRSMQ, "receiveMessage"): raises_when_nothing_is_due("receiveMessage"),
    (PyRSMQ, "popMessage"): raises_when_nothing_is_due("popMessage"),
    (PyRSMQ, "changeMessageVisibility"): raises_for_an_unknown_id,
    (PyRSMQ, "deleteMessage"): denies_a_delete,
    (Shim, "sendMessage"): enforces_no_size,
    (Shim, "receiveMessage"): raises_when_nothing_is_due("receiveMessage"),
    (Shim, "popMessage"): raises_when_nothing_is_due("popMessage"),
    (Shim, "changeMessageVisibility"): raises_for_an_unknown_id,
}


def test_every_quirk_of_the_matrix_is_shown():
    quirks = {(kind, operation) for kind in PEERS for operation in kind.quirks}

    assert set(SHOWN) == quirks


@pytest.mark.parametrize(
    ("kind", "operation"), SHOWN, ids=[f"{kind.name}-{operation}" for kind, operation in SHOWN]
)
def test_a_quirk(kind, operation, peers, ours, keys):
    peer = peers(kind)
    peer.ns = keys.ns
    SHOWN[kind, operation](peer, ours, keys)
    peer.forget(keys.ns)


@pytest.mark.parametrize("kind", PEERS, ids=lambda kind: kind.name)
def test_a_client_is_the_version_that_its_name_says(kind, peers):
    version = peers(kind).version

    if kind is Shim:
        assert version
    elif kind is not Php or peers(kind).real:
        assert kind.name.split()[-1] == version.removeprefix("v")


@pytest.mark.parametrize("kind", PEERS, ids=lambda kind: kind.name)
def test_bytes_that_are_no_text_reach_each_client_as_it_can(kind, peers, ours, keys):
    peer = peers(kind)
    peer.ns = keys.ns
    ours.create_queue("q")
    ours.send_message("q", b"\xff\0ok")
    if kind is PyRSMQ:
        assert refused(peer.receive_message, "q") == "UnicodeDecodeError"
    else:
        expected = "\ufffd\0ok" if issubclass(kind, Node) else b"\xff\0ok"
        assert peer.receive_message("q")["message"] == expected
    assert keys.fields("q")[b"totalrecv"] == b"1"
    peer.forget(keys.ns)
