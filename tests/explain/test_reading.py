"""What is read of queues and messages, from the raw keys of every feature that holds one up."""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rsmq import AsyncRSMQ
from rsmq.explain import (
    Cause,
    EventKind,
    explain_message,
    explain_queue,
    find_holders,
    message_timeline,
    observe_message,
    observe_queue,
    reader,
)
from rsmq.explain.observed import QueueRates
from rsmq.explain.operations import read_rates
from rsmq.history.recorder import record_queues
from rsmq.model import DeadLetterReason
from rsmq.operations.plain import plain_command
from rsmq.search.redaction import MARK, Redaction
from rsmq.worker import Worker
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    dead_letter_messages,
    receive_for_worker,
    register_worker,
    settle_messages,
)
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until

_numbers = itertools.count()
REASON = {"queue": "q", "text": "attempt 1 of 1 failed", "exception": "E: 5 is bad"}
REASON |= {"traceback": 'File "/a/b.py", line 7, in charge\n', "worker": "w", "attempts": 1}


class Place:
    """A client of a new server with the queues q and d, and a worker that is only registered."""

    def __init__(self, queues):
        self.queues = queues
        self.client = queues
        self.namespace = self.client.namespace
        self.worker = Identity(self.namespace, "w", "token")
        self.q, self.d = self.namespace.queue("q"), self.namespace.queue("d")

    async def register(self, *, ttl=5, **info):
        info = {"queues": {"q": 1}, "slots": 2, "running": 1} | info
        await self.client.run(register_worker(self.worker, info, ttl=ttl, dead="token"))

    async def receive(self, **options):
        request = ReceiveRequest(self.q, 60_000, 1, 0, 1, **options)
        [result] = await self.client.run(receive_for_worker(self.worker, [request], 1))
        return result.ids[0]

    async def settle(self, action, count, *values):
        return await self.client.run(
            settle_messages(self.worker, [Settlement(self.q, action, count, [values])])
        )

    async def explain(self, id):
        return explain_message(await observe_message(self.queues, "q", id))

    async def events(self, id):
        return message_timeline(await observe_message(self.queues, "q", id))

    async def raw(self, *words):
        return await self.client.run(plain_command(*words))


@pytest.fixture
def place(runner):
    async def make():
        queues = AsyncRSMQ.from_url(f"memory://explain{next(_numbers)}")
        await queues.create_queue("q")
        await queues.create_queue("d")
        return Place(queues)

    place = runner.run(make())
    yield place
    runner.run(place.client.close())


async def test_a_message_in_flight_names_its_worker_alive_and_dead(place):
    id = await place.queues.send_message("q", "m")
    await place.register()
    await place.receive()
    assert (await place.explain(id)).cause is Cause.HELD
    await place.register(ttl=-3600)
    found = await place.explain(id)
    assert found.cause is Cause.HELD_BY_DEAD_WORKER
    assert found.sentence.startswith("Worker w had it in flight and has been dead for 6")
    of_queue = explain_queue(await observe_queue(place.queues, "q"))
    causes = [each.cause for each in of_queue.causes]
    assert causes == [Cause.ALL_HIDDEN, Cause.NO_WORKER, Cause.DEAD_WORKER]
    # A record of an earlier receive is not one of this receive.
    await place.queues.change_message_visibility("q", id, 0)
    await place.queues.receive_message("q", vt=60)
    assert (await place.explain(id)).cause is Cause.IN_FLIGHT


async def test_a_message_of_a_queue_at_its_limit_says_so(place):
    await place.queues.set_queue_limits("q", max_running=1)
    first = await place.queues.send_message("q", "m")
    second = await place.queues.send_message("q", "m")
    assert Cause.LIMITED not in {each.cause for each in (await place.explain(second)).causes}
    await place.queues.receive_message("q", vt=60)
    found = await place.explain(second)
    assert found.cause is Cause.LIMITED
    assert found.sentence.startswith("Queue q is at its limit of 1 message in flight")
    of_queue = explain_queue(await observe_queue(place.queues, "q"))
    assert of_queue.cause is Cause.LIMITED
    assert (await place.explain(first)).cause is Cause.IN_FLIGHT


