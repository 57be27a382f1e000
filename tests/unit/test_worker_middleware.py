"""Hooks: in which order they are called, and that those who fail harm nobody."""

from __future__ import annotations

import logging

import pytest

from rsmq.worker import Middleware
from rsmq.worker.middleware import HOOKS, Hooks

EXPECTED = [
    "before_start", "before_receive", "after_receive", "before_handle", "after_handle",
    "before_retry", "after_retry", "before_dead_letter", "after_dead_letter", "before_delete",
    "after_delete", "after_drop", "after_release", "lease_lost", "before_stop", "after_stop",
]  # fmt: skip


def noting(name, seen, *hooks):
    """A middleware that notes these hooks."""

    def note(hook):
        return lambda self, *args: seen.append((name, hook, *args))

    return type(name, (Middleware,), {hook: note(hook) for hook in hooks})()


def test_these_are_the_hooks():
    assert sorted(HOOKS) == sorted(EXPECTED)


@pytest.mark.parametrize("hook", EXPECTED)
def test_each_hook_does_nothing_by_itself_and_is_not_called_then(hook):
    assert Hooks([Middleware(), noting("other", [])])[hook] == ()
    assert Hooks([])[hook] == ()


@pytest.mark.parametrize("hook", EXPECTED)
def test_what_comes_before_goes_forwards_and_what_comes_after_backwards(hook):
    seen = []
    hooks = Hooks([noting("first", seen, hook), noting("second", seen, hook)])
    hooks.call(hook, 1, "two")

    order = ["first", "second"] if hook.startswith("before_") else ["second", "first"]
    assert seen == [(name, hook, 1, "two") for name in order]


def test_only_who_overrides_a_hook_is_called():
    seen = []
    hooks = Hooks([noting("first", seen, "after_delete"), noting("second", seen, "before_delete")])

    assert [len(hooks[hook]) for hook in ("before_delete", "after_delete", "after_drop")] == [
        1, 1, 0
    ]  # fmt: skip


def test_what_a_parent_overrides_is_called():
    seen = []
    parent = type(noting("parent", seen, "after_drop"))
    child = type("child", (parent,), {})()
    Hooks([child]).call("after_drop", 1)

    assert seen == [("parent", "after_drop", 1)]


def test_one_that_fails_is_logged_by_name_and_the_others_are_called(caplog):
    class Fails(Middleware):
        def after_delete(self, messages):
            raise ZeroDivisionError(messages)

    seen = []
    hooks = Hooks([noting("first", seen, "after_delete"), Fails()])
    with caplog.at_level(logging.ERROR, "rsmq.worker"):
        hooks.call("after_delete", ["m"])

    assert seen == [("first", "after_delete", ["m"])]
    (record,) = caplog.records
    assert record.getMessage().endswith("Fails.after_delete failed")
    assert record.exc_info[0] is ZeroDivisionError


def test_a_list_of_middleware_that_is_used_up_is_read_once():
    seen = []
    hooks = Hooks(each for each in [noting("first", seen, "before_stop", "after_stop")])
    hooks.call("before_stop", 1)
    hooks.call("after_stop", 1)

    assert [hook for _, hook, _ in seen] == ["before_stop", "after_stop"]
