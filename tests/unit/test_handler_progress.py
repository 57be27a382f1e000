"""The handlers of one message: their states, and the failure that decides the outcome."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import InvalidFormat, InvalidValue
from rsmq.worker.handler_group import HandlerGroup
from rsmq.worker.listener import Handlers
from rsmq.worker.outcome import DeadLetter, Defer, Discard, HandlerTimedOut, Policy, Retry, fixed
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.progress import (
    HandlerEvent,
    HandlerProgress,
    HandlerState,
    change_handler,
    choose_failure,
)

POLICY = Policy(3, fixed(1), no_retry=(KeyError,))


def read(error):
    return read_error(error, POLICY)


def test_every_transition_of_a_handler_is_listed():
    changes = {}
    for state, event in itertools.product(HandlerState, HandlerEvent):
        states = {"a": state}
        if change_handler(states, "a", event):
            changes[state.name, event.name] = states["a"].name
        else:
            assert states == {"a": state}

    assert changes == {
        ("WAITING", "RECALL"): "FINISHED",
        ("WAITING", "BEGIN"): "RUNNING",
        ("RUNNING", "FINISH"): "FINISHED",
        ("RUNNING", "FAIL"): "FAILED",
    }


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        ([Retry("r"), ValueError("v")], 1),
        ([ValueError("1"), KeyError("final"), OSError("2")], 0),
        ([Defer("d"), Retry("r", after=500)], 1),
        ([Retry("r", after=9), Retry("r", after=3)], 1),
        ([Defer("d", after=9), Defer("d", after=3), Defer("d", after=5)], 1),
        ([DeadLetter("x"), Defer("d")], 1),
        ([KeyError("final"), DeadLetter("x")], 0),
        ([DeadLetter("x"), KeyError("final")], 0),
        ([KeyError("final"), HandlerTimedOut("slow")], 1),
    ],
)
def test_the_message_is_not_given_up_while_a_handler_is_to_be_called_again(errors, chosen):
    failures = {str(place): read(error) for place, error in enumerate(errors)}

    assert choose_failure(failures)[0] == str(chosen)


def test_a_message_that_all_handlers_discard_is_discarded():
    progress = HandlerProgress()
    for name in progress.begin_each(["a", "b"]):
        progress.fail(name, read(Discard(name)))

    name, failure = progress.choose_failure()
    assert (name, failure.kind, failure.text) == ("a", "discard", "a")
    assert progress.finished == ("a", "b")


@pytest.mark.parametrize("earlier", [True, False])
def test_a_message_that_one_handler_discards_is_handled(earlier):
    progress = HandlerProgress()
    progress.recall(["a"] if earlier else [])
    for name in progress.begin_each(["a", "b"]):
        if name == "a":
            progress.finish(name)
        else:
            progress.fail(name, read(Discard("b")))

    assert progress.choose_failure() is None


NAMES = ["a", "b", "c", "d"]
ERRORS = [None, ValueError("v"), Retry("r"), Defer("d"), Discard("x"), DeadLetter("y")]


@given(st.lists(st.lists(st.sampled_from(ERRORS), min_size=4, max_size=4), max_size=6))
def test_each_handler_is_called_until_it_has_finished_and_never_again(attempts):
    recorded, finished = (), []
    for errors in attempts:
        progress, called = HandlerProgress(), []
        progress.recall(recorded)
        for name in progress.begin_each(NAMES):
            called.append(name)
            error = errors[NAMES.index(name)]
            if error is None:
                progress.finish(name)
            else:
                progress.fail(name, read(error))
        assert called == [name for name in NAMES if name not in finished]
        finished += [
            name
            for name in called
            if errors[NAMES.index(name)] is None or isinstance(errors[NAMES.index(name)], Discard)
        ]
        assert set(progress.finished) == set(finished)
        chosen = progress.choose_failure()
        assert (chosen is None or chosen[1].kind == "discard") == (len(finished) == len(NAMES))
        recorded = progress.finished
        if len(finished) == len(NAMES):
            return


def test_names_of_a_record_that_no_handler_has_are_kept():
    progress = HandlerProgress()
    progress.recall(["old", "a"])
    assert list(progress.begin_each(["a"])) == []

    assert progress.choose_failure() is None
    assert progress.finished == ("old", "a")


@pytest.mark.parametrize("name", ["", "a,b", "a b", "x" * 101, "<lambda>", 5, b"a"])
def test_a_name_that_can_not_be_recorded_is_refused(name):
    group = HandlerGroup(Handlers(is_group=True))

    with pytest.raises(InvalidFormat, match=r"handler\('invoice'\)"):
        group.handler(name)(lambda body: None)


def test_the_name_of_a_handler_is_that_of_its_function():
    handlers = Handlers(is_group=True)
    group = HandlerGroup(handlers)

    @group.handler()
    def invoice(body):
        """Make an invoice."""

    assert list(handlers.by_type) == ["invoice"]
    with pytest.raises(InvalidFormat, match="This name already has a handler"):
        group.handler("invoice")(invoice)
    with pytest.raises(InvalidFormat, match="Add brackets"):
        group.handler(invoice)
    with pytest.raises(InvalidFormat, match="Pass one"):
        group.handler()(lambda body: None)


def test_the_number_of_handlers_is_bounded():
    group = HandlerGroup(Handlers(is_group=True))
    for number in range(100):
        group.handler(f"h{number}")(print)

    with pytest.raises(InvalidValue, match="100"):
        group.handler("more")(print)