async def test_a_message_that_was_put_off_or_failed_says_so(place):
    id = await place.queues.send_message("q", "m")
    await place.register()
    await place.receive()
    await place.settle("defer", 1, id, 30_000, 1)
    assert (await place.explain(id)).cause is Cause.DEFERRED
    await place.queues.change_message_visibility("q", id, 0)
    await place.receive()
    await place.settle("retry", 2, id, 60_000, "E: 5 is bad")
    await place.queues.set_dead_letter_policy("q", "d", 3)
    found = await place.explain(id)
    assert found.cause is Cause.RETRYING
    assert found.sentence.endswith("after attempt 1 of 3: E: 5 is bad.")
    kinds = [each.kind for each in await place.events(id)]
    assert kinds == ["sent", "first-received", "received", "retried", "visible"]
    facts = await observe_message(place.queues, "q", id)
    shown = facts.shown_to(Redaction((("a",),)), lambda _: True)
    assert shown.last_error == f"E: {MARK}"


async def test_a_dead_letter_is_found_from_the_queue_that_it_came_from(place):
    id = await place.queues.send_message("q", "m")
    await place.queues.set_dead_letter_policy("q", "d", 1)
    await place.register()
    await place.receive()
    message = (id, 1, REASON)
    await place.client.run(dead_letter_messages(place.worker, place.q, place.d, [message]))
    facts = await observe_message(place.queues, "q", id)
    assert explain_message(facts).sentence.endswith("attempt 1 of 1 failed. E: 5 is bad.")
    [sent, died] = message_timeline(facts)
    assert (sent.kind, died.kind) == (EventKind.SENT, EventKind.DEAD_LETTERED)
    assert died.detail == REASON["traceback"]
    # A caller that may not read the other queue does not learn why.
    hidden = facts.shown_to(Redaction(), lambda queue: queue != "d")
    assert explain_message(hidden).cause is Cause.GONE
    assert [each.kind for each in message_timeline(hidden)] == [EventKind.SENT]


@pytest.mark.parametrize("kind", ["purge", "messages"])
async def test_a_message_that_was_deleted_can_be_undone_for_a_while(kind, place):
    id, other = await place.queues.send_messages("q", ["m", "n"])
    if kind == "purge":
        await place.queues.trash.purge_queue("q", by="anna")
    else:
        await place.queues.trash.delete_messages("q", [id], by="anna")
        assert (await place.explain(other)).cause is Cause.NO_WORKER
    found = await place.explain(id)
    assert found.cause is Cause.DELETED
    assert " by anna at " in found.sentence
    assert [each.kind for each in await place.events(id)] == ["sent", "deleted"]
    assert (await place.explain("a" * 32)).cause is Cause.GONE
    [deletion] = await place.queues.trash.list()
    await place.queues.trash.undo(deletion.id)
    assert (await place.explain(id)).cause is Cause.NO_WORKER


async def test_a_deletion_in_the_millisecond_of_the_send_is_behind_it(place):
    id = await place.queues.send_message("q", "m")
    await place.queues.trash.delete_messages("q", [id])
    facts = await observe_message(place.queues, "q", id)
    same = replace(facts, deletion=replace(facts.deletion, deleted_ms=int(facts.sent_ms)))
    assert [each.kind for each in message_timeline(same)] == [
        EventKind.SENT, EventKind.DELETED
    ]  # fmt: skip


async def test_a_redriven_message_says_so_and_is_counted_when_it_dies_again(place):
    await place.queues.send_messages("d", ["1", "2", "3"])
    pairs = await place.queues.redrive_messages("d", "q")
    assert len({new for _, new in pairs}) == 3
    assert [each.body for each in await place.queues.peek_messages("q", 0, 9)] == list("123")
    for _, id in pairs:
        assert (len(id), id[10:15]) == (32, "0Redo")
        facts = await observe_message(place.queues, "q", id)
        assert facts.is_redriven
        assert message_timeline(facts)[0].kind is EventKind.REDRIVEN
    id = await place.queues.send_message("q", "4")
    assert not (await observe_message(place.queues, "q", id)).is_redriven


