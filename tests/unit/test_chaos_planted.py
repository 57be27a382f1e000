"""The checker of scripts/chaos finds faults of features that are planted, and no others."""

from __future__ import annotations

import json

import pytest

from scripts.chaos_checker.violation import KINDS
from tests.chaos_histories import Story
from tests.unit.test_chaos_checker import BREAKS

#: Seconds since 1970 of the zero of a story's clock, and of a tick at 100 seconds of it.
EPOCH = 1_800_000_000
TICK = EPOCH + 100


def tick(second, name="beat"):
    """Return the body of the message of a tick."""
    return json.dumps({"schedule": name, "tick": f"2027-01-15T08:01:{second:02}Z"})


def flow(story, *, parents=("a",), seen=()):
    """Let ``child`` follow messages that are handled from 10 s on, and be handled itself."""
    story.follow("body of child", *(f"body of {each}" for each in parents))
    for number, each in enumerate(parents):
        story.send(1 + number, each)
        story.handle(10 + number, each)
    for at in seen:
        story.handle(at, "child")


def group(story):
    """Send two messages to a group."""
    story.send(1, "a", group="g")
    story.send(2, "b", group="g")


def limited(story, number, may=2):
    """Send messages of a limit key."""
    for at, id in enumerate("abcdef"[:number]):
        story.send(1 + at / 2, id, limit_key="k", max_running=may)


def unique(story, at, id, body=None):
    """Send a message with a unique key."""
    story.send(at, id, body=body, unique_key="k")


def beats(story, *seconds):
    """Let messages of ticks be handled in the first tenth of their second."""
    story.schedule("beat", 1, TICK - 40, TICK - 36)
    for second in seconds:
        story.handle(60 + second + 0.01, f"beat-{second}", body=tick(second))


