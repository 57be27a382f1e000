"""``concurrency=(minimum, maximum)``: slots that a listener reserves, with handlers that block."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from rsmq import InvalidFormat, InvalidValue
from tests.workers.polling import loop_of, state_of, wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


class Blocked:
    """Handlers that block until the test ends them, in threads or as tasks."""

    def __init__(self):
        self.running = Counter()
        self.most = Counter()
        self.ended = Counter()
        self._lock = threading.Lock()
        self._allowed = Counter()

    def _begin(self, queue):
        with self._lock:
            self.running[queue] += 1
            self.most[queue] = max(self.most[queue], self.running[queue])

    def _may_end(self, queue):
        with self._lock:
            if self.ended[queue] >= self._allowed[queue]:
                return False
            self.ended[queue] += 1
            self.running[queue] -= 1
            return True

    def end(self, queue, number=1):
        """End calls, and let this many begun later end too."""
        with self._lock:
            self._allowed[queue] += number

    def plain(self, queue):
        def handle(body):
            self._begin(queue)
            wait_until(lambda: self._may_end(queue))

        return handle

    def coroutine(self, queue):
        async def handle(body):
            self._begin(queue)
            while not self._may_end(queue):
                await asyncio.sleep(0.002)

        return handle

    def end_all(self):
        for queue in ("bulk", "mail", "other"):
            self.end(queue, 10_000)


@pytest.fixture
def blocked():
    blocked = Blocked()
    yield blocked
    blocked.end_all()


KINDS = [("plain", "plain"), ("coroutine", "coroutine"), ("plain", "coroutine")]


@pytest.mark.parametrize(("bulk_kind", "mail_kind"), KINDS, ids=lambda kind: kind)
def test_a_queue_has_its_reserved_slots_while_another_fills_the_rest(
    env, blocked, bulk_kind, mail_kind
):
    env.create_queues("bulk", "mail")
    worker = env.create_worker(concurrency=4)
    worker.listener("bulk", priority=10)(getattr(blocked, bulk_kind)("bulk"))
    worker.listener("mail", concurrency=(2, 3))(getattr(blocked, mail_kind)("mail"))
    env.rsmq.send_messages("bulk", ["b"] * 10)
    worker.start()
    wait_until(lambda: blocked.running["bulk"] == 2)
    # Its messages are due, and no slot is left for it. Calls that could begin would do so now.
    env.rsmq.send_messages("mail", ["m"] * 4)
    wait_until(lambda: blocked.running["mail"] == 2)
    assert (blocked.running["bulk"], loop_of(worker).run_queue.running_count) == (2, 4)
    assert not loop_of(worker).run_queue.has_startable

    # The end of a call beyond the minimum gives its slot to any of them.
    blocked.end("bulk", 10_000)
    wait_until(lambda: blocked.running["mail"] == 3)
    wait_until(lambda: blocked.ended["bulk"] == 10)
    blocked.end("mail", 10_000)
    wait_until(lambda: blocked.ended["mail"] == 4)
    assert blocked.most == {"bulk": 2, "mail": 3}


def test_the_reserved_slots_of_an_empty_queue_stay_free(env, blocked):
    env.create_queues("bulk", "mail")
    worker = env.create_worker(concurrency=3)
    worker.listener("bulk")(blocked.plain("bulk"))
    worker.listener("mail", concurrency=(1, 3))(blocked.plain("mail"))
    env.rsmq.send_messages("bulk", ["b"] * 9)
    worker.start()
    wait_until(lambda: blocked.running["bulk"] == 2)
    for _ in range(3):  # each end begins one other call of the queue
        before = blocked.ended["bulk"]
        blocked.end("bulk")
        wait_until(lambda: blocked.ended["bulk"] == before + 1 and blocked.running["bulk"] == 2)  # noqa: B023
    assert blocked.most["bulk"] == 2
    env.rsmq.send_message("mail", "m")
    wait_until(lambda: blocked.running["mail"] == 1)


def test_a_queue_uses_free_slots_up_to_its_maximum(env, blocked):
    env.create_queues("bulk", "mail")
    worker = env.create_worker(concurrency=8)
    worker.listener("bulk")(blocked.plain("bulk"))
    worker.listener("mail", concurrency=(1, 5))(blocked.plain("mail"))
    env.rsmq.send_messages("mail", ["m"] * 9)
    worker.start()
    wait_until(lambda: blocked.running["mail"] == 5)
    env.rsmq.send_messages("bulk", ["b"] * 9)
    wait_until(lambda: blocked.running["bulk"] == 3)
    blocked.end_all()
    wait_until(lambda: blocked.ended["mail"] == blocked.ended["bulk"] == 9)
    assert blocked.most["mail"] == 5


def test_all_slots_may_be_reserved(env, blocked):
    env.create_queues("bulk", "mail", "other")
    worker = env.create_worker(concurrency=4)
    for queue, minimum in (("bulk", 2), ("mail", 1), ("other", 1)):
        worker.listener(queue, concurrency=(minimum, 4))(blocked.plain(queue))
        env.rsmq.send_messages(queue, ["x"] * 5)
    worker.start()
    wait_until(lambda: loop_of(worker).run_queue.running_count == 4)
    assert blocked.running == {"bulk": 2, "mail": 1, "other": 1}
    blocked.end_all()
    wait_until(lambda: blocked.ended.total() == 15)
    assert blocked.most == {"bulk": 2, "mail": 1, "other": 1}


def test_waiting_messages_of_a_full_queue_do_not_keep_the_loop_awake(env, blocked):
    """The slots that are free are reserved for another queue, so there is nothing to do."""
    env.create_queues("bulk", "mail")
    worker = env.create_worker(concurrency=2)
    worker.listener("bulk")(blocked.plain("bulk"))
    worker.listener("mail", concurrency=(1, 1))(blocked.plain("mail"))
    env.rsmq.send_messages("bulk", ["b"] * 3)
    worker.start()
    wait_until(lambda: blocked.running["bulk"] == 1)
    run_queue = loop_of(worker).run_queue
    [bulk] = [lane for lane in run_queue._lanes if lane.name == "bulk"]
    with run_queue.lock:
        assert not run_queue.has_startable
        assert not run_queue.is_full
    assert state_of(worker).queues["bulk"].running == 1
    assert bulk.limit_now == 1


@pytest.mark.parametrize("strict_priority", [False, True])
def test_reserved_slots_go_before_weights_and_strict_priorities(env, blocked, strict_priority):
    env.create_queues("bulk", "mail", "other")
    worker = env.create_worker(concurrency=5, strict_priority=strict_priority)
    worker.listener("bulk", priority=9, weight=90)(blocked.plain("bulk"))
    worker.listener("other", priority=9, weight=10)(blocked.coroutine("other"))
    worker.listener("mail", concurrency=(2, 3))(blocked.plain("mail"))
    for queue in ("bulk", "other", "mail"):
        env.rsmq.send_messages(queue, ["x"] * 20)
    worker.start()
    wait_until(lambda: blocked.running["mail"] == 2)
    wait_until(lambda: blocked.running["bulk"] + blocked.running["other"] == 3)
    blocked.end("bulk", 10_000)
    blocked.end("other", 10_000)
    wait_until(lambda: blocked.ended["bulk"] == blocked.ended["other"] == 20)
    blocked.end("mail", 10_000)
    wait_until(lambda: blocked.ended["mail"] == 20)
    assert blocked.most["mail"] <= 3
    assert blocked.most["bulk"] <= 3


def test_a_listener_with_levels_reserves_no_slots(env, blocked):
    worker = env.create_worker()
    with pytest.raises(InvalidFormat) as caught:
        worker.listener("bulk", concurrency=(1, 2), levels={"high": 3})(blocked.plain("bulk"))
    assert "pass the maximum for 'bulk'" in str(caught.value)


def test_a_worker_with_too_few_slots_does_not_start(env, blocked):
    env.create_queues("bulk", "mail")
    worker = env.create_worker(concurrency=2)
    worker.listener("bulk", concurrency=(1, 2))(blocked.plain("bulk"))
    worker.listener("mail", concurrency=(2, 2))(blocked.plain("mail"))
    env.rsmq.send_message("mail", "m")

    with pytest.raises(InvalidValue) as caught:
        worker.start()
    assert str(caught.value) == (
        "concurrency of the worker must be between 3 and 10000, not 2. "
        "Its listeners reserve 1 for 'bulk' + 2 for 'mail'"
    )
    assert env.rsmq.get_queue_attributes("mail").hidden_messages == 0
    worker.concurrency = 3
    worker.start()
    wait_until(lambda: blocked.running["mail"] == 1)
