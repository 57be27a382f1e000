"""The reply of every operation is lost once: no message is stored twice, and none is lost."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import redis.exceptions as redis_errors

from rsmq import QueueExists, QueueNotFound

LOST = (redis_errors.ConnectionError, redis_errors.TimeoutError)


def test_a_send_whose_reply_is_lost_is_stored_once_and_raises(link, rsmq):
    link.proxy.drop = 1
    before = link.proxy.scripts

    with pytest.raises(LOST):
        rsmq.send_message("q", "m")

    assert link.proxy.scripts == before + 1
    assert list(link.bodies("q").values()) == [b"m"]
    assert rsmq.receive_message("q").body == "m"


def test_a_pop_whose_reply_is_lost_is_not_repeated(link, rsmq):
    rsmq.send_message("q", "one")
    rsmq.send_message("q", "two")
    link.proxy.drop = 1

    with pytest.raises(LOST):
        rsmq.pop_message("q")

    assert list(link.bodies("q").values()) == [b"two"]


def test_a_purge_whose_reply_is_lost_is_not_repeated(link, rsmq):
    rsmq.purge_queue("q")
    rsmq.send_message("q", "m")
    link.proxy.drop = 1
    before = link.proxy.scripts

    with pytest.raises(LOST):
        rsmq.purge_queue("q")

    assert link.proxy.scripts == before + 1
    assert link.bodies("q") == {}


def test_a_receive_whose_reply_is_lost_is_repeated_once(link, rsmq):
    ids = [rsmq.send_message("q", body) for body in ("one", "two", "three")]
    link.proxy.drop = 1
    message = rsmq.receive_message("q", vt=100)

    assert message.id == ids[1]
    counts = link.raw.hmget(f"{link.ns}:q:Q", [f"{id}:rc" for id in ids])
    assert counts == [b"1", b"1", None]

    link.proxy.drop = 2
    with pytest.raises(LOST):
        rsmq.receive_message("q", vt=100)
    assert len(link.bodies("q")) == 3


def test_a_delete_whose_reply_is_lost_is_repeated_and_returns_true(link, rsmq):
    rsmq.send_message("q", "m")
    message = rsmq.receive_message("q")
    link.proxy.drop = 1

    assert rsmq.delete_message(message) is True
    assert link.bodies("q") == {}
    assert rsmq.delete_message(message) is False


def test_a_repeated_delete_never_removes_a_message_of_another_consumer(link, rsmq):
    rsmq.send_message("q", "m")
    late = rsmq.receive_message("q", vt=0)
    rsmq.receive_message("q", vt=100)
    link.proxy.drop = 1

    assert rsmq.delete_message(late) is False
    assert list(link.bodies("q").values()) == [b"m"]


def test_a_change_of_visibility_is_repeated(link, rsmq):
    rsmq.send_message("q", "m")
    message = rsmq.receive_message("q")
    link.proxy.drop = 3

    assert rsmq.change_message_visibility(message, 0) is True
    assert link.proxy.drop == 0
    assert rsmq.receive_message("q").receive_count == 2


def test_a_create_whose_reply_is_lost_is_repeated_and_returns_true(link, rsmq):
    link.proxy.drop = 1
    assert rsmq.create_queue("new", vt=5) is True

    link.proxy.drop = 1
    with pytest.raises(QueueExists):
        rsmq.create_queue("new", vt=6)
    assert rsmq.get_queue_attributes("new").vt == 5


def test_a_delete_of_a_queue_is_not_repeated(link, rsmq):
    """Another client may have created the queue again, and sent to it."""
    rsmq.create_queue("other")
    rsmq.delete_queue("other")
    link.proxy.drop = 1
    before = link.proxy.scripts

    with pytest.raises(LOST):
        rsmq.delete_queue("q")

    assert link.proxy.scripts == before + 1
    assert link.raw.keys(f"{link.ns}:*") == []
    with pytest.raises(QueueNotFound):
        rsmq.delete_queue("q")


def test_reads_and_attributes_are_repeated(link, rsmq):
    id = rsmq.send_message("q", "m")
    for call, expected in (
        (rsmq.list_queues, ["q"]),
        (lambda: rsmq.get_queue_attributes("q").messages, 1),
        (lambda: rsmq.set_queue_attributes("q", vt=9).vt, 9),
        (lambda: rsmq.get_message("q", id).body, "m"),
    ):
        link.proxy.drop = 4
        assert call() == expected
        assert link.proxy.drop == 0


def test_a_reply_that_breaks_off_at_any_byte(link, rsmq):
    """The reply of a delete is cut after each of its bytes."""
    for cut in range(4):
        rsmq.send_message("q", "m")
        message = rsmq.receive_message("q")
        link.proxy.cut, link.proxy.drop = cut, 1
        assert rsmq.delete_message(message) is True
    link.proxy.cut = 0
    assert link.bodies("q") == {}


def test_a_receive_that_breaks_off_at_any_byte_delivers_complete_messages(link, rsmq):
    body = "é" * 20
    for _ in range(250):
        rsmq.send_message("q", body)
    cut = 0
    while cut < 120:
        link.proxy.cut, link.proxy.drop = cut, 1
        message = rsmq.receive_message("q", vt=100)
        assert message.body == body
        cut += 1
    link.proxy.cut = 0


def test_replies_that_come_byte_by_byte(link, rsmq):
    link.proxy.pieces = True
    for number in range(20):
        id = rsmq.send_message("q", f"{number} é\0")
        message = rsmq.receive_message("q")
        assert (message.id, message.body) == (id, f"{number} é\0")
        assert rsmq.delete_message(message) is True


def test_a_connection_that_died_while_idle_is_not_noticed(link, rsmq):
    """A send or pop is not ambiguous if its connection was dead before."""
    for _ in range(5):
        link.proxy.close_connections()
        id = rsmq.send_message("q", "m")
        link.proxy.close_connections()
        assert rsmq.pop_message("q").id == id


def test_a_server_that_is_away_for_a_while(link, rsmq):
    link.proxy.refuse = True
    link.proxy.close_connections()
    threading.Timer(0.4, setattr, (link.proxy, "refuse", False)).start()

    id = rsmq.send_message("q", "m")
    assert list(link.bodies("q")) == [id]


def test_a_server_that_stays_away_raises_at_the_deadline(link):
    client = link.open_client(retry_deadline=0.2)
    link.proxy.refuse = True

    with pytest.raises(redis_errors.ConnectionError) as caught:
        client.send_message("q", "m")
    assert "Tried" in caught.value.__notes__[-1]


def test_after_a_timeout_that_is_shorter_than_the_deadline_there_is_another_attempt(link):
    client = link.open_client(socket_timeout=1, retry_deadline=30)
    client.create_queue("q")
    client.send_message("q", "m")
    message = client.receive_message("q")
    link.proxy.hold = 1

    assert client.delete_message(message) is True
    assert link.proxy.hold == 0


def test_nothing_is_retried_with_a_deadline_of_0(link):
    client = link.open_client(retry_deadline=0)
    client.create_queue("q")
    link.proxy.drop = 1

    with pytest.raises(LOST):
        client.list_queues()


def test_an_error_that_the_caller_handles_does_not_affect_retries(link, rsmq):
    link.proxy.drop = 1
    with pytest.raises(LOST):
        try:
            link.raw.execute_command("REPLICAOF", "nonsense")
        except redis_errors.ResponseError as error:
            error.__class__ = redis_errors.ReadOnlyError
            rsmq.send_message("q", "m")

    assert list(link.bodies("q").values()) == [b"m"]


def test_a_connection_that_died_while_idle_causes_no_wrong_results(link, rsmq):
    link.proxy.close_connections()
    assert rsmq.delete_message("q", "x" * 32) is False
    link.proxy.close_connections()
    with pytest.raises(QueueExists):
        rsmq.create_queue("q")
    link.proxy.close_connections()
    with pytest.raises(QueueNotFound):
        rsmq.delete_queue("missing")


def test_a_slow_reply_is_a_timeout_and_is_not_repeated_for_a_send(link):
    client = link.open_client(socket_timeout=1)
    client.create_queue("q")
    client.send_message("q", "warm")
    link.proxy.delay = 2

    with pytest.raises(redis_errors.TimeoutError):
        client.send_message("q", "m")

    link.proxy.delay = 0
    assert sorted(link.bodies("q").values()) == [b"m", b"warm"]
    assert client.get_queue_attributes("q").messages == 2


def test_signals_do_not_postpone_a_timeout(link):
    client = link.open_client(socket_timeout=0.5, retry_deadline=0)
    client.create_queue("q")
    link.proxy.delay = 5
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
        assert thread.is_alive()  # signals still arrived
    finally:
        stop.set()
        thread.join()
        signal.signal(signal.SIGUSR1, previous)
        link.proxy.delay = 0


def lose_reply(link, call):
    """Make the call, whose reply is dropped once. The server must have its script."""
    link.proxy.drop = 1
    with pytest.raises(LOST):
        call()
    assert link.proxy.drop == 0


@pytest.mark.parametrize("size", [10, 9000])
def test_a_batch_whose_reply_is_lost_is_stored_once_and_raises(link, rsmq, size):
    rsmq.send_messages("q", ["x" * size] * 2)
    rsmq.purge_queue("q")
    bodies = [letter * size for letter in "abc"]
    if size > 1000:  # the first of the two steps changes nothing, and is repeated
        link.proxy.drop = 1
        rsmq.send_messages("q", bodies)
    else:
        lose_reply(link, lambda: rsmq.send_messages("q", bodies))

    assert sorted(link.bodies("q").values()) == [body.encode() for body in bodies]
    assert [message.body for message in rsmq.receive_messages("q", 9)] == bodies


def test_a_send_with_a_dedup_id_is_repeated_and_stored_once(link, rsmq):
    rsmq.send_message("q", "other", dedup_id="warm")
    link.proxy.drop = 2
    id = rsmq.send_message("q", "m", dedup_id="x")
    link.proxy.drop = 2
    ids = rsmq.send_messages("q", ["1", "2"], dedup_ids=["a", "b"])

    assert link.proxy.drop == 0
    assert sorted(link.bodies("q").values()) == [b"1", b"2", b"m", b"other"]
    assert {id, *ids} < link.bodies("q").keys()


def test_a_send_with_a_unique_key_is_repeated_if_it_has_a_dedup_id(link, rsmq):
    rsmq.send_message("q", "other", dedup_id="warm", unique_key="warm")
    options = {"unique_key": "x", "replace": True}
    link.proxy.drop = 2
    id = rsmq.send_message("q", "1", dedup_id="d", **options)
    assert link.proxy.drop == 0
    lose_reply(link, lambda: rsmq.send_message("q", "2", **options))
    lose_reply(link, lambda: rsmq.send_message("q", "3", unique_key="x"))

    assert sorted(link.bodies("q").values()) == [b"2", b"other"]
    assert link.bodies("q")[id] == b"2"


def test_a_batch_with_a_message_without_dedup_id_is_not_repeated(link, rsmq):
    rsmq.send_message("q", "other", dedup_id="warm")
    lose_reply(link, lambda: rsmq.send_messages("q", ["1", "2"], dedup_ids=["a", None]))

    assert sorted(link.bodies("q").values()) == [b"1", b"2", b"other"]


def test_receives_of_many_are_repeated_once_and_pops_of_many_never(link, rsmq):
    assert rsmq.receive_messages("q", 1) == rsmq.pop_messages("q", 1) == []
    ids = rsmq.send_messages("q", [str(number) for number in range(6)])
    link.proxy.drop = 1
    received = rsmq.receive_messages(["q"], 2, vt=100)
    assert [message.id for message in received] == ids[2:3]  # half as many as before
    lose_reply(link, lambda: rsmq.pop_messages("q", 1))

    assert link.bodies("q").keys() == set(ids) - {ids[3]}


def test_deletes_of_many_are_repeated_and_return_their_ids(link, rsmq):
    rsmq.send_messages("q", ["1", "2", "3"])
    received = rsmq.receive_messages("q", 3, vt=0)
    rsmq.receive_message("q", vt=100)
    link.proxy.drop = 1

    assert rsmq.delete_messages(received) == [message.id for message in received[1:]]
    assert len(link.bodies("q")) == 1


def test_releases_are_repeated_by_receipts_and_not_by_bare_ids(link, rsmq):
    rsmq.send_messages("q", ["1", "2"])
    received = rsmq.receive_messages("q", 2)
    assert rsmq.release_messages([]) == []
    link.proxy.drop = 1
    assert rsmq.release_messages(received) == [message.id for message in received]
    link.proxy.drop = 1
    assert rsmq.change_messages_visibility(received, 9) == [message.id for message in received]
    lose_reply(link, lambda: rsmq.release_messages("q", [received[0].id]))


def test_moves_and_redrives_are_not_repeated(link, rsmq):
    rsmq.create_queue("dead")
    assert rsmq.move_messages("q", "dead", []) == rsmq.redrive_messages("dead", "q") == []
    ids = rsmq.send_messages("q", ["1", "2"])
    lose_reply(link, lambda: rsmq.move_messages("q", "dead", ids))
    assert link.bodies("dead").keys() == set(ids)
    lose_reply(link, lambda: rsmq.redrive_messages("dead", "q"))

    assert sorted(link.bodies("q").values()) == [b"1", b"2"]
    assert link.bodies("dead") == {}


def test_a_redrive_that_breaks_off_reports_how_many_were_redriven(link, rsmq):
    rsmq.create_queue("dead")
    rsmq.send_messages("dead", ["m"] * 1500)
    link.proxy.spare = 1 if rsmq.redrive_messages("dead", "q", max_messages=1) else 0
    link.proxy.drop = 1
    with pytest.raises(LOST) as caught:
        rsmq.redrive_messages("dead", "q")

    assert "1,000 messages redriven before this." in caught.value.__notes__
    assert len(link.bodies("q")) == 1500
    assert link.bodies("dead") == {}


def test_sweeps_peeks_and_releases_of_all_are_repeated(link, rsmq):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 1)
    rsmq.send_messages("q", ["1", "2"])
    in_flight = rsmq.receive_messages("q", 2)
    for call, expected in (
        (lambda: len(rsmq.peek_messages("q", -1, state="in_flight")), 1),
        (lambda: rsmq.count_messages("q").in_flight, 2),
        (lambda: rsmq.release_all_messages("q"), 2),
        (lambda: rsmq.set_dead_letter_policy("q", "dead", 1).max_receives, 1),
        (lambda: rsmq.set_queue_limits("q", rate="9/s").rate, "9/s"),
    ):
        link.proxy.drop = 1
        assert call() == expected
    link.proxy.drop = 1
    rsmq.sweep_dead_letters("q")
    assert link.bodies("dead").keys() == {message.id for message in in_flight}


def test_a_recovery_that_breaks_off_releases_its_messages(link, rsmq):
    rsmq.send_messages("q", ["m"] * 1501)
    rsmq.receive_messages("q", 1501)
    recovered = rsmq.recover_messages("q", 1, idle=0, vt=100)
    assert len(recovered) == 1
    link.proxy.spare = 3  # two steps read receipts, the third receives a thousand
    link.proxy.drop = 2
    with pytest.raises(LOST):
        rsmq.recover_messages("q", 1500, idle=0, vt=1000)

    later = link.raw.time()[0] * 1000 + 500_000
    # The thousand are released. The messages of the lost reply are visible after their timeout.
    assert link.raw.zcount(f"{link.ns}:q", later, "+inf") == 500
    assert link.raw.zcount(f"{link.ns}:q", "-inf", later - 499_000) == 1000
