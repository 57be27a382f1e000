"""
What this library adds to the wire, as the other clients see it: they go on as if it were not there.
"""

from __future__ import annotations

import threading

import pytest


@pytest.fixture
def rsmq(ours):
    return ours.client()


@pytest.fixture(autouse=True)
def queue(rsmq):
    rsmq.create_queue("q", vt=60)


def drained(peer, qname="q"):
    """All that the other client receives, until it says that there is nothing more."""
    received = []
    while message := peer.receive_message(qname):
        received.append(message)
    return received


@pytest.mark.adds("send_messages")
@pytest.mark.parametrize("size", [10, 9000])
def test_a_batch_is_received_in_its_order(theirs, rsmq, keys, size):
    bodies = [f"é{number}".ljust(size) for number in range(12)]
    ids = rsmq.send_messages("q", bodies)

    received = drained(theirs)
    assert [message["message"] for message in received] == bodies
    assert [message["id"] for message in received] == ids
    assert {message["rc"] for message in received} == {1}
    assert theirs.get_queue_attributes("q")["totalsent"] == 12
    for id in ids:
        assert theirs.delete_message("q", id)
    assert keys.fields("q").keys() == {
        b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv",
    }  # fmt: skip


@pytest.mark.adds("front=")
def test_the_front_comes_first(theirs, rsmq):
    theirs.send_message("q", "first of theirs")
    rsmq.send_messages("q", ["1", "2"], front=True)
    rsmq.send_message("q", "0", front=True)

    assert [message["message"] for message in drained(theirs)] == ["0", "1", "2", "first of theirs"]


@pytest.mark.adds("receive_messages", "change_messages_visibility")
def test_what_a_batch_received_is_hidden_and_counted(theirs, rsmq):
    ids = [theirs.send_message("q", str(number)) for number in range(3)]
    received = rsmq.receive_messages("q", 10)

    assert [message.id for message in received] == ids
    assert theirs.receive_message("q") is None
    assert theirs.get_queue_attributes("q")["totalrecv"] == 3
    rsmq.change_messages_visibility(received, 0)
    again = {message["id"]: message for message in drained(theirs)}
    assert again.keys() == set(ids)
    for message in received:
        assert again[message.id]["rc"] == 2
        assert again[message.id]["fr"] == message.first_received_ms


@pytest.mark.adds("pop_messages", "delete_messages")
def test_what_a_batch_removed_is_gone(theirs, rsmq, keys):
    ids = [theirs.send_message("q", str(number)) for number in range(4)]
    popped = rsmq.pop_messages("q", 2)
    assert [message.id for message in popped] == ids[:2]
    held = theirs.receive_message("q")

    assert held["id"] == ids[2]
    assert rsmq.delete_messages("q", ids) == ids[2:]
    assert theirs.delete_message("q", ids[3]) is False or not keys.scores("q")
    assert theirs.receive_message("q") is None
    assert keys.fields("q").keys() == {
        b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv",
    }  # fmt: skip


@pytest.mark.adds("receipts of a batch")
def test_what_the_other_received_since_is_not_deleted(theirs, rsmq):
    id = theirs.send_message("q", "m")
    late = rsmq.receive_messages("q", 1, vt=0)
    assert theirs.receive_message("q")["id"] == id

    assert rsmq.delete_messages(late) == []
    assert rsmq.change_messages_visibility(late, 0) == []
    assert rsmq.release_messages(late) == []
    assert theirs.receive_message("q") is None
    assert theirs.delete_message("q", id)


@pytest.mark.adds("release_messages", "release_all_messages")
def test_what_is_released_comes_first_again(theirs, rsmq):
    ids = [theirs.send_message("q", str(number)) for number in range(3)]
    held = theirs.receive_message("q")
    rsmq.release_messages("q", [held["id"]])
    again = theirs.receive_message("q")
    assert (again["id"], again["rc"]) == (ids[0], 2)
    assert rsmq.release_all_messages("q") == 1

    assert [message["id"] for message in drained(theirs)] == ids


