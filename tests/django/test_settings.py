"""The settings of a backend: checks, the health view, signals, and the command for its worker."""

from __future__ import annotations

import json

import pytest
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import RequestFactory, override_settings
from redis.exceptions import OutOfMemoryError

from rsmq.django import health, task_worker, views
from rsmq.django.backend_options import _LISTENER_OPTIONS
from rsmq.django.task_interface import (
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from rsmq.worker import Defer
from rsmq.worker.listener import ListenerOptions
from tests.django import shop
from tests.django.environment import tasks_setting
from tests.workers.polling import wait_until

CLOSED = "redis://127.0.0.1:1/0"
#: The options of listeners that are none of a backend, and why.
LEFT_OUT = {
    **dict.fromkeys(("create", "track", "weight"), "the backend chooses them"),
    **dict.fromkeys(("active", "concurrency", "levels", "priority"), "they are of a queue"),
    "dead_letter_queue": "the backend names it, and drop says that there is none",
    "process": "Django's connections belong to a process",
    **dict.fromkeys(
        ("max_deferrals", "max_deferred_seconds", "retry_forever"), "Django's results end"
    ),
}


@pytest.fixture(autouse=True)
def _short_timeouts(monkeypatch):
    monkeypatch.setattr(views, "_TIMEOUT_SECONDS", 0.05)


@pytest.mark.parametrize(
    ("options", "id", "text", "hint"),
    [
        ({"url": ""}, "E001", "TASKS['default'] has no OPTIONS['url'].", '"OPTIONS": {"url": '),
        ({"results_ttl": 9}, "E002", "unknown option 'results_ttl'", "Did you mean 'result_ttl'?"),
        ({"password": "secret"}, "E002", "unknown option 'password'", "belong into 'client'"),
        ({"queues": ["x" * 27]}, "E003", "has more than 26 characters", "another name"),
        ({"queues": ["a b"]}, "E003", "characters of A-Z", "another name"),
        ({"queues": ["a_low"]}, "E003", "ends with _high, _low or -dead", "another name"),
        ({"url": "http://host"}, "E004", "http", "'client' in its OPTIONS"),
        ({"ns": ""}, "E004", "ns", "'ns'"),
        ({"client": {"no_option": 1}}, "E004", "no_option", "'client'"),
        ({"max_retries": -1}, "E005", "max_retries", "max_retries, backoff, drop"),
    ],
)
def test_faults_of_the_settings_are_errors_of_the_checks(options, id, text, hint):
    with override_settings(TASKS=tasks_setting(**{"url": CLOSED, **options})):
        [error] = checks.run_checks(include_deployment_checks=False)
        assert isinstance(error, checks.Error)
        assert error.id == f"rsmq.{id}"
        assert text in error.msg
        assert hint in error.hint
        with pytest.raises(ImproperlyConfigured, match=rf"rsmq\.{id}"):
            _ = task_backends["default"].client


@pytest.mark.parametrize(
    ("options", "id", "text"),
    [
        ({"track": True}, "E007", "RSMQ_TASK_OPTIONS['shop.add'] has the unknown option 'track'"),
        ({"max_retries": -1}, "E005", "max_retries"),
        ({"no_retry": "OSError"}, "E005", "no_retry"),
    ],
)
def test_faults_of_the_options_of_a_task_are_errors_of_the_checks(options, id, text):
    own = {"shop.add": options}
    with override_settings(TASKS=tasks_setting(url=CLOSED), RSMQ_TASK_OPTIONS=own):
        [error] = checks.run_checks()
        assert error.id == f"rsmq.{id}"
        assert text in error.msg


def test_a_valid_setting_has_no_fault_and_only_the_deploy_check_needs_redis(env):
    def deploy():
        found = checks.run_checks(include_deployment_checks=True)
        return [each for each in found if each.id.startswith("rsmq")]

    assert checks.run_checks() == []
    assert deploy() == []
    with override_settings(TASKS=tasks_setting(CLOSED)):
        assert checks.run_checks() == []
        [error] = deploy()
        assert error.id == "rsmq.E006"
        assert "can't be reached" in error.msg


def test_health_reports_redis_and_the_workers_of_the_backend(env):
    def get(**options):
        response = health(RequestFactory().get("/"), **options)
        return response.status_code, json.loads(response.content)

    # Each read has two seconds, which a busy machine may exceed.
    wait_until(lambda: get() == (200, {"redis": True, "workers": 0}))
    wait_until(lambda: get(min_workers=1) == (503, {"redis": True, "workers": 0}))
    with env.worker("mail"):
        wait_until(lambda: get(min_workers=1) == (200, {"redis": True, "workers": 1}))
    with override_settings(TASKS=tasks_setting(CLOSED)):
        assert get() == (503, {"redis": False, "workers": None})


def test_signals_are_sent_for_each_step(env):
    sent = []

    def listen(name):
        def receive(sender, task_result, **_):
            sent.append((name, sender, task_result.id, task_result.status))

        return receive

    receivers = {
        signal: listen(name)
        for name, signal in (
            ("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)
        )
    }  # fmt: skip
    for signal, receiver in receivers.items():
        signal.connect(receiver)
    try:
        good, bad = shop.add.enqueue(1), shop.raises.enqueue("ValueError")
        env.run(concurrency=1)
    finally:
        for signal, receiver in receivers.items():
            signal.disconnect(receiver)
    ready, running, successful, failed = (
        getattr(TaskResultStatus, name) for name in ("READY", "RUNNING", "SUCCESSFUL", "FAILED")
    )
    backend = type(env.backend)
    assert sent == [
        ("enqueued", backend, good.id, ready),
        ("enqueued", backend, bad.id, ready),
        ("started", backend, good.id, running),
        ("finished", backend, good.id, successful),
        ("started", backend, bad.id, running),
        ("finished", backend, bad.id, failed),
    ]


def test_an_error_of_a_receiver_does_not_repeat_the_task(env, caplog):
    def receive(**_):
        raise LookupError("of a receiver")

    task_started.connect(receive)
    task_finished.connect(receive)
    try:
        result = shop.add.enqueue(1)
        env.run()
    finally:
        task_started.disconnect(receive)
        task_finished.disconnect(receive)
    result.refresh()
    assert (result.return_value, result.attempts) == (2, 1)
    assert "of a receiver" in caplog.text


def test_connections_of_the_database_are_checked_around_each_task(env, monkeypatch):
    shop.calls.clear()
    steps = []
    monkeypatch.setattr(task_worker, "close_old_connections", lambda: steps.append(len(shop.calls)))
    shop.raises.enqueue("ValueError")
    env.run()
    assert steps == [0, 1]


@pytest.mark.parametrize("error", [OutOfMemoryError("full"), ConnectionError("gone")])
def test_a_task_runs_with_a_full_memory_and_is_deferred_without_a_server(env, monkeypatch, error):
    shop.calls.clear()
    runner = task_worker.TaskRunner(env.backend, env.worker())

    def fail(*_):
        raise error

    monkeypatch.setattr(runner, "_run", fail)
    shop.add.enqueue(1)
    message = env.client.receive_message("default")
    if isinstance(error, OutOfMemoryError):
        assert runner.handle(message.body, message) == 2
        return
    with pytest.raises(Defer, match="gone"):
        runner.handle(message.body, message)
    assert shop.calls == []


def test_the_command_runs_the_tasks_of_its_queues(env):
    result, other = shop.add.enqueue(1), shop.mail.enqueue("Ann")

    call_command("rsmq_worker", queues="default", until_empty=True)

    result.refresh()
    other.refresh()
    assert (result.status, other.status) == (TaskResultStatus.SUCCESSFUL, TaskResultStatus.READY)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"queues": "other"}, "'other' is not in TASKS['default']['QUEUES'], which has default"),
        ({"backend": "other"}, "'other'"),
        ({"concurrency": 0}, "concurrency"),
        ({"name": "a b"}, "name"),
    ],
)
def test_the_command_explains_wrong_arguments(env, arguments, text):
    with pytest.raises(CommandError) as caught:
        call_command("rsmq_worker", **arguments)
    assert text in str(caught.value)


def test_the_command_needs_a_backend_of_this_library_and_names_of_queues():
    dummy = f"{task_backends.__class__.__module__}.backends.dummy.DummyBackend"
    with (
        override_settings(TASKS={"default": {"BACKEND": dummy}}),
        pytest.raises(CommandError, match=r"a DummyBackend, not rsmq\.django\.RSMQBackend"),
    ):
        call_command("rsmq_worker")
    with (
        override_settings(TASKS=tasks_setting("memory://any", queues=[])),
        pytest.raises(CommandError, match="Name the queues of this worker: --queues"),
    ):
        call_command("rsmq_worker")


def test_each_option_of_a_listener_is_one_of_a_backend_or_left_out():
    assert LEFT_OUT.keys().isdisjoint(_LISTENER_OPTIONS)
    assert LEFT_OUT.keys() | set(_LISTENER_OPTIONS) == ListenerOptions.__annotations__.keys()
