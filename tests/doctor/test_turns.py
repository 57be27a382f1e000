"""Turns of rates that no message explains, such as after a step of the server's clock."""

from __future__ import annotations

import pytest

DAY_MS = 86_400_000


@pytest.fixture
def put_turn(namespace):
    """A function: stores the turn of a key, so many days ahead."""

    def put(name, days):
        turn_us = (namespace.now_ms() + days * DAY_MS) * 1000
        namespace.raw.zadd(f"{namespace.zset()}:x:rates", {name: turn_us})

    return put


def read_turns(namespace):
    stored = namespace.raw.zrange(f"{namespace.zset()}:x:rates", 0, -1, withscores=True)
    return {name.decode(): us / 1000 for name, us in stored}


@pytest.mark.parametrize("days", [2, 365])
@pytest.mark.parametrize("name", ["\1:api", "customer-17"])
def test_a_turn_that_no_message_explains_is_found_and_put_behind_all(
    namespace, rsmq, put_turn, name, days
):
    last = rsmq.send_message("q", "m", delay=3600)
    rsmq.send_message("q", "m", limit_key="other", rate="1/h")
    put_turn(name, days)

    (finding,) = namespace.examine()
    assert (finding.code, finding.severity, finding.safe) == ("far-turn", "warning", True)
    assert (finding.number, finding.examples) == (1, (name.removeprefix("\1:"),))
    assert namespace.repair() == [("far-turn", "q", 1)]
    assert read_turns(namespace)[name] == namespace.read_scores()[last]
    assert namespace.find_codes() == []
    assert namespace.repair() == []


def test_a_turn_is_due_if_no_message_waits(namespace, put_turn):
    put_turn("\1:api", 2)

    assert namespace.repair() == [("far-turn", "q", 1)]
    assert read_turns(namespace)["\1:api"] <= namespace.now_ms()


def test_turns_that_messages_explain_are_no_finding(namespace, rsmq):
    rsmq.send_messages("q", ["m"] * 100, limit_keys=["api"] * 100, rate="1/d")
    assert namespace.find_codes() == []


def test_turns_of_messages_that_are_held_back_are_no_finding(namespace, rsmq, put_turn):
    rsmq.send_messages("q", ["m"] * 100, groups=["a"] * 100, rate="1/d")
    assert namespace.find_codes() == []
    put_turn("\1:api", 365)
    assert namespace.find_codes() == [("far-turn", "q", 1)]


def test_many_turns_are_repaired_in_steps(namespace, put_turn):
    for number in range(230):
        put_turn(f"key-{number}", 365)

    assert namespace.find_codes() == [("far-turn", "q", 230)]
    assert namespace.repair() == [("far-turn", "q", 230)]
    assert namespace.find_codes() == []
