"""Messages that were sent with their own number of retries."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.workers.polling import wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def listen(worker, kind, seen, **options):
    """Add a listener whose calls fail, and that records the body of each attempt."""

    def handle(body, message):
        seen.append(body)
        raise ValueError(body)

    async def handle_later(body, message):
        handle(body, message)

    def handle_batch(bodies, messages):
        seen.extend(bodies)
        raise ValueError(bodies)

    handler = {"thread": handle, "task": handle_later, "batch": handle_batch}[kind]
    if kind == "batch":
        options["batch"] = 10
    worker.listener("q", backoff=0, **options)(handler)


@pytest.mark.parametrize("kind", ["thread", "task", "batch"])
def test_a_message_is_tried_as_often_as_its_sender_says(env, rsmq, kind):
    env.create_queues("q", "dead")
    worker, seen = env.create_worker(), []
    listen(worker, kind, seen, max_retries=1, dead_letter_queue="dead")
    for body, number in {"never": 0, "often": 4}.items():
        rsmq.send_message("q", body, max_retries=number)
    rsmq.send_message("q", "usual")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 3)

    assert Counter(seen) == {"never": 1, "usual": 2, "often": 5}
    reasons = {letter.body: letter.reason.text for letter in rsmq.peek_messages("dead")}
    assert reasons["never"] == "ValueError on attempt 1, the last"
    assert reasons["often"] == "ValueError on attempt 5, the last"


@pytest.mark.parametrize("options", [{"drop": True}, {}])
def test_the_number_counts_with_drop_and_with_the_policy_of_the_queue(env, rsmq, options):
    env.create_queues("q", "dead")
    rsmq.set_dead_letter_policy("q", "dead", 3)
    worker, seen = env.create_worker(), []
    listen(worker, "thread", seen, **options)
    rsmq.send_messages("q", ["x", "y"], max_retries=0)
    worker.start()
    wait_until(lambda: worker.numbers.dead + worker.numbers.dropped == 2)

    assert sorted(seen) == ["x", "y"]
    assert env.is_empty("q")


def test_a_message_is_tried_forever_where_it_could_not_go(env, rsmq):
    env.create_queues("q")
    worker, seen = env.create_worker(), []
    listen(worker, "thread", seen, retry_forever=True)
    rsmq.send_message("q", "x", max_retries=0)
    worker.start()
    wait_until(lambda: len(seen) > 5)

    assert worker.numbers.dead == worker.numbers.dropped == 0
    assert not env.raw.exists(f"{env.ns}:q:x:alone"), "it is no poison either"


@pytest.mark.parametrize(("own", "usual", "is_alone"), [(0, 9, True), (9, 0, False)])
def test_quarantine_begins_behind_the_number_of_the_message(env, rsmq, gate, own, usual, is_alone):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", max_retries=usual, dead_letter_queue="dead")
    def handle(body):
        gate()

    id = rsmq.send_message("q", "x", max_retries=own)
    env.raw.hset(f"{env.queue_key('q')}:Q", mapping={f"{id}:rc": 3, f"{id}:fr": 1})
    worker.start()
    gate.wait_for(1)

    assert env.raw.exists(f"{env.ns}:q:x:alone") == is_alone
    gate.open()
    wait_until(lambda: worker.numbers.handled == 1)


def test_messages_without_limits_have_no_key_beside_their_queue(env, rsmq):
    env.create_queues("q", "dead")
    worker, seen = env.create_worker(), []
    listen(worker, "thread", seen, max_retries=0, dead_letter_queue="dead")
    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)

    assert not env.raw.exists(f"{env.ns}:q:x:limits")
