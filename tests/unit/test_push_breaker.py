"""The circuit breaker of a push target: every event in every state, and its pauses."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq.webhooks.breaker import (
    FAILURES_TO_OPEN,
    MAX_PAUSE_MS,
    TRIAL_MS,
    Breaker,
    PushEvent,
    PushEventKind,
    TargetState,
    pause_ms,
    transition,
)
from rsmq.webhooks.shared_breaker import decode, encode

NOW = 1_000_000
FAIL, SUCCEED, END, RESUME = (
    PushEvent(kind, text="500")
    for kind in (
        PushEventKind.FAIL, PushEventKind.SUCCEED, PushEventKind.END, PushEventKind.RESUME,
    )
)  # fmt: skip
PAUSE = PushEvent(PushEventKind.PAUSE, until_ms=NOW + 60_000, text="429")
CLAIM = PushEvent(PushEventKind.CLAIM, "me")
TRIAL_FAILS = PushEvent(PushEventKind.FAIL, "me", text="500")

CLOSED = Breaker()
FAILING = Breaker(failures=FAILURES_TO_OPEN - 1)
OPEN = Breaker(TargetState.OPEN, openings=2, until_ms=NOW + 1, text="500")
DUE = Breaker(TargetState.OPEN, openings=2, until_ms=NOW, text="500")
TRIAL = Breaker(TargetState.TRIAL, openings=2, until_ms=NOW + 1, owner="me")
OTHER_TRIAL = Breaker(TargetState.TRIAL, openings=2, until_ms=NOW + 1, owner="other")
DEAD_TRIAL = Breaker(TargetState.TRIAL, openings=2, until_ms=NOW, owner="other")
PAUSED = Breaker(TargetState.PAUSED, failures=3, until_ms=NOW + 1)
PAUSE_OVER = Breaker(TargetState.PAUSED, failures=3, until_ms=NOW)
PAUSE_OF_OPEN_OVER = Breaker(TargetState.PAUSED, openings=2, until_ms=NOW)
GONE = Breaker(TargetState.GONE, text="410 Gone")
STATES = {name: value for name, value in list(globals().items()) if isinstance(value, Breaker)}
SAME = None
#: The state after each event in each state: FAIL, SUCCEED, PAUSE, END, CLAIM, RESUME, TRIAL_FAILS.
TABLE = {
    "CLOSED": ("closed", SAME, "paused", "gone", SAME, "closed", "closed"),
    "FAILING": ("open", "closed", "paused", "gone", SAME, "closed", "open"),
    "OPEN": (SAME, "closed", "paused", "gone", SAME, "closed", SAME),
    "DUE": (SAME, "closed", "paused", "gone", "trial", "closed", SAME),
    "TRIAL": (SAME, "closed", "paused", "gone", "trial", "closed", "open"),
    "OTHER_TRIAL": (SAME, "closed", "paused", "gone", SAME, "closed", SAME),
    "DEAD_TRIAL": (SAME, "closed", "paused", "gone", "trial", "closed", SAME),
    "PAUSED": (SAME, SAME, "paused", "gone", SAME, "closed", SAME),
    "PAUSE_OVER": (SAME, SAME, "paused", "gone", "closed", "closed", SAME),
    "PAUSE_OF_OPEN_OVER": (SAME, SAME, "paused", "gone", "trial", "closed", SAME),
    "GONE": (SAME, SAME, SAME, SAME, SAME, "closed", SAME),
}
EVENTS = (FAIL, SUCCEED, PAUSE, END, CLAIM, RESUME, TRIAL_FAILS)


@pytest.mark.parametrize("name", STATES)
def test_each_event_in_each_state(name):
    before = STATES[name]
    for event, expected in zip(EVENTS, TABLE[name], strict=True):
        after = transition(before, event, NOW)

        if expected is SAME:
            assert after is before, event
        else:
            assert after.state == expected, event


def test_it_opens_after_ten_failures_in_a_row():
    breaker = CLOSED
    for _ in range(9):
        breaker = transition(breaker, FAIL, NOW)
    assert breaker == Breaker(failures=9, text="500")
    interrupted = transition(transition(breaker, SUCCEED, NOW), FAIL, NOW)

    assert interrupted == Breaker(failures=1, text="500")
    assert transition(breaker, FAIL, NOW) == Breaker(
        TargetState.OPEN, openings=1, until_ms=NOW + 1000, text="500"
    )


def test_the_pause_grows_with_each_failed_trial():
    breaker, now, pauses = transition(FAILING, FAIL, NOW), NOW, []
    for _ in range(12):
        pauses.append((breaker.until_ms - now) // 1000)
        now = breaker.until_ms
        breaker = transition(transition(breaker, CLAIM, now), TRIAL_FAILS, now)

    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert pause_ms(10**9) == MAX_PAUSE_MS


def test_a_claim_is_extended_by_its_owner_only():
    assert transition(TRIAL, CLAIM, NOW).until_ms == NOW + TRIAL_MS
    assert transition(OTHER_TRIAL, CLAIM, NOW) is OTHER_TRIAL


def test_a_shorter_pause_does_not_end_a_longer_one():
    longer = transition(CLOSED, PAUSE, NOW)
    shorter = PushEvent(PushEventKind.PAUSE, until_ms=NOW + 1000, text="503")

    assert transition(longer, shorter, NOW).until_ms == NOW + 60_000


def test_failures_of_pushes_that_began_before_it_opened_do_not_prolong_its_pause():
    assert transition(OPEN, TRIAL_FAILS, NOW) is OPEN


@given(
    st.lists(
        st.tuples(
            st.sampled_from(PushEventKind),
            st.sampled_from(["", "me", "other"]),
            st.integers(0, 500_000),
        )
    )
)
def test_at_most_one_process_has_a_trial_and_a_state_is_stored_exactly(steps):
    breaker, now = CLOSED, NOW
    for kind, owner, pause in steps:
        now += pause
        breaker = transition(breaker, PushEvent(kind, owner, now + pause, "text"), now)

        assert decode(encode("q", "https://x", breaker)) == breaker
        assert (breaker.state is TargetState.TRIAL) == bool(breaker.owner)
        assert breaker.failures < FAILURES_TO_OPEN
        if breaker.state in (TargetState.OPEN, TargetState.TRIAL):
            assert breaker.openings > 0


@pytest.mark.parametrize("stored", [b"", b"{", b"[]", b"{}", b'{"state":"x"}', b"\xff"])
def test_a_stored_state_that_is_invalid_is_closed(stored):
    assert decode(stored) == Breaker()


def test_the_states_of_the_table_are_complete():
    assert STATES.keys() == TABLE.keys()
    assert {state for state, _ in itertools.groupby(sorted(b.state for b in STATES.values()))} == {
        *TargetState
    }
