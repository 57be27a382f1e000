"""What is wrong: the rules without a server, and the facts that are read for them."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rsmq.explain import observe_queue
from rsmq.explain.alerts.alert import AlertKind
from rsmq.explain.alerts.facts import AlertFacts, HeldMessages, RemovedMessage
from rsmq.explain.alerts.record import AlertRecord, AlertTarget
from rsmq.explain.alerts.rules import find_alerts
from rsmq.explain.alerts.transitions import find_changes
from rsmq.figures.facts import QueueActivity, QueueBacklog, RepeatedReceives
from rsmq.history.call_records import TaskFigures
from rsmq.history.recorder import record_queues
from rsmq.history.records import HistoryRecord, make_history
from rsmq.operations.plain import plain_command
from rsmq.schedules.definition import StoredSchedule
from rsmq.trash import Deletion, DeletionKind, DeletionState
from rsmq.web.recoveries import Recoveries
from rsmq.web.removals import read_removals
from rsmq.web.walks import QueueWalks
from rsmq.webhooks.shared_breaker import PushTarget
from rsmq.wire.workers import WorkerInfo
from tests.web.pages_client import open_pages, read_page, run_action

_MINUTE = 30_000_000
_NOW = _MINUTE * 60_000
_CALM = AlertFacts(_NOW, recorded_minute=_MINUTE)


def _state(name="q", *, messages=0, waits=None, **values):
    since = None if waits is None else _NOW - waits * 1000
    messages = max(messages, int("repeated" in values))  # which is in flight
    state = QueueBacklog(name, messages, messages if waits is not None else 0, since)
    return replace(state, **values)


def _activity(*, sent=0, received=0, visible=0, recorded=60):
    """An hour in which each minute had the same numbers."""
    records = [
        HistoryRecord(at, at + 1, sent, received, visible, 0, 0, None)
        for at in range(_MINUTE - recorded, _MINUTE)
    ]
    hour = make_history(records, _MINUTE - 60, _MINUTE, 1)
    if not recorded:
        return QueueActivity(None, None, None, None, hour)
    return QueueActivity(sent / 60, received / 60, 0, 0, hour)


def _worker(name="w", *, alive=True, queues=None):
    return WorkerInfo(name, alive, _NOW, _NOW - 40_000, "host", 7, queues or {}, 0, 0)


def _facts(*states, **values):
    return replace(_CALM, states={each.name: each for each in states}, **values)


def _kinds(facts):
    return [(each.kind, each.subject) for each in find_alerts(facts)]


def test_nothing_is_wrong_with_queues_that_are_received_from():
    facts = _facts(
        _state(messages=50_000, waits=600), _state("idle"),
        activities={"q": _activity(sent=10, received=10)},
        workers=[_worker(queues={"q": 5}), _worker("gone", alive=False)],
        memory=(79, 100),
        targets=[PushTarget("q", "https://a", "closed", 2, None, "500")],
    )  # fmt: skip
    assert find_alerts(facts) == []


@pytest.mark.parametrize(
    ("waits", "activity", "listens", "is_wrong"),
    [
        (61, _activity(), False, True),
        (59, _activity(), False, False),
        (61, _activity(received=1), False, False),  # by a consumer of another language
        (61, _activity(), True, False),
        (301, _activity(), True, True),
        (299, _activity(recorded=0), False, False),
        (301, _activity(recorded=0), False, True),
        (301, _activity(recorded=0), True, False),
        (301, None, False, True),
    ],
)
def test_a_queue_whose_messages_nobody_receives_is_wrong(waits, activity, listens, is_wrong):
    facts = _facts(
        _state(messages=3, waits=waits),
        activities={} if activity is None else {"q": activity},
        workers=[_worker(queues={"q": 0})] if listens else [],
    )
    assert _kinds(facts) == [(AlertKind.NOT_RECEIVED, "q")] * is_wrong


@pytest.mark.parametrize(
    ("waits", "calls_of", "listens", "since", "last", "is_wrong"),
    [
        (61, "q", False, 0, 0, True),
        (59, "q", False, 0, 0, False),
        (61, "another", False, 0, 0, False),  # only slow consumers of other kinds are known
        (61, "q", True, 0, 0, False),
        (61, "q", False, 1, 0, False),
        (61, "q", False, 0, 1, False),
    ],
)
def test_a_queue_whose_workers_were_stopped_is_wrong_at_once(
    waits, calls_of, listens, since, last, is_wrong
):
    records = [
        HistoryRecord(at, at + 1, 5, 5 if at < _MINUTE - 1 else last, 3, 0, 0, None)
        for at in range(_MINUTE - 60, _MINUTE)
    ]
    hour = make_history(records, _MINUTE - 60, _MINUTE, 1)
    facts = _facts(
        _state(messages=39, waits=waits),
        activities={"q": QueueActivity(5 / 60, 5 / 60, 0, since, hour)},
        tasks=[
            TaskFigures(calls_of, "t", 0, 60, 60, 0, 0, 0, 0, 1.0, None, None, [1] * 60, [0] * 60)
        ],
        workers=[_worker("other", queues={"q": 0} if listens else {"another": 0})],
    )
    found = find_alerts(facts)
    assert [(each.kind, each.subject) for each in found] == (
        [(AlertKind.NOT_RECEIVED, "q")] * is_wrong
    )
    for each in found:
        assert each.text == "No live worker listens to q any more."
        assert each.evidence.startswith("39 messages visible, the first one for 61 s. Its workers")


def test_a_queue_grows_if_more_is_sent_than_received_and_more_is_visible():
    def kinds(now, **values):
        state = _state(messages=now, waits=5)
        return _kinds(_facts(state, activities={"q": _activity(**values)}))

    assert kinds(1000, sent=20, received=10) == [(AlertKind.GROWING, "q")]
    assert kinds(1000, sent=20, received=19.5) == []
    assert kinds(1000, sent=20, received=10, visible=950) == []
    assert kinds(1000, sent=6, received=2) == []


def test_the_minutes_of_a_pause_are_no_growth_and_no_idleness():
    def find(resumed, **values):
        state = _state(messages=1000, waits=600, resumed_ms=_NOW - resumed * 1000)
        workers = [_worker(queues={"q": 0})]
        return find_alerts(_facts(state, activities={"q": _activity(**values)}, workers=workers))

    assert find(5, sent=50, received=20) == find(180, sent=50, received=20) == []
    [alert] = find(300, sent=50, received=20)
    assert alert.evidence.startswith("In the last 4 minutes 200 messages sent and 80 received")
    assert find(299) == []
    [alert] = find(301)
    assert "the first one for 10 min. Nothing was received in the last 5 min" in alert.evidence


def test_a_burst_of_two_minutes_is_no_growth_and_growth_is_below_facts():
    activity = _activity(sent=10, received=10)
    hour = activity.hour

    def kinds(minutes):
        sent = [*hour.sent[:-minutes], *[900] * minutes]
        burst = replace(activity, hour=replace(hour, sent=sent))
        states = _state(messages=1000, waits=5), _state("p", messages=1, paused_ms=1.0)
        return _kinds(_facts(*states, activities={"q": burst}))

    assert kinds(2) == [(AlertKind.PAUSED, "p")]
    assert kinds(3) == [(AlertKind.PAUSED, "p"), (AlertKind.GROWING, "q")]


def test_dead_letters_are_wrong_while_they_are_new_and_wait_for_nobody():
    source, other = _state("q", dead_letter_queue="dead"), _state("p", dead_letter_queue="dead")
    dead = _state("dead", messages=9, waits=9000, fresh=2, fresh_since_ms=_NOW - 1000.5)
    [alert] = find_alerts(_facts(source, other, dead))
    assert (alert.kind, alert.subject) == (AlertKind.NEW_DEAD_LETTERS, "dead")
    assert alert.text == "2 new dead letters in dead within the last hour."
    assert alert.evidence == "9 dead letters in all. It is the dead-letter queue of p, q."
    assert alert.since_ms == _NOW - 1001
    assert find_alerts(_facts(source, other, replace(dead, fresh=0))) == []
    [alert] = find_alerts(_facts(replace(dead, has_reasons=True)))
    assert alert.evidence == (
        "9 dead letters in all. Workers have moved them there; no policy names this queue."
    )


def test_a_message_that_is_received_again_and_again_is_wrong_whether_its_worker_lives_or_not():
    again = _state("q", messages=1, vt=5, repeated=RepeatedReceives("m1", 4, 1, 1, 3))
    for alive in (True, False):
        facts = _facts(again, workers=[_worker(alive=alive, queues={"q": 0})])
        [alert] = find_alerts(facts)
        assert (alert.kind, alert.queue, alert.message) == (AlertKind.RECEIVED_AGAIN, "q", "m1")
        assert alert.text == "Message m1 of q was received 4 times and not deleted."
        assert alert.evidence.endswith("crashes the worker, delete it or move it to a "
        "dead-letter queue.")  # fmt: skip
    [alert] = find_alerts(_facts(again))
    assert alert.evidence.startswith(
        "3 receives ended without a delete or a recorded retry. A consumer may have released"
    )
    assert "longer than the visibility timeout of 5 s: make that longer" in alert.evidence
    assert find_alerts(_facts(again, _state("p", dead_letter_queue="q"))) == []


def test_of_messages_that_the_same_workers_had_the_one_with_most_lost_receives_is_the_suspect():
    def find(lost, *workers):
        return find_alerts(_facts(
            _state("orders", repeated=RepeatedReceives("o1", 5, 1, 1, lost)),
            _state("exports", repeated=RepeatedReceives("e1", 9, 1, 3, 2)),
            workers=workers,
        ))  # fmt: skip

    shop = _worker(queues={"orders": 1, "exports": 1})
    suspect, other = find(4, shop)
    assert (suspect.level, suspect.message, suspect.subject) == ("bad", "o1", "orders")
    assert suspect.evidence == (
        "4 receives ended without a delete or a recorded retry. If its handler crashes the worker, "
        "delete it or move it to a dead-letter queue."
    )
    assert (other.level, other.message) == ("warn", "e1")
    assert other.evidence == (
        "2 receives ended without a delete or a recorded retry. The same workers had message o1 of "
        "orders, of which 4 receives ended so. This one may only have been in flight beside it: "
        "look at the other one first."
    )
    both = find(2, shop)
    assert [each.level for each in both] == ["bad", "bad"]
    assert all("one of them may crash its worker" in each.evidence for each in both)
    apart = find(4, _worker("a", queues={"orders": 1}), _worker("b", queues={"exports": 1}))
    assert [each.level for each in apart] == ["bad", "bad"]
    assert not any("beside" in each.evidence for each in apart)


def test_of_messages_with_as_many_lost_receives_the_last_worker_that_died_had_the_suspect():
    queues = {"orders": 1, "exports": 1}
    alive = _dying("shop-2", 90, 60, queues=queues)
    dead = replace(_worker("shop-1", alive=False, queues=queues), seen_ms=_NOW - 9000)
    older = replace(_worker("shop-3", alive=False, queues=queues), seen_ms=_NOW - 99_000)
    states = (
        _state("orders", repeated=RepeatedReceives("o1", 4, 1, 1, 3)),
        _state("exports", repeated=RepeatedReceives("e1", 4, 1, 1, 3)),
    )

    def find(*ids):
        held = {
            "shop-1": HeldMessages({"orders": 1}, _NOW, frozenset(ids)),
            "shop-3": HeldMessages({"exports": 1}, _NOW, frozenset({("exports", "e1")})),
        }
        found = find_alerts(_facts(*states, workers=[alive, dead, older], held=held))
        again = [each for each in found if each.kind is AlertKind.RECEIVED_AGAIN]
        return found[0], [(each.subject, each.level) for each in again]

    loop, again = find(("orders", "o1"), ("other", "e1"))
    assert (loop.message, loop.queue) == ("o1", "orders")
    assert "3 receives of it ended without a delete, and the last worker that died" in loop.evidence
    assert again == [("exports", "warn")]  # the suspect is named once
    for ids in ((), (("orders", "o1"), ("exports", "e1"))):
        loop, again = find(*ids)
        assert loop.message is None
        assert "One of the messages" in loop.evidence
        assert again == [("exports", "bad"), ("orders", "bad")]


def _dying(name, *deaths, queues, alive=True):
    """Return a worker whose predecessors died so many seconds ago."""
    died = tuple(_NOW - each * 1000 for each in deaths)
    return replace(_worker(name, alive=alive, queues=queues), deaths=died)


def test_workers_that_die_again_and_again_are_wrong_also_while_all_are_alive():
    queues = {"orders": 0, "exports": 0}
    shops = [_dying("shop-1", 90, 30, queues=queues), _dying("shop-2", 70, queues=queues)]
    states = (
        _state("orders", repeated=RepeatedReceives("o1", 4, 1, 1, 3)),
        _state("exports", repeated=RepeatedReceives("e1", 3, 1, 1, 2)),
        _state("other", repeated=RepeatedReceives("x1", 9, 1, 1, 8)),
    )
    loop = find_alerts(_facts(*states, workers=shops))[0]
    assert (loop.kind, loop.level, loop.since_ms) == (AlertKind.CRASH_LOOP, "bad", _NOW - 90_000)
    assert loop.text == "Workers shop-1, shop-2 died 3 times in 60 s."
    assert (loop.queue, loop.message) == ("orders", "o1")
    assert loop.evidence.startswith(
        "The last death was 30 s ago. The suspect is message o1 of orders: 3 receives of it ended "
    )
    quiet = [_dying("shop-1", 500, 400, queues=queues)]
    assert find_alerts(_facts(*states, workers=quiet))[0].level == "bad"  # its lease is long
    assert find_alerts(_facts(workers=quiet))[0].level == "warn"
    [loop] = find_alerts(_facts(workers=shops))
    assert (loop.message, loop.queue) == (None, None)
    assert "No message is in flight now that several of these workers had" in loop.evidence
    even = replace(states[1], repeated=RepeatedReceives("e1", 4, 1, 1, 3, _NOW - 130_000))
    loop = find_alerts(_facts(states[0], even, workers=shops))[0]
    assert (loop.message, loop.queue) == (None, None)
    assert (
        "One of the messages e1 of exports (first received 40 s before the first death) and o1 of "
        "orders may crash them: 3 receives of each ended without a delete."
    ) in loop.evidence


def _moved(id="o1", *, ago, to="orders-dead", lost=3, by="kim", queue="orders"):
    return RemovedMessage(queue, id, by, _NOW - ago * 1000, to, lost)


def test_a_suspect_that_was_moved_or_deleted_is_still_named():
    shops = [_dying("shop-1", 90, 30, queues={"orders": 0, "exports": 0})]
    beside = _state("exports", repeated=RepeatedReceives("e1", 3, 1, 1, 2))
    in_flight = _state("orders", repeated=RepeatedReceives("o2", 5, 1, 1, 4))

    def find(*removed, states=()):
        loop = find_alerts(_facts(*states, workers=shops, removed=removed))[0]
        return loop.level, loop.queue, loop.message, loop.evidence.partition(" ago. ")[2]

    named = (
        "The suspect was message o1 of orders, of which 3 receives ended without a delete: at "
        "07:59:40 UTC kim moved it to orders-dead. No worker has died since."
    )
    over = ("warn", "orders-dead", "o1", named)
    ran_once = _moved("o3", ago=5, lost=1)
    assert find(_moved(ago=20)) == find(ran_once, _moved(ago=20)) == over
    assert find(_moved(ago=20), states=[beside]) == over
    level, queue, message, text = find(_moved(ago=40, by=None))  # before the last death
    assert (level, queue, message) == ("bad", "orders-dead", "o1")
    assert text.endswith(
        "07:59:20 UTC a caller moved it to orders-dead. A worker has died since: look at the logs "
        "of the workers too."
    )
    assert find(_moved(ago=20, to=None, lost=0)) == ("warn", None, None, (
        "The suspect may have been message o1 of orders: at 07:59:40 UTC kim deleted it. No worker "
        "has died since."
    ))  # fmt: skip
    assert find(_moved(ago=20), states=[in_flight])[2] == "o2"
    assert find(_moved(ago=40), states=[beside])[2] == "e1"
    unrelated = _moved(ago=20, queue="other")
    assert find(unrelated)[3] == find(ran_once)[3] == find()[3]


async def test_the_messages_that_were_moved_or_deleted_are_those_of_the_audit(http, queues):
    for name in ("orders", "dead", "hidden"):
        await queues.create_queue(name, vt=600)
    await queues.send_messages("orders", ["a"] * 4)
    for _ in range(2):
        await queues.release_messages(await queues.receive_messages("orders", 4))
    ids = [each.id for each in await queues.receive_messages("orders", 4)]
    for act, body in (
        ("move", {"ids": ids[:1], "destination": "dead"}),
        ("move", {"ids": ids[1:2], "destination": "hidden"}),
        ("move", {"ids": ["none"], "destination": "dead"}),
        ("move", {"ids": ids[2:3], "destination": "gone"}),
        ("delete", {"ids": ids[2:3]}),
        ("visibility", {"ids": ids[3:], "vt": 9}),
    ):
        await http("POST", f"/queues/orders/messages:{act}", body)
    await http("DELETE", f"/queues/orders/messages/{ids[3]}")
    found = await read_removals(queues, lambda name: name != "hidden", 0)
    shown = [(each.id, each.queue, each.destination, each.lost) for each in found]
    assert shown == [
        (ids[3], "orders", None, 0), (ids[2], "orders", None, 0), (ids[0], "orders", "dead", 3),
    ]  # fmt: skip
    assert {each.by for each in found} == {None}
    assert await read_removals(queues, lambda _: True, found[0].at_ms + 1000) == []


@pytest.mark.parametrize("done", ["2", "11"])
async def test_many_messages_that_were_deleted_together_are_not_accused(done, queues):
    facts = {
        "call": "POST /queues/{queue}/messages:delete", "queue": "q", "user": "kim",
        "phase": "end", "outcome": "200", "ids": "m1,m2", "done": done,
    }  # fmt: skip
    words = [each for pair in facts.items() for each in pair]
    await queues.run(plain_command("XADD", queues.namespace.audit, "*", *words))
    found = await read_removals(queues, lambda _: True, 0)
    assert [each.id for each in found] == (["m1", "m2"] if done == "2" else [])


@pytest.mark.parametrize(
    ("deaths", "alive", "level"),
    [
        ([30], True, None),
        ([30], False, "bad"),  # it has died again, 40 s ago
        ([601, 30], True, None),
        ([600, 121], True, "warn"),
    ],
)
def test_two_deaths_of_a_worker_in_ten_minutes_are_a_crash_loop(deaths, alive, level):
    found = find_alerts(_facts(workers=[_dying("w", *deaths, queues={}, alive=alive)]))
    assert [each.level for each in found] == [level] * (level is not None)


def test_many_messages_that_are_received_again_are_the_fault_of_their_visibility_timeout():
    def find(repeated, received, workers=(), id=None):
        repeats = RepeatedReceives(id, 4 if id else 0, repeated, received, 3 if id else 0)
        return find_alerts(_facts(_state(vt=5, repeated=repeats), workers=workers))

    [alert] = find(5, 10)
    assert (alert.kind, alert.message) == (AlertKind.RECEIVED_AGAIN, None)
    # Two receives are no proof: a consumer may have released the messages.
    assert (alert.level, find(5, 10, id="m1")[0].level) == ("warn", "bad")
    # Receives of before a change may be over.
    for changed, vt, first, level in (
        (12, 5, 20, "warn"), (61, 5, 99, "bad"), (61, 45, 99, "warn"), (30, 5, 20, "bad"),
    ):  # fmt: skip
        repeats = RepeatedReceives("m1", 4, 5, 10, 3, 0, _NOW - first * 1000)
        modified = datetime.fromtimestamp(_NOW / 1000 - changed, UTC)
        [alert] = find_alerts(_facts(_state(vt=vt, repeated=repeats, modified=modified)))
        assert alert.level == level
        assert ("and may be over: look again at" in alert.evidence) == (level == "warn")
    # They are one, if messages become dead letters of it.
    repeats = RepeatedReceives(None, 0, 5, 10, 0)
    state = _state(vt=5, repeated=repeats, dead_letter_queue="dead")
    for fresh, level in ((0, "warn"), (3, "bad")):
        found = find_alerts(_facts(state, _state("dead", messages=9, fresh=fresh)))
        assert found[0].level == level
    assert alert.text == "Messages of q are received again before they are deleted."
    assert alert.evidence.startswith("5 of the next 10 in flight were received before. A ")
    assert find(4, 10) == find(2, 2) == find(5, 10, [_worker(queues={"q": 5})]) == []


def test_a_paused_queue_is_wrong_if_it_has_messages():
    paused = _state(messages=4, waits=900, paused_ms=_NOW - 5)
    [alert] = find_alerts(_facts(paused))
    assert (alert.kind, alert.level, alert.since_ms) == (AlertKind.PAUSED, "warn", _NOW - 5)
    assert find_alerts(_facts(replace(paused, messages=0, visible=0, visible_since_ms=None))) == []


def test_a_dead_worker_is_wrong_while_it_has_messages_in_flight():
    workers = [_worker(alive=False, queues={"q": 3})]
    held = {"w": HeldMessages({"q": 2, "p": 1}, _NOW + 20_000)}
    [alert] = find_alerts(replace(_CALM, workers=workers, held=held))
    assert alert.text == "Worker w died with 3 messages in flight."
    assert alert.evidence.startswith("p: 1, q: 2. They are visible again within 20 s. ")
    assert find_alerts(replace(_CALM, workers=workers)) == []
    held = {"w": HeldMessages({"q": 1}, _NOW + 20_000)}
    [alert] = find_alerts(replace(_CALM, workers=workers, held=held))
    assert alert.evidence.startswith(
        "q: 1. It is visible again within 20 s. The worker ran on host"
    )


def test_a_worker_that_was_not_started_again_is_a_note():
    queues = {"orders": 0}

    def find(*others, ago=61, held=()):
        dead = replace(_worker("shop-2", alive=False, queues=queues), seen_ms=_NOW - ago * 1000)
        found = find_alerts(replace(
            _CALM, workers=[dead, *others], held={each: HeldMessages({"q": 1}, 0) for each in held}
        ))  # fmt: skip
        return [each for each in found if each.kind is AlertKind.NOT_RESTARTED]

    def started(ago, *deaths, **values):
        shop = _dying("shop-1", *deaths, queues=values.get("queues", queues))
        return replace(shop, since_ms=_NOW - ago * 1000)

    [alert] = find()
    assert (alert.level, alert.subject, alert.queue) == ("note", "shop-2", None)
    assert alert.text == (
        "Worker shop-2 has been dead since 07:58:59 UTC and was not started again."
    )
    assert alert.evidence.startswith("It ran on host, process 7. Start it again unless")
    assert find(ago=59) == find(held=["shop-2"]) == []
    # In place of it a worker of another name was started, as by a service manager of containers.
    assert find(started(60)) == []
    for other in (started(62), started(60, queues={"other": 0}), started(50, 55)):
        assert len(find(other)) == 1
    older = replace(_worker("shop-3", alive=False, queues=queues), seen_ms=_NOW - 300_000)
    assert [each.subject for each in find(older, started(60))] == ["shop-3"]


def test_a_large_purge_is_a_note_while_it_can_be_undone():
    purge = Deletion("1", DeletionKind.PURGE, "q", "ann", 101, _NOW - 60_000)

    def find(**values):
        return find_alerts(_facts(_state(), deletions=[replace(purge, **values)]))

    [alert] = find()
    assert (alert.kind, alert.level, alert.queue) == (AlertKind.PURGED, "note", "q")
    assert alert.text == "101 messages of q were purged."
    assert re.fullmatch(r"It can be undone for another 9 min[^;.]*\.", alert.evidence)
    for values in (
        {"messages": 100}, {"deleted_ms": _NOW - 600_000}, {"state": DeletionState.UNDONE},
        {"kind": DeletionKind.DELETE_MESSAGES}, {"queue": "deleted"},
    ):  # fmt: skip
        assert find(**values) == []


def _schedule(**values):
    stored = StoredSchedule("s", None, None, None, None, None, None, None, None, None, 0)
    return replace(stored, **values)


def test_schedules_webhooks_memory_and_missing_records_are_wrong():
    at = datetime.fromtimestamp(_NOW / 1000 - 61, UTC)
    assert _kinds(replace(_CALM, schedules=[_schedule(next_attempt_at=at)])) == [
        (AlertKind.LATE_SCHEDULE, "s")
    ]
    assert _kinds(replace(_CALM, schedules=[_schedule(next_attempt_at=at, paused_at=at)])) == []
    target = PushTarget("q", "https://a", "open", 0, _NOW + 30_000, "503")
    [alert] = find_alerts(replace(_CALM, targets=[target]))
    assert alert.kind is AlertKind.WEBHOOK_STOPPED
    assert alert.evidence.endswith("its last answer was 503. It is tried again in 30 s.")
    levels = [find_alerts(replace(_CALM, memory=(used, 100)))[0].level for used in (80, 95)]
    assert levels == ["warn", "bad"]
    for minute, number in ((None, 1), (_MINUTE - 5, 1), (_MINUTE - 4, 0), (0, 0)):
        assert len(find_alerts(_facts(_state(), recorded_minute=minute))) == number


def test_tasks_of_one_name_in_two_queues_are_two_alerts_with_two_silences():
    calls, failed = [100] * 60, [1] * 56 + [30] * 4

    def task(queue, name):
        sums = (sum(calls), sum(failed), 0, 0, 0, 100.0)
        return TaskFigures(queue, name, _NOW - 3_600_000, 60, *sums, None, None, calls, failed)

    facts = _facts(tasks=[task("a", "charge"), task("b", "charge"), task("c", "")])
    subjects = ["a/charge", "b/charge", "c"]
    assert _kinds(facts) == [(AlertKind.FAILING, each) for each in subjects]
    record = AlertRecord(_NOW, targets={"ops": AlertTarget("http://x", "webhook", None, 1)})
    opened = [field for field, _, _ in find_changes(record, find_alerts(facts))]
    assert [each for each in opened if each.startswith("alert:")] == [
        f"alert:failing:{each}" for each in subjects
    ]


def test_the_worst_is_first_and_alerts_of_a_kind_keep_their_places():
    def kinds(number):
        """Return the alerts while a has more and more messages."""
        return _kinds(_facts(
            _state("a", messages=number, paused_ms=2.0), _state("e", messages=9, paused_ms=2.0),
            _state("b", messages=9, paused_ms=1.0),
            _state("c", messages=number, waits=400), _state("d", messages=7, waits=500),
            memory=(99, 100),
        ))  # fmt: skip

    assert kinds(5) == kinds(500) == [
        (AlertKind.MEMORY, ""), (AlertKind.NOT_RECEIVED, "d"), (AlertKind.NOT_RECEIVED, "c"),
        (AlertKind.PAUSED, "b"), (AlertKind.PAUSED, "a"), (AlertKind.PAUSED, "e"),
    ]  # fmt: skip


def _figure(page, name):
    """Return the value of a figure of a page."""
    [value] = re.findall(rf'>{name}</div>\s*<div class="value">([^<]*)', page)
    return value.strip()


def _recovered(recoveries):
    return [(each.alert.subject, each.ended_ms, each.waited) for each in recoveries]


def test_an_alert_that_has_ended_is_known_for_ten_minutes_unless_it_comes_again():
    recoveries, paused = Recoveries(), _state("a", messages=9, waits=1, paused_ms=1.0)

    def look(seconds, *states):
        facts = replace(_facts(*states), now_ms=_NOW + seconds * 1000)
        recoveries.look(find_alerts(facts), facts)
        return _recovered(recoveries)

    assert look(0, paused) == []
    ended = [("a", _NOW + 10_000, 9)]
    assert look(10, _state("a", messages=4)) == ended
    assert look(20, paused) == []
    assert look(30) == [("a", _NOW + 30_000, 9)]
    for minute in range(1, 11):
        assert look(30 + 59 * minute)
    assert look(30 + 600) == []
    # Nobody has looked for more than a minute: it is not known since when it is over.
    assert (look(700, paused), look(761, _state("a"))) == ([], [])


async def test_the_overview_says_what_is_over_and_how_many_messages_wait_still(http, queues):
    for name in ("q", "hidden"):
        await queues.create_queue(name)
        await queues.send_messages(name, ["x"] * 5)
        await queues.pause_queue(name)
    open_pages(http)
    assert "Over since" not in await read_page(http, "/")
    await queues.receive_messages("q", 2, vt=600)
    assert (await run_action(http, "resume", queue="q")).status == 303
    page = re.sub(r"<[^>]*>", "", await read_page(http, "/"))
    assert re.search(r"Over since [0-9:]{8}: q is paused, with 5 messages\.", page)
    assert "5 messages waited then, 3 now." in page
    await queues.delete_queue("q")
    await run_action(http, "resume", queue="hidden")
    assert "q is paused" not in await read_page(http, "/")


async def test_alerts_are_listed_and_shown_with_links_to_what_repairs_them(http, queues):
    for name in ("q", "dead", "p"):
        await queues.create_queue(name)
    await queues.set_dead_letter_policy("q", "dead", 3)
    await queues.send_message("dead", "a")
    await queues.send_message("p", "a")
    await queues.pause_queue("p")
    id = await queues.send_message("q", "a")
    old = str(int((await queues.get_message("q", id)).sent_ms) - 600_000)
    await queues.run(plain_command("ZADD", queues.namespace.queue("q").zset, old, id))
    found = (await http("GET", "/alerts")).json
    assert (found["queues"], found["visible"], found["dead_letters"]) == (3, 2, 1)
    assert [(each["kind"], each["queue"]) for each in found["alerts"]] == [
        ("not-received", "q"), ("new-dead-letters", "dead"), ("paused", "p"),
        ("not-recorded", None),
    ]  # fmt: skip
    http.prefix, http.headers = "", {"accept": "text/html"}
    page = (await http("GET", "/")).content.decode()
    assert "No consumer receives from q." in page
    assert _figure(page, "visible") == "2"
    assert _figure(page, "dead letter") == "1"
    assert '<a href="/dead-letters/dead">dead</a>' in page
    assert '<a href="/queues/p">p</a>' in page


async def test_a_message_is_shown_that_was_received_and_neither_deleted_nor_retried(http, queues):
    async def receive(qname, number):
        for each in range(number):
            message = await queues.receive_message(qname)
            if each < number - 1:
                await queues.change_message_visibility(qname, message.id, 0)
        return message.id

    for name in ("q", "twice", "failed", "put-off"):
        await queues.create_queue(name, vt=600)
        await queues.send_message(name, "a")
    id = await receive("q", 3)
    await receive("twice", 2)
    for name, record in (("failed", "2:E: x"), ("put-off", "1")):
        other, keys = await receive(name, 3), queues.namespace.queue(name)
        created = await queues.run(plain_command("HGET", keys.hash, "created"))
        key = keys.retrying if name == "failed" else keys.unbegun
        await queues.run(plain_command("HSET", key, "", created, other, record))
    found = (await http("GET", "/alerts")).json["alerts"]
    again = [each for each in found if each["kind"] == "received-again"]
    assert [(each["queue"], each["message"]) for each in again] == [("q", id)]
    first_ms = (await queues.get_message("q", id)).first_received_ms
    expected = RepeatedReceives(id, 3, 1, 1, 2, first_ms, first_ms)
    assert (await observe_queue(queues, "q")).repeated == expected
    assert (await QueueWalks(queues).states(["q"]))[0]["q"].repeated == expected
    # It is not read if the attributes were changed long ago: two timeouts of 600 s.
    changed = plain_command("HINCRBY", queues.namespace.queue("q").hash, "modified", "-1300")
    await queues.run(changed)
    expected = replace(expected, last_first_received_ms=None)
    assert (await observe_queue(queues, "q")).repeated == expected
    assert (await QueueWalks(queues).states(["q"]))[0]["q"].repeated == expected
    why = (await http("GET", "/queues/q/why")).json
    assert (why["cause"], why["causes"][1]["cause"]) == ("received-again", "all-hidden")
    why = (await http("GET", f"/queues/q/messages/{id}/why")).json
    assert [each["cause"] for each in why["causes"]] == [
        "in-flight", "received-again"
    ]  # fmt: skip
    http.prefix, http.headers = "", {"accept": "text/html"}
    page = (await http("GET", "/")).content.decode()
    assert f'<a href="/queues/q/messages/{id}">Message of q</a>' in page


async def test_rates_are_those_of_the_last_minute_and_of_the_time_since(http, queues):
    await queues.create_queue("q")
    now = int(datetime.now(UTC).timestamp()) // 60
    await record_queues(queues, now - 1)
    await queues.send_messages("q", ["a"] * 60)
    await record_queues(queues, now)
    await queues.pop_message("q")
    await queues.create_queue("unrecorded")
    shown = (await http("GET", "/queues?activity=true")).json["queues"]
    of_q, of_other = (each["activity"] for each in shown)
    assert 0.3 <= of_q["sent_per_second"] <= 1
    assert 0 < of_q["received_per_second"] < 0.1
    assert of_q["waiting_seconds"] >= 0
    assert of_q["dead_letters"] is None
    assert 60 in of_q["visible_last_hour"]
    assert of_other["sent_per_second"] is None
    assert of_other["waiting_seconds"] is None


async def test_the_alert_of_a_purge_leads_to_the_activity_that_says_by_whom(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a"] * 101)
    await queues.trash.purge_queue("q", by="ann")
    http.prefix, http.headers = "", {"accept": "text/html"}
    page = (await http("GET", "/")).content.decode()
    assert '<span class="act"><a href="/activity">Undo of q</a></span>' in page
    assert "<td>ann</td>" in (await http("GET", "/activity")).content.decode()
