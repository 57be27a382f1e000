"""How much receives ask for after replies were lost."""

from __future__ import annotations

import gc
import weakref

import pytest

from rsmq import TEXT, ReplyLost
from rsmq.operations.batches import receive_messages
from rsmq.operations.lost_replies import LostReplies
from rsmq.operations.messages import pop_message, receive_message
from rsmq.wire.keys import Namespace

NS = Namespace("rsmq")


LOST = ConnectionError("Connection closed by server.")


def build(losses):
    return receive_message(NS, "q", vt=None, codec=TEXT, losses=losses)


def test_each_lost_reply_halves_the_next_request_down_to_one_message():
    losses = LostReplies()
    asked = []
    for _ in range(5):
        asked.append(losses.limit(20))
        losses.note_lost(losses.generation, asked[-1])
    assert asked == [20, 10, 5, 2, 1]
    assert losses.lost_singles() == 1


def test_calls_that_fail_together_count_as_one_lost_reply():
    """A server that restarts breaks the calls of all threads and tasks at once."""
    losses = LostReplies()
    generation = losses.generation
    for _ in range(100):
        losses.note_lost(generation, 20)
    assert losses.limit(20) == 10

    losses = LostReplies()
    receives = [build(losses) for _ in range(100)]
    repeats = [receive.after_lost_reply(LOST, True) for receive in receives]
    assert losses.lost_singles(("q",)) == 1
    repeats = [receive.after_lost_reply(LOST, True) for receive in repeats]
    assert losses.lost_singles(("q",)) == 2


def test_a_call_that_ends_with_the_third_lost_reply_raises_its_own_error_with_a_note():
    """The server may be away: the next call checks whether messages are hidden."""
    losses = LostReplies()
    failure = ConnectionError("Connection closed by server.")
    receive = build(losses)
    for _ in range(3):
        receive = receive.after_lost_reply(failure, False)
    assert "client-output-buffer-limit" in failure.__notes__[0]
    repeat = build(losses).after_lost_reply(failure, True)
    assert repeat.script.name == "receive_message"
    assert repeat.after_lost_reply(failure, True).script.name == "count_hidden"


def test_the_error_is_raised_only_if_messages_are_hidden():
    def check():
        losses = LostReplies()
        receive = build(losses).after_lost_reply(LOST, True)
        assert receive.parse(None) is None
        for _ in range(2):
            receive = receive.after_lost_reply(LOST, True)
        return receive.parse

    assert check()([2, 9]) is None
    with pytest.raises(ReplyLost):
        check()([3, 1])


def lose(losses, *, vt=None, qname="q"):
    receive = receive_message(NS, qname, vt=vt, codec=TEXT, losses=losses)
    return receive.after_lost_reply(LOST, True)


@pytest.mark.parametrize(("vt", "seconds"), [(None, 600), (5, 600), (3600, 7200)])
def test_lost_replies_long_after_each_other_are_no_row(vt, seconds):
    now = 0.0
    losses = LostReplies(lambda: now)
    for _ in range(2):
        assert lose(losses, vt=vt).parse(None) is None
        now += seconds
    assert losses.lost_singles(("q",)) == 2
    now += 1
    assert lose(losses, vt=vt).script.name == "receive_message"
    assert losses.lost_singles(("q",)) == 1


def test_each_queue_has_a_row_of_its_own():
    losses = LostReplies()
    for qname in ("a", "b", "c"):
        assert lose(losses, qname=qname).parse(None) is None
    assert lose(losses, qname="a").parse(None) is None
    receive_message(NS, "b", vt=None, codec=TEXT, losses=losses).parse([b"i" * 32, b"b", 2, b"1"])
    assert lose(losses, qname="a").script.name == "count_hidden"


def test_a_message_ends_the_row_of_lost_replies():
    losses = LostReplies()
    for _ in range(7):
        repeat = build(losses).after_lost_reply(LOST, False)
        assert repeat.parse([b"i" * 32, b"body", 2, b"1"]) is not None
    assert losses.lost_singles(("q",)) == 0


def test_requests_grow_more_slowly_each_time():
    losses = LostReplies()
    receives = []
    for _ in range(3):
        losses.note_lost(losses.generation, 2)
        number = 0
        while losses.halvings:
            losses.note_received()
            number += 1
        receives.append(number)
    assert receives[0] < receives[1] < receives[2]


def test_a_receive_is_in_no_reference_cycle():
    """The garbage collector would need more time than the receive."""
    gc.collect()
    gc.disable()
    try:
        receive_messages(NS, "q", 10, vt=None, codec=TEXT, losses=LostReplies())
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_the_cached_receives_of_a_client_do_not_outlive_it():
    losses = LostReplies()
    assert build(losses) is build(losses)
    assert pop_message(NS, "q", codec=TEXT, losses=losses).script.name == "pop_message"
    alive = weakref.ref(losses)
    del losses
    gc.collect()
    assert alive() is None
