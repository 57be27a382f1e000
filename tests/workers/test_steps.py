"""Many outcomes at once are written in steps, beside which other queues continue."""

from __future__ import annotations

import pytest

from rsmq.worker.settle.settler import MESSAGES_PER_STEP
from tests.workers.polling import wait_until

SIZES = {
    # The number of messages in the arguments of a script, see rsmq/lua.
    "dead_letter_messages": lambda operation: (len(operation.args) - 5) // 3,
    "settle_messages": lambda operation: sum(len(arg) >= 32 for arg in operation.args),
}


@pytest.mark.parametrize("outcome", ["dead-letter", "retry", "delete"])
def test_ten_thousand_outcomes_do_not_stop_another_queue(env, outcome):
    env.create_queues("many", "dead", "other")
    worker = env.create_worker(concurrency=2)
    seen, sizes = [], []
    run = env.rsmq.run

    def run_and_measure(operation):
        measure = SIZES.get(operation.script.name)
        if measure is not None:
            sizes.append(measure(operation))
            if len(sizes) == 1:
                env.create_client().send_message("other", "x")
        return run(operation)

    @worker.listener(
        "many", batch=10_000, max_retries=0 if outcome == "dead-letter" else 9, backoff=900,
        dead_letter_queue="dead",
    )  # fmt: skip
    def fail(bodies):
        env.rsmq.run = run_and_measure
        if outcome != "delete":
            raise ValueError(len(bodies))

    @worker.listener("other")
    def handle(body):
        numbers = worker.numbers
        seen.append(numbers.dead + numbers.retried + numbers.handled)

    env.rsmq.send_messages("many", ["x"] * 10_000)
    worker.start()
    wait_until(lambda: seen and sum(sizes) >= 10_000)

    assert seen[0] < 10_000
    assert max(sizes) <= 2 * MESSAGES_PER_STEP
