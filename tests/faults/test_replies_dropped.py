"""The reply of every operation is lost once; nothing is stored twice, and nothing is lost."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import redis.exceptions as redis_errors

from rsmq import QueueExists, QueueNotFound

LOST = (redis_errors.ConnectionError, redis_errors.TimeoutError)


def test_a_send_whose_reply_is_lost_is_stored_once_and_raises(broken, rsmq):
    broken.proxy.drop = 1
    before = broken.proxy.scripts

    with pytest.raises(LOST):
        rsmq.send_message("q", "m")

    assert broken.proxy.scripts == before + 1
    assert list(broken.bodies("q").values()) == [b"m"]
    assert rsmq.receive_message("q").body == "m"


def test_a_pop_whose_reply_is_lost_is_not_repeated(broken, rsmq):
    rsmq.send_message("q", "one")
    rsmq.send_message("q", "two")
    broken.proxy.drop = 1

    with pytest.raises(LOST):
        rsmq.pop_message("q")

    assert list(broken.bodies("q").values()) == [b"two"]


def test_a_purge_whose_reply_is_lost_is_not_repeated(broken, rsmq):
    rsmq.purge_queue("q")
    rsmq.send_message("q", "m")
    broken.proxy.drop = 1
    before = broken.proxy.scripts

    with pytest.raises(LOST):
        rsmq.purge_queue("q")

    assert broken.proxy.scripts == before + 1
    assert broken.bodies("q") == {}


def test_a_receive_whose_reply_is_lost_is_repeated_once(broken, rsmq):
    ids = [rsmq.send_message("q", body) for body in ("one", "two", "three")]
    broken.proxy.drop = 1
    message = rsmq.receive_message("q", vt=100)

    assert message.id == ids[1]
    counts = broken.raw.hmget(f"{broken.ns}:q:Q", [f"{id}:rc" for id in ids])
    assert counts == [b"1", b"1", None]

    broken.proxy.drop = 2
    with pytest.raises(LOST):
        rsmq.receive_message("q", vt=100)
    assert len(broken.bodies("q")) == 3


def test_a_delete_whose_reply_is_lost_is_repeated_and_counts_as_done(broken, rsmq):
    rsmq.send_message("q", "m")
    message = rsmq.receive_message("q")
    broken.proxy.drop = 1

    assert rsmq.delete_message(message) is True
    assert broken.bodies("q") == {}
    assert rsmq.delete_message(message) is False


def test_a_delete_that_is_repeated_never_takes_what_another_received(broken, rsmq):
    rsmq.send_message("q", "m")
    late = rsmq.receive_message("q", vt=0)
    rsmq.receive_message("q", vt=100)
    broken.proxy.drop = 1

    assert rsmq.delete_message(late) is False
    assert list(broken.bodies("q").values()) == [b"m"]


def test_a_change_of_visibility_is_repeated(broken, rsmq):
    rsmq.send_message("q", "m")
    message = rsmq.receive_message("q")
    broken.proxy.drop = 3

    assert rsmq.change_message_visibility(message, 0) is True
    assert broken.proxy.drop == 0
    assert rsmq.receive_message("q").receive_count == 2


def test_a_create_whose_reply_is_lost_is_repeated_and_counts_as_done(broken, rsmq):
    broken.proxy.drop = 1
    assert rsmq.create_queue("new", vt=5) is True

    broken.proxy.drop = 1
    with pytest.raises(QueueExists):
        rsmq.create_queue("new", vt=6)
    assert rsmq.get_queue_attributes("new").vt == 5


def test_a_delete_of_a_queue_is_not_repeated(broken, rsmq):
    """Someone may have made the queue anew meanwhile, and sent to it."""
    rsmq.create_queue("other")
    rsmq.delete_queue("other")
    broken.proxy.drop = 1
    before = broken.proxy.scripts

    with pytest.raises(LOST):
        rsmq.delete_queue("q")

    assert broken.proxy.scripts == before + 1
    assert broken.raw.keys(f"{broken.ns}:*") == []
    with pytest.raises(QueueNotFound):
        rsmq.delete_queue("q")


def test_reads_and_attributes_are_repeated(broken, rsmq):
    id = rsmq.send_message("q", "m")
    for call, expected in (
        (rsmq.list_queues, ["q"]),
        (lambda: rsmq.get_queue_attributes("q").messages, 1),
        (lambda: rsmq.set_queue_attributes("q", vt=9).vt, 9),
        (lambda: rsmq.get_message("q", id).body, "m"),
    ):
        broken.proxy.drop = 4
        assert call() == expected
        assert broken.proxy.drop == 0


def test_a_reply_that_breaks_off_at_any_byte(broken, rsmq):
    """The reply of a delete is short; each of its bytes is the last one to arrive once."""
    for cut in range(4):
        rsmq.send_message("q", "m")
        message = rsmq.receive_message("q")
        broken.proxy.cut, broken.proxy.drop = cut, 1
        assert rsmq.delete_message(message) is True
    broken.proxy.cut = 0
    assert broken.bodies("q") == {}


def test_a_receive_that_breaks_off_at_any_byte_delivers_whole_messages_only(broken, rsmq):
    body = "é" * 20
    for _ in range(250):
        rsmq.send_message("q", body)
    cut = 0
    while cut < 120:
        broken.proxy.cut, broken.proxy.drop = cut, 1
        message = rsmq.receive_message("q", vt=100)
        assert message.body == body
        cut += 1
    broken.proxy.cut = 0


def test_replies_that_come_byte_by_byte(broken, rsmq):
    broken.proxy.pieces = True
    for number in range(20):
        id = rsmq.send_message("q", f"{number} é\0")
        message = rsmq.receive_message("q")
        assert (message.id, message.body) == (id, f"{number} é\0")
        assert rsmq.delete_message(message) is True


def test_a_connection_that_died_while_idle_is_not_noticed(broken, rsmq):
    """A send and a pop are never ambiguous because of a connection that was dead before."""
    for _ in range(5):
        broken.proxy.close_connections()
        id = rsmq.send_message("q", "m")
        broken.proxy.close_connections()
        assert rsmq.pop_message("q").id == id


def test_a_server_that_is_away_for_a_while(broken, rsmq):
    broken.proxy.refuse = True
    broken.proxy.close_connections()
    threading.Timer(0.4, setattr, (broken.proxy, "refuse", False)).start()

    id = rsmq.send_message("q", "m")
    assert list(broken.bodies("q")) == [id]


def test_a_server_that_stays_away_raises_at_the_deadline(broken):
    client = broken.opened(retry_deadline=0.2)
    broken.proxy.refuse = True

    with pytest.raises(redis_errors.ConnectionError) as caught:
        client.send_message("q", "m")
    assert "Tried" in caught.value.__notes__[-1]


def test_after_a_timeout_there_is_time_for_another_attempt(broken):
    """Also if the timeout alone took as long as the deadline is."""
    client = broken.opened(socket_timeout=1, retry_deadline=1)
    client.create_queue("q")
    client.send_message("q", "m")
    message = client.receive_message("q")
    broken.proxy.hold = 1

    assert client.delete_message(message) is True
    assert broken.proxy.hold == 0


def test_nothing_is_tried_again_with_a_deadline_of_0(broken):
    client = broken.opened(retry_deadline=0)
    client.create_queue("q")
    broken.proxy.drop = 1

    with pytest.raises(LOST):
        client.list_queues()


def test_what_the_caller_handles_is_no_sign_of_what_the_server_did(broken, rsmq):
    broken.proxy.drop = 1
    with pytest.raises(LOST):
        try:
            broken.raw.execute_command("REPLICAOF", "nonsense")
        except redis_errors.ResponseError as error:
            error.__class__ = redis_errors.ReadOnlyError
            rsmq.send_message("q", "m")

    assert list(broken.bodies("q").values()) == [b"m"]


def test_a_connection_that_died_while_idle_gives_no_false_answers(broken, rsmq):
    broken.proxy.close_connections()
    assert rsmq.delete_message("q", "x" * 32) is False
    broken.proxy.close_connections()
    with pytest.raises(QueueExists):
        rsmq.create_queue("q")
    broken.proxy.close_connections()
    with pytest.raises(QueueNotFound):
        rsmq.delete_queue("missing")


def test_a_slow_reply_is_a_timeout_and_is_not_repeated_for_a_send(broken):
    client = broken.opened(socket_timeout=1)
    client.create_queue("q")
    client.send_message("q", "warm")
    broken.proxy.delay = 2

    with pytest.raises(redis_errors.TimeoutError):
        client.send_message("q", "m")

    broken.proxy.delay = 0
    assert sorted(broken.bodies("q").values()) == [b"m", b"warm"]
    assert client.get_queue_attributes("q").messages == 2


def test_signals_do_not_put_a_timeout_off(broken):
    client = broken.opened(socket_timeout=0.5, retry_deadline=0)
    client.create_queue("q")
    broken.proxy.delay = 5
    previous = signal.signal(signal.SIGUSR1, lambda *_: None)
    stop = threading.Event()

    def disturb():
        for _ in range(60):
            if stop.wait(0.1):
                return
            os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        with pytest.raises(redis_errors.TimeoutError):
            client.send_message("q", "m")
        assert thread.is_alive()  # the signals went on
    finally:
        stop.set()
        thread.join()
        signal.signal(signal.SIGUSR1, previous)
        broken.proxy.delay = 0


def lost(broken, call):
    """The reply of this call is lost once, after the server's scripts are known to it."""
    broken.proxy.drop = 1
    with pytest.raises(LOST):
        call()
    assert broken.proxy.drop == 0


