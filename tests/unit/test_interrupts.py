"""Signals are held back inside a block, and never lost or left with another handler."""

from __future__ import annotations

import signal
import threading

import pytest

from rsmq.transport import signals
from rsmq.transport.signals import DeferredSignals


class Raised(Exception):
    """What the program's handler raises."""


@pytest.fixture
def seen():
    """The signals that the program's own handlers got."""
    seen = []
    previous = {
        number: signal.signal(number, lambda number, _: seen.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    yield seen
    for number, handler in previous.items():
        signal.signal(number, handler)


def handlers():
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


def test_a_signal_comes_at_the_end_of_the_block(seen):
    before = handlers()
    with DeferredSignals():
        signal.raise_signal(signal.SIGTERM)
        assert seen == []

    assert seen == [signal.SIGTERM]
    assert handlers() == before


def test_more_signals_come_at_the_end_too_each_once_and_in_their_order(seen):
    with DeferredSignals():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        assert seen == []

    assert seen == [signal.SIGTERM, signal.SIGINT]


def test_a_signal_comes_at_once_if_the_block_seems_to_hang(seen, monkeypatch):
    now = 5.0
    monkeypatch.setattr(signals.time, "monotonic", lambda: now)
    with DeferredSignals():
        signal.raise_signal(signal.SIGINT)
        now += signals.MAX_DEFERRAL_SECONDS - 0.01
        signal.raise_signal(signal.SIGINT)
        assert seen == []
        now += 0.01
        signal.raise_signal(signal.SIGTERM)
        assert seen == [signal.SIGTERM]

    assert seen == [signal.SIGTERM, signal.SIGINT]


def test_all_signals_come_although_the_handler_of_one_raises(seen):
    def fail(*_):
        raise Raised

    signal.signal(signal.SIGINT, fail)
    with pytest.raises(Raised), DeferredSignals():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    assert seen == [signal.SIGTERM]


def test_a_signal_comes_although_the_block_fails(seen):
    with pytest.raises(Raised), DeferredSignals():
        signal.raise_signal(signal.SIGINT)
        raise Raised

    assert seen == [signal.SIGINT]


def test_blocks_inside_blocks(seen):
    before = handlers()
    with DeferredSignals():
        with DeferredSignals():
            signal.raise_signal(signal.SIGINT)
        assert seen == []

    assert seen == [signal.SIGINT]
    assert handlers() == before


def test_blocks_that_overlap_as_greenlets_make_them(seen):
    first, second = DeferredSignals(), DeferredSignals()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)

    signal.raise_signal(signal.SIGINT)
    assert seen == [signal.SIGINT]
    with DeferredSignals():
        signal.raise_signal(signal.SIGINT)
        assert len(seen) == 1
    assert len(seen) == 2


def test_other_threads_and_signals_without_a_handler_are_left_alone(seen):
    found = []

    def work():
        with DeferredSignals():
            found.append(handlers())

    before = handlers()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]

    previous = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with DeferredSignals():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    signal.signal(signal.SIGTERM, previous)


def test_where_signals_cannot_be_set_nothing_is_held(seen, monkeypatch):
    def refuse(*_):
        raise ValueError("signal only works in main thread of the main interpreter")

    before = handlers()
    with monkeypatch.context() as patched:
        patched.setattr(signals, "_set_handler", refuse)
        with DeferredSignals():
            signal.raise_signal(signal.SIGINT)
            assert seen == [signal.SIGINT]

    assert handlers() == before


def test_a_signal_that_came_before_is_the_programs(seen, monkeypatch):
    """Setting a handler delivers what waits; what that raises leaves no handler replaced."""
    before = handlers()
    set_handler = signals._set_handler
    calls = []

    def deliver(number, handler):
        calls.append(number)
        if len(calls) == 2:
            raise Raised
        return set_handler(number, handler)

    with monkeypatch.context() as patched:
        patched.setattr(signals, "_set_handler", deliver)
        with pytest.raises(Raised), DeferredSignals():
            pytest.fail("the block must not begin")

    assert handlers() == before
