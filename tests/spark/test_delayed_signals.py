"""Signals during calls to Spark: handlers run between them."""

from __future__ import annotations

import signal
import threading

import pytest

from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.pipelines.streams import delayed_signals, run_stream

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def interrupt(_number, _frame):
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _restored_handlers():
    handlers = [signal.signal(number, interrupt) for number in SIGNALS]
    yield
    for number, handler in zip(SIGNALS, handlers, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_for_the_next_call_of_the_function(number):
    with delayed_signals() as run_handlers:
        run_handlers()
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            run_handlers()
        run_handlers()
    assert signal.getsignal(number) is interrupt


def test_a_signal_takes_effect_at_the_end_of_the_block():
    with pytest.raises(KeyboardInterrupt), delayed_signals():
        signal.raise_signal(signal.SIGTERM)


def test_an_error_of_the_block_is_raised_rather_than_a_signal():
    with pytest.raises(ValueError, match="first"), delayed_signals():
        signal.raise_signal(signal.SIGTERM)
        raise ValueError("first")


def test_a_handler_that_chooses_another_one_keeps_it():
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    with delayed_signals() as run_handlers:
        signal.raise_signal(signal.SIGTERM)
        run_handlers()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_only_handlers_in_python_are_delayed():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with delayed_signals():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_another_thread_changes_no_handler():
    seen = []

    def run():
        with delayed_signals() as run_handlers:
            seen.extend(map(signal.getsignal, SIGNALS))
            run_handlers()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [interrupt, interrupt]


class Query:
    """A query that is signalled during a call, and notes whether the call has ended."""

    recentProgress = ()  # noqa: N815 - as Spark names it

    def __init__(self, interrupted):
        self.interrupted = interrupted
        self.calls = []

    def trigger(self, **_):
        return self

    def start(self):
        return self

    def _call(self, name):
        if name == self.interrupted:
            signal.raise_signal(signal.SIGTERM)
        self.calls.append(name)

    def awaitTermination(self, _seconds):
        self._call("await")
        return False

    def stop(self):
        self._call("stop")


def test_a_signal_interrupts_no_call_of_a_stream():
    query = Query("await")
    count = run_stream(
        "job", Queues("memory://"), query, follow=True, report_progress=lambda _progress: None
    )
    assert count.messages == 0
    assert query.calls == ["await", "stop"]


def test_a_stream_that_ends_by_itself_raises_the_interruption_again():
    query = Query("await")
    with pytest.raises(KeyboardInterrupt):
        run_stream(
            "job", Queues("memory://"), query, follow=False, report_progress=lambda _progress: None
        )
    assert query.calls == ["await", "stop"]