@pytest.mark.parametrize("size", [10, 9000])
def test_a_batch_whose_reply_is_lost_is_stored_once_and_raises(broken, rsmq, size):
    rsmq.send_messages("q", ["x" * size] * 2)
    rsmq.purge_queue("q")
    bodies = [letter * size for letter in "abc"]
    if size > 1000:  # the first of the two steps changes nothing, and is repeated
        broken.proxy.drop = 1
        rsmq.send_messages("q", bodies)
    else:
        lost(broken, lambda: rsmq.send_messages("q", bodies))

    assert sorted(broken.bodies("q").values()) == [body.encode() for body in bodies]
    assert [message.body for message in rsmq.receive_messages("q", 9)] == bodies


def test_a_send_with_a_name_is_repeated_and_stored_once(broken, rsmq):
    rsmq.send_message("q", "other", dedup_id="warm")
    broken.proxy.drop = 2
    id = rsmq.send_message("q", "m", dedup_id="x")
    broken.proxy.drop = 2
    ids = rsmq.send_messages("q", ["1", "2"], dedup_ids=["a", "b"])

    assert broken.proxy.drop == 0
    assert sorted(broken.bodies("q").values()) == [b"1", b"2", b"m", b"other"]
    assert {id, *ids} < broken.bodies("q").keys()


