"""Features of this library as other clients see them: they are not affected by them."""

from __future__ import annotations

import threading

import pytest

from compat.peers import Shim
from tests.scale import WAIT_SECONDS


@pytest.fixture
def rsmq(our_client):
    return our_client.client()


@pytest.fixture(autouse=True)
def queue(rsmq):
    rsmq.create_queue("q", vt=60)


def receive_all(peer, qname="q"):
    """Receive messages with the other client until none is left, and return them."""
    received = []
    while message := peer.receive_message(qname):
        received.append(message)
    return received


@pytest.mark.adds("send_messages")
@pytest.mark.parametrize("size", [10, 9000])
def test_batch_is_received_in_its_order(other_client, rsmq, keys, size):
    bodies = [f"é{number}".ljust(size) for number in range(12)]
    ids = rsmq.send_messages("q", bodies)

    received = receive_all(other_client)
    assert [message["message"] for message in received] == bodies
    assert [message["id"] for message in received] == ids
    assert {message["rc"] for message in received} == {1}
    assert other_client.get_queue_attributes("q")["totalsent"] == 12
    for id in ids:
        assert other_client.delete_message("q", id)
    assert keys.fields("q").keys() == {
        b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv",
    }  # fmt: skip


@pytest.mark.adds("front=")
def test_messages_at_the_front_are_received_first(other_client, rsmq):
    other_client.send_message("q", "first of theirs")
    rsmq.send_messages("q", ["1", "2"], front=True)
    rsmq.send_message("q", "0", front=True)

    assert [message["message"] for message in receive_all(other_client)] == [
        "0",
        "1",
        "2",
        "first of theirs",
    ]


@pytest.mark.adds("receive_messages", "change_messages_visibility")
def test_messages_received_in_a_batch_are_hidden_and_counted(other_client, rsmq):
    ids = [other_client.send_message("q", str(number)) for number in range(3)]
    received = rsmq.receive_messages("q", 10)

    assert [message.id for message in received] == ids
    assert other_client.receive_message("q") is None
    assert other_client.get_queue_attributes("q")["totalrecv"] == 3
    rsmq.change_messages_visibility(received, 0)
    received_again = {message["id"]: message for message in receive_all(other_client)}
    assert received_again.keys() == set(ids)
    for message in received:
        assert received_again[message.id]["rc"] == 2
        assert received_again[message.id]["fr"] == message.first_received_ms


@pytest.mark.adds("pop_messages", "delete_messages")
def test_messages_deleted_in_a_batch_are_gone(other_client, rsmq, keys):
    ids = [other_client.send_message("q", str(number)) for number in range(4)]
    popped = rsmq.pop_messages("q", 2)
    assert [message.id for message in popped] == ids[:2]
    in_flight = other_client.receive_message("q")

    assert in_flight["id"] == ids[2]
    assert rsmq.delete_messages("q", ids) == ids[2:]
    assert other_client.delete_message("q", ids[3]) is False or not keys.scores("q")
    assert other_client.receive_message("q") is None
    assert keys.fields("q").keys() == {
        b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv",
    }  # fmt: skip


@pytest.mark.adds("receipts of a batch")
def test_receipt_is_stale_after_a_receive_by_the_other_client(other_client, rsmq):
    id = other_client.send_message("q", "m")
    stale = rsmq.receive_messages("q", 1, vt=0)
    assert other_client.receive_message("q")["id"] == id

    assert rsmq.delete_messages(stale) == []
    assert rsmq.change_messages_visibility(stale, 0) == []
    assert rsmq.release_messages(stale) == []
    assert other_client.receive_message("q") is None
    assert other_client.delete_message("q", id)


@pytest.mark.adds("release_messages", "release_all_messages")
def test_released_messages_are_received_first(other_client, rsmq):
    ids = [other_client.send_message("q", str(number)) for number in range(3)]
    in_flight = other_client.receive_message("q")
    rsmq.release_messages("q", [in_flight["id"]])
    received_again = other_client.receive_message("q")
    assert (received_again["id"], received_again["rc"]) == (ids[0], 2)
    assert rsmq.release_all_messages("q") == 1

    assert [message["id"] for message in receive_all(other_client)] == ids


@pytest.mark.adds("recover_messages")
def test_abandoned_messages_of_the_other_client_are_recovered(other_client, rsmq, keys):
    id = other_client.send_message("q", "m")
    in_flight = other_client.receive_message("q")
    assert rsmq.recover_messages("q", 5, idle=30) == []
    keys.advance_time("q", 31)
    recovered = rsmq.recover_messages("q", 5, idle=30)

    assert [(m.id, m.receive_count, m.first_received_ms) for m in recovered] == [
        (id, 2, in_flight["fr"])
    ]
    assert other_client.receive_message("q") is None


