"""Messages that are held back: their states in counts, samples, lists and explanations."""

import pytest

from rsmq import RSMQ
from rsmq.explain.explanation import explain_message, explain_queue
from rsmq.explain.reader import observe_message, observe_queue
from rsmq.explain.timeline import message_timeline
from rsmq.figures.operations import parse_hidden, sample_hidden


@pytest.fixture
def queues(server, ns):
    with RSMQ.from_url(server.url, ns=ns) as client:
        client.create_queue("orders")
        yield client


def why(queues, id):
    found = explain_message(observe_message(queues, "orders", id))
    return found.cause, found.sentence


def test_a_sample_counts_those_held_back_apart(queues):
    queues.send_messages("orders", ["x"] * 4, groups=["ada"] * 3 + ["bob"])
    queues.send_message("orders", "x", delay=60)
    queues.receive_message("orders")
    found = queues.run(sample_hidden(queues.namespace.queue("orders")))
    assert (found.in_flight, found.delayed, found.held_back, found.retrying) == (1, 1, 2, 0)
    counts = queues.count_messages("orders")
    assert (counts.in_flight, counts.delayed, counts.held_back, counts.visible) == (1, 1, 2, 1)


def test_a_sample_of_many_scales_the_held_back():
    found = parse_hidden([1000, 100, 10, 20, 30])
    assert (found.in_flight, found.retrying, found.held_back, found.delayed) == (100, 200, 300, 400)
    assert found.margin > 0


def test_a_message_says_which_one_of_its_group_comes_first(queues):
    first, second = queues.send_messages("orders", ["1", "2"], groups=["ada", "ada"])
    cause, text = why(queues, second)
    assert cause == "held-back"
    assert f"message {first} of its group ada comes first, and is visible." in text
    events = message_timeline(observe_message(queues, "orders", second))
    assert [each.kind for each in events] == ["sent"]  # its score a day ahead is not its time
    message = queues.receive_message("orders", vt=60)
    assert "and is in flight, or waits for a retry, until" in why(queues, second)[1]
    queues.delete_message(message)
    assert why(queues, second)[0] != "held-back"
    later, last = queues.send_messages("orders", ["3", "4"], groups=["bob"] * 2, delay=60)
    assert (
        f"message {later} of its group bob comes first, and is hidden until"
        in (why(queues, last)[1])
    )


def test_a_message_says_the_limit_of_its_key(queues):
    sent = queues.send_messages("orders", list("123"), limit_keys=["acme"] * 3, max_running=2)
    cause, text = why(queues, sent[2])
    assert cause == "held-back"
    assert (
        "at most 2 messages of limit key acme may run at a time. "
        f"The first one, {sent[0]}, is visible." in text
    )


def test_a_message_before_that_node_has_deleted_leaves_it_to_the_sweep(queues, raw, ns):
    first, second = queues.send_messages("orders", ["1", "2"], groups=["ada", "ada"])
    raw.zrem(f"{ns}:orders", first)
    raw.hdel(f"{ns}:orders:Q", first)
    assert "the next sweep or send of the group makes it visible" in why(queues, second)[1]
    text = explain_queue(observe_queue(queues, "orders")).sentence
    assert text.endswith("1 held back behind others of their groups.")
    assert queues.sweep_groups("orders") == 1
    assert why(queues, second)[0] != "held-back"


def test_a_queue_says_how_many_are_held_back_and_others_do_not(queues):
    queues.send_messages("orders", ["1", "2", "3"], groups=["ada"] * 3, delay=60)
    text = explain_queue(observe_queue(queues, "orders")).sentence
    assert "1 delayed, 0 waiting for a retry, 2 held back behind others of their groups" in text
    queues.purge_queue("orders")
    queues.send_message("orders", "x", delay=60)
    assert "held back" not in explain_queue(observe_queue(queues, "orders")).sentence