def test_a_batch_with_a_nameless_message_is_not_repeated(broken, rsmq):
    rsmq.send_messages("q", [])
    lost(broken, lambda: rsmq.send_messages("q", ["1", "2"], dedup_ids=["a", None]))

    assert len(broken.bodies("q")) == 2


def test_receives_of_many_are_repeated_once_and_pops_of_many_never(broken, rsmq):
    assert rsmq.receive_messages("q", 1) == rsmq.pop_messages("q", 1) == []
    ids = rsmq.send_messages("q", [str(number) for number in range(6)])
    broken.proxy.drop = 1
    received = rsmq.receive_messages(["q"], 2, vt=100)
    assert [message.id for message in received] == ids[2:4]
    lost(broken, lambda: rsmq.pop_messages("q", 1))

    assert broken.bodies("q").keys() == set(ids) - {ids[4]}


def test_deletes_of_many_are_repeated_and_count_as_done(broken, rsmq):
    rsmq.send_messages("q", ["1", "2", "3"])
    received = rsmq.receive_messages("q", 3, vt=0)
    rsmq.receive_message("q", vt=100)
    broken.proxy.drop = 1

    assert rsmq.delete_messages(received) == [message.id for message in received[1:]]
    assert len(broken.bodies("q")) == 1


def test_releases_are_repeated_by_receipts_and_not_by_bare_ids(broken, rsmq):
    rsmq.send_messages("q", ["1", "2"])
    received = rsmq.receive_messages("q", 2)
    assert rsmq.release_messages([]) == []
    broken.proxy.drop = 1
    assert rsmq.release_messages(received) == [message.id for message in received]
    broken.proxy.drop = 1
    assert rsmq.change_messages_visibility(received, 9) == [message.id for message in received]
    lost(broken, lambda: rsmq.release_messages("q", [received[0].id]))