@pytest.mark.adds("peek_messages", "count_messages")
def test_peek_and_count_show_what_the_other_client_did(other_client, rsmq):
    ids = [other_client.send_message("q", str(number)) for number in range(3)]
    other_client.send_message("q", "later", delay=30)
    in_flight = other_client.receive_message("q")

    counts = rsmq.count_messages("q")
    assert (counts.visible, counts.in_flight, counts.delayed) == (2, 1, 1)
    seen = rsmq.peek_messages("q", state="in_flight")
    assert [(m.id, m.receive_count, m.first_received_ms) for m in seen] == [
        (ids[0], 1, in_flight["fr"])
    ]
    assert abs(seen[0].last_received_ms - in_flight["fr"]) <= 1000  # some clients store seconds


@pytest.mark.adds("set_dead_letter_policy", "sweep_dead_letters")
def test_sweep_moves_poison_messages_of_the_other_client(other_client, rsmq, keys):
    rsmq.create_queue("dead")
    before = other_client.get_queue_attributes("q")
    rsmq.set_dead_letter_policy("q", "dead", 2)
    after = other_client.get_queue_attributes("q")
    assert {**after, "modified": 0} == {**before, "modified": 0}
    poison = other_client.send_message("q", "poison")
    for _ in range(2):
        other_client.receive_message("q", vt=0)
        keys.advance_time("q", 1)
    good = other_client.send_message("q", "good")

    assert rsmq.sweep_dead_letters("q") == [poison]
    assert [message["id"] for message in receive_all(other_client)] == [good]
    message = other_client.receive_message("dead")
    assert (message["id"], message["message"], message["rc"]) == (poison, "poison", 3)


@pytest.mark.adds("dead letters by receive")
def test_receive_moves_poison_messages_of_the_other_client(other_client, rsmq, keys):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 1)
    poison = other_client.send_message("q", "poison")
    other_client.receive_message("q", vt=0)
    keys.advance_time("q", 1)

    assert rsmq.receive_message("q") is None
    assert other_client.receive_message("dead")["id"] == poison


@pytest.mark.adds("redrive_messages", "move_messages")
def test_other_client_receives_redriven_and_moved_messages(other_client, rsmq):
    rsmq.create_queue("dead")
    ids = [other_client.send_message("q", str(number)) for number in range(2)]
    assert rsmq.move_messages("q", "dead", ids) == ids
    assert other_client.receive_message("q") is None
    redriven = dict(rsmq.redrive_messages("dead", "q"))

    received = receive_all(other_client)
    assert [message["id"] for message in received] == [redriven[id] for id in ids]
    assert {message["rc"] for message in received} == {1}
    assert other_client.get_queue_attributes("q")["totalsent"] == 4


@pytest.mark.adds("dedup_id=")
def test_message_with_a_dedup_id_is_stored_once(other_client, rsmq, keys):
    id = rsmq.send_message("q", "m", dedup_id="x")
    assert rsmq.send_message("q", "m", dedup_id="x") == id
    assert [message["id"] for message in receive_all(other_client)] == [id]
    created = keys.fields("q")[b"created"]
    other_client.delete_queue("q")
    rsmq.create_queue("q")
    keys.raw.hset(f"{keys.ns}:q:Q", "created", int(created) + 1)

    assert rsmq.send_message("q", "m", dedup_id="x") != id


@pytest.mark.adds("unique_key=")
def test_other_clients_free_a_unique_key_and_ignore_it_when_they_send(other_client, rsmq, keys):
    def send(body, **options):
        return rsmq.send_message("q", body, unique_key="x", **options)

    first = send("1")
    assert send("2", replace=True) == first
    other = other_client.send_message("q", "2")
    assert other != first
    received = other_client.receive_message("q", vt=1000)
    assert (received["id"], received["message"]) == (first, "2")
    assert send("3") == first
    second = send("3", replace=True)
    assert second != first
    assert other_client.delete_message("q", first)
    assert send("4") == second
    assert [message["id"] for message in receive_all(other_client)] == [other, second]
    other_client.delete_queue("q")
    rsmq.create_queue("q")
    assert send("5") not in {first, second}
    assert other_client.pop_message("q")["message"] == "5"
    assert send("6") in {id.decode() for id in keys.scores("q")}