@pytest.mark.adds("recover_messages")
def test_what_the_other_left_is_taken_over(theirs, rsmq, keys):
    id = theirs.send_message("q", "m")
    held = theirs.receive_message("q")
    assert rsmq.recover_messages("q", 5, idle=30) == []
    keys.elapse("q", 31)
    recovered = rsmq.recover_messages("q", 5, idle=30)

    assert [(m.id, m.receive_count, m.first_received_ms) for m in recovered] == [
        (id, 2, held["fr"])
    ]
    assert theirs.receive_message("q") is None


@pytest.mark.adds("peek_messages", "count_messages")
def test_what_the_other_did_is_seen(theirs, rsmq):
    ids = [theirs.send_message("q", str(number)) for number in range(3)]
    theirs.send_message("q", "later", delay=30)
    held = theirs.receive_message("q")

    counts = rsmq.count_messages("q")
    assert (counts.visible, counts.in_flight, counts.delayed) == (2, 1, 1)
    seen = rsmq.peek_messages("q", state="in_flight")
    assert [(m.id, m.receive_count, m.first_received_ms) for m in seen] == [(ids[0], 1, held["fr"])]
    assert abs(seen[0].last_received_ms - held["fr"]) <= 1000  # some clients take seconds


@pytest.mark.adds("set_dead_letter_policy", "sweep_dead_letters")
def test_poison_that_the_other_received_is_moved(theirs, rsmq, keys):
    rsmq.create_queue("dead")
    before = theirs.get_queue_attributes("q")
    rsmq.set_dead_letter_policy("q", "dead", 2)
    after = theirs.get_queue_attributes("q")
    assert {**after, "modified": 0} == {**before, "modified": 0}
    poison = theirs.send_message("q", "poison")
    for _ in range(2):
        theirs.receive_message("q", vt=0)
        keys.elapse("q", 1)
    good = theirs.send_message("q", "good")

    assert rsmq.sweep_dead_letters("q") == [poison]
    assert [message["id"] for message in drained(theirs)] == [good]
    message = theirs.receive_message("dead")
    assert (message["id"], message["message"], message["rc"]) == (poison, "poison", 3)


@pytest.mark.adds("dead letters by receive")
def test_poison_of_the_other_is_moved_by_our_receive(theirs, rsmq, keys):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 1)
    poison = theirs.send_message("q", "poison")
    theirs.receive_message("q", vt=0)
    keys.elapse("q", 1)

    assert rsmq.receive_message("q") is None
    assert theirs.receive_message("dead")["id"] == poison


@pytest.mark.adds("redrive_messages", "move_messages")
def test_what_is_redriven_or_moved_is_there_for_the_other(theirs, rsmq):
    rsmq.create_queue("dead")
    ids = [theirs.send_message("q", str(number)) for number in range(2)]
    assert rsmq.move_messages("q", "dead", ids) == ids
    assert theirs.receive_message("q") is None
    redriven = dict(rsmq.redrive_messages("dead", "q"))

    received = drained(theirs)
    assert [message["id"] for message in received] == [redriven[id] for id in ids]
    assert {message["rc"] for message in received} == {1}
    assert theirs.get_queue_attributes("q")["totalsent"] == 4


@pytest.mark.adds("dedup_id=")
def test_a_message_sent_twice_under_a_name_is_there_once(theirs, rsmq, keys):
    id = rsmq.send_message("q", "m", dedup_id="x")
    assert rsmq.send_message("q", "m", dedup_id="x") == id
    assert [message["id"] for message in drained(theirs)] == [id]
    created = keys.fields("q")[b"created"]
    theirs.delete_queue("q")
    rsmq.create_queue("q")
    keys.raw.hset(f"{keys.ns}:q:Q", "created", int(created) + 1)

    assert rsmq.send_message("q", "m", dedup_id="x") != id


@pytest.mark.adds("wait=")
def test_a_send_of_the_other_ends_a_wait(theirs, rsmq, keys):
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
        ids.append(theirs.send_message("q", str(number)))
    thread.join(5)

    assert [message.id for message in received] == ids


@pytest.mark.adds("several queues")
def test_queues_of_the_other_are_received_from_in_one_call(theirs, rsmq):
    theirs.create_queue("urgent")
    theirs.send_message("q", "later")
    theirs.send_message("urgent", "sooner")

    received = rsmq.receive_messages(["urgent", "q"], 5)
    assert [(m.queue, m.body) for m in received] == [("urgent", "sooner"), ("q", "later")]