def test_moves_and_redrives_are_not_repeated(broken, rsmq):
    rsmq.create_queue("dead")
    assert rsmq.move_messages("q", "dead", []) == rsmq.redrive_messages("dead", "q") == []
    ids = rsmq.send_messages("q", ["1", "2"])
    lost(broken, lambda: rsmq.move_messages("q", "dead", ids))
    assert broken.bodies("dead").keys() == set(ids)
    lost(broken, lambda: rsmq.redrive_messages("dead", "q"))

    assert sorted(broken.bodies("q").values()) == [b"1", b"2"]
    assert broken.bodies("dead") == {}


def test_a_redrive_that_breaks_off_tells_how_far_it_came(broken, rsmq):
    rsmq.create_queue("dead")
    rsmq.send_messages("dead", ["m"] * 1500)
    broken.proxy.spare = 1 if rsmq.redrive_messages("dead", "q", max_messages=1) else 0
    broken.proxy.drop = 1
    with pytest.raises(LOST) as caught:
        rsmq.redrive_messages("dead", "q")

    assert "1000 messages had been redriven before this." in caught.value.__notes__
    assert len(broken.bodies("q")) == 1500
    assert broken.bodies("dead") == {}


def test_sweeps_looks_and_releases_of_all_are_repeated(broken, rsmq):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 1)
    rsmq.send_messages("q", ["1", "2"])
    held = rsmq.receive_messages("q", 2)
    for call, expected in (
        (lambda: len(rsmq.peek_messages("q", -1, state="in_flight")), 1),
        (lambda: rsmq.count_messages("q").in_flight, 2),
        (lambda: rsmq.release_all_messages("q"), 2),
        (lambda: rsmq.set_dead_letter_policy("q", "dead", 1).max_receives, 1),
    ):
        broken.proxy.drop = 1
        assert call() == expected
    broken.proxy.drop = 1
    rsmq.sweep_dead_letters("q")
    assert broken.bodies("dead").keys() == {message.id for message in held}


def test_a_recovery_that_breaks_off_gives_back_what_it_took(broken, rsmq):
    rsmq.send_messages("q", ["m"] * 1501)
    rsmq.receive_messages("q", 1501)
    known = rsmq.recover_messages("q", 1, idle=0, vt=100)
    assert len(known) == 1
    broken.proxy.spare = 3  # two steps gather receipts, the third takes a thousand
    broken.proxy.drop = 2
    with pytest.raises(LOST):
        rsmq.recover_messages("q", 1500, idle=0, vt=1000)

    later = broken.raw.time()[0] * 1000 + 500_000
    # Those of the lost reply come back with their timeout; the thousand before are given back.
    assert broken.raw.zcount(f"{broken.ns}:q", later, "+inf") == 500
    assert broken.raw.zcount(f"{broken.ns}:q", "-inf", later - 499_000) == 1000