def make_old(keys, id):
    """Store a message of queue q as if it had been sent years ago, and return its id."""
    old = "g000000000" + id[10:]
    for suffix in ("", ":rc", ":fr"):
        value = keys.raw.hget(f"{keys.ns}:q:Q", f"{id}{suffix}")
        if value is not None:
            keys.raw.hset(f"{keys.ns}:q:Q", f"{old}{suffix}", value)
            keys.raw.hdel(f"{keys.ns}:q:Q", f"{id}{suffix}")
    keys.raw.zadd(f"{keys.ns}:q", {old: keys.raw.zscore(f"{keys.ns}:q", id)})
    keys.raw.zrem(f"{keys.ns}:q", id)
    return old


def receive_limited(peer, keys, id):
    """Receive a message as long as it exists. Only the module ``rsmq.pyrsmq`` obeys limits."""
    received = peer.receive_message("q", vt=0)
    assert (received and received["id"]) == (None if isinstance(peer, Shim) else id)
    keys.advance_time("q", 1)


@pytest.mark.adds("keep=")
def test_messages_of_the_other_client_expire_and_it_ignores_that(other_client, rsmq, keys):
    before = other_client.get_queue_attributes("q")
    rsmq.set_queue_attributes("q", keep=60)
    after = other_client.get_queue_attributes("q")
    assert {**after, "modified": 0} == {**before, "modified": 0}
    old = make_old(keys, other_client.send_message("q", "old"))
    receive_limited(other_client, keys, old)
    new = other_client.send_message("q", "new")

    assert rsmq.receive_message("q", vt=0).id == new
    assert [id.decode() for id in keys.scores("q")] == [new]
    old = make_old(keys, other_client.send_message("q", "old"))
    assert rsmq.sweep_expired("q") == [old]
    keys.advance_time("q", 1)
    assert [message["id"] for message in receive_all(other_client)] == [new]
    assert other_client.delete_message("q", new)


@pytest.mark.adds("expires= and max_retries=")
def test_the_other_client_ignores_the_limits_of_a_message_and_ends_them(other_client, rsmq, keys):
    limits = f"{keys.ns}:q:x:limits"
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 5)
    once = rsmq.send_message("q", "once", max_retries=0)
    assert other_client.receive_message("q", vt=0)["id"] == once
    keys.advance_time("q", 1)
    receive_limited(other_client, keys, once)
    late = rsmq.send_message("q", "late", expires=60)
    keys.raw.hset(limits, late, ":1")

    assert rsmq.receive_message("q") is None
    assert keys.scores("q") == {}
    assert other_client.receive_message("dead")["id"] == once
    late = rsmq.send_message("q", "late", expires=60)
    keys.raw.hset(limits, late, ":1")
    receive_limited(other_client, keys, late)
    other_client.delete_message("q", late)
    assert not [name for name in keys.fields("q") if name.startswith(late.encode())]
    last = rsmq.send_message("q", "last", max_retries=1)
    assert [id.decode() for id in keys.raw.hkeys(limits)] == [last]
    assert other_client.pop_message("q")["id"] == last


@pytest.mark.adds("set_queue_limits")
def test_the_other_client_ignores_the_limits_of_a_queue_and_ends_them(other_client, rsmq):
    rsmq.set_queue_limits("q", max_running=1)
    ids = [other_client.send_message("q", str(number)) for number in range(4)]
    assert rsmq.receive_message("q").id == ids[0]
    assert rsmq.receive_message("q") is None

    obeys = other_client.name == "rsmq.pyrsmq"  # it is this library
    received = other_client.receive_message("q")
    assert received is None if obeys else received["id"] == ids[1]
    assert other_client.delete_message("q", ids[0])
    assert rsmq.receive_message("q").id == (ids[1] if obeys else ids[2])


@pytest.mark.adds("wait=")
def test_send_by_the_other_client_ends_a_wait(other_client, rsmq, keys):
    received = []

    def wait():
        received.extend(rsmq.receive_messages(["q"], 1, wait=20))
        received.append(rsmq.pop_message("q", wait=20))

    thread = threading.Thread(target=wait)
    thread.start()
    ids = []
    for number in range(2):
        while len(received) < number or not keys.raw.info("clients")["tracking_clients"]:
            thread.join(0.01)
        thread.join(0.05)
        ids.append(other_client.send_message("q", str(number)))
    thread.join(WAIT_SECONDS)

    assert [message.id for message in received] == ids


@pytest.mark.adds("several queues")
def test_several_queues_of_the_other_client_are_received_from_in_one_call(other_client, rsmq):
    other_client.create_queue("urgent")
    other_client.send_message("q", "later")
    other_client.send_message("urgent", "sooner")

    received = rsmq.receive_messages(["urgent", "q"], 5)
    assert [(m.queue, m.body) for m in received] == [("urgent", "sooner"), ("q", "later")]