#: Each history has one fault: its kind, the message that is named, and what happens.
PLANTED = {
    # A message is handled well twice, without any fault.
    "a worker handles a message twice": (
        "handled twice", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a", 1), s.handle(20, "a", 2))),
    "two calls of one message run at the same time": (
        "handled twice", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a", 1), s.handle(10.05, "a", 2))),
    "a client receives a message after a worker has handled it": (
        "handled twice", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a", 1), s.receive(20, "a", 2),
                   s.delete(21, "a", 2))),
    "a handled message is handled again, and that call fails": (
        "handled twice", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a", 1), s.handle_and_raise(20, "a", 2),
                   s.handle(30, "a", 3))),
    "a message is handled twice, and the only fault came long before": (
        "handled twice", "a",
        lambda s: (s.fault("cut", 2, 3), s.send(20, "a"), s.handle(30, "a", 1),
                   s.handle(40, "a", 2))),
    "a message is handled twice, and the only fault came long after the first call": (
        "handled twice", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a", 1), s.fault("cut", 50, 51),
                   s.handle(60, "a", 2))),
    "a message is handled twice, and the fault is that of another client": (
        "handled twice", "a",
        lambda s: (s.send(1, "a"), s.fault("kill", 10, 10.1, client="other"),
                   s.handle(10, "a", 1), s.handle(20, "a", 2))),
    "a message is handled twice when scripts are flushed": (
        "handled twice", "a",
        lambda s: (s.send(1, "a"), s.fault("flush", 10, 10.1), s.handle(10, "a", 1),
                   s.handle(20, "a", 2))),
    # A message is handled well, and never deleted.
    "a handled message is left": (
        "not deleted", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a", 1), s.left("a", 1))),
    "a message is handled at its second attempt, and left": (
        "not deleted", "a",
        lambda s: (s.send(1, "a"), s.handle_and_raise(10, "a", 1), s.handle(20, "a", 2),
                   s.left("a", 2))),
    "a handled message of a system without counts is left": (
        "not deleted", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a", None), s.left_without_body("a"))),
    "a handled message is left, and another client was killed": (
        "not deleted", "a",
        lambda s: (s.send(1, "a"), s.fault("kill", 10, 10.1, client="other"),
                   s.handle(10, "a", 1), s.left("a", 1))),
    # A message is lost, and calls with old receipts are no excuse.
    "a message is lost, and the outcome of a delete with an old receipt is unknown": (
        "lost", "a",
        lambda s: (s.send(1, "a"), s.receive(10, "a", 1), s.receive(30, "a", 2),
                   s.delete(31, "a", 1, outcome="unknown"))),
    "a message is lost after a delete of unknown outcome, which has not removed it": (
        "lost", "a",
        lambda s: (s.send(1, "a"), s.receive(10, "a", 1), s.delete(11, "a", 1, outcome="unknown"),
                   s.receive(30, "a", 2))),
    "a message is lost, and the client of a delete with an old receipt was killed": (
        "lost", "a",
        lambda s: (s.send(1, "a"), s.receive(10, "a", 1), s.receive(30, "a", 2),
                   s.call("delete", 31, None, id="a", count=1))),
    "a message is lost, and a handler call with an old receipt has returned": (
        "lost", "a",
        lambda s: (s.send(1, "a"), s.fault("freeze", 10, 12, client="c"), s.handle(10, "a", 1),
                   s.receive(30, "a", 2))),
    "a message whose send has no answer is received, and lost": (
        "lost", "a",
        lambda s: (s.send(1, None, body="body of a", outcome="unknown"), s.receive(10, "a", 1))),
    "a message that is far from its expiry is lost": (
        "lost", "a", lambda s: s.send(1, "a", expires=5000)),
    "a delete with an old receipt says that it is done, and no other may have deleted": (
        "stale delete", "a",
        lambda s: (s.send(1, "a"), s.receive(10, "a", 1, vt=1), s.receive(12, "a", 2),
                   s.delete(13, "a", 2, done=False, outcome="ok"), s.fault("cut", 14, 14.1),
                   s.delete(14, "a", 1))),
    "a worker handles a message that was deleted before it was received": (
        "undeleted", "a",
        lambda s: (s.send(1, "a"), s.receive(10, "a", 1), s.delete(11, "a", 1),
                   s.handle(20, "a", 2))),
    # A message is left, though consumers look for one.
    "an abandoned message is never delivered again": (
        "stuck", "a",
        lambda s: (s.send(1, "a"), s.receive(10, "a", 1), s.receive_nothing(200), s.left("a", 1))),
    "a message of a group waits for none, and is left": (
        "stuck", "b",
        lambda s: (group(s), s.receive(10, "a"), s.delete(11, "a"), s.receive_nothing(200),
                   s.left("b"))),
    "a message of a limit key that has room is left": (
        "stuck", "b",
        lambda s: (limited(s, 2, may=1), s.receive(10, "a"), s.delete(11, "a"),
                   s.receive_nothing(200), s.left("b"))),
    "a message whose handler failed is left": (
        "stuck", "a",
        lambda s: (s.send(1, "a"), s.handle_and_raise(10, "a", 1), s.receive_nothing(200),
                   s.left("a", 1))),
    # Groups.
    "two messages of a group are received at a time": (
        "group order", "b",
        lambda s: (group(s), s.receive(10, "a"), s.receive(11, "b"), s.delete(12, "a"),
                   s.delete(13, "b"))),
    "the second message of a group comes first": (
        "group order", "b",
        lambda s: (group(s), s.receive(10, "b"), s.delete(11, "b"), s.receive(12, "a"),
                   s.delete(13, "a"))),
    "a message of a group is received while the one before waits for a retry": (
        "group order", "b",
        lambda s: (group(s), s.handle_and_raise(10, "a", 1), s.handle(12, "b"),
                   s.handle(14, "a", 2))),
    "a message of a group is handled while the handler of the one before runs": (
        "group order", "b",
        lambda s: (group(s), s.call("handle", 10, {}, seconds=3, id="a", body="body of a", count=1),
                   s.handle(11, "b"))),
    "a message of a group is received, and the one before is left": (
        "group order", "b",
        lambda s: (group(s), s.receive(10, "b"), s.delete(11, "b"), s.left("a"))),
    # Limit keys.
    "three messages of a limit key run, and two may": (
        "over limit", "c",
        lambda s: (limited(s, 3), s.receive(10, "a"), s.receive(11, "b"), s.receive(12, "c"),
                   s.delete(13, "a"), s.delete(14, "b"), s.delete(15, "c"))),
    "a message of a limit key is handled while one waits for a retry": (
        "over limit", "b",
        lambda s: (limited(s, 2, may=1), s.handle_and_raise(10, "a", 1), s.handle(12, "b"),
                   s.handle(14, "a", 2))),
    "a message of a limit key is received while an abandoned one is in the queue": (
        "over limit", "b",
        lambda s: (limited(s, 2, may=1), s.receive(10, "a"), s.receive(12, "b"), s.delete(13, "b"),
                   s.left("a", 1))),
    # Unique keys.
    "a send adds a message, though one with its unique key waits": (
        "unique twice", "b",
        lambda s: (unique(s, 1, "a"), unique(s, 2, "b"), s.receive(10, "a"), s.delete(11, "a"),
                   s.receive(12, "b"), s.delete(13, "b"))),
    "a send adds a message, though one with its unique key is in flight": (
        "unique twice", "b",
        lambda s: (unique(s, 1, "a"), s.receive(2, "a"), unique(s, 3, "b"), s.delete(4, "a"),
                   s.receive(5, "b"), s.delete(6, "b"))),
    "a send adds a message, though one with its unique key is left": (
        "unique twice", "b",
        lambda s: (unique(s, 1, "a"), unique(s, 2, "b"), s.left("a"), s.left("b"))),
    "a send adds nothing, because of a message that was deleted": (
        "unique gone", "a",
        lambda s: (unique(s, 1, "a"), s.receive(2, "a"), s.delete(3, "a"),
                   unique(s, 4, "a", "another"))),
    "a send adds nothing, because of a message that a worker has handled long ago": (
        "unique gone", "a",
        lambda s: (unique(s, 1, "a"), s.handle(2, "a"), unique(s, 40, "a", "another"))),
    "a message has the body of a send with another unique key": (
        "changed body", "a",
        lambda s: (unique(s, 1, "a"), s.send(1.5, None, "other", "unknown", unique_key="l"),
                   s.receive(2, "a", body="other"), s.delete(3, "a"))),
    "sends with different unique keys return one id": (
        "one id twice", "a",
        lambda s: (unique(s, 1, "a", "one"), s.send(2, "a", body="two", unique_key="l"),
                   s.left("a", body="one"))),
    # Expiry.
    "a message is received after its expiry": (
        "expired", "a",
        lambda s: (s.send(1, "a", expires=5), s.receive(10, "a"), s.delete(11, "a"))),
    "a receive finds no message while one is visible that expires later": (
        "missed", "a",
        lambda s: (s.send(1, "a", expires=50), s.receive_nothing(10), s.receive(20, "a"),
                   s.delete(21, "a"))),
    # Flows of tasks.
    "the next task of a chain is never sent": (
        "follower lost", "body of child", flow),
    "the next task of a chain is sent twice": (
        "follower twice", "child, child-2",
        lambda s: (flow(s, seen=[20]), s.handle(21, "child-2", body="body of child"))),
    "the next task of a chain is handled before the first has returned": (
        "follower early", "body of child", lambda s: flow(s, seen=[10.05])),
    "the last task of a map is handled before all items": (
        "follower early", "body of child", lambda s: flow(s, parents="abc", seen=[11.5])),
    "the last task of a map is handled, and an item never is": (
        "follower early", "body of child",
        lambda s: (s.follow("body of child", "body of a", "body of b"), s.send(1, "a"),
                   s.send(2, "b"), s.handle(10, "a"), s.handle(12, "child"), s.left("b"))),
    "the last task of a map is never sent": (
        "follower lost", "body of child", lambda s: flow(s, parents="abc")),
    "the next task of a chain is received, and lost": (
        "lost", "child", lambda s: (flow(s), s.handle_and_raise(20, "child"))),
    # Schedules.
    "a tick sends no message": (
        "tick lost", f"beat {TICK - 38}.0", lambda s: beats(s, 0, 1, 3, 4)),
    "the last tick sends no message": (
        "tick lost", f"beat {TICK - 36}.0", lambda s: beats(s, 0, 1, 2, 3)),
    "a tick sends two messages": (
        "tick twice", f"beat {TICK - 38}.0",
        lambda s: (beats(s, 0, 1, 2, 3, 4), s.handle(70, "more", body=tick(2)))),
    "the message of a tick is received before the tick": (
        "tick early", f"beat {TICK - 35}.0",
        lambda s: (beats(s, 0, 1, 2, 3, 4), s.handle(64.5, "beat-5", body=tick(5)))),
    "the message of a tick is lost": (
        "lost", "beat-5",
        lambda s: (beats(s, 0, 1, 2, 3, 4), s.receive(65.1, "beat-5", body=tick(5)))),
    "a message has the name of a schedule that does not exist": (
        "phantom", "x",
        lambda s: (beats(s, 0, 1, 2, 3, 4), s.handle(70, "x", body=tick(2, "other")))),
    # Jobs.
    "a job has succeeded before its handler has returned": (
        "job false", "a",
        lambda s: (s.send(1, "a"), s.job(5, "a", "succeeded"), s.handle(10, "a"))),
    "a job has failed, though its handler has returned": (
        "job false", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a"), s.job(15, "a", "failed"))),
    "a job has expired, though its message is left": (
        "job false", "a", lambda s: (s.send(1, "a"), s.job(15, "a", "expired"), s.left("a"))),
    "a job has the result of another one": (
        "job result", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a", result="right"),
                   s.job(15, "a", "succeeded", "wrong"))),
    "a job has ended, and runs": (
        "job undone", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a"), s.job(15, "a", "succeeded"),
                   s.job(16, "a", "running"))),
    "a job is open at the end, though its handler has returned": (
        "job open", "a",
        lambda s: (s.send(1, "a"), s.handle(10, "a"), s.job(500, "a", "running", final=True))),
}  # fmt: skip

