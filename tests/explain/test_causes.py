"""Which causes follow from facts, in which order, and their sentences; without a server."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rsmq.explain import (
    Cause,
    ObservedMessage,
    ObservedQueue,
    QueueRates,
    explain_message,
    explain_queue,
)
from rsmq.explain.observed import DeadLetterPlace
from rsmq.explain.sentences import format_span
from rsmq.figures import HiddenCounts
from rsmq.figures.facts import RepeatedReceives
from rsmq.jobs.status import JobState, JobStatus
from rsmq.model import DeadLetterReason, QueueAttributes
from rsmq.schedules.definition import StoredSchedule
from rsmq.trash import Deletion, DeletionKind
from rsmq.trash.deletion import UNKNOWN_CALLER
from rsmq.webhooks.shared_breaker import PushTarget
from rsmq.wire.streams import StreamInfo
from rsmq.wire.throttle import Limit
from rsmq.wire.workers import StalledHandlers
from rsmq.worker import WorkerInfo

NOW = 1_795_176_150_000  # 2026-11-20 12:02:30 UTC
ID = "hocfdlzqs8mf9oJypfX0YbIG5vOe9dTs"
CREATED = datetime(2026, 11, 1, tzinfo=UTC)


#: A stream, and three others.
STREAMS = tuple(
    StreamInfo(name, NOW - seconds * 1000, {"q": 0})
    for name, seconds in (("nightly", 12), ("c", 3), ("a", 60), ("b", 60))
)


def attributes(**options):
    values = {
        "vt": 30, "delay": 0, "maxsize": 65536, "total_received": 0, "total_sent": 0,
        "created": CREATED, "modified": CREATED, "messages": 10, "hidden_messages": 0,
        "visible_messages": 10, "next_due_ms": None, "dead_letter_queue": None,
        "max_receives": None, "paused": False,
    }  # fmt: skip
    return QueueAttributes(**(values | options))


def worker(name="w", *, alive=True, seen=0, in_flight=0, running=0):
    return WorkerInfo(
        name, alive, NOW - 60_000, NOW - seen * 1000, "host", 1, {"q": in_flight}, 0, 0, 4, running
    )


def blocked(id):
    stalled = StalledHandlers("It blocks", NOW - 20_000, "q", id)
    return replace(worker(), stalled=stalled)


def queue(*workers, rates=None, hidden=None, can_see_workers=True, **options):
    speed = QueueRates(*rates, 600) if isinstance(rates, tuple) else rates
    return ObservedQueue(
        "q", NOW, attributes(**options), workers, can_see_workers, speed, hidden or HiddenCounts()
    )


def message(in_queue=None, **options):
    facts = ObservedMessage(in_queue or queue(worker()), ID, visible_at_ms=NOW - 1000, size=5)
    return replace(facts, **options)


HIDDEN = {"visible_at_ms": NOW + 40_000}
RECEIVED = HIDDEN | {"receive_count": 2, "first_received_ms": NOW - 50_000}
REASON = DeadLetterReason("q", "attempt 3 of 3 failed", "E: x", "trace", "w", 3, NOW - 60_000)
LIMITED = {"dead_letter_queue": "d", "max_receives": 3}


def job(state, **options):
    ended = datetime.fromtimestamp(NOW / 1000 - 60, UTC)
    status = JobStatus("q", ID, state, 2, "w", ended, ended, None, None)
    return replace(status, **options)


@pytest.mark.parametrize(
    ("facts", "causes", "sentence"),
    [
        (
            message(queue(paused=True), ids_before=3),
            [Cause.PAUSED, Cause.NO_WORKER, Cause.WAITING],
            "Queue q is paused: workers do not receive from it until it is resumed.",
        ),
        (message(**HIDDEN), [Cause.DELAYED], "It is delayed until 12:03:10 UTC (in 40 s)."),
        (
            message(visible_at_ms=NOW + 3 * 86_400_000),
            [Cause.DELAYED],
            "It is delayed until 2026-11-23 12:02:30 UTC (in 3 days).",
        ),
        (
            message(queue(worker(), paused=True), holder=worker("w7"), **RECEIVED),
            [Cause.HELD, Cause.PAUSED],
            ("Worker w7 has it in flight, receive 2; if it is neither settled nor extended, it "
            "becomes visible again at 12:03:10 UTC (in 40 s)."),
        ),
        (
            message(queue(blocked(ID)), holder=blocked(ID), **RECEIVED),
            [Cause.BLOCKED_WORKER, Cause.HELD],
            ("Worker w has called no handler for 20 s: It blocks. The message was received 2 "
            "times. The message may block the next worker too: move it to another queue, or "
            "delete it. Then stop the worker, so that its supervisor starts it again."),
        ),
        (
            message(queue(blocked(ID)), holder=blocked(ID), **RECEIVED | {"receive_count": 1}),
            [Cause.BLOCKED_WORKER, Cause.HELD],
            ("Worker w has called no handler for 20 s: It blocks. The message may block the "
            "next worker too: move it to another queue, or delete it. Then stop the worker, so "
            "that its supervisor starts it again."),
        ),
        (
            message(queue(blocked("another")), holder=blocked("another"), **RECEIVED),
            [Cause.BLOCKED_WORKER, Cause.HELD],
            "Worker w has called no handler for 20 s: It blocks.",
        ),
        # What another queue's call does may only be known as the queue's workers show it.
        (
            message(queue(worker()), holder=blocked(ID), **RECEIVED),
            [Cause.HELD],
            None,
        ),
        (
            message(holder=worker("w7", alive=False, seen=40), **RECEIVED),
            [Cause.HELD_BY_DEAD_WORKER],
            ("Worker w7 had it in flight and has been dead for 40 s; it is visible again at "
            "12:03:10 UTC (in 40 s), or when a worker of this name starts."),
        ),
        (
            message(**RECEIVED),
            [Cause.IN_FLIGHT],
            ("A consumer that is not a worker of this library, such as a Node or PHP program, has "
            "it in flight, receive 2; if it is not deleted, it becomes visible again at 12:03:10 "
            "UTC (in 40 s)."),
        ),
        (
            message(stream=("nightly", 1234), unbegun=1, **RECEIVED),
            [Cause.IN_FLIGHT],
            (
                "The stream of Spark nightly has it in its batch 1,234, receive 2; it is "
                "deleted when Spark has stored the batch. If the query does not run, it becomes "
                "visible again at 12:03:10 UTC (in 40 s)."
            ),
        ),
        (
            message(unbegun=1, **RECEIVED),
            [Cause.DEFERRED],
            ("A worker has probably put it off, for a rate limit, a lock or Defer, until 12:03:10 "
            "UTC (in 40 s): no worker has it, and 1 of its 2 receives began no call."),
        ),
        (
            message(
                queue(worker(), **LIMITED), has_dead_letter_queue=True, last_error="E: x",
                **RECEIVED,
            ),
            [Cause.RETRYING],
            "It waits for a retry until 12:03:10 UTC (in 40 s), after attempt 2 of 3: E: x.",
        ),
        (
            message(
                queue(worker(), **LIMITED), has_dead_letter_queue=True, receive_count=4, unbegun=1
            ),
            [Cause.RECEIVED_AGAIN, Cause.OVER_LIMIT, Cause.WAITING],
            ("It was received 4 times; the last 3 receives ended without a delete. If its handler "
            "crashes the worker, delete it or move it to a dead-letter queue. It may only have "
            "been in flight beside such a message."),
        ),
        (
            message(
                queue(worker(), **LIMITED), has_dead_letter_queue=True, max_retries=1,
                holder=worker(), **RECEIVED,
            ),
            [Cause.HELD, Cause.OVER_LIMIT],
            None,
        ),
        # Without the dead-letter queue, such messages are delivered.
        (
            message(queue(**LIMITED), receive_count=9, failed_receive=8),
            [Cause.NO_WORKER, Cause.WAITING],
            None,
        ),
        # The same holds in flight, at each restart of its worker.
        (
            message(holder=worker("w7"), **RECEIVED | {"receive_count": 4}),
            [Cause.HELD, Cause.RECEIVED_AGAIN],
            None,
        ),
        (
            message(queue(rates=(10, 10), vt=5), **RECEIVED | {"receive_count": 3}),
            [Cause.IN_FLIGHT, Cause.RECEIVED_AGAIN],
            None,
        ),
        (
            message(queue(rates=(10, 10), vt=5), receive_count=3),
            [Cause.RECEIVED_AGAIN, Cause.WAITING],
            ("It was received 3 times; each receive ended without a delete. A consumer may have "
            "released what it received, which is not recorded. Otherwise the handler may take "
            "longer than the visibility timeout of 5 s: make that longer than its slowest run, or "
            "delete sooner."),
        ),
        (
            message(expires_ms=NOW - 5000),
            [Cause.EXPIRED, Cause.WAITING],
            "It is expired since 12:02:25 UTC (5 s ago): the next receive removes it.",
        ),
        (
            message(expires_ms=NOW + 5000, **HIDDEN),
            [Cause.DELAYED, Cause.EXPIRES],
            None,
        ),
        (
            message(queue(worker("w", alive=False, seen=7200)), ids_before=1),
            [Cause.NO_WORKER, Cause.WAITING],
            ("No live worker listens to queue q, and no other consumer is known to "
            "receive; worker w has been dead for 2 h."),
        ),
        # Consumers that are not workers are known by what they receive.
        (message(queue(rates=(10, 10))), [Cause.WAITING], None),
        (message(queue(can_see_workers=False)), [Cause.WAITING], None),
        (
            message(queue(worker(running=4), worker("v", running=4))),
            [Cause.WORKERS_BUSY, Cause.WAITING],
            "All slots of the 2 workers that listen are in use, by 8 calls.",
        ),
        (
            message(queue(worker(), rates=(5, 0))),
            [Cause.STALLED, Cause.WAITING],
            ("Nothing was received from queue q in the last 10 min, by worker w, the only one that "
            "listens, or by others."),
        ),
        (
            message(queue(worker(running=4), rates=(100, 800)), ids_before=4812),
            [Cause.WAITING, Cause.DRAINING, Cause.WORKERS_BUSY],
            ("It is visible, with 4,812 messages before it; at the present rate, 800 a minute, it "
            "is received in about 6 min."),
        ),
        (
            message(queue(worker(), rates=(900, 800))),
            [Cause.WAITING, Cause.FILLED_FASTER],
            "It is visible, and the next message that is received.",
        ),
        (message(size=None), [Cause.NO_BODY], None),
        (message(visible_at_ms=None), [Cause.NO_ID], None),
        (
            message(visible_at_ms=None, size=None, dead=DeadLetterPlace("d", NOW - 60_000, REASON)),
            [Cause.DEAD_LETTERED],
            ("It is a dead letter in queue d since 12:01:30 UTC (60 s ago): attempt 3 of 3 failed. "
            "E: x."),
        ),
        (
            message(visible_at_ms=None, size=None, job=job(JobState.FAILED, error="E: x")),
            [Cause.ENDED],
            ("It is gone, and its job has ended: failed at 12:01:30 UTC (60 s ago), attempt 2 in "
            "worker w: E: x."),
        ),
        (message(visible_at_ms=None, size=None), [Cause.GONE], None),
        (
            message(queue(created=None), visible_at_ms=None, size=None, id="?" * 32),
            [Cause.GONE],
            ("It is not in queue q: it was never sent, or was deleted or moved, of which there is "
            "no record."),
        ),
    ],
)  # fmt: skip
def test_the_first_cause_of_a_message_decides(facts, causes, sentence):
    found = explain_message(facts)

    assert [each.cause for each in found.causes] == causes
    assert all(each.text for each in found.causes)
    if sentence is not None:
        assert found.sentence == sentence


def changed(seconds):
    return {"modified": datetime.fromtimestamp(NOW / 1000 - seconds, UTC)}


@pytest.mark.parametrize(
    ("ago", "vt", "first_ago", "is_of_before"),
    [
        (12, 30, 20, True),
        (12, 30, 11, False),  # received first since the change
        (12, 30, None, False),
        (59, 5, 99, True),
        (61, 5, 99, False),
        (179, 90, 200, True),  # two timeouts
        (181, 90, 200, False),
        (-12, 30, 20, False),  # a clock was ahead
    ],
)
def test_receives_of_before_a_change_are_said_to_be_so(ago, vt, first_ago, is_of_before):
    first = None if first_ago is None else NOW - first_ago * 1000
    facts = queue(rates=(20, 80), vt=vt, **changed(ago))
    of_queue = explain_queue(replace(facts, repeated=RepeatedReceives("m", 4, 5, 8, 3, 1, first)))
    again = Cause.RECEIVED_AGAIN
    assert [each.cause for each in of_queue.causes] == (
        [Cause.DRAINING, Cause.WAITING, again]
        if is_of_before
        else [again, Cause.DRAINING, Cause.WAITING]
    )
    of_message = explain_message(
        message(facts, receive_count=4, first_received_ms=first, visible_at_ms=NOW + 1000)
    )
    for found in (of_queue, of_message):
        [text] = [each.text for each in found.causes if each.cause is again]
        assert ("This began before the attributes of the queue were changed at" in text) == (
            is_of_before
        )
        assert ("make that longer than its slowest run" in text) != is_of_before


def test_a_change_is_not_why_messages_of_workers_are_received_again():
    facts = queue(worker(), **changed(12))
    repeated = RepeatedReceives("m", 4, 1, 1, 3, NOW - 20_000, NOW - 20_000)
    found = explain_queue(replace(facts, repeated=repeated))
    assert found.cause is Cause.RECEIVED_AGAIN
    assert "crashes the worker" in found.sentence


def test_it_is_said_until_when_receives_may_be_of_before_a_change():
    facts = queue(vt=45, **changed(12))
    repeated = RepeatedReceives(None, 0, 5, 8, 0, None, NOW - 20_000)
    found = explain_queue(replace(facts, repeated=repeated))
    assert found.causes[-1].text == (
        "Messages of queue q are received again before they are deleted, 5 of the next 8 in "
        "flight. This began before the attributes of the queue were changed at 12:02:18 UTC (12 s "
        "ago), and may be over: look again at 12:03:48 UTC."
    )


def test_the_wait_of_a_message_is_by_the_rates_since_a_resume():
    facts = queue(worker(), rates=QueueRates(120, 80, 600, QueueRates(100, 400, 60)))

    def say(resumed_ms, rates=facts.rates):
        in_queue = replace(facts, rates=rates, resumed_ms=resumed_ms)
        return explain_message(message(in_queue, ids_before=99)).sentence

    assert say(None).endswith("80 a minute, it is received in about 75 s.")
    assert say(NOW - 90_000).endswith("400 a minute, it is received in about 15 s.")
    assert "was resumed at 12:02:10 UTC (20 s ago), and" in say(
        NOW - 20_000, replace(facts.rates, last=None)
    )
    assert say(NOW - 20_000, None).endswith("how fast they are received is not recorded.")


PURGE = Deletion("1", DeletionKind.PURGE, "q", "ann", 300, NOW - 60_000)
ALL_HIDDEN = {"visible_messages": 0, "hidden_messages": 10, "next_due_ms": NOW + 40_000}


@pytest.mark.parametrize(
    ("facts", "causes", "sentence"),
    [
        (queue(messages=0, visible_messages=0), [Cause.EMPTY], "Queue q has no messages."),
        (
            replace(queue(messages=0, visible_messages=0, paused=True), purge=PURGE),
            [Cause.EMPTY, Cause.PAUSED],
            ("Queue q has no messages, and it is paused. 300 messages were purged by ann at "
            "12:01:30 UTC (60 s ago), which can be undone until 12:11:30 UTC."),
        ),
        (
            replace(
                queue(messages=0, visible_messages=0), purge=replace(PURGE, by=UNKNOWN_CALLER)
            ),
            [Cause.EMPTY],
            ("Queue q has no messages. 300 messages were purged at 12:01:30 UTC (60 s ago), which "
            "can be undone until 12:11:30 UTC."),
        ),
        (
            replace(
                queue(worker(running=4), max_running=1), limit=Limit(5, is_rate=False)
            ),
            [Cause.LIMITED, Cause.WORKERS_BUSY, Cause.WAITING],
            ("Queue q is at its limit of 1 message in flight: the next one is received when one of "
            "them is deleted, fails or becomes visible."),
        ),
        (
            replace(queue(worker(), rate="5/d"), limit=Limit(5, is_rate=True)),
            [Cause.LIMITED, Cause.WAITING],
            ("Queue q is at its rate of 5/d: the next message is received when that allows it."),
        ),
        (queue(worker(), paused=True), [Cause.PAUSED, Cause.WAITING], None),
        (queue(worker(), rates=(120, 80), paused=True), [Cause.PAUSED, Cause.WAITING], None),
        (
            queue(worker(), rates=QueueRates(120, 80, 600, QueueRates(100, 400, 120))),
            [Cause.DRAINING, Cause.WAITING],
            ("Queue q is being drained: 100 messages a minute were sent, and 400 received, in the "
            "last 2 min, so its 10 visible messages take about 2 s."),
        ),
        (
            queue(worker(), rates=QueueRates(80, 120, 600, QueueRates(100, 0, 120))),
            [Cause.FILLED_FASTER, Cause.WAITING],
            ("Queue q is filled faster than it is drained: 100 messages a minute were sent, and 0 "
            "received, in the last 2 min."),
        ),
        (
            replace(queue(worker(), rates=(120, 80)), resumed_ms=NOW - 20_000),
            [Cause.WAITING],
            ("10 messages of queue q are visible; the queue was resumed at 12:02:10 UTC (20 s "
            "ago), and how fast they are received since is known after the next full minute."),
        ),
        (
            replace(queue(worker(), rates=(1, 0)), resumed_ms=NOW - 20_000), [Cause.WAITING], None,
        ),
        (
            replace(
                queue(worker(), rates=QueueRates(120, 80, 600, QueueRates(100, 400, 60))),
                resumed_ms=NOW - 90_000,
            ),
            [Cause.DRAINING, Cause.WAITING],
            ("Queue q is being drained: 100 messages a minute were sent, and 400 received, in the "
            "last 60 s, so its 10 visible messages take about 2 s."),
        ),
        (
            replace(queue(worker(), rates=QueueRates(0, 600, 1)), resumed_ms=NOW - 1000),
            [Cause.DRAINING, Cause.WAITING],
            None,
        ),
        (
            replace(queue(worker(), rates=(120, 80)), resumed_ms=NOW - 600_000),
            [Cause.FILLED_FASTER, Cause.WAITING],
            None,
        ),
        (
            replace(queue(rates=(20, 80), vt=5), repeated=RepeatedReceives(None, 0, 5, 8)),
            [Cause.RECEIVED_AGAIN, Cause.DRAINING, Cause.WAITING],
            ("Messages of queue q are received again before they are deleted, 5 of the next 8 in "
            "flight. A consumer may have released what it received, which is not recorded. "
            "Otherwise the handler may take longer than the visibility timeout of 5 s: make that "
            "longer than its slowest run, or delete sooner."),
        ),
        (
            replace(
                queue(worker(), rates=(20, 80)), repeated=RepeatedReceives("m1", 4, 5, 5)
            ),
            [Cause.RECEIVED_AGAIN, Cause.DRAINING, Cause.WAITING],
            ("Message m1 of queue q was received 4 times and not deleted. If its handler crashes "
            "the worker, delete it or move it to a dead-letter queue. It may only have been in "
            "flight beside such a message."),
        ),
        (
            queue(
                worker(), worker("v", alive=False, seen=40, in_flight=3),
                hidden=HiddenCounts(7, 1, 2), **ALL_HIDDEN,
            ),
            [Cause.ALL_HIDDEN, Cause.DEAD_WORKER],
            ("No message of queue q is visible: 7 in flight, 2 delayed, 1 waiting for a retry; the "
            "next one is visible at 12:03:10 UTC (in 40 s)."),
        ),
        (
            queue(
                replace(worker(), deaths=(NOW - 270_000, NOW - 30_000)), rates=(20, 80),
            ),
            [Cause.DRAINING, Cause.WAITING, Cause.CRASH_LOOP],
            None,
        ),
        (queue(**ALL_HIDDEN), [Cause.ALL_HIDDEN, Cause.NO_WORKER], None),
        (
            queue(worker(running=4)),
            [Cause.WORKERS_BUSY, Cause.WAITING],
            "All slots of worker w, the only one that listens, are in use, by 4 calls.",
        ),
        (queue(worker(), rates=(1, 0)), [Cause.STALLED, Cause.WAITING], None),
        (
            replace(queue(rates=(1, 0)), streams=STREAMS[:1]),
            [Cause.STALLED, Cause.WAITING],
            ("Nothing was received from queue q in the last 10 min, by any consumer. The stream of "
            "Spark nightly reads it, as of 12 s ago."),
        ),
        (
            replace(queue(messages=0, visible_messages=0), streams=STREAMS),
            [Cause.EMPTY],
            ("Queue q has no messages. Streams of Spark (a, b, c and others) read it, as of 3 s "
            "ago."),
        ),
        (replace(queue(**ALL_HIDDEN), streams=STREAMS), [Cause.ALL_HIDDEN], None),
        (
            queue(worker(), rates=(120, 80)),
            [Cause.FILLED_FASTER, Cause.WAITING],
            ("Queue q is filled faster than it is drained: 120 messages a minute were sent, and 80 "
            "received, in the last 10 min."),
        ),
        (
            queue(worker(), rates=(20, 80), visible_messages=1200),
            [Cause.DRAINING, Cause.WAITING],
            ("Queue q is being drained: 20 messages a minute were sent, and 80 received, in the "
            "last 10 min, so its 1,200 visible messages take about 20 min."),
        ),
        (
            queue(
                worker(), rates=(0, 68_263), hidden=HiddenCounts(40, 39_000, 0, 500),
                messages=40_000, visible_messages=960,
            ),
            [Cause.RETRYING, Cause.WAITING],
            ("Handlers of queue q fail: about 39,000 messages wait for a retry. 960 messages of "
            "queue q are visible; 0 messages a minute were sent, and 68,263 received, in the last "
            "10 min."),
        ),
        (
            queue(worker(running=4), rates=(3, 4), hidden=HiddenCounts(4, 21), messages=2000),
            [Cause.RETRYING, Cause.WORKERS_BUSY, Cause.WAITING],
            None,
        ),
        (
            queue(worker(), rates=(20, 80), hidden=HiddenCounts(4, 390), messages=1200),
            [Cause.DRAINING, Cause.WAITING],
            None,
        ),
        (
            queue(rates=(0, 0), hidden=HiddenCounts(0, 5), messages=6, visible_messages=1),
            [Cause.NO_WORKER, Cause.WAITING],
            None,
        ),
        (
            queue(worker(), visible_messages=1),
            [Cause.WAITING],
            "1 message of queue q is visible; how fast they are received is not recorded.",
        ),
    ],
)  # fmt: skip
def test_the_first_cause_of_a_queue_decides(facts, causes, sentence):
    found = explain_queue(facts)

    assert [each.cause for each in found.causes] == causes
    assert all(each.text for each in found.causes)
    if sentence is not None:
        assert found.sentence == sentence


def test_a_sentence_has_no_unprintable_characters():
    found = explain_message(message(last_error="E: \x1b[2J\n\u202e", **RECEIVED))

    assert found.sentence.isprintable()


def test_a_span_has_its_largest_unit():
    spans = {0.2: "0 s", 119: "119 s", 120: "2 min", 7200: "2 h", 86_400: "24 h", 172_800: "2 days"}
    assert {seconds: format_span(seconds) for seconds in spans} == spans


def test_a_paused_queue_says_nothing_of_rates_from_before_its_pause():
    of_queue = explain_queue(queue(worker(running=4), rates=(120, 80), paused=True))
    assert of_queue.causes[-1].text == "10 messages of queue q are visible."
    of_message = explain_message(message(queue(worker(), rates=(9, 8), paused=True), ids_before=3))
    assert of_message.causes[-1].text == "It is visible, with 3 messages before it."


def test_a_crash_loop_names_the_workers_and_their_deaths():
    [*_, found] = explain_queue(
        queue(replace(worker(), deaths=(NOW - 270_000, NOW - 30_000)), rates=(20, 80))
    ).causes
    assert found.text == (
        "Workers of queue q die again and again: 2 deaths of w within 4 min, the last one 30 s ago."
    )


_AT = datetime.fromtimestamp(NOW / 1000 - 90, UTC)
SCHEDULE = StoredSchedule("s", None, _AT, _AT, None, None, None, None, None, None, 0)
TARGET = PushTarget("q", "https://a", "open", 9, NOW + 30_000, "503")


@pytest.mark.parametrize(
    ("facts", "causes", "sentence"),
    [
        (
            replace(queue(worker(), rates=(1, 0)), targets=(TARGET,)),
            [Cause.WEBHOOK_STOPPED, Cause.STALLED, Cause.WAITING],
            (
                "A webhook of queue q is stopped: https://a is open; its last answer was 503. It "
                "is tried again in 30 s."
            ),
        ),
        (
            replace(queue(worker(), rates=(20, 80)), targets=(TARGET,)),
            [Cause.DRAINING, Cause.WAITING, Cause.WEBHOOK_STOPPED],
            None,
        ),
        (
            replace(
                queue(messages=0, visible_messages=0),
                targets=(replace(TARGET, state="closed", refusal="it has no secret"),),
            ),
            [Cause.EMPTY, Cause.WEBHOOK_STOPPED],
            None,
        ),
        (
            replace(queue(worker(), rates=(1, 0)), targets=(replace(TARGET, state="closed"),)),
            [Cause.STALLED, Cause.WAITING],
            None,
        ),
        (
            replace(queue(messages=0, visible_messages=0, paused=True), schedules=(SCHEDULE,)),
            [Cause.EMPTY, Cause.PAUSED, Cause.LATE_SCHEDULE],
            None,
        ),
        (
            replace(
                queue(messages=0, visible_messages=0),
                schedules=(replace(SCHEDULE, paused_at=_AT), replace(SCHEDULE, name="t")),
            ),
            [Cause.EMPTY, Cause.LATE_SCHEDULE],
            None,
        ),
        (replace(queue(messages=0, visible_messages=0), memory=(79, 100)), [Cause.EMPTY], None),
        (
            replace(queue(messages=0, visible_messages=0), memory=(80, 100)),
            [Cause.EMPTY, Cause.MEMORY],
            None,
        ),
    ],
)
def test_webhooks_schedules_and_the_memory_are_causes_of_a_queue(facts, causes, sentence):
    found = explain_queue(facts)

    assert [each.cause for each in found.causes] == causes
    assert sentence in {None, found.sentence}


def test_the_texts_of_schedules_and_of_the_memory_name_them():
    now = datetime.fromtimestamp(NOW / 1000 + 60, UTC)
    failed = replace(SCHEDULE, next_attempt_at=now, failures=3, failed_at=_AT)
    facts = replace(queue(), schedules=(SCHEDULE,), memory=(90, 100))

    assert [each.text for each in explain_queue(facts).causes[-2:]] == [
        "The schedule s is 90 s late: nothing runs schedules. It sends to queue q.",
        "Redis uses 90% of its memory; when it is full, sends are refused.",
    ]
    facts = replace(facts, schedules=(failed, SCHEDULE), memory=None)
    assert explain_queue(facts).causes[-1].text == (
        "The schedule s has failed 3 times. The schedule s is 90 s late: nothing runs schedules."
    )


def test_a_webhook_that_is_stopped_is_a_cause_of_its_messages():
    stopped = replace(queue(worker(), rates=(1, 0)), targets=(TARGET,))

    assert explain_message(message(stopped)).cause is Cause.WEBHOOK_STOPPED
    received = replace(queue(worker(), rates=(20, 80)), targets=(TARGET,))
    assert Cause.WEBHOOK_STOPPED not in {
        each.cause for each in explain_message(message(received)).causes
    }