async def test_a_message_waits_for_those_before_it_at_the_recorded_rate(place):
    now = int(datetime.now(UTC).timestamp()) // 60
    ids = await place.queues.send_messages("q", ["m"] * 101)
    await record_queues(place.queues, now - 3)
    await place.queues.send_messages("q", ["m"] * 30)
    for _ in range(3):
        await place.queues.receive_messages("q", 20, vt=0)
    await record_queues(place.queues, now)
    facts = await observe_message(place.queues, "q", ids[100])
    rates = facts.queue.rates
    assert (rates.sent_per_minute, rates.received_per_minute) == (10, 20)
    assert (rates.seconds, rates.last) == (180, None)
    assert (facts.ids_before, explain_message(facts).cause) == (40, Cause.WAITING)
    # The history of an earlier queue with this name is void.
    await place.raw("HINCRBY", place.q.hash, "created", 5)
    assert (await observe_message(place.queues, "q", ids[100])).queue.rates is None


async def test_rates_are_without_the_minutes_before_a_resume(place):
    queues, minute = place.queues, int(datetime.now(UTC).timestamp()) // 60
    await record_queues(queues, minute)
    for sent, received in ((120, 5), (30, 10), (60, 40)):
        await queues.send_messages("q", ["m"] * sent)
        await queues.receive_messages("q", received, vt=0)
        minute += 1
        await record_queues(queues, minute)
    facts = await observe_queue(queues, "q")
    assert facts.resumed_ms is None
    now_ms = minute * 60_000 + 5000

    async def rates(seconds):
        resumed = None if seconds is None else now_ms - seconds * 1000
        at = replace(facts, now_ms=now_ms, resumed_ms=resumed)
        return (await place.client.run(read_rates(place.namespace, at))).rates

    all_of_it = await rates(None)
    assert (all_of_it.seconds, all_of_it.sent_per_minute) == (180, 70)
    assert all_of_it.last == QueueRates(45, 25, 120)
    assert (await rates(4)).last is None  # in this minute
    assert (await rates(30)).last is None  # in the minute before
    assert (await rates(90)).last == QueueRates(60, 40, 60)
    assert (await rates(150)).last == (await rates(601)).last == QueueRates(45, 25, 120)


async def test_the_time_of_a_resume_is_read(place):
    id = await place.queues.send_message("q", "m")
    await place.queues.pause_queue("q")
    await place.queues.resume_queue("q")
    stored = float(await place.raw("HGET", place.q.hash, "x:resumed"))
    assert (await observe_queue(place.queues, "q")).resumed_ms == stored
    facts = await observe_message(place.queues, "q", id)
    assert facts.queue.resumed_ms == stored
    assert facts.queue.was_resumed


async def test_limits_of_a_message_and_its_queue_are_seen(place):
    await place.queues.set_dead_letter_policy("q", "d", 9)
    id = await place.queues.send_message("q", "m", max_retries=0, expires=100)
    await place.queues.receive_message("q", vt=0)
    found = [each.cause for each in (await place.explain(id)).causes]
    assert found == [Cause.OVER_LIMIT, Cause.NO_WORKER, Cause.WAITING, Cause.EXPIRES]
    await place.queues.set_queue_attributes("q", keep=1)
    old = "g0000000001234567890123456789ABC"
    await place.raw("ZADD", place.q.zset, 1, old)
    assert (await place.explain(old)).cause is Cause.NO_BODY
    await place.raw("HSET", place.q.hash, old, "m")
    assert (await place.explain(old)).cause is Cause.EXPIRED
    await place.raw("ZREM", place.q.zset, old)
    assert (await place.explain(old)).cause is Cause.NO_ID
    # It was sent before its queue was created.
    await place.raw("HDEL", place.q.hash, "x:keep")
    await place.raw("ZADD", place.q.zset, 1, old)
    assert (await place.events(old))[1].kind is EventKind.MOVED


