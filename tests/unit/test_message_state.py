"""The states of messages in flight and of handler calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq.worker.state.message_state import (
    CallEvent,
    CallState,
    MessageEvent,
    MessageState,
    change_call,
    change_message,
    change_messages,
)


class Message:
    state = MessageState.READY


class Call:
    call_state = CallState.WAITING


def after(*events):
    message = Message()
    for event in events:
        change_message(message, event)
    return message.state


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], MessageState.READY),
        ([MessageEvent.BEGIN, MessageEvent.DECIDE, MessageEvent.CONFIRM], MessageState.SETTLED),
        ([MessageEvent.DECIDE, MessageEvent.BEGIN], MessageState.SETTLING),
        ([MessageEvent.EXPIRE, MessageEvent.BEGIN, MessageEvent.DECIDE], MessageState.LATE),
        ([MessageEvent.BEGIN, MessageEvent.EXPIRE, MessageEvent.DECIDE], MessageState.EXPIRED),
        ([MessageEvent.BEGIN, MessageEvent.DECIDE, MessageEvent.EXPIRE], MessageState.SETTLING),
        ([MessageEvent.BEGIN, MessageEvent.LOSE, MessageEvent.DECIDE], MessageState.LOST),
        ([MessageEvent.DECIDE, MessageEvent.LOSE, MessageEvent.CONFIRM], MessageState.LOST),
    ],
)
def test_first_event_decides(events, state):
    assert after(*events) is state


@given(st.lists(st.sampled_from(MessageEvent)))
def test_message_is_settled_at_most_once_and_never_after_a_lost_lease(events):
    message = Message()
    states = [message.state for event in events if change_message(message, event)]

    assert states.count(MessageState.SETTLED) <= 1
    assert len(states) == len(set(states)), "no state is entered twice"
    for over in (MessageState.LOST, MessageState.EXPIRED, MessageState.LATE, MessageState.SETTLED):
        if over in states:
            rest = states[states.index(over) + 1 :]
            assert rest in ([], [MessageState.LOST])
    if MessageState.SETTLED in states:
        assert states[-1] is MessageState.SETTLED


@given(st.lists(st.sampled_from(CallEvent)))
def test_call_begins_once_and_ends_once_or_is_abandoned(events):
    call = Call()
    states = [call.call_state for event in events if change_call(call, event)]

    assert states in (
        [], [CallState.WITHDRAWN], [CallState.RUNNING], [CallState.RUNNING, CallState.ENDED],
        [CallState.RUNNING, CallState.ABANDONED],
    )  # fmt: skip


@given(st.lists(st.sampled_from(MessageState)), st.sampled_from(MessageEvent))
def test_many_messages_change_as_each_of_them_would(states, event):
    messages, others = [Message() for _ in states], [Message() for _ in states]
    for message, other, state in zip(messages, others, states, strict=True):
        message.state = other.state = state
    pairs = zip(messages, others, strict=True)
    changed = [message for message, other in pairs if change_message(other, event)]

    assert change_messages(messages, event) == changed
    assert [each.state for each in messages] == [each.state for each in others]
