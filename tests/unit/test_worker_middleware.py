"""Hooks: the order of calls, and that a failing hook affects no other."""

from __future__ import annotations

import logging

import pytest

from rsmq.worker import Middleware
from rsmq.worker.middleware import HOOKS, Hooks

EXPECTED = [
    "before_start", "before_receive", "after_receive", "before_handle", "after_handle",
    "before_retry", "after_retry", "before_defer", "after_defer", "before_dead_letter",
    "after_dead_letter", "before_delete", "after_delete", "after_drop", "after_release",
    "lease_lost", "before_stop", "after_stop",
    "after_push", "after_target_change", "on_success", "on_failure", "on_retry",
]  # fmt: skip


def recording(name, calls, *hooks):
    """Return a middleware that records the calls of these hooks."""

    def record(hook):
        return lambda self, *args: calls.append((name, hook, *args))

    return type(name, (Middleware,), {hook: record(hook) for hook in hooks})()


def test_the_list_of_hooks():
    assert sorted(HOOKS) == sorted(EXPECTED)


@pytest.mark.parametrize("hook", EXPECTED)
def test_hooks_that_are_not_overridden_are_not_called(hook):
    assert Hooks([Middleware(), recording("other", [])])[hook] == ()
    assert Hooks([])[hook] == ()


@pytest.mark.parametrize("hook", EXPECTED)
def test_before_hooks_run_in_order_and_after_hooks_in_reverse_order(hook):
    calls = []
    hooks = Hooks([recording("first", calls, hook), recording("second", calls, hook)])
    hooks.call(hook, 1, "two")

    order = ["first", "second"] if hook.startswith("before_") else ["second", "first"]
    assert calls == [(name, hook, 1, "two") for name in order]


def test_only_middleware_that_overrides_a_hook_is_called():
    calls = []
    hooks = Hooks(
        [recording("first", calls, "after_delete"), recording("second", calls, "before_delete")]
    )

    assert [len(hooks[hook]) for hook in ("before_delete", "after_delete", "after_drop")] == [
        1, 1, 0
    ]  # fmt: skip


def test_an_inherited_hook_is_called():
    calls = []
    parent = type(recording("parent", calls, "after_drop"))
    child = type("child", (parent,), {})()
    Hooks([child]).call("after_drop", 1)

    assert calls == [("parent", "after_drop", 1)]


def test_a_failing_hook_is_logged_by_name_and_the_others_are_called(caplog):
    class Fails(Middleware):
        def after_delete(self, messages):
            raise ZeroDivisionError(messages)

    calls = []
    hooks = Hooks([recording("first", calls, "after_delete"), Fails()])
    with caplog.at_level(logging.ERROR, "rsmq.worker"):
        hooks.call("after_delete", ["m"])

    assert calls == [("first", "after_delete", ["m"])]
    (record,) = caplog.records
    assert record.getMessage().endswith("Fails.after_delete failed")
    assert record.exc_info[0] is ZeroDivisionError


def test_an_iterator_of_middleware_is_read_once():
    calls = []
    hooks = Hooks(each for each in [recording("first", calls, "before_stop", "after_stop")])
    hooks.call("before_stop", 1)
    hooks.call("after_stop", 1)

    assert [hook for _, hook, _ in calls] == ["before_stop", "after_stop"]
