"""``rsmq.django.RSMQBackend``: each promise of Django's interface of tasks."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from rsmq.django.operations import begin_attempt, store_errors
from rsmq.django.task_interface import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_finished,
)
from tests.django import shop
from tests.django.environment import tasks_setting
from tests.workers.polling import wait_until


@pytest.fixture(autouse=True)
def calls(env):
    shop.calls.clear()
    return shop.calls


def record(env, result, queue="default"):
    id = result.id.removesuffix(f"-{queue}")
    return env.raw.hgetall(f"rsmq:{queue}:x:job:{id}")


def test_a_task_is_a_message_with_the_documented_body(env):
    result = shop.add.enqueue(17, b=3)

    assert env.bodies() == ['{"task":"tests.django.shop.add","args":{"b":3},"positional":[17]}']
    assert result.status == TaskResultStatus.READY
    assert (result.args, result.kwargs, result.attempts, result.errors) == ([17], {"b": 3}, 0, [])
    assert abs(timezone.now() - result.enqueued_at) < timedelta(minutes=1)
    assert len(result.id) <= 64
    assert record(env, result) == {b"state": b"waiting"}


def test_a_result_is_the_same_for_the_producer_and_for_a_reader(env):
    task = shop.add.using(priority=-7, run_after=timezone.now() + timedelta(hours=1))

    result = task.enqueue(1, b=2)

    assert env.backend.get_result(result.id) == result
    assert shop.add.get_result(result.id).task == task


def test_a_successful_task_has_its_value_times_and_worker(env, calls):
    result = shop.add.enqueue(17)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value

    env.run(name="w-1")
    result.refresh()

    assert calls == [(17, 1)]
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value == 18
    assert (result.attempts, result.worker_ids, result.errors) == (1, ["w-1"], [])
    times = [
        result.enqueued_at, result.last_attempted_at, result.started_at, result.finished_at
    ]  # fmt: skip
    assert times == sorted(times)
    assert result.started_at == result.last_attempted_at
    assert env.bodies() == []
    assert record(env, result)[b"result"] == b"18"


def test_values_are_made_those_of_json_as_by_the_backends_of_django(env):
    result = shop.anything.enqueue((1, 2), b"bytes", key={"a": (3,)})
    assert result.args == [[1, 2], "bytes"]

    env.run()
    result.refresh()

    assert result.return_value == [[[1, 2], "bytes"], {"key": {"a": [3]}}]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((1, 2, 3), r"tests.django.shop.add: too many positional arguments.*\(a, b=1\)"),
        ((object(),), "Unsupported type"),
        ((float("nan"),), r"tests.django.shop.add: an argument is not JSON\. .*Out of range float"),
        ((["secret\ud800"],), "an argument is not JSON.*lone surrogate"),
        ((), "missing a required argument: 'a'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(env, args, text):
    with pytest.raises(TypeError, match=text) as refused:
        shop.add.enqueue(*args)
    assert "secret" not in str(refused.value)
    assert env.client.list_queues() == []


def test_a_failed_task_has_its_error_and_is_a_dead_letter(env):
    result = shop.raises.enqueue("ValueError")

    env.run()
    result.refresh()

    assert result.status == TaskResultStatus.FAILED
    assert result.is_finished
    assert result.finished_at is not None
    [error] = result.errors
    assert error.exception_class is ValueError
    assert 'raise {"ValueError"' in error.traceback
    assert "ValueError: no" in error.traceback
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    [dead] = env.client.peek_messages("default-dead")
    assert dead.body == {
        "task": "tests.django.shop.raises",
        "args": {},
        "positional": ["ValueError"],
    }


def test_a_task_that_ends_its_thread_has_failed(env):
    result = shop.raises.enqueue("SystemExit")
    env.run()
    result.refresh()
    assert [each.exception_class for each in result.errors] == [SystemExit]


@pytest.mark.parametrize("options", [{"max_retries": 2, "backoff": 0}])
def test_retries_count_as_attempts_and_keep_their_errors(env, calls):
    result = shop.attempt.enqueue(good=3)

    env.run(name="w")
    result.refresh()

    assert result.return_value == result.attempts == 3
    assert result.worker_ids == ["w", "w", "w"]
    assert [each.exception_class for each in result.errors] == [LookupError] * 2
    assert "attempt 2" in result.errors[1].traceback
    assert [each.attempts for each in calls] == [1, 2, 3]
    assert [len(each.errors) for each in calls] == [1, 2, 2]
    assert [each.status for each in calls][-1] == TaskResultStatus.SUCCESSFUL
    assert result.started_at <= result.last_attempted_at


@pytest.mark.parametrize("options", [{"max_retries": 0, "backoff": 0}])
def test_a_task_has_its_own_retries_at_all_levels_of_its_queue(env):
    finished = []

    def note(sender, task_result, **others):
        finished.append((task_result.task.name, task_result.attempts, task_result.status))

    own = {"tests.django.shop.attempt": {"max_retries": 2}, "elsewhere.task": {"drop": True}}
    task_finished.connect(note)
    with override_settings(RSMQ_TASK_OPTIONS=own):
        good, urgent = shop.attempt.enqueue(good=3), shop.attempt.using(priority=9).enqueue(good=9)
        once = shop.wait.enqueue("x")
        env.run()
    task_finished.disconnect(note)
    for result in (good, urgent, once):
        result.refresh()

    assert [each.attempts for each in (good, urgent, once)] == [3, 3, 1]
    assert sorted(finished) == [
        ("attempt", 3, TaskResultStatus.FAILED), ("attempt", 3, TaskResultStatus.SUCCESSFUL),
        ("wait", 1, TaskResultStatus.FAILED),
    ]  # fmt: skip
    assert len(env.bodies("default-dead")) == 2


@pytest.mark.parametrize("options", [{"max_retries": 1, "backoff": 3600}])
def test_a_task_that_waits_for_a_retry_is_ready(env):
    result = shop.attempt.enqueue(good=2)
    with env.worker():
        wait_until(lambda: record(env, result).get(b"state") == b"retrying")
    result.refresh()
    assert result.status == TaskResultStatus.READY
    assert result.attempts == len(result.errors) == 1


def test_async_tasks_and_async_calls(env):
    async def enqueue():
        result = await shop.wait.aenqueue(0)
        await asyncio.to_thread(env.run)
        await result.arefresh()
        return result, await shop.wait.aget_result(result.id)

    result, found = asyncio.run(enqueue())

    assert result.return_value == found.return_value == "awaited"


@pytest.mark.parametrize("task", [shop.unstorable, shop.large, shop.not_a_number])
@pytest.mark.parametrize("options", [{"max_retries": 5}])
def test_a_result_that_cannot_be_stored_is_a_failure_without_retries(env, task):
    result, signalled = task.enqueue(), []

    def note(sender, task_result, **others):
        signalled.append(task_result.status)

    task_finished.connect(note)
    env.run()
    task_finished.disconnect(note)
    result.refresh()
    assert signalled == [TaskResultStatus.FAILED]
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert "result" in result.errors[0].traceback


def test_priorities_are_levels_of_the_queue_in_strict_order(env, calls):
    for priority in (0, -1, -100, 0, 1, 100):
        shop.add.using(priority=priority).enqueue(priority)
    shop.mail.enqueue("Ann")

    assert [len(env.bodies(f"default{level}")) for level in ("", "_high", "_low")] == [2, 2, 2]
    assert json.loads(env.bodies("mail_high")[0])["priority"] == 5
    env.run(concurrency=1)

    order = [call[0] for call in calls if call != "Ann"]
    assert [(each > 0) - (each < 0) for each in order] == [1, 1, 0, 0, -1, -1]
    assert calls.index("Ann") < 3


def test_a_deferred_task_is_a_delayed_message(env, calls):
    at = timezone.now() + timedelta(hours=1)
    result = shop.add.using(run_after=at).enqueue(1)

    env.run()

    assert calls == []
    [(_, score)] = env.raw.zrange("rsmq:default", 0, -1, withscores=True)
    assert abs(score - at.timestamp() * 1000) < 2
    result.refresh()
    assert result.status == TaskResultStatus.READY
    assert json.loads(env.bodies()[0])["run_after"] == at.isoformat()


def test_times_are_naive_without_use_tz(env):
    with override_settings(USE_TZ=False):
        at = datetime.now() + timedelta(hours=1)  # noqa: DTZ005 - as Django has it then
        result = shop.add.using(run_after=at).enqueue(1)
        assert result.enqueued_at.tzinfo is None
        assert env.backend.get_result(result.id).task.run_after == at
    [(_, score)] = env.raw.zrange("rsmq:default", 0, -1, withscores=True)
    assert abs(score - at.timestamp() * 1000) < 2


def test_a_task_of_another_function_does_not_match(env):
    result = shop.add.enqueue(1)
    with pytest.raises(Exception, match=r"does not match \(received 'tests.django.shop.add'\)"):
        shop.wait.get_result(result.id)


@pytest.mark.parametrize("id", ["", "no", "x" * 32, "x" * 32 + "-default", "x" * 32 + "-o/o", None])
def test_an_unknown_id_does_not_exist(env, id):
    env.client.create_queue("default")
    with pytest.raises(TaskResultDoesNotExist):
        env.backend.get_result(id)


def test_a_deleted_message_that_had_begun_has_failed_and_one_that_had_not_does_not_exist(env):
    begun, waiting = shop.add.enqueue(1), shop.add.enqueue(2)
    [message] = env.client.receive_messages("default", 1, vt=60)
    env.client.run(begin_attempt(env.client.namespace, message, "w"))
    env.client.purge_queue("default")

    begun.refresh()
    assert begun.status == TaskResultStatus.FAILED
    assert begun.errors[0].exception_class_path == "rsmq.errors.JobExpired"
    with pytest.raises(TaskResultDoesNotExist):
        waiting.refresh()


def test_an_attempt_is_recorded_once_and_only_with_a_valid_receipt(env):
    result = shop.add.enqueue(1)
    [message] = env.client.receive_messages("default", 1, vt=0)
    [again] = env.client.receive_messages("default", 1, vt=60)
    namespace = env.client.namespace

    assert env.client.run(begin_attempt(namespace, message, "dead")) is None
    assert env.client.run(store_errors(namespace, message, ("1 {}",))) is None
    for _ in range(2):
        log = env.client.run(begin_attempt(namespace, again, "w"))
    assert log.workers == ("w",)
    assert record(env, result)[b"workers"] == b"2 w\n"
    assert record(env, result)[b"call"] == again.raw
    env.raw.delete(f"rsmq:default:x:job:{message.id}")
    env.client.run(begin_attempt(namespace, again, "w"))
    assert record(env, result) == {}, "there is no record without a time to live"


def test_programs_in_other_languages_enqueue_tasks_by_name(env, calls):
    env.client.create_queue("default")
    id = env.client.send_message(
        "default", {"task": "tests.django.shop.add", "args": {"a": 1, "b": 2}, "other": True}
    )

    env.run()

    assert calls == [(1, 2)]
    assert env.backend.get_result(f"{id}-default").return_value == 3


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([], "not that of a task"),
        ({"task": "tests.django.shop.farewell"}, "there is no task 'tests.django.shop.farewell'"),
        ({"task": "tests.django.shop.no_task"}, "is not a task: its function needs @task"),
        ({"task": "tests.django.shop.add", "args": {"c": 1}}, "missing a required argument: 'a'"),
        ({"task": "tests.django.shop.add", "args": [1]}, "args is not an object"),
        ({"task": "tests.django.shop.add", "run_after": "soon"}, "run_after is not a time"),
        ({"task": "tests.django.shop.add", "priority": 101}, "priority must be a whole number"),
    ],
)
@pytest.mark.parametrize("options", [{"max_retries": 5}])
def test_a_body_that_calls_no_task_is_a_dead_letter_at_once(env, calls, body, reason):
    env.client.create_queue("default")
    id = env.client.send_message("default", body)

    env.run()

    assert calls == []
    [dead] = env.client.peek_messages("default-dead")
    assert reason in dead.reason.text
    with pytest.raises(TaskResultDoesNotExist):
        env.backend.get_result(f"{id}-default")


def test_queues_and_functions_that_do_not_fit_are_invalid_tasks(env):
    def local():
        pass

    with pytest.raises(InvalidTask, match="not valid for backend"):
        shop.add.using(queue_name="other")
    with pytest.raises(InvalidTask, match="module level"):
        type(shop.add)(
            priority=0, func=local, queue_name="default", backend="default", run_after=None
        )
    with override_settings(TASKS=tasks_setting("memory://any", queues=[])):
        assert shop.add.using(queue_name="x" * 26)
        for name, text in (("x" * 27, "more than 26 characters"), ("a b", "characters of A-Z")):
            with pytest.raises(InvalidTask, match=text):
                shop.add.using(queue_name=name)
