"""The outcome of a task is decided when its contexts and hooks have ended, and then written."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

from rsmq import RSMQ, InvalidFormat, MessageTooLong
from rsmq.operations.plain import plain_command
from rsmq.tasks import RESULT, Tasks
from rsmq.worker import Middleware
from rsmq.worker.middlewares import CallContext
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.tasks import app
from tests.workers.polling import state_of, wait_until

KINDS = ["thread", "task", "process"]


class CommitError(Exception):
    """The database has refused a commit."""


def declare(tasks, ran, *, is_async=False, **options):
    """Return two tasks; the second one follows the first one."""

    def note(number: int) -> int:
        ran.append(number)
        return number + 1

    async def note_async(number: int) -> int:
        return note(number)

    options = {"max_retries": 3, "backoff": 0.01, "track": True, **options}
    function = note_async if is_async else note
    first = tasks.task(queue="a", name="first", **options)(function)
    second = tasks.task(queue="b", name="second")(lambda number: ran.append(("second", number)))
    return first, second


def session_of(tasks, commits, fail):
    """Return the middleware of a session; ``fail`` says for each commit whether it fails."""

    @contextmanager
    def enter(message):
        yield
        if message.queue == "a":
            # Whatever follows from the outcome is not there before the commit.
            commits.append(([each.id for each in tasks.client.peek_messages("a")], sent(tasks)))
            if next(fail):
                raise CommitError("the database is away")

    return CallContext(enter)


def sent(tasks):
    """Return how many messages were sent to the queue of the next task."""
    if "b" not in tasks.client.list_queues():
        return 0
    return tasks.client.get_queue_attributes("b").total_sent


def record(tasks, job):
    return tasks.client.run(plain_command("HGETALL", f"rsmq:a:x:job:{job.id}".encode()))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_map", [False, True])
def test_a_commit_that_fails_is_a_failure_and_what_follows_waits_for_the_next_one(
    tasks, is_async, is_map
):
    ran, commits, states = [], [], []
    first, second = declare(tasks, ran, is_async=is_async)
    session = session_of(tasks, commits, itertools.chain([True, True], itertools.repeat(False)))

    class Retries(Middleware):
        def after_retry(self, message, after, error):
            states.append((type(error).__name__, record(tasks, job)[b"state"]))

    if is_map:
        [job] = tasks.map(first, [1], then=second.signature(7))
    else:
        job = first.options(then=second.signature(RESULT)).send(1)
    tasks.worker(middleware=[session, Retries()]).run(until_empty=True, timeout=WAIT_SECONDS)

    assert ran == [1, 1, 1, ("second", 7 if is_map else 2)]
    assert states == [("CommitError", b"retrying")] * 2
    assert commits == [([job.id], 0)] * 3
    assert sent(tasks) == 1
    assert job.result(WAIT_SECONDS) == 2


def test_an_outer_middleware_sees_that_an_inner_one_has_failed(tasks):
    ran, commits, seen = [], [], []
    first, _ = declare(tasks, ran, max_retries=0)
    session = session_of(tasks, commits, itertools.repeat(True))

    class Report(Middleware):
        def after_handle(self, message, error, seconds):
            seen.append(type(error).__name__)

    first.send(1)
    tasks.worker(middleware=[Report(), session, Report()]).run(
        until_empty=True, timeout=WAIT_SECONDS
    )
    assert seen == ["NoneType", "CommitError"]


def test_a_commit_that_fails_for_the_last_time_sends_nothing(tasks):
    ran, commits = [], []
    first, second = declare(tasks, ran, max_retries=0)
    session = session_of(tasks, commits, itertools.repeat(True))
    job = first.options(then=second.signature(RESULT)).send(1)
    tasks.worker(middleware=[session]).run(until_empty=True, timeout=WAIT_SECONDS)

    assert ran == [1]
    assert sent(tasks) == 0
    assert record(tasks, job)[b"state"] == b"failed"
    [dead] = tasks.client.peek_messages("a-dead")
    assert dead.reason.text == "CommitError on attempt 1, the last"


def test_a_worker_that_dies_before_its_commit_has_sent_nothing(tasks):
    ran = []
    first, second = declare(tasks, ran, vt=1)
    is_entered, may_end = threading.Event(), threading.Event()

    class HangingCommit(Middleware):
        def after_handle(self, message, error, seconds):
            if not is_entered.is_set():
                is_entered.set()
                may_end.wait(WAIT_SECONDS)
                message.fail(CommitError())

    job = first.options(then=second.signature(RESULT)).send(1)
    worker = tasks.worker(middleware=[HangingCommit()], grace=0)
    worker.start()
    assert is_entered.wait(WAIT_SECONDS)
    # As a kill at this moment would leave it.
    [message] = tasks.client.peek_messages("a")
    assert (message.id, sent(tasks), record(tasks, job)[b"state"]) == (job.id, 0, b"running")
    worker.stop()
    may_end.set()
    tasks.run_all()
    assert ran == [1, 1, ("second", 2)]
    assert sent(tasks) == 1


def test_a_commit_decides_about_a_task_in_a_child_process(server, ns, monkeypatch):
    monkeypatch.setenv("TASKS_URL", server.url)
    monkeypatch.setenv("TASKS_NS", ns)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    tasks = importlib.reload(app).tasks
    fails, sent_before = iter([True, True, False]), []

    @contextmanager
    def enter(message):
        yield
        if message.queue == "heavy":
            sent_before.append(tasks.client.get_queue_attributes("mail").total_sent)
            if next(fails):
                raise CommitError

    tasks.client.create_queue("done")
    job = app.compute.options(then=app.welcome.signature(1)).send(7)
    worker = tasks.worker(middleware=[CallContext(enter)])
    worker.start()
    try:
        wait_until(lambda: worker.numbers.handled == 2)
    finally:
        worker.stop()
        tasks.close()

    assert sent_before == [0, 0, 0]
    with RSMQ.from_url(server.url, ns=ns) as client:
        assert len(client.receive_messages("done", 10)) == 3
        assert client.get_queue_attributes("mail").total_sent == 1
        assert client.job("heavy", job.id).result(WAIT_SECONDS) == {"root": 7, "square": 49}


@pytest.fixture
def own_server():
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_map", [False, True])
def test_an_outcome_is_kept_while_redis_is_away(own_server, is_async, is_map):
    ran, ended = [], []

    class Ends(Middleware):
        def after_handle(self, message, error, seconds):
            ended.append(error)

    def handle(number: int) -> int:
        ran.append(number)
        own_server.kill()
        return number + 1

    async def handle_async(number: int) -> int:
        return handle(number)

    def declare(tasks):
        function = handle_async if is_async else handle
        options = {"max_retries": 0, "track": True, "vt": 60}
        first = tasks.task(queue="a", name="first", **options)(function)
        second = tasks.task(queue="b", name="second")(lambda number: ran.append(("next", number)))
        return first, second

    url = own_server.url
    with Tasks.from_url(url) as producer, Tasks.from_url(url, retry_deadline=0.05) as tasks:
        declare(tasks)
        first, second = declare(producer)
        if is_map:
            [job] = producer.map(first, [1], then=second.signature(2))
        else:
            job = first.options(then=second.signature(RESULT)).send(1)
        worker = tasks.worker(middleware=[Ends()])
        wait_until(lambda: start(worker))
        # Calls fail for longer than the deadline of their retries.
        wait_until(lambda: ended and state_of(worker).has_failing_server)
        own_server.start()
        wait_until(lambda: worker.numbers.handled == 2)
        worker.stop()

        assert ran == [1, ("next", 2)]
        assert ended == [None, None]
        assert (worker.numbers.dead, worker.numbers.failed) == (0, 0)
        assert job.result(WAIT_SECONDS) == 2
        assert sent(producer) == 1
        assert not producer.client.peek_messages("a-dead")


def start(worker):
    """Start a worker whose calls have little time; return whether they had enough."""
    with suppress(redis.exceptions.RedisError):
        worker.start()
        return True


def test_a_message_that_is_gone_is_neither_a_dead_letter_nor_retried(tasks):
    hooks = []

    class Ends(Middleware):
        def after_dead_letter(self, message, queue, reason, error):
            hooks.append("dead letter")

        def after_retry(self, message, after, error):
            hooks.append("retry")

    @tasks.task(queue="a", name="first", max_retries=1, backoff=0.01)
    def first(is_last: bool) -> None:
        tasks.client.purge_queue("a")
        raise ValueError

    @tasks.task(queue="c", name="last", max_retries=0)
    def last() -> None:
        tasks.client.purge_queue("c")
        raise ValueError

    first.send(False)
    last.send()
    worker = tasks.worker(middleware=[Ends()])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    assert hooks == []
    assert (worker.numbers.failed, worker.numbers.retried, worker.numbers.dead) == (2, 0, 0)
    assert not tasks.client.peek_messages("a-dead")
    assert not tasks.client.peek_messages("c-dead")


def test_what_does_not_fit_into_its_queue_ends_the_task_at_once(tasks):
    ran, hooks = [], []

    @tasks.task(queue="a", name="first", max_retries=5, backoff=0.01, track=True)
    def first() -> str:
        ran.append(1)
        return "x" * 2000

    @tasks.task(queue="b", name="second")
    def second(text: str) -> None: ...

    class Ends(Middleware):
        def after_dead_letter(self, message, queue, reason, error):
            hooks.append((message.queue, queue, type(error).__name__))

    tasks.client.create_queue("b", maxsize=1024)
    job = first.options(then=second.signature(RESULT)).send()
    worker = tasks.worker(middleware=[Ends()])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert ran == [1]
    assert hooks == [("a", "a-dead", "DeadLetter")]
    assert (worker.numbers.dead, worker.numbers.retried, worker.numbers.handled) == (1, 0, 0)
    [dead] = tasks.client.peek_messages("a-dead")
    assert dead.reason.text.startswith(
        "given up by its handler: it was handled, but what follows it can't be sent to queue b: "
        "Message too long: 20"
    )
    assert record(tasks, job)[b"state"] == b"failed"
    assert sent(tasks) == 0


def test_a_map_whose_end_does_not_fit_into_its_queue_is_refused(tasks, raw):
    @tasks.task(queue="a", name="item")
    def item(number: int) -> None: ...

    @tasks.task(queue="b", name="end")
    def end(text: str) -> None: ...

    tasks.client.create_queue("b", maxsize=1024)
    with pytest.raises(MessageTooLong, match="the maxsize of queue 'b' is 1024"):
        tasks.map(item, range(3), then=end.signature("x" * 2000))
    with pytest.raises(MessageTooLong):
        asyncio.run(tasks.amap(item, range(3), then=end.signature("x" * 2000)))
    assert tasks.client.list_queues() == ["b"]
    assert tasks.client.run(plain_command("KEYS", b"rsmq:x:map:*")) == []


@pytest.mark.parametrize(
    "following",
    [
        {"then": {"queue": "no such name!", "task": "second", "args": {}}},
        {"then": {"queue": "", "task": "second"}},
        {"then": {"queue": "b", "args": {}}},
        {"then": {"queue": "b", "task": "second", "args": []}},
        {"then": {"queue": 7, "task": "second"}},
        {"then": {"queue": "b", "task": "second", "result": 3}},
        {"then": []},
        {"map": {"id": "m", "number": "1e400", "queue": "b"}},
        {"map": {"id": "m", "number": 0, "queue": "no such name!"}},
        {"map": {"id": 3, "number": 0, "queue": "b"}},
        {"map": {"id": "m", "number": -1, "queue": "b"}},
    ],
)
def test_what_follows_is_checked_before_the_function_is_called(tasks, following):
    ran = []
    declare(tasks, ran)
    body = json.dumps({"task": "first", "args": {"number": 1}, **following})
    tasks.client.create_queue("a")
    tasks.client.send_message("a", body.replace('"1e400"', "1e400"))
    worker = tasks.worker()
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert ran == []
    assert (worker.numbers.dead, worker.numbers.retried) == (1, 0)
    [dead] = tasks.client.peek_messages("a-dead")
    assert dead.reason.text.startswith("given up by its handler: task first: ")


def test_a_queue_that_can_not_be_written_ends_the_task_at_once(tasks):
    ran = []
    first, second = declare(tasks, ran)
    tasks.client.run(plain_command("SET", b"rsmq:b", b"of another program"))
    tasks.client.run(
        plain_command("HSET", b"rsmq:b:Q", b"vt", b"30", b"delay", b"0", b"maxsize", b"65536")
    )
    first.options(then=second.signature(RESULT)).send(1)
    first.send(2)
    worker = tasks.worker()
    del worker._listeners["b"]
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert sorted(ran) == [1, 2]
    assert (worker.numbers.dead, worker.numbers.retried, worker.numbers.handled) == (1, 0, 1)
    [dead] = tasks.client.peek_messages("a-dead")
    assert "what follows it can't be sent to queue b: " in dead.reason.text


def test_what_follows_many_messages_is_sent_in_few_steps(tasks):
    ran = []
    first, second = declare(tasks, ran, track=False)
    tasks.send_many(
        first.options(then=second.signature(RESULT)).signature(number) for number in range(600)
    )
    steps = []
    run = tasks.client.run

    def count(operation):
        if operation.script.name == "finish_messages":
            steps.append(len(operation.keys))
        return run(operation)

    tasks.client.run = count
    tasks.run_all(timeout=WAIT_SECONDS)
    assert len(ran) == 1200
    assert sent(tasks) == 600
    assert max(steps) <= 3 + 3 * 250
    assert sum((each - 3) // 3 for each in steps) == 600


def test_a_name_that_is_no_queue_is_refused_at_the_send(tasks):
    with pytest.raises(InvalidFormat):
        tasks.task(queue="no such name!", name="x")(lambda: None)
