"""Signals are held back inside a block. None is lost, and the handlers are restored."""

from __future__ import annotations

import signal
import threading

import pytest

from rsmq.transport import signals
from rsmq.transport.signals import DeferredSignals


class Raised(Exception):
    """The exception that a handler of the program raises."""


@pytest.fixture
def delivered():
    """The signals that the handlers of the program received."""
    delivered = []
    previous = {
        number: signal.signal(number, lambda number, _: delivered.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    yield delivered
    for number, handler in previous.items():
        signal.signal(number, handler)


def handlers():
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


def test_a_signal_is_delivered_at_the_end_of_the_block(delivered):
    before = handlers()
    with DeferredSignals():
        signal.raise_signal(signal.SIGTERM)
        assert delivered == []

    assert delivered == [signal.SIGTERM]
    assert handlers() == before


def test_several_signals_are_delivered_once_each_and_in_order(delivered):
    with DeferredSignals():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        assert delivered == []

    assert delivered == [signal.SIGTERM, signal.SIGINT]


def test_a_signal_is_delivered_immediately_if_the_block_seems_to_hang(delivered, monkeypatch):
    now = 5.0
    monkeypatch.setattr(signals.time, "monotonic", lambda: now)
    with DeferredSignals():
        signal.raise_signal(signal.SIGINT)
        now += signals.MAX_DEFERRAL_SECONDS - 0.01
        signal.raise_signal(signal.SIGINT)
        assert delivered == []
        now += 0.01
        signal.raise_signal(signal.SIGTERM)
        assert delivered == [signal.SIGTERM]

    assert delivered == [signal.SIGTERM, signal.SIGINT]


def test_all_signals_are_delivered_if_one_handler_raises(delivered):
    def fail(*_):
        raise Raised

    signal.signal(signal.SIGINT, fail)
    with pytest.raises(Raised), DeferredSignals():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    assert delivered == [signal.SIGTERM]


def test_a_signal_is_delivered_if_the_block_raises(delivered):
    with pytest.raises(Raised), DeferredSignals():
        signal.raise_signal(signal.SIGINT)
        raise Raised

    assert delivered == [signal.SIGINT]


def test_nested_blocks_deliver_at_the_outer_end(delivered):
    before = handlers()
    with DeferredSignals():
        with DeferredSignals():
            signal.raise_signal(signal.SIGINT)
        assert delivered == []

    assert delivered == [signal.SIGINT]
    assert handlers() == before


def test_a_late_signal_does_not_interrupt_a_block_inside_another(delivered, monkeypatch):
    """For example while a receive is undone, because of the first signal."""
    now = 5.0
    monkeypatch.setattr(signals.time, "monotonic", lambda: now)
    with DeferredSignals():
        signal.raise_signal(signal.SIGINT)
        now += signals.MAX_DEFERRAL_SECONDS
        with DeferredSignals():
            signal.raise_signal(signal.SIGINT)
            assert delivered == []
        assert delivered == [signal.SIGINT]


def test_blocks_that_overlap_as_with_greenlets(delivered):
    first, second = DeferredSignals(), DeferredSignals()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)

    signal.raise_signal(signal.SIGINT)
    assert delivered == [signal.SIGINT]
    with DeferredSignals():
        signal.raise_signal(signal.SIGINT)
        assert len(delivered) == 1
    assert len(delivered) == 2


def test_other_threads_and_signals_without_a_handler_are_not_changed(delivered):
    handlers_in_thread = []

    def work():
        with DeferredSignals():
            handlers_in_thread.append(handlers())

    before = handlers()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers_in_thread == [before]

    previous = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with DeferredSignals():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    signal.signal(signal.SIGTERM, previous)


def test_no_signal_is_held_if_handlers_cannot_be_set(delivered, monkeypatch):
    def refuse(*_):
        raise ValueError("signal only works in main thread of the main interpreter")

    before = handlers()
    with monkeypatch.context() as patched:
        patched.setattr(signals, "_set_handler", refuse)
        with DeferredSignals():
            signal.raise_signal(signal.SIGINT)
            assert delivered == [signal.SIGINT]

    assert handlers() == before


def test_a_signal_before_the_block_is_delivered_to_the_program(delivered, monkeypatch):
    """Setting a handler delivers pending signals. If that raises, no handler stays replaced."""
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
