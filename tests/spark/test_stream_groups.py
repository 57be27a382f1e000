"""Streams of messages with groups, of which one after the other is due."""

from __future__ import annotations

import itertools
import time

import pytest

from rsmq.spark.versions import ReadMaxRows
from tests.scale import WAIT_SECONDS


def send(env, *names):
    """Send a message for each name, whose first letter is its group; return the ids by name."""
    groups = [name[0] for name in names]
    return dict(zip(env.rsmq.send_messages("q", list(names), groups=groups), names, strict=True))


def wait_for_next_ms(env):
    begin, deadline = env.now_ms(), time.monotonic() + WAIT_SECONDS
    while env.now_ms() <= begin:
        assert time.monotonic() < deadline


def run(env, query, *, between=lambda: None):
    """Run a query to its end; return the bodies of each batch."""
    found = []
    while (rows := query.run()) is not None:
        found.append(sorted(row["message"] for row in rows))
        wait_for_next_ms(env)
        between()
    return found


@pytest.mark.parametrize("limit", [2, 100])
def test_available_now_ends_when_all_messages_of_groups_are_done(env, queue, limit):
    send(env, "a1", "a2", "a3", "b1", "b2", "c1")
    query = env.query(available_now=True, limit=ReadMaxRows(limit))
    wait_for_next_ms(env)

    found = run(env, query)

    assert sorted(itertools.chain(*found)) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    for group in "abc":
        names = [name for batch in found for name in batch if name[0] == group]
        assert names == sorted(names)
    query.restart()
    assert query.run() is None
    assert env.scores() == {}
    assert env.raw.keys(f"{env.ns}:q:x:held_back") == []


def test_available_now_leaves_messages_of_groups_that_are_sent_after_its_start(env, queue):
    send(env, "a1", "a2")
    query = env.query(available_now=True)
    wait_for_next_ms(env)
    late = itertools.count(3)

    found = run(env, query, between=lambda: send(env, f"a{next(late)}"))

    assert found == [["a1"], ["a2"]]
    assert [body.decode() for body in env.bodies()] == ["a3", "a4"]
    query.restart()
    assert run(env, query) == [["a3"], ["a4"]]


def test_available_now_has_the_messages_behind_a_dead_letter_of_their_group(env, queue):
    env.rsmq.create_queue("dead")
    sent = list(send(env, "a1", "a2", "a3"))
    env.raw.hset(env.keys().hash, f"{sent[0]}:rc", "5")
    query = env.query(available_now=True, maxReceiveCount=5, deadLetterQueue="dead")
    wait_for_next_ms(env)

    assert run(env, query) == [["a2"], ["a3"]]
    assert list(env.scores("dead")) == sent[:1]
