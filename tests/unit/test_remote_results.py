"""Exceptions as they cross from a child process to its worker."""

from __future__ import annotations

import socket

import pytest

from rsmq.errors import BodyNotDecodable
from rsmq.worker import outcome
from rsmq.worker.children.channel import Channel
from rsmq.worker.children.remote_results import describe_failure, restore_error
from rsmq.worker.outcome import (
    DeadLetter,
    Discard,
    HandlerTimedOut,
    Policy,
    RemoteError,
    Retry,
    Unroutable,
    fixed,
)
from rsmq.worker.state.error_reader import read_error
from tests.hostile_errors import HOSTILE_ERRORS, make_hostile_error

POLICY = Policy(3, fixed(1), (LookupError,), "dead", "unroutable")


def decide(error, attempt, policy):
    return outcome.decide(read_error(error, policy), attempt, policy)


class Lease:
    id = "i" * 32
    raw = b"body"


class Custom(Retry):
    """A requested retry of an application."""


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError


def transfer(error):
    own, other = (Channel(each) for each in socket.socketpair())
    try:
        own.send(describe_failure(read_error(error, POLICY)))
        return restore_error(other.receive(), "q", Lease())
    finally:
        own.close()
        other.close()


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"), KeyError("k"), IndexError("i"), LookupError(), Exception("é\udcff"),
        Exception("\ud800"),
        Retry("later", after=7), Discard("old"), DeadLetter("wrong"),
        Unroutable("no type"), HandlerTimedOut("after 3 s"), SystemExit(2), Unprintable(),
        BodyNotDecodable("q", Lease.id, Lease.raw),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
@pytest.mark.parametrize("attempt", [1, 4])
def test_the_outcome_is_that_of_the_original(error, attempt):
    error.__notes__ = ["a note"]
    restored = transfer(error)

    assert decide(restored, attempt, POLICY) == decide(error, attempt, POLICY)
    assert type(restored).__name__ == type(error).__name__
    assert restored.__notes__ == ["a note"]


@pytest.mark.parametrize("error", [Discard("old"), ValueError("x")])
def test_note_without_a_text_is_left_out(error):
    error.__notes__ = [Unprintable()]
    restored = transfer(error)

    assert decide(restored, 1, POLICY) == decide(error, 1, POLICY)
    assert getattr(restored, "__notes__", []) == []


@pytest.mark.parametrize("after", ["soon", object(), -1])
def test_retry_that_was_changed_has_the_back_off_of_the_listener(after):
    error = Retry("later")
    error.after = after
    restored = transfer(error)

    assert type(restored) is Retry
    assert (str(restored), restored.after) == ("later", None)


@pytest.mark.parametrize("kind", HOSTILE_ERRORS)
def test_error_that_cannot_be_read_is_one_that_can(kind):
    error = make_hostile_error(kind)
    restored = transfer(error)

    assert isinstance(restored, RemoteError)
    assert type(restored).__name__ == type.__dict__["__name__"].__get__(type(error))
    assert len(str(restored)) <= 65_536
    assert str(restored.__cause__)
    assert decide(restored, 1, POLICY) == decide(error, 1, POLICY)


def test_subclass_of_an_outcome_is_that_outcome():
    restored = transfer(Custom("later", after=3))

    assert (type(restored), str(restored), restored.after) == (Retry, "later", 3)


def test_cause_of_an_undecodable_body_is_kept():
    error = BodyNotDecodable("q", Lease.id, Lease.raw)
    error.__cause__ = ValueError("no JSON")
    restored = transfer(error)

    assert type(restored.__cause__).__name__ == "ValueError"
    assert str(restored.__cause__) == "no JSON"


def test_errors_of_one_class_have_one_class():
    first, second = transfer(ValueError("1")), transfer(ValueError("2"))

    assert isinstance(first, RemoteError)
    assert type(first) is type(second)
    assert [str(first), str(second)] == ["1", "2"]


def test_traceback_is_the_cause():
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    restored = transfer(caught.value)

    assert "_ = 1 / 0" in str(restored.__cause__)


def test_long_texts_are_cut():
    restored = transfer(ValueError("x" * 1_000_000))

    assert len(str(restored)) == 65_536
    assert len(str(restored.__cause__)) < 70_000
