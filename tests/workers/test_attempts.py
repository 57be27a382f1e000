"""Attempts are begun calls: receives that began none do not count."""

from __future__ import annotations

import time

from tests.workers.polling import loop_of, wait_until


def prefetch_behind_a_call(env, gate, worker, bodies):
    """Let a worker with one slot run a call, and prefetch messages behind it. Return their ids."""
    env.rsmq.send_message("q", "quick")
    wait_until(lambda: worker.numbers.handled >= 1)
    ids = env.rsmq.send_messages("q", ["gate", *bodies])[1:]
    gate.wait_for(1)
    wait_until(lambda: len(env.in_flight(worker.name)) == 1 + len(bodies))
    return ids


def test_prefetched_message_that_is_released_has_no_attempt(env, gate):
    env.create_queues("q", "dead")
    attempts = []

    def handle(body, message):
        if body == "gate":
            gate()
        elif body == "once":
            attempts.append((message.receive_count, message.attempt))
            if len(attempts) == 1:
                raise ValueError(body)

    options = {"max_retries": 1, "backoff": 0, "dead_letter_queue": "dead"}
    worker = env.create_worker(concurrency=1, name="w")
    worker.listener("q", **options)(handle)
    worker.start()
    [id] = prefetch_behind_a_call(env, gate, worker, ["once"])
    loop_of(worker).stop(5)
    wait_until(lambda: env.raw.hget(f"{env.ns}:q:x:unbegun", id) == b"1")
    assert attempts == []
    gate.open()
    worker.stop()
    worker = env.create_worker(name="w")
    worker.listener("q", **options)(handle)
    worker.start()
    wait_until(lambda: len(attempts) == 2 and env.is_empty("q"))

    assert attempts == [(2, 1), (3, 2)]
    assert env.is_empty("dead")
    wait_until(lambda: not env.raw.hexists(f"{env.ns}:q:x:unbegun", id))


def test_waiting_message_is_extended_once_before_it_is_released(env, gate):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1, name="w")
    extended = []

    @worker.listener("q", vt=1.5)
    def handle(body):
        if body == "gate":
            gate()

    worker.start()
    [id] = prefetch_behind_a_call(env, gate, worker, ["x"])
    received_at = time.monotonic()
    first_due = env.scores("q")[id]
    wait_until(lambda: extended.append(env.scores("q")[id]) or id not in env.in_flight("w"))

    assert max(extended) > first_due
    assert time.monotonic() - received_at > 0.6, "it waited for two thirds of vt"
    assert env.raw.hget(f"{env.ns}:q:x:unbegun", id) == b"1"


def test_message_of_a_lost_reply_has_no_attempt(env, gate):
    """The worker releases messages that it received without knowing."""
    env.create_queues("q", "dead")
    worker = env.create_worker(concurrency=1, name="w")
    attempts = []
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(
        lambda body, message: attempts.append(message.attempt)
    )
    worker.start()
    identity_run = env.rsmq.run
    lost = []

    def lose_a_reply(operation):
        result = identity_run(operation)
        if operation.script.name == "receive_for_worker" and result[0].ids and not lost:
            lost.append(result)
            raise ConnectionError("the reply is lost")
        return result

    env.rsmq.run = lose_a_reply
    env.rsmq.send_message("q", "x")
    wait_until(lambda: attempts)

    assert lost
    assert attempts == [1]
