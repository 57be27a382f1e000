"""Tasks: their declaration, their messages, and the workers that run them."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rsmq import JSON, RSMQ, AsyncRSMQ, InvalidFormat, InvalidValue, NotEmptyInTime
from rsmq.errors import MissingExtra, MissingParameter
from rsmq.jobs import JobHandle
from rsmq.tasks import Tasks
from rsmq.worker import Discard, Middleware, Retry, Worker, current_message
from rsmq.worker.importing import NotImportable, import_worker
from tests.scale import WAIT_SECONDS
from tests.tasks import app

PARAMETERS = "parameters are (a: 'int') -> 'None'"


def test_a_task_is_sent_and_run_and_a_call_calls_the_function(tasks, raw):
    ran = []

    @tasks.task(queue="mail")
    def welcome(user_id: int, language: str = "en") -> str:
        """Send a welcome."""
        message = current_message()
        ran.append((user_id, language, message and message.id))
        return f"hello {user_id}"

    assert welcome(1) == "hello 1"
    assert welcome.__doc__ == "Send a welcome."
    job = welcome.send(17, language="de")
    assert isinstance(job, JobHandle)
    assert job.queue == "mail"
    assert raw("mail") == [
        '{"task":"tests.tasks.test_tasks.welcome","args":{"user_id":17,"language":"de"}}'
    ]
    tasks.run_all()

    assert ran == [(1, "en", None), (17, "de", job.id)]
    assert raw("mail") == []


def test_async_tasks_run_in_the_event_loop_and_are_sent_from_one(tasks):
    ran = []

    @tasks.task
    async def fetch(url: str) -> None:
        ran.append((url, asyncio.get_running_loop().is_running()))

    async def send():
        job = await fetch.asend("a")
        jobs = await tasks.asend_many([fetch.signature("b"), fetch.signature("c")])
        return [job, *jobs]

    jobs = asyncio.run(send())
    assert [each.queue for each in jobs] == ["tasks"] * 3
    tasks.run_all()

    assert sorted(ran) == [("a", True), ("b", True), ("c", True)]


def test_the_options_of_a_send_are_those_of_the_client(tasks, raw):
    @tasks.task(queue="q", name="t", levels={"high": 6})
    def task(number: int) -> None: ...

    first = task.options(unique_key="k", delay=60).send(1)
    assert task.options(unique_key="k").send(2).id == first.id
    assert task.options(level="high").send(3).queue == "q_high"
    at = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    task.options(deliver_at=at, dedup_id="d").send(4)

    assert raw("q_high") == ['{"task":"t","args":{"number":3}}']
    attributes = tasks.client.get_queue_attributes("q")
    assert (attributes.messages, attributes.hidden_messages) == (2, 2)
    with pytest.raises(InvalidFormat, match="The levels of queue 'q' are: high"):
        task.options(level="low")
    with pytest.raises(InvalidValue):
        task.options(delay=-1).send(1)


def test_calls_of_a_group_are_held_back(tasks):
    @tasks.task(queue="q", name="t")
    def task(number: int) -> None: ...

    first = task.options(group="a").send(1)
    calls = [task.options(group=group).signature(2) for group in ("a", "b", None)]
    sent = [first, *tasks.send_many(calls)]
    states = {each.id: each.state for each in tasks.client.peek_messages("q")}
    assert [states[each.id] for each in sent] == ["visible", "held_back", "visible", "visible"]
    tasks.client.delete_message("q", first.id)
    assert tasks.client.get_message("q", sent[1].id).state == "visible"


def test_a_message_can_have_its_own_number_of_retries(tasks):
    attempts = []

    @tasks.task(queue="q", name="t", max_retries=5, backoff=0)
    def task() -> None:
        attempts.append(current_message().attempt)
        raise ValueError

    task.options(max_retries=1, expires=600).send()
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)
    assert attempts == [1, 2]


def test_many_calls_of_several_queues_are_sent_in_order(tasks, raw):
    @tasks.task(queue="a", name="t")
    def task(number: int) -> None: ...

    @tasks.task(queue="b", name="u")
    def other(number: int) -> None: ...

    jobs = tasks.send_many(
        [
            task.signature(1),
            other.signature(2),
            task.options(unique_key="k").signature(3),
            task.options(unique_key="k").signature(4),
        ]
    )

    assert [each.queue for each in jobs] == ["a", "b", "a", "a"]
    assert jobs[2].id == jobs[3].id
    assert raw("a") == ['{"task":"t","args":{"number":1}}', '{"task":"t","args":{"number":3}}']
    with pytest.raises(InvalidFormat, match=r"Pass a call, as in welcome\.signature\(17\)"):
        tasks.send_many([17])


def test_a_queue_is_created_where_it_is_missing_also_after_it_was_deleted(tasks, raw):
    @tasks.task(queue="q", name="t")
    def task() -> None: ...

    for _ in range(2):
        task.send()
        assert raw("q") == ['{"task":"t","args":{}}']
        tasks.client.delete_queue("q")
    tasks.run_all()
    assert sorted(tasks.client.list_queues()) == ["q", "q-dead"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"task":"new"}', "there is no task 'new' for queue 'q' in this worker; its tasks are t"),
        ('{"task":7}', 'the body is not that of a task, which is {"task": "NAME", "args": {...}}'),
        ("[]", 'the body is not that of a task, which is {"task": "NAME", "args": {...}}'),
        ('{"task":"t","args":[1]}', "task t: args must be a JSON object of arguments by name"),
        (
            '{"task":"t","args":{"a":"x"}}',
            (
                "given up by its handler: task t: a is not valid, int_parsing "
                "(Input should be a valid integer, unable to parse string as an integer)"
            ),
        ),
        (
            '{"task":"t"}',
            f"given up by its handler: task t: missing a required argument: 'a'; its {PARAMETERS}",
        ),
    ],
)
def test_a_body_that_no_task_accepts_is_a_dead_letter_with_the_reason(tasks, body, reason):
    ran = []

    @tasks.task(queue="q", name="t")
    def task(a: int) -> None:
        ran.append(a)

    tasks.client.create_queue("q")
    tasks.client.send_messages("q", [body, '{"task":"t","args":{"a":1},"other":true}'])
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)

    assert ran == [1]
    [dead] = tasks.client.peek_messages("q-dead")
    assert dead.raw.decode() == body
    assert dead.reason.text == reason
    assert dead.reason.attempts == 1


def test_a_task_that_always_fails_is_retried_and_then_a_dead_letter(tasks, raw):
    attempts = []

    @tasks.task(queue="q", name="t", max_retries=2, backoff=0)
    def task() -> None:
        attempts.append(current_message().attempt)
        raise ValueError("broken")

    task.send()
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)

    assert attempts == [1, 2, 3]
    assert raw("q-dead") == ['{"task":"t","args":{}}']


def test_tasks_of_a_queue_share_what_belongs_to_it(tasks):
    @tasks.task(queue="q", name="first")
    def first() -> None: ...

    @tasks.task(queue="q", name="second", concurrency=2, levels={"high": 3})
    def second() -> None: ...

    @tasks.task(queue="q", name="third", concurrency=2, levels={"high": 3})
    def third() -> None: ...

    assert first.options(level="high").send().queue == "q_high"
    worker = tasks.worker()
    assert worker.queues == ["q", "q_high"]
    with pytest.raises(
        InvalidFormat, match="concurrency belongs to queue 'q', and second has another one"
    ):
        tasks.task(queue="q", name="fourth", concurrency=3)(lambda: None)


@pytest.mark.parametrize(
    ("declare", "hint"),
    [
        (lambda tasks: tasks.task(queue="q", name="t")(print), "There is a task of this name"),
        (lambda tasks: tasks.task(lambda: None), "Pass one, name='mail.welcome'"),
        (lambda tasks: tasks.task(queue="q", name="")(print), "1 to 200 printable characters"),
        (lambda tasks: tasks.task(queue="a b", name="u")(print), "a b"),
        (lambda tasks: tasks.task(queue="q2", name="u")(17), "It is a function"),
        (lambda tasks: tasks.task(queue=print), "Write @tasks.task"),
        (
            lambda tasks: tasks.task(queue="q2", name="u", drop=True, retry_forever=True)(
                lambda: None
            ),
            "either retried forever",
        ),
        (lambda tasks: tasks.schedule("s", "t"), "Pass a call"),
    ],
)
def test_a_declaration_that_is_wrong_is_refused_and_changes_nothing(tasks, declare, hint):
    @tasks.task(queue="q", name="t")
    def task() -> None: ...

    with pytest.raises(InvalidFormat) as refused:
        declare(tasks)

    assert hint in str(refused.value)
    assert tasks.worker().queues == ["q"]


def test_an_unknown_option_is_named_with_the_closest_one(tasks):
    with pytest.raises(TypeError, match="Did you mean 'max_retries'"):
        tasks.task(queue="q", max_retry=5)
    with pytest.raises(InvalidFormat, match="There is no task"):
        tasks.worker()
    with pytest.raises(InvalidFormat, match="asend\\(\\) sends from asyncio"):
        Tasks(AsyncRSMQ.from_url("memory://"))


def test_a_generator_is_refused(tasks):
    def pages():
        yield 1

    with pytest.raises(InvalidFormat, match="It has a yield"):
        tasks.task(pages)


def test_a_schedule_sends_the_body_of_the_task(tasks):
    ran = threading.Event()

    @tasks.task(queue="q", name="t")
    def report(year: int) -> None:
        assert (year, current_message().scheduled_at is not None) == (2026, True)
        ran.set()

    tasks.schedule("often", report.signature(2026), every=0.1)
    with tasks.worker():
        assert ran.wait(WAIT_SECONDS)
    stored = tasks.client.schedules.get("often").definition
    assert stored.queue == "q"
    assert stored.body == b'{"task":"t","args":{"year":2026}}'
    with pytest.raises(InvalidFormat, match="declared already"):
        tasks.schedule("often", report.signature(1), every=1)
    with pytest.raises(InvalidFormat, match="A schedule has its own times"):
        tasks.schedule("b", report.options(delay=1).signature(1), every=1)


def test_a_schedule_of_a_task_does_not_send_while_its_last_call_is_not_done(tasks):
    @tasks.task(queue="q", name="t")
    def report() -> None: ...

    tasks.schedule(
        "s", report.signature(), every=60, unique_key="report", expires=50, max_retries=0
    )
    with tasks.worker():
        pass
    definition = tasks.client.schedules.get("s").definition
    assert (definition.unique_key, definition.expires, definition.max_retries) == ("report", 50, 0)
    id = tasks.client.schedules.run_now("s")
    assert tasks.client.schedules.run_now("s") == id
    tasks.run_all()
    assert tasks.client.schedules.run_now("s") != id
    with pytest.raises(InvalidFormat, match="itself takes unique_key"):
        tasks.schedule("b", report.options(unique_key="k").signature(), every=1)


def test_run_all_raises_the_first_error_of_a_task(tasks):
    @tasks.task(queue="q")
    def task(kind: str) -> None:
        if kind == "error":
            raise ZeroDivisionError
        if kind == "retry" and current_message().attempt == 1:
            raise Retry(after=0)
        if kind == "discard":
            raise Discard
        if kind == "sends":
            task.send("discard")

    for kind in ("retry", "discard", "sends"):
        task.send(kind)
    tasks.run_all()
    task.send("error")
    with pytest.raises(ZeroDivisionError):
        tasks.run_all()


def test_run_all_ends_after_its_timeout(tasks):
    @tasks.task(queue="q", backoff=3)
    def task() -> None:
        raise Retry

    task.send()
    with pytest.raises(NotEmptyInTime):
        tasks.run_all(timeout=0.2)


def test_immediate_calls_the_function_at_the_send_and_sends_nothing(tasks):
    ran = []

    @tasks.task(queue="q")
    def task(point: list[int]) -> None:
        if not point:
            raise LookupError
        ran.append(point)

    @tasks.task(queue="async")
    async def task_async(number: int) -> None:
        ran.append(number)
        await task.asend([number])

    async def send():
        await task_async.asend(3)
        task_async.send(4)

    argument = [1]
    with tasks.immediate():
        task.options(delay=60).send(argument)
        task_async.send(2)
        asyncio.run(send())
        tasks.send_many([task.signature([5])])
        with pytest.raises(LookupError):
            task.send([])
        with pytest.raises(InvalidFormat):
            task.send("x")
    assert ran == [[1], 2, [2], 3, [3], 4, [4], [5]]
    assert ran[0] is not argument
    assert tasks.client.list_queues() == []
    task.send([1])
    assert tasks.client.list_queues() == ["q"]


def test_the_worker_of_a_declaration_is_an_ordinary_one(tasks):
    seen = []

    class Counting(Middleware):
        def after_handle(self, message, error, seconds):
            seen.append(message.body)

    @tasks.task(queue="q", name="t")
    def task() -> None: ...

    worker = tasks.worker(name="w", concurrency=2, middleware=[Counting()])
    assert isinstance(worker, Worker)
    assert (worker.name, worker.concurrency) == ("w", 2)
    task.send()
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    assert seen == [{"task": "t", "args": {}}]


def test_a_worker_is_imported_by_the_name_of_its_tasks():
    worker = import_worker("tests.tasks.app:tasks")

    assert worker.queues == ["mail", "heavy"]
    assert worker.source is app.tasks


def test_the_name_of_a_task_in_a_program_is_that_of_its_module(tmp_path):
    (tmp_path / "program.py").write_text(
        "from rsmq.tasks import Tasks\n"
        "tasks = Tasks.from_url('redis://127.0.0.1:1')\n"
        "@tasks.task\n"
        "def task() -> None: ...\n"
        "print(task.name)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    for arguments, expected in (
        (["program.py"], "program.task"),
        (["-m", "program"], "program.task"),
        (["-c", (tmp_path / "program.py").read_text()], "Pass one, name='mail.welcome'"),
    ):
        ended = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert expected in ended.stdout + ended.stderr


def test_rsmq_worker_runs_tasks_and_those_of_processes(server, ns):
    environment = {**os.environ, "TASKS_URL": server.url, "TASKS_NS": ns}
    with RSMQ.from_url(server.url, ns=ns) as queues:
        for queue in ("mail", "heavy", "done"):
            queues.create_queue(queue)
        body = {
            "task": "tests.tasks.app.compute", "args": {"number": 7},
            "then": {"queue": "mail", "task": "tests.tasks.app.welcome", "args": {"user_id": 1}},
        }  # fmt: skip
        id = queues.send_message("heavy", body, codec=JSON)
        ended = subprocess.run(
            [
                sys.executable, "-m", "rsmq.cli.commands.worker", "tests.tasks.app:tasks", "--burst"
            ],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        [done] = queues.peek_messages("done")
        pid, _, square = done.raw.decode().split()
        assert square == "49"
        assert queues.job("heavy", id).result(timeout=WAIT_SECONDS) == {"root": 7, "square": 49}
        assert "welcome 1 en" in ended.stdout
        assert pid not in ended.stderr
        assert queues.peek_messages("heavy") == []


def test_a_name_of_another_task_system_is_refused_with_the_one_here(tasks):
    @tasks.task(queue="q", name="t", track=True)
    def task() -> None: ...

    job = task.send()
    for call, error, remedy in (
        (lambda: task.delay(1), AttributeError, "has no attribute 'delay'. Use send(...), in"),
        (lambda: task.options(delay=1).apply_async(), AttributeError, "options(delay=60).send"),
        (lambda: task.unknown, AttributeError, "'DeclaredTask' object has no attribute 'unknown'"),
        (lambda: job.get, AttributeError, "Use result(timeout=10)"),
        (lambda: job.revoke, AttributeError, "Use cancel()"),
        (lambda: tasks.send_task("t"), AttributeError, "Use task.send(...)"),
        (lambda: task.options(countdown=5), TypeError, "no option 'countdown'. Use delay="),
        (lambda: task.options(queue="b"), TypeError, "a task has one queue"),
        (lambda: task.options(unknown=1), TypeError, "unexpected keyword argument 'unknown'"),
        (lambda: tasks.task(autoretry_for=(OSError,)), TypeError, "Use max_retries= and backoff="),
        (lambda: tasks.task(max_retry=3), TypeError, "Tasks.task has no option 'max_retry'. Did "),
    ):
        with pytest.raises(error) as refused:
            call()
        assert remedy in str(refused.value)
    assert not hasattr(task, "delay")
    assert len(tasks.client.peek_messages("q")) == 1


def test_a_job_of_a_synchronous_send_can_not_be_awaited(tasks):
    @tasks.task(queue="q", name="t")
    def task() -> None: ...

    job = task.send()

    async def wait():
        await job

    with pytest.raises(TypeError, match=r"send a task with await task\.asend\(\)"):
        asyncio.run(wait())


def test_a_wrong_schedule_is_refused_when_it_is_declared(tasks):
    @tasks.task(queue="q", name="t")
    def task() -> None: ...

    for name, options, hint in (
        ("a", {}, "every"),
        ("a", {"cron": "61 * * * *"}, "cron"),
        ("a", {"cron": "0 3 * * *", "timezone": "Europe/Nowhere"}, "timezone"),
        ("a b", {"every": 60}, "name"),
    ):
        with pytest.raises((InvalidFormat, InvalidValue, MissingParameter), match=hint):
            tasks.schedule(name, task.signature(), **options)
    tasks.schedule("a", task.signature(), every=60)
    tasks.run_all()


def test_a_program_without_the_extra_for_schedules_can_declare_them(tasks, monkeypatch):
    @tasks.task(queue="q", name="t")
    def task() -> None: ...

    def refuse(*args, **options):
        raise MissingExtra("schedules", "cron")

    monkeypatch.setattr(Worker, "schedule", refuse)
    tasks.schedule("a", task.signature(), cron="0 3 * * *", timezone="UTC")
    with pytest.raises(MissingExtra):
        tasks.worker()


class Lazy:
    """As Flask's current_app outside of a request."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


def test_a_module_without_this_worker_names_what_it_has(monkeypatch):
    monkeypatch.setattr(app, "current_app", Lazy(), raising=False)
    assert import_worker("tests.tasks.app:tasks").queues
    for name in ("missing", "welcome"):
        with pytest.raises(NotImportable, match=r"Names in it: tests\.tasks\.app:tasks"):
            import_worker(f"tests.tasks.app:{name}")