async def test_a_tracked_message_has_its_attempt_and_its_end_in_the_timeline(place):
    id = await place.queues.send_message("q", "m", track=True)
    key = place.q.job(id)
    fields = {"state": "succeeded", "attempt": 2, "worker": "w", "begun": 5000, "ended": 6000}
    words = [word for pair in fields.items() for word in pair]
    await place.queues.delete_message("q", id)
    assert (await place.explain(id)).cause is Cause.GONE
    await place.raw("HSET", key, *words)
    assert (await place.explain(id)).cause is Cause.ENDED
    begun, ended, sent = await place.events(id)
    assert (begun.at_ms, ended.at_ms, sent.kind) == (5000, 6000, EventKind.SENT)
    assert ended.text == "Its job ended: succeeded."


async def test_a_quarantined_message_and_a_purged_record_are_no_riddle(place):
    id = await place.queues.send_message("q", "m")
    await place.raw("HSET", f"{place.namespace.name}:q:x:alone", id, "2:5")
    texts = [each.text for each in await place.events(id)]
    assert any(text.startswith("Run alone 2 times") for text in texts)
    await place.raw("HSET", f"{place.namespace.name}:q:x:reasons", id, f"7:{json.dumps(REASON)}")
    facts = await observe_message(place.queues, "q", id)
    assert facts.reason == DeadLetterReason(**REASON, died_ms=7)


async def test_a_user_with_the_rights_of_rsmq_alone_gets_what_the_queue_shows(server, ns):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        await queues.create_queue("q")
        id = await queues.send_message("q", "m")
        rules = ("on", ">p", "+@all", "-exists", f"~{ns}:q", f"~{ns}:q:Q")
        await queues.run(plain_command("ACL", "SETUSER", ns, *rules, key=b"q"))
        url = server.url.replace("://", f"://{ns}:p@")
        async with AsyncRSMQ.from_url(url, ns=ns) as few:
            facts = await observe_message(few, "q", id)
            assert not facts.queue.can_see_workers
            assert explain_message(facts).cause is Cause.WAITING
            assert explain_queue(await observe_queue(few, "q")).cause is Cause.WAITING
        await queues.run(plain_command("ACL", "DELUSER", ns, key=b"q"))


async def test_the_workers_that_have_messages_in_flight_are_found(place):
    queues = place.queues
    await queues.send_messages("q", ["m"] * 3)
    id = await place.receive()
    await queues.receive_message("q")  # not by a worker
    messages = await queues.peek_messages("q", 0, 9)
    assert await find_holders(queues, messages) == {}  # the worker is not registered yet
    await place.register()
    assert await find_holders(queues, messages) == {id: "w"}
    assert await find_holders(queues, [each for each in messages if each.id != id]) == {}
    assert await find_holders(queues, []) == {}


def test_a_running_worker_says_that_all_its_slots_are_in_use(rsmq):
    rsmq.create_queue("q")
    ids = rsmq.send_messages("q", ["m"] * 50)
    begun, ends = threading.Event(), threading.Event()
    worker = Worker(rsmq, name="w1", concurrency=1)

    @worker.listener("q", drop=True)
    def wait(_):
        begun.set()
        ends.wait()

    worker.start()
    try:
        assert begun.wait(WAIT_SECONDS)
        found = explain_message(reader.observe_message(rsmq, "q", ids[0]))
        assert found.cause is Cause.HELD
        assert found.sentence.startswith("Worker w1 has it in flight, receive 1; ")

        def causes():
            return [each.cause for each in explain_queue(reader.observe_queue(rsmq, "q")).causes]

        # Its sign of life is renewed once a second.
        wait_until(lambda: Cause.WORKERS_BUSY in causes())
    finally:
        ends.set()
        worker.stop()