#: Histories in which nothing is wrong.
GOOD = {
    "a worker is killed after its handler has returned":
        lambda s: (s.send(1, "a"), s.fault("kill", 10.1, 10.2, client="c"), s.handle(10, "a", 1),
                   s.handle(20, "a", 2)),
    "Redis is away while a worker deletes":
        lambda s: (s.send(1, "a"), s.handle(10, "a", 1), s.fault("restart", 10.1, 14),
                   s.receive(20, "a", 2), s.delete(21, "a", 2)),
    "a worker continues after a suspension with an old receipt":
        lambda s: (s.send(1, "a"), s.receive(10, "a", 2), s.delete(11, "a", 2),
                   s.handle(12, "a", 1)),
    "a worker is killed in its handler, and nobody looks for the message":
        lambda s: (s.send(1, "a"), s.handle(10, "a", 1, returns=False), s.left("a", 1)),
    "the last handler call has just returned at the end":
        lambda s: (s.send(1, "a"), s.handle(995, "a", 1), s.left("a", 1)),
    "a handler may still run at the end":
        lambda s: (s.send(1, "a"), s.handle(10, "a", 1, returns=False), s.receive_nothing(200),
                   s.left("a", 1)),
    "a delete of unknown outcome has removed a message":
        lambda s: (s.send(1, "a"), s.receive(10, "a", 1), s.receive(30, "a", 2),
                   s.delete(31, "a", 2, outcome="unknown")),
    "the messages of a group come one after the other":
        lambda s: (group(s), s.handle_and_raise(10, "a", 1), s.handle(12, "a", 2),
                   s.receive(13, "b"), s.delete(14, "b")),
    "sends to a group at the same time have any order":
        lambda s: (s.send(1, "a", group="g"), s.send(1.05, "b", group="g"), s.receive(2, "b"),
                   s.delete(3, "b"), s.receive(4, "a"), s.delete(5, "a")),
    "a late worker handles a message of a group that another consumer has deleted":
        lambda s: (group(s), s.receive(10, "a", 2), s.delete(11, "a", 2), s.receive(12, "b"),
                   s.handle(13, "a", 1), s.delete(14, "b")),
    "messages of two queues have no order, and a receive from one finds none of the other":
        lambda s: (s.send(1, "a", queue="q"), s.send(2, "b", queue="r"), s.receive_nothing(3),
                   s.receive(4, "b", queue="r"), s.delete(5, "b"), s.receive(6, "a", queue="q"),
                   s.delete(7, "a")),
    "a message of a group waits, and a plain one passes it":
        lambda s: (group(s), s.receive(10, "a"), s.send(11, "c"), s.receive(12, "c"),
                   s.delete(13, "c"), s.delete(14, "a"), s.receive(15, "b"), s.delete(16, "b")),
    "as many messages of a limit key run as may":
        lambda s: (limited(s, 3), s.receive(10, "a"), s.receive(11, "b"), s.delete(12, "a"),
                   s.handle(13, "c"), s.delete(14, "b")),
    "sends with a unique key add nothing":
        lambda s: (unique(s, 1, "a"), unique(s, 2, "a", "more"), s.receive(3, "a"),
                   s.delete(4, "a"), unique(s, 5, "b"), s.left("b")),
    "a send without an answer has added the message of a unique key":
        lambda s: (s.send(1, None, "first", "unknown", unique_key="k"), unique(s, 2, "a", "second"),
                   s.receive(3, "a", body="first"), s.delete(4, "a")),
    "a message expires":
        lambda s: (s.send(1, "a", expires=5), s.receive_nothing(7), s.send(8, "b"), s.left("b")),
    "an expired message is left, since nobody looks":
        lambda s: (s.send(1, "a", expires=5), s.left("a")),
    "a client that knows no expiry receives a message":
        lambda s: (s.send(1, "a", expires=5), s.receive(10, "a", ignores_expiry=True),
                   s.delete(11, "a")),
    "a received message expires":
        lambda s: (s.send(1, "a", expires=5), s.receive(2, "a", vt=10)),
    "a chain is handled": lambda s: flow(s, seen=[11]),
    "a map is handled": lambda s: flow(s, parents="abc", seen=[13]),
    "an item of a map is left":
        lambda s: (s.follow("body of child", "body of a", "body of b"), s.send(1, "a"),
                   s.send(2, "b"), s.handle(10, "a"), s.left("b")),
    "each tick sends a message": lambda s: beats(s, 0, 1, 2, 3, 4, 5),
    "a job succeeds":
        lambda s: (s.send(1, "a"), s.job(2, "a", "waiting"), s.handle(10, "a", result=["r"]),
                   s.job(10.05, "a", "running"), s.job(11, "a", "succeeded", ["r"]),
                   s.job(12, "a", "succeeded", ["r"], final=True)),
}  # fmt: skip


