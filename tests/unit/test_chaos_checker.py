"""The checker of scripts/chaos finds each kind of fault in a history, and none in a good one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.chaos_checker.history import BadHistory, read_history
from tests.chaos_histories import Model, Story

ROOT = Path(__file__).parents[2]


def good_story():
    """Return a history in which consumers are late, die, and get no reply, and nothing is wrong."""
    story = Story()
    story.receive_nothing(0)
    story.send(1, "a")
    story.send(2, "b")
    story.send(3, None, body="unknown", outcome="unknown")
    story.send(4, None, body="refused", outcome="error")
    story.send(5, "d", delay=30)
    story.receive(10, "a", 1, vt=5)
    story.extend(12, "a", 1, vt=10)
    story.receive(11, "b", 1, vt=5)
    story.receive(12, "c", 1, body="unknown")
    story.delete(13, "c", 1, outcome="unknown")
    story.handle(17, "b", 2, returns=False)
    story.delete(17.5, "b", 1, done=False)
    story.receive_nothing(18)
    story.receive(24, "a", 3)
    story.delete(25, "a", 3)
    story.delete(25.5, "a", 1, done=False)
    story.handle(26, "b", 3)
    story.receive(40, "d", 1, vt=120)
    story.send(200, "e")
    story.left("d", 1)
    story.left("e", 0)
    return story


def test_a_good_history_passes():
    verdict = good_story().check()

    assert (verdict.violations, verdict.allowed) == ([], [])
    assert verdict.figures["sends that were acknowledged"] == 4
    assert verdict.figures["of these more than once"] == 2


#: A good history is broken in one way each: what to add, the kind, the message, and the lines that
#: were added which the violation names.
BREAKS = {
    "an acknowledged send is never seen again":
        ("lost", "x", lambda s: s.send(70, "x")),
    "a received message is never deleted, and gone":
        ("lost", "x", lambda s: (s.send(70, "x"), s.receive(71, "x"))),
    "a worker is killed in its handler, and the message is gone":
        ("lost", "x", lambda s: (s.send(70, "x"), s.handle(71, "x", returns=False))),
    "a late delete finds no message, and it is gone":
        ("lost", "x", lambda s: (s.send(70, "x"), s.receive(71, "x"),
                                 s.delete(90, "x", done=False))),
    "a message is received that no producer sent":
        ("phantom", "x", lambda s: s.receive(70, "x")),
    "a message is handled that no producer sent":
        ("phantom", "x", lambda s: s.handle(70, "x")),
    "a message is left that no producer sent":
        ("phantom", "x", lambda s: s.left("x")),
    "a message is received before its send begins":
        ("phantom", "x", lambda s: (s.receive(70, "x"), s.delete(71, "x"), s.send(80, "x"))),
    "a refused message is received":
        ("refused", "x", lambda s: s.receive(70, "x", body="refused")),
    "one send is received under two ids":
        ("stored twice", "x, y", lambda s: (
            s.send(70, None, body="twice", outcome="unknown"),
            s.receive(71, "x", body="twice"), s.delete(71.2, "x"),
            s.receive(72, "y", body="twice"), s.delete(72.2, "y"))),
    "one acknowledged send is received, and is left under another id":
        ("stored twice", "x, y", lambda s: (
            s.send(70, "x", body="twice"), s.receive(71, "x", body="twice"),
            s.delete(72, "x"), s.left("y", body="twice"))),
    "two sends return one id":
        ("one id twice", "x", lambda s: (s.send(70, "x", body="one"), s.send(71, "x", body="two"),
                                         s.left("x", body="one"))),
    "a message is received with another body":
        ("changed body", "x", lambda s: (
            s.send(69, None, body="other", outcome="unknown"), s.send(70, "x"),
            s.receive(71, "x", body="other"), s.delete(72, "x"))),
    "two consumers have leases at the same time":
        ("two leases", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 1, vt=10),
                                       s.receive(80, "x", 2), s.delete(81, "x", 2))),
    "a second consumer receives during an extension":
        ("two leases", "x", lambda s: (
            s.send(70, "x"), s.receive(71, "x", 1, vt=5), s.extend(75, "x", 1, vt=10),
            s.receive(84, "x", 2), s.delete(85, "x", 2))),
    "two receives return one receipt":
        ("receipt twice", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 1),
                                          s.receive(90, "x", 1), s.left("x", 1))),
    "a worker and a client have one receipt":
        ("receipt twice", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 1),
                                          s.handle(90, "x", 1))),
    "the receive count falls":
        ("receive count", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 3),
                                          s.receive(90, "x", 2), s.left("x", 3))),
    "the receive count has fallen at the end":
        ("receive count", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 2),
                                          s.left("x", 1))),
    "a delete with an old receipt succeeds":
        ("stale delete", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 1),
                                         s.receive(90, "x", 2), s.delete(91, "x", 1))),
    "an extension with an old receipt succeeds":
        ("stale extension", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 1),
                                            s.receive(90, "x", 2), s.extend(91, "x", 1),
                                            s.left("x", 2))),
    "a delete with the last receipt finds no message, which is left":
        ("refused delete", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 1),
                                           s.delete(72, "x", 1, done=False), s.left("x", 1))),
    "a delete with the last receipt finds no message, which is received again":
        ("refused delete", "x", lambda s: (
            s.send(70, "x"), s.receive(71, "x", 1), s.delete(72, "x", 1, done=False),
            s.receive(90, "x", 2), s.left("x", 2))),
    "a message is received after its delete":
        ("undeleted", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 1), s.delete(72, "x", 1),
                                      s.receive(90, "x", 2))),
    "a message is left after its delete":
        ("undeleted", "x", lambda s: (s.send(70, "x"), s.receive(71, "x", 1), s.delete(72, "x", 1),
                                      s.left("x", 1))),
    "a message is passed by one that was sent later":
        ("reordered", "x", lambda s: (
            s.send(70, "x"), s.send(71, "y"), s.receive(72, "y"), s.delete(73, "y"),
            s.receive(74, "x"), s.delete(75, "x"))),
    "a message is passed by one that a worker has received":
        ("reordered", "x", lambda s: (
            s.send(70, "x"), s.send(71, "y"), s.handle(72, "y"), s.receive(74, "x"),
            s.delete(75, "x"))),
    "a message is left that was passed":
        ("reordered", "x", lambda s: (
            s.send(70, "x"), s.send(71, "y"), s.receive(72, "y"), s.delete(73, "y"),
            s.left("x", 0))),
    "a message is received before its delay is over":
        ("early", "x", lambda s: (s.send(70, "x", delay=10), s.receive(75, "x"),
                                  s.delete(76, "x"))),
    "a receive finds no message while one is visible":
        ("missed", "x", lambda s: (s.send(70, "x"), s.receive_nothing(71), s.receive(72, "x"),
                                   s.delete(73, "x"))),
    "a receive finds no message while one is visible that is never received":
        ("missed", "e", lambda s: s.receive_nothing(201)),
}  # fmt: skip


@pytest.mark.parametrize("broken", BREAKS)
def test_each_broken_history_is_found_with_its_message_and_lines(broken):
    kind, message, change = BREAKS[broken]
    story = good_story()
    before = len(story.lines)
    change(story)
    (found,) = story.check().violations

    assert (found.kind, found.message) == (kind, message)
    assert found.lines[-1] > before
    assert all(1 < line <= len(story.lines) for line in found.lines)
    assert found.allowed_by is None


def test_a_message_whose_send_got_no_answer_is_not_stuck_since_a_look_before_it():
    story = Story()
    story.send(1, "x")
    story.receive(2, "x")
    story.delete(3, "x")
    story.receive_nothing(100)
    story.send(200, "y", outcome="unknown")
    story.left("y")

    assert story.check().violations == []


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(min_value=0), steps=st.integers(1, 150))
def test_histories_of_a_model_pass(seed, steps):
    story = Model(seed).run(steps)
    story.send(10_000, "last")
    story.left("last")
    verdict = story.check()

    assert (verdict.violations, verdict.allowed) == ([], [])


@pytest.mark.parametrize(("at", "is_passed"), [(10.8995, False), (10.85, True)])
def test_a_delayed_message_may_come_before_one_that_is_due_in_the_same_millisecond(at, is_passed):
    """The ids of the two are in the order of their sends."""
    story = Story()
    story.send(10, "x", delay=1)
    story.send(at, "y")
    story.receive(20, "x")
    story.receive(21, "y")
    story.left("x", 1)
    story.left("y", 1)

    assert [each.kind for each in story.check().violations] == ["reordered"] * is_passed


def test_a_system_that_shows_no_bodies_is_judged_by_ids():
    story = Story()
    story.send(1, "a")
    story.left_without_body("a")
    story.left_without_body("x")

    assert [(each.kind, each.message) for each in story.check().violations] == [("phantom", "x")]
    story.lines.pop()
    story.send(2, None, body="b", outcome="unknown")
    assert story.check().violations == []


def lost_send(story, *, at, confirmed=False):
    story.send(at, "x", confirmed=confirmed)
    return story.check()


def test_a_loss_before_a_kill_of_redis_is_allowed_by_everysec():
    story = Story(appendfsync="everysec")
    story.fault("restart", 72, 73)
    verdict = lost_send(story, at=70)

    assert verdict.violations == []
    assert [(each.kind, each.allowed_by) for each in verdict.allowed] == [
        ("lost", "appendfsync everysec")
    ]
    assert "lost, allowed by appendfsync everysec: 1" in verdict.lines()


@pytest.mark.parametrize(
    ("appendfsync", "fault", "at"),
    [
        ("always", "restart", 70),
        ("no", "restart", 70),
        ("everysec", "cut", 70),
        ("everysec", "restart", 60),
        ("everysec", "restart", 80),
    ],
)
def test_a_loss_outside_of_a_window_is_a_violation(appendfsync, fault, at):
    story = Story(appendfsync=appendfsync)
    story.fault(fault, 72, 73)

    assert [each.kind for each in lost_send(story, at=at).violations] == ["lost"]


@pytest.mark.parametrize(
    ("at", "confirmed", "planned", "is_allowed"),
    [
        (71, False, False, True),
        (71, True, False, False),
        (71, False, True, False),
        (69, False, False, False),
    ],
)
def test_a_failover_may_lose_what_the_replicas_had_not_read(at, confirmed, planned, is_allowed):
    story = Story()
    story.fault("failover", 72, 75, promoted=True, planned=planned, in_step_at=70.5)
    verdict = lost_send(story, at=at, confirmed=confirmed)

    assert [each.kind for each in verdict.allowed] == ["lost"] * is_allowed
    assert [each.kind for each in verdict.violations] == ["lost"] * (not is_allowed)


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_failover_may_undo_the_record_of_a_send_that_is_repeated(repeatable):
    """A consumer has received the first copy before."""
    story = Story()
    story.send(71, "y", body="twice", confirmed=True, repeatable=repeatable)
    story.receive(71.5, "x", body="twice")
    story.fault("failover", 72, 75, promoted=True, in_step_at=70.5)
    story.left("y", body="twice")
    verdict = story.check()

    found = verdict.allowed if repeatable else verdict.violations
    assert ("stored twice", "x, y") in [(each.kind, each.message) for each in found]


def test_changes_that_a_failover_may_undo_are_allowed():
    """A receive and a delete of the same message are undone."""
    story = Story()
    story.send(60, "x")
    story.receive(71, "x", 1)
    story.delete(71.5, "x", 1)
    story.fault("failover", 72, 75, promoted=True, in_step_at=70.5)
    story.receive(76, "x", 1)
    story.delete(77, "x", 1)
    verdict = story.check()

    assert verdict.violations == []
    assert sorted(each.kind for each in verdict.allowed) == [
        "receipt twice", "two leases", "undeleted",
    ]  # fmt: skip


def test_a_delete_after_a_failover_is_not_undone():
    story = Story()
    story.send(60, "x")
    story.receive(71, "x", 1)
    story.delete(71.5, "x", 1)
    story.fault("failover", 72, 75, promoted=True, in_step_at=70.5)
    story.receive(76, "x", 1)
    story.delete(77, "x", 1)
    story.left("x", 1)

    assert [each.kind for each in story.check().violations] == ["undeleted"]


def test_a_repeated_delete_may_find_that_another_consumer_has_deleted():
    story = Story()
    story.send(60, "x")
    story.receive(61, "x", 1, vt=1)
    story.receive(63, "x", 2)
    story.call("delete", 64, {"done": True}, seconds=3, id="x", count=1)
    story.delete(65, "x", 2)

    assert [each.kind for each in story.check().violations] == ["stale delete"]
    story.lines.pop()
    story.fault("cut", 64.5, 64.6)
    assert story.check().violations == []


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "the run has not ended"),
        (["{}"], "Line 1"),
        (['{"record": "run", "version": 2}'], "version 2, this checker reads 1"),
        (['{"record": "left"}'], "the first record is not run"),
        ([Story().lines[0], "not JSON"], "Line 2"),
        ([Story().lines[0], '{"record": "what"}'], "unknown record 'what'"),
        ([Story().lines[0], '{"record": "end", "op": "a"}'], "ends without a begin"),
        ([*good_story().lines], "the run has not ended"),
        ([*good_story().lines, '{"record": "close", "left": 1}'], "2 are listed"),
    ],
)
def test_a_history_that_cannot_be_judged_is_refused(lines, text):
    with pytest.raises(BadHistory, match=text):
        read_history(lines)


def test_a_history_without_an_acknowledged_send_is_refused():
    story = Story()
    story.receive_nothing(0)

    with pytest.raises(BadHistory, match="nothing to judge"):
        story.check()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda lines: lines.insert(2, lines[1]), "begins twice"),
        (lambda lines: lines.insert(3, lines[2]), "ends twice"),
        (lambda lines: lines.append(lines[0]), "a second record run"),
        (lambda lines: lines.append(lines[1].replace("receive", "steal").replace("c/1", "c/0")),
         "unknown call 'steal'"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_refused(change, text):
    story = good_story()
    change(story.lines)

    with pytest.raises(BadHistory, match=text):
        story.read()


def test_the_program_prints_the_verdict_and_imports_nothing_of_the_library(tmp_path):
    story = good_story()
    BREAKS["a message is left after its delete"][2](story)
    story.close()
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(story.lines) + "\n")
    program = (
        "import sys; sys.modules['rsmq'] = sys.modules['redis'] = None\n"
        "from scripts.chaos_checker.__main__ import main; sys.exit(main(sys.argv[1]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, path], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (1, "")
    assert "VIOLATION, undeleted: 1" in result.stdout
    assert result.stdout.endswith("Verdict: broken promises: 1.\n")
