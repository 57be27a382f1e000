"""Ready-made middleware, in workers with handlers of each kind."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from rsmq import JSON, InvalidFormat, InvalidValue
from rsmq.worker import Middleware
from rsmq.worker.middlewares import CallContext, LockByKey, Permission, RateLimit, SlowCalls
from tests.scale import WAIT_SECONDS
from tests.workers import limited_app
from tests.workers.polling import wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def listen(worker, kind, handle, **options):
    """Add a listener whose handler is a thread, a task, a batch or one of several."""

    async def handle_later(body, message):
        await asyncio.sleep(0)
        handle(body, message)

    def handle_batch(bodies, messages):
        for body, message in zip(bodies, messages, strict=True):
            handle(body, message)

    if kind == "group":
        worker.handlers("q", **options).handler("one")(handle)
    else:
        handler = {"task": handle_later, "batch": handle_batch}.get(kind, handle)
        worker.listener("q", batch=10 if kind == "batch" else None, **options)(handler)


KINDS = ["thread", "task", "batch", "group"]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_over_the_rate_limit_come_back_without_an_attempt(env, rsmq, kind):
    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[RateLimit(3, 600)])
    attempts = []
    listen(
        worker,
        kind,
        lambda body, message: attempts.append(message.attempt),
        max_retries=0,
        dead_letter_queue="dead",
    )
    rsmq.send_messages("q", [str(number) for number in range(5)])
    worker.start()
    wait_until(lambda: worker.numbers.handled == 3 and worker.numbers.deferred == 2)
    first, second = sorted(env.due_in("q", id) for id in env.scores("q"))
    assert 100 < first <= 200 < second <= 401
    env.raw.delete(f"{env.ns}:x:rate:q")  # as if the period had passed
    env.advance_time("q", 600)
    wait_until(lambda: worker.numbers.handled == 5)
    worker.stop()

    assert attempts == [1] * 5
    assert env.is_empty("q")
    assert env.is_empty("dead")


class CountReceives(Middleware):
    """Counts how often each message was received."""

    def __init__(self):
        self.counts = Counter()

    def after_receive(self, queue, messages):
        self.counts.update(message.body for message in messages)


@pytest.mark.parametrize("backend", ["memory"])
def test_a_backlog_over_the_rate_limit_is_received_twice(env, rsmq):
    """Each message gets a turn of its own; time passes in steps of one interval."""
    env.create_queues("q")
    receives = CountReceives()
    worker = env.create_worker(middleware=[RateLimit(10, 1000), receives])
    handled = []
    worker.listener("q", retry_forever=True)(handled.append)
    bodies = [str(number) for number in range(80)]
    rsmq.send_messages("q", bodies)
    worker.start()
    wait_until(lambda: len(handled) == 10 and worker.numbers.deferred == 70)
    dues = sorted(env.due_in("q", id) for id in env.scores("q"))
    assert [round(due / 100) for due in dues] == list(range(1, 71))

    def has_settled(number):
        settled = worker.numbers.handled + worker.numbers.deferred
        return worker.numbers.handled >= number and settled == receives.counts.total()

    rate = f"{env.ns}:x:rate:q"
    for step in range(1, 76):
        for field in ("until", "turn"):
            env.raw.hincrbyfloat(rate, field, -100_000)
        env.advance_time("q", 100)
        if step == 30:  # new messages take permits of others, which come back behind the last
            rsmq.send_messages("q", ["new"] * 5)
            wait_until(lambda: worker.numbers.deferred >= 75)
        wait_until(lambda step=step: has_settled(10 + step))
    worker.stop()

    assert Counter(handled) == dict.fromkeys(bodies, 1) | {"new": 5}
    assert receives.counts.total() <= 2 * 85
    assert env.is_empty("q")


@pytest.mark.parametrize("make", [
    lambda: RateLimit(9, 9), lambda: LockByKey(lambda message: "k"), lambda: SlowCalls(9),
])  # fmt: skip
@pytest.mark.parametrize("backend", ["memory"])
def test_an_object_is_for_one_running_worker(env, rsmq, make):
    env.create_queues("q")
    middleware = make()
    first = env.create_worker(middleware=[middleware])
    second = env.create_worker(middleware=[middleware])
    for each in (first, second):
        each.listener("q", retry_forever=True)(lambda body: None)
    first.start()
    with pytest.raises(InvalidFormat, match=r"another worker that is running. Make one for each"):
        second.start()
    first.stop()
    rsmq.send_message("q", "x")
    second.start()
    wait_until(lambda: second.numbers.handled == 1)


@pytest.mark.parametrize("backend", ["memory"])
def test_two_locks_of_a_queue_need_names_of_their_own(env, rsmq):
    env.create_queues("q")

    def start(**options):
        locks = [
            LockByKey(lambda message: message.body["to"], after=500),
            LockByKey(lambda message: message.body["by"], after=500, **options),
        ]
        worker = env.create_worker(middleware=locks)
        worker.listener("q", codec=JSON, retry_forever=True)(lambda body: None)
        worker.start()
        return worker

    for options in ({}, {"queues": ["q"]}):
        with pytest.raises(InvalidFormat, match="Give one of them another name="):
            start(**options)
    id = rsmq.send_message("q", "{}")
    rsmq.receive_message("q", vt=600)
    created = env.raw.hget(f"{env.ns}:q:Q", "created")
    env.raw.hset(f"{env.ns}:q:x:locks", mapping={"": created, "by=b": f"1:{id}"})
    worker = start(name="by")
    rsmq.send_messages("q", ['{"to": "b", "by": "a"}', '{"to": "a", "by": "b"}'])
    wait_until(lambda: worker.numbers.handled == 1 and worker.numbers.deferred == 1)

    def locks():
        return {f for f in env.raw.hkeys(f"{env.ns}:q:x:locks") if b"=" in f}

    # The message that waits for one lock has given the other one back.
    wait_until(lambda: locks() == {b"=b", b"by=a", b"by=b"})


def test_workers_and_queues_share_a_limit_by_its_name(env, rsmq):
    env.create_queues("q", "r")
    handled = []
    workers = []
    for queue in ("q", "r"):
        limit = RateLimit(4, 600, name="api")
        worker = env.create_worker(rsmq=env.create_client(), middleware=[limit])
        worker.listener(queue, retry_forever=True)(handled.append)
        workers.append(worker)
        rsmq.send_messages(queue, ["x"] * 5)
    for worker in workers:
        worker.start()
    wait_until(lambda: sum(each.numbers.deferred for each in workers) == 6)

    assert len(handled) == 4
    assert env.raw.keys(f"{env.ns}:x:rate:*") == [f"{env.ns}:x:rate:api".encode()]


def test_keys_have_limits_of_their_own_and_some_messages_have_none(env, rsmq):
    env.create_queues("q", "other")
    limit = RateLimit(1, 600, queues="q", key=lambda message: message.body[0].strip("-") or None)
    worker = env.create_worker(middleware=[limit])
    handled = []
    worker.listener("q", retry_forever=True)(handled.append)
    worker.listener("other", retry_forever=True)(handled.append)
    rsmq.send_messages("q", ["a1", "a2", "b1", "-1", "-2"])
    rsmq.send_messages("other", ["a3", "a4"])
    worker.start()
    wait_until(lambda: worker.numbers.handled == 6 and worker.numbers.deferred == 1)

    assert sorted(handled) == ["-1", "-2", "a1", "a3", "a4", "b1"]


@pytest.mark.parametrize("kind", ["rate", "lock"])
def test_a_key_function_that_fails_fails_its_message_only(env, rsmq, kind):
    def key(message):
        return {"none": 5}[message.body] if message.body != "fine" else "k"

    env.create_queues("q", "dead")
    middleware = RateLimit(9, 9, key=key) if kind == "rate" else LockByKey(key)
    worker = env.create_worker(middleware=[middleware])
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(lambda body: None)
    rsmq.send_messages("q", ["fine", "other", "none"])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    reasons = sorted(each.reason.exception.split(":")[0] for each in rsmq.peek_messages("dead"))
    assert reasons == ["InvalidFormat", "KeyError"]
    assert worker.numbers.handled == 1


@pytest.mark.parametrize("kind", ["rate", "lock"])
@pytest.mark.parametrize("backend", ["redis"])
def test_no_message_passes_while_the_decision_is_unknown(env, rsmq, kind, caplog):
    env.create_queues("q")
    lock = LockByKey(lambda message: "k", after=500)
    worker = env.create_worker(middleware=[RateLimit(9, 9) if kind == "rate" else lock])
    handled = []
    worker.listener("q", retry_forever=True, max_deferrals=5000)(handled.append)
    key = f"{env.ns}:x:rate:q" if kind == "rate" else f"{env.ns}:q:x:locks"
    env.raw.set(key, "of another type")
    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.deferred >= 1)

    assert handled == []
    assert any("after_receive failed" in line for line in caplog.messages)


@pytest.mark.parametrize("kind", ["thread", "task", "group"])
def test_one_call_at_a_time_runs_for_a_key(env, rsmq, kind):
    env.create_queues("q", "dead")
    running, most, handled = [], [], []
    lock = threading.Lock()

    def begin(body):
        with lock:
            running.append(body)
            most.append(max(running.count("a"), running.count("b")))

    def end(body, message):
        with lock:
            running.remove(body)
            handled.append(message.attempt)

    def handle(body, message):
        begin(body)
        threading.Event().wait(0.01)
        end(body, message)

    async def handle_later(body, message):
        begin(body)
        await asyncio.sleep(0.01)
        end(body, message)

    for number in range(2):
        middleware = LockByKey(lambda message: message.body, after=0.1)
        worker = env.create_worker(
            name=f"w{number}", rsmq=env.create_client(), middleware=[middleware]
        )
        options = {"max_retries": 0, "dead_letter_queue": "dead"}
        if kind == "task":
            worker.listener("q", **options)(handle_later)
        else:
            listen(worker, kind, handle, **options)
        worker.start()
    rsmq.send_messages("q", ["a", "b"] * 8)
    wait_until(lambda: len(handled) == 16 and env.is_empty("q"))

    assert set(most) == {1}
    assert handled == [1] * 16
    assert env.is_empty("dead")


def test_a_retry_and_a_deferral_free_the_key_for_other_messages(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(middleware=[LockByKey(lambda message: "k", after=500)])
    calls = []

    @worker.listener("q", backoff=500, retry_forever=True)
    def handle(body, message):
        calls.append(body)
        if body == "fails":
            raise ValueError(body)

    rsmq.send_message("q", "fails")
    worker.start()
    wait_until(lambda: worker.numbers.retried == 1)
    wait_until(lambda: not [f for f in env.raw.hkeys(f"{env.ns}:q:x:locks") if f[:1] == b"="])
    rsmq.send_message("q", "next")
    wait_until(lambda: worker.numbers.handled == 1)

    assert calls == ["fails", "next"]


@pytest.mark.parametrize("is_rate_first", [True, False])
def test_a_message_over_the_rate_limit_locks_no_key(env, rsmq, is_rate_first):
    env.create_queues("q")
    lock = LockByKey(lambda message: "k", after=500)
    limit = RateLimit(1, 600, name="one")
    worker = env.create_worker(middleware=[limit, lock] if is_rate_first else [lock, limit])
    worker.listener("q", retry_forever=True)(lambda body: None)
    env.raw.hset(f"{env.ns}:x:rate:one", "until", env.raw.time()[0] * 1000 + 600_000)
    rsmq.send_message("q", "over the limit")
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 1)
    wait_until(lambda: not [f for f in env.raw.hkeys(f"{env.ns}:q:x:locks") if f[:1] == b"="])


def test_a_message_with_a_locked_key_uses_no_permit(env, rsmq):
    env.create_queues("q")
    lock = LockByKey(lambda message: message.body, after=500)
    worker = env.create_worker(middleware=[RateLimit(2, 600), lock])
    handled = []
    worker.listener("q", retry_forever=True)(handled.append)
    id = rsmq.send_message("q", "k")
    rsmq.receive_message("q", vt=600)
    created = env.raw.hget(f"{env.ns}:q:Q", "created")
    env.raw.hset(f"{env.ns}:q:x:locks", mapping={"": created, "=k": f"1:{id}"})
    rsmq.send_messages("q", ["k"] * 5)
    worker.start()
    wait_until(lambda: worker.numbers.deferred == 5)
    rsmq.send_messages("q", ["a", "b"])
    wait_until(lambda: worker.numbers.handled == 2)

    assert sorted(handled) == ["a", "b"]


@pytest.mark.parametrize("kind", ["rate", "lock"])
def test_a_key_may_be_a_text_that_is_not_valid(env, rsmq, kind):
    """JSON of any producer may have a lone surrogate; it must not stop other messages."""
    env.create_queues("q")

    def key(message):
        return "\ud800\udc80" if message.body == "bad" else message.body

    worker = env.create_worker(
        middleware=[RateLimit(9, 9, key=key) if kind == "rate" else LockByKey(key)]
    )
    handled = []
    worker.listener("q", retry_forever=True)(handled.append)
    rsmq.send_messages("q", ["bad", "fine"])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert sorted(handled) == ["bad", "fine"]


def test_a_killed_worker_leaves_no_lock_behind(env, rsmq):
    """Its message is released by the next worker of the name, and so is the lock."""
    env.create_queues("q")
    id = rsmq.send_message("q", "of a dead worker")
    message = rsmq.receive_message("q", vt=600)
    created = env.raw.hget(f"{env.ns}:q:Q", "created")
    env.raw.hset(f"{env.ns}:q:x:locks", mapping={"": created, "=k": f"1:{id}"})
    worker = env.create_worker(middleware=[LockByKey(lambda message: "k", after=0.1)])
    handled = []
    worker.listener("q", retry_forever=True)(handled.append)
    rsmq.send_message("q", "next")
    worker.start()
    wait_until(lambda: worker.numbers.deferred >= 1)
    assert handled == []
    rsmq.release_messages([message])
    wait_until(lambda: worker.numbers.handled == 2)

    assert sorted(handled) == ["next", "of a dead worker"]


@pytest.mark.parametrize("backend", ["redis"])
def test_limits_hold_for_handlers_in_child_processes(env, rsmq, monkeypatch, tmp_path):
    monkeypatch.setenv("LIMITED_APP_URL", env.url)
    monkeypatch.setenv("LIMITED_APP_NS", env.ns)
    monkeypatch.setenv("LIMITED_APP_EVENTS", str(tmp_path / "events"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    env.create_queues("q")
    app = importlib.reload(limited_app)
    try:
        rsmq.send_messages("q", ["x!", "k1", "k2", "k3"])
        app.worker.start()
        wait_until(lambda: app.worker.numbers.handled == 3 and app.worker.numbers.dropped == 1)
        rsmq.send_message("q", "k4")
        wait_until(lambda: [due for id in env.scores("q") if (due := env.due_in("q", id)) > 100])
    finally:
        app.worker.stop(0)
        app.rsmq.close()

    events = app.EVENTS.read_text().splitlines()
    assert sorted(events[::2]) == ["begin k1 1", "begin k2 1", "begin k3 1"]
    assert [event.replace("begin", "end") for event in events[::2]] == events[1::2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("otherwise", ["dead_letter", "discard"])
def test_messages_without_permission_reach_no_handler(env, rsmq, kind, otherwise):
    env.create_queues("q", "dead")
    permission = Permission(
        lambda message: message.body != "bad", otherwise=otherwise, reason="unsigned"
    )
    worker = env.create_worker(middleware=[permission])
    handled = []
    listen(worker, kind, lambda body, message: handled.append(body), dead_letter_queue="dead")
    rsmq.send_messages("q", ["good", "bad", "good"])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert handled == ["good", "good"]
    reasons = [letter.reason.text for letter in rsmq.peek_messages("dead")]
    assert reasons == (
        [reasons[0]] if otherwise == "dead_letter" and "unsigned" in reasons[0] else []
    )
    assert worker.numbers.dropped == (otherwise == "discard")


class Sessions:
    """A database whose sessions are recorded."""

    def __init__(self, fails_at_commit=()):
        self.events = []
        self._fails_at_commit = fails_at_commit

    @contextmanager
    def open(self, message):
        self.events.append(("open", message.body))
        try:
            yield f"session of {message.body}"
        except BaseException as error:
            self.events.append(("rollback", type(error).__name__))
            raise
        if message.attempt == 1 and message.body in self._fails_at_commit:
            raise OSError("disk full")
        self.events.append(("commit", message.body))


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_call_runs_inside_its_context(env, rsmq, kind):
    env.create_queues("q")
    sessions = Sessions()
    session = CallContext(sessions.open)
    worker = env.create_worker(concurrency=1, middleware=[session])
    values = []

    def handle(body, message):
        values.append(session.value)
        if message.attempt == 1:
            raise ValueError(body)

    listen(worker, kind, handle, backoff=0, retry_forever=True)
    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert values == ["session of x"] * 2
    assert sessions.events == [
        ("open", "x"), ("rollback", "ValueError"), ("open", "x"), ("commit", "x"),
    ]  # fmt: skip
    with pytest.raises(LookupError, match="no handler runs here"):
        _ = session.value


def test_several_handlers_enter_contexts_of_their_own(env, rsmq):
    env.create_queues("q")
    sessions = Sessions()
    session = CallContext(sessions.open)
    worker = env.create_worker(middleware=[session])
    group = worker.handlers("q", backoff=0, retry_forever=True)

    @group.handler()
    def first(body, message):
        with session.enter(message):
            pass

    @group.handler()
    def second(body, message):
        with pytest.raises(LookupError, match="several handlers"):
            _ = session.value
        with session.enter(message):
            if message.attempt == 1:
                raise ValueError(body)

    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert sessions.events == [
        ("open", "x"), ("commit", "x"), ("open", "x"), ("rollback", "ValueError"),
        ("open", "x"), ("commit", "x"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["thread", "task", "batch"])
def test_a_context_that_can_not_be_left_fails_its_message(env, rsmq, kind):
    env.create_queues("q")
    sessions = Sessions(fails_at_commit=["x"])
    worker = env.create_worker(middleware=[CallContext(sessions.open)])
    attempts = []
    listen(
        worker,
        kind,
        lambda body, message: attempts.append((body, message.attempt)),
        backoff=0,
        retry_forever=True,
    )
    rsmq.send_messages("q", ["x", "y"])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert sorted(attempts) == [("x", 1), ("x", 2), ("y", 1)]
    assert (worker.numbers.failed, worker.numbers.handled) == (1, 2)
    assert ("commit", "x") in sessions.events


def test_a_context_that_can_not_be_entered_calls_no_handler(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[CallContext(lambda message: object())])
    handled = []
    worker.listener("q", max_retries=0, dead_letter_queue="dead")(handled.append)
    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert handled == []
    [letter] = rsmq.peek_messages("dead")
    assert letter.reason.exception.startswith("InvalidFormat")


def wait_in_a_thread(gate):
    gate()


async def wait_in_a_task(event):
    await event.wait()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_slow_call_is_logged_once_with_its_place(env, rsmq, caplog, gate, is_async):
    env.create_queues("q")
    worker = env.create_worker(middleware=[SlowCalls(0.05)])

    def handle(body):
        if body == "slow":
            wait_in_a_thread(gate)

    waiting = []

    async def handle_later(body):
        if body == "slow":
            waiting.append((asyncio.get_running_loop(), asyncio.Event()))
            await wait_in_a_task(waiting[0][1])

    worker.listener("q", retry_forever=True)(handle_later if is_async else handle)
    id = rsmq.send_message("q", "slow")
    rsmq.send_message("q", "quick")
    worker.start()

    def reports():
        return [line for line in list(caplog.messages) if "has been running" in line]

    wait_until(reports)
    gate.open()
    for loop, event in waiting:
        loop.call_soon_threadsafe(event.set)
    wait_until(lambda: worker.numbers.handled == 2)
    worker.stop()

    [report] = reports()
    assert report.startswith(f"q {id}: its handler has been running for ")
    assert ("wait_in_a_task" if is_async else "wait_in_a_thread") in report
    [end] = [line for line in caplog.messages if "its handler took" in line]
    assert id in end


def test_invalid_settings_are_refused():
    for make, text in (
        (lambda: RateLimit(0, 1), "calls"),
        (lambda: RateLimit(1, 0), "period"),
        (lambda: RateLimit(1, 1, name="a:b"), "A-Z a-z 0-9"),
        (lambda: RateLimit(1, 1, name="\ud800"), "A-Z a-z 0-9"),
        (lambda: RateLimit(1, 1, key="k"), "a function of the message"),
        (lambda: LockByKey(None), "a function of the message"),
        (lambda: LockByKey(str, after=0), "after"),
        (lambda: LockByKey(str, name="a=b"), "A-Z a-z 0-9"),
        (lambda: Permission("x"), "a function of the message"),
        (lambda: Permission(bool, otherwise="drop"), "'dead_letter' or 'discard'"),
        (lambda: CallContext(nullcontext()), "a function of the message"),
        (lambda: SlowCalls(0), "seconds"),
    ):
        with pytest.raises((InvalidFormat, InvalidValue), match=text):
            make()