def story_of(change):
    """Return a history with an acknowledged send beside what a change adds."""
    story = Story(epoch=EPOCH)
    story.send(0, "first")
    story.receive(0.2, "first")
    story.delete(0.4, "first")
    change(story)
    return story


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_alone(name):
    kind, message, change = PLANTED[name]
    (found,) = story_of(change).check().violations

    assert (found.kind, found.message) == (kind, message)
    assert found.lines[-1] > len(story_of(lambda _story: None).lines)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_passes(name):
    verdict = story_of(GOOD[name]).check()

    assert (verdict.violations, verdict.allowed) == ([], [])


def test_every_kind_of_violation_is_planted():
    planted = [*BREAKS.values(), *PLANTED.values()]

    assert {kind for kind, _message, _change in planted} == KINDS.keys()
    assert len(PLANTED) >= 39


def undo(story):
    """Let a failover undo all calls between 70 s and 75 s."""
    story.fault("failover", 72, 75, promoted=True, in_step_at=70)


#: What a failover may undo: the kind of violation that is allowed.
UNDONE = {
    "a message is handled again": (
        "handled twice", lambda s: (s.send(1, "a"), s.handle(71, "a", 1), s.handle(80, "a", 2))),
    "a message of a group comes back": (
        "group order",
        lambda s: (group(s), s.receive(70.5, "a"), s.delete(71, "a"), s.receive(71.5, "b"),
                   s.receive(80, "a", 2), s.delete(81, "a", 2), s.delete(82, "b"))),
    "a message of a limit key comes back": (
        "over limit",
        lambda s: (limited(s, 2, may=1), s.receive(70.5, "a"), s.delete(71, "a"),
                   s.receive(71.5, "b"), s.receive(80, "a", 2), s.delete(81, "a", 2),
                   s.delete(82, "b"))),
    "a message of a unique key is undone": (
        "unique gone",
        lambda s: (unique(s, 1, "a"), s.receive(70.5, "a"), s.delete(71, "a"),
                   unique(s, 80, "a", "more"))),
    "a chain continues twice": (
        "follower twice",
        lambda s: (s.follow("body of child", "body of a"), s.send(1, "a"), s.handle(70.5, "a", 1),
                   s.handle(71.2, "child"), s.handle(80, "a", 2),
                   s.handle(81, "child-2", body="body of child"))),
    "a job is open again": (
        "job undone",
        lambda s: (s.send(1, "a"), s.handle(70.5, "a"), s.job(71, "a", "succeeded"),
                   s.job(80, "a", "running"))),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDONE)
def test_what_a_failover_may_undo_is_allowed(name):
    kind, change = UNDONE[name]
    story = story_of(change)
    undo(story)
    verdict = story.check()

    assert verdict.violations == []
    if kind != "handled twice":  # the fault itself disturbs the worker
        assert kind in [each.kind for each in verdict.allowed]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"record": "follow", "body": "a", "after": []}, "no message in after"),
        ({"record": "schedule", "name": "a", "every": 0, "first": 1, "last": 2}, "every 0"),
        ({"record": "begin", "op": "x", "call": "send", "client": "c", "at": 1, "body": "a",
          "limit_key": "k"}, "max_running"),
    ],
)  # fmt: skip
def test_a_wrong_line_of_a_feature_is_refused(line, text):
    story = Story()
    story.lines.append(json.dumps(line))

    with pytest.raises(Exception, match=text):
        story.read()
