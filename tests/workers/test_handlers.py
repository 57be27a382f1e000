"""Several handlers for one message: all must finish, and a retry calls only those that have not."""

from __future__ import annotations

import asyncio
import importlib
import threading
from pathlib import Path

import pytest

from rsmq import JSON, RSMQ
from rsmq.worker import DeadLetter, Defer, Discard, Middleware, Retry
from tests.scale import WAIT_SECONDS
from tests.workers import group_app
from tests.workers.polling import wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def finished(env, queue="q"):
    """Return the record of the finished handlers, by message id, from its raw key."""
    stored = env.raw.hgetall(f"{env.ns}:{queue}:x:finished")
    return {id.decode(): names.decode() for id, names in stored.items() if id not in (b"", b":")}


class Group:
    """A listener with the handlers a, b and c, which do what a function says."""

    def __init__(self, worker, act, *, is_async=False, **options):
        self.calls = []
        group = worker.handlers("q", **options)
        for name in ("a", "b", "c"):
            group.handler(name)(self._make_handler(name, act, is_async=is_async))

    def _make_handler(self, name, act, *, is_async):
        def handle(body, message):
            self.calls.append(f"{name}{message.attempt}")
            act(name, message)

        async def handle_later(body, message):
            await asyncio.sleep(0)
            handle(body, message)

        return handle_later if is_async else handle


@pytest.mark.parametrize("is_async", [False, True])
def test_a_retry_calls_only_the_handlers_that_have_not_finished(env, rsmq, is_async):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    def act(name, message):
        if name == "b" and message.attempt < 3:
            raise ValueError("boom")

    group = Group(worker, act, is_async=is_async, backoff=500, dead_letter_queue="dead")
    id = rsmq.send_message("q", "x")
    worker.start()
    for number in (1, 2):
        wait_until(lambda: worker.numbers.retried == number)  # noqa: B023 - used at once
        assert finished(env) == {id: "a,c"}
        assert list(env.scores("q")) == [id]
        env.advance_time("q", 500)
    wait_until(lambda: worker.numbers.handled == 1)
    worker.stop()

    assert group.calls == ["a1", "b1", "c1", "b2", "b3"]
    assert env.is_empty("q")
    assert finished(env) == {}


@pytest.mark.parametrize("is_async", [False, True])
def test_messages_that_are_handled_at_once_leave_no_record(env, rsmq, is_async):
    env.create_queues("q")
    worker = env.create_worker()
    group = Group(worker, lambda name, message: None, is_async=is_async, retry_forever=True)
    rsmq.send_messages("q", [str(number) for number in range(50)])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert sorted(group.calls) == sorted(["a1", "b1", "c1"] * 50)
    assert finished(env) == {}
    assert worker.numbers.handled == 50


def test_a_finished_handler_is_recorded_while_the_next_one_runs(env, rsmq, gate):
    env.create_queues("q")
    worker = env.create_worker(name="w")

    def act(name, message):
        if name == "b":
            gate()

    Group(worker, act, retry_forever=True)
    id = rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    wait_until(lambda: finished(env) == {id: "a"})
    gate.open()
    wait_until(lambda: worker.numbers.handled == 1)
    worker.stop()

    assert finished(env) == {}


def test_another_worker_continues_after_the_handlers_that_were_recorded(env, rsmq, gate):
    env.create_queues("q")
    first, second = env.create_worker(), env.create_worker(rsmq=env.create_client())

    def act(name, message):
        if name == "b":
            gate()

    of_first = Group(first, act, retry_forever=True)
    of_second = Group(second, lambda name, message: None, retry_forever=True)
    id = rsmq.send_message("q", "x")
    first.start()
    gate.wait_for(1)
    first.stop(0)  # the message is released while b runs
    assert finished(env) == {id: "a"}
    second.run(until_empty=True, timeout=WAIT_SECONDS)
    gate.open()

    assert of_first.calls == ["a1", "b1"]
    assert of_second.calls == ["b1", "c1"]
    assert env.is_empty("q")
    assert finished(env) == {}


def test_a_handler_whose_lease_is_lost_is_the_last_one_to_be_called(env, rsmq, gate):
    env.create_queues("q")
    worker = env.create_worker()

    def act(name, message):
        gate()

    group = Group(worker, act, vt=0.3, retry_forever=True)
    id = rsmq.send_message("q", "x")
    worker.start()
    gate.wait_for(1)
    env.raw.hincrby(f"{env.ns}:q:Q", f"{id}:rc", 1)  # another consumer has received it
    wait_until(lambda: worker.numbers.lost == 1)
    rsmq.delete_message("q", id)
    gate.open()
    worker.stop()

    assert group.calls == ["a1"]
    assert finished(env) == {}


def test_the_outcome_is_one_that_calls_unfinished_handlers_again(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    def act(name, message):
        if name == "a":
            raise DeadLetter("wrong address")
        if name == "b" and message.attempt == 1:
            raise Retry("later", after=0)
        if name == "c":
            raise Discard("old")

    group = Group(worker, act, dead_letter_queue="dead")
    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert group.calls == ["a1", "b1", "c1", "a2", "b2"]
    [letter] = rsmq.peek_messages("dead")
    assert letter.reason.text == "given up by its handler: wrong address; unfinished: a"
    assert "raised by handler 'a'" in letter.reason.traceback
    assert finished(env) == {}
    assert not env.raw.hlen(f"{env.ns}:dead:x:finished")


def test_a_deferred_handler_has_no_attempt(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    def act(name, message):
        if name == "b" and message.receive_count < 4:
            raise Defer("locked", after=0)

    group = Group(worker, act, max_retries=0, dead_letter_queue="dead")
    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert group.calls == ["a1", "b1", "c1", "b1", "b1", "b1"]
    assert env.is_empty("dead")


def test_a_redriven_message_is_a_new_one_for_all_handlers(env, rsmq):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    is_broken = threading.Event()
    is_broken.set()

    def act(name, message):
        if name == "b" and is_broken.is_set():
            raise DeadLetter("broken")

    group = Group(worker, act, dead_letter_queue="dead")
    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    is_broken.clear()
    rsmq.redrive_messages("dead", "q")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert group.calls == ["a1", "b1", "c1"] * 2
    assert env.is_empty("q")


def test_a_new_handler_is_called_for_messages_that_are_retried(env, rsmq):
    env.create_queues("q")
    before, after = env.create_worker(), env.create_worker(rsmq=env.create_client())
    calls = []
    old = before.handlers("q", retry_forever=True, backoff=500)
    old.handler("a")(lambda body: calls.append("a"))
    old.handler("removed")(lambda body: calls.append("removed"))

    @old.handler("b")
    def fail(body):
        raise ValueError("boom")

    new = after.handlers("q", retry_forever=True)
    for name in ("added", "a", "b"):
        new.handler(name)(lambda body, name=name: calls.append(name))
    id = rsmq.send_message("q", "x")
    before.start()
    wait_until(lambda: before.numbers.retried == 1)
    before.stop()
    assert finished(env) == {id: "a,removed"}
    env.advance_time("q", 500)
    after.run(until_empty=True, timeout=WAIT_SECONDS)

    assert calls == ["a", "removed", "added", "b"]
    assert env.is_empty("q")


def test_each_handler_has_a_body_of_its_own_and_hooks_run_once(env, rsmq, hook_recorder):
    env.create_queues("q")
    worker = env.create_worker(middleware=[hook_recorder])
    group = worker.handlers("q", codec=JSON, retry_forever=True)
    bodies = []

    def handle(body):
        bodies.append(body["lines"].copy())
        body["lines"].clear()

    for name in ("a", "b"):
        group.handler(name)(handle)
    rsmq.send_message("q", {"lines": [1, 2]}, codec=JSON)
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert bodies == [[1, 2], [1, 2]]
    assert len(hook_recorder.calls_of("before_handle")) == 1
    assert len(hook_recorder.calls_of("after_handle")) == 1


def test_a_hook_can_refuse_the_message_for_all_handlers(env, rsmq):
    class Refusing(Middleware):
        def before_handle(self, message):
            if message.receive_count == 1:
                raise Defer("not now", after=0)

    env.create_queues("q")
    worker = env.create_worker(middleware=[Refusing()])
    group = Group(worker, lambda name, message: None, retry_forever=True)
    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert group.calls == ["a1", "b1", "c1"]


@pytest.mark.parametrize("is_async", [False, True])
def test_max_runtime_is_the_time_of_all_handlers_together(
    env, rsmq, fast_heartbeat, gate, is_async
):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    calls = []
    group = worker.handlers("q", max_runtime=0.2, max_retries=0, dead_letter_queue="dead")

    def a(body):
        calls.append("a")

    def b(body):
        calls.append("b")
        gate()

    async def a_later(body):
        a(body)

    async def b_later(body):
        calls.append("b")
        await asyncio.sleep(20)

    async def c_later(body):
        calls.append("c")

    group.handler("a")(a_later if is_async else a)
    group.handler("b")(b_later if is_async else b)
    group.handler("c")(c_later if is_async else lambda body: calls.append("c"))
    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)
    gate.open()
    worker.stop()

    assert calls == ["a", "b"]
    [letter] = rsmq.peek_messages("dead")
    assert "unfinished: b, c" in letter.reason.text


@pytest.mark.parametrize("backend", ["redis"])  # the embedded server has no users
def test_a_user_without_the_right_to_the_record_works_on(env, rsmq, caplog):
    env.create_queues("q", "dead")
    keys = " ".join(f"~{env.ns}:{name}" for name in ("q", "q:Q", "dead*", "x:*", "QUEUES"))
    env.raw.execute_command("ACL", "SETUSER", env.ns, "on", ">s", *keys.split(), "+@all")
    url = env.url.replace("redis://", f"redis://{env.ns}:s@")
    with RSMQ.from_url(url, ns=env.ns) as limited:
        worker = env.create_worker(rsmq=limited)

        def act(name, message):
            if name == "b" and message.attempt == 1:
                raise ValueError("boom")

        group = Group(worker, act, backoff=0.01, dead_letter_queue="dead")
        rsmq.send_message("q", "x")
        worker.run(until_empty=True, timeout=WAIT_SECONDS)
        worker.stop()
    env.raw.execute_command("ACL", "DELUSER", env.ns)

    assert group.calls == ["a1", "b1", "c1", "a2", "b2", "c2"]
    assert env.is_empty("q")
    assert any("which handlers have finished" in line for line in caplog.messages)


def test_a_listener_with_one_handler_writes_and_reads_no_record(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=0.01, retry_forever=True)
    def handle(body, message):
        if message.attempt < 3:
            raise ValueError("boom")

    rsmq.send_message("q", "x")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert not env.raw.exists(f"{env.ns}:q:x:finished")


@pytest.fixture
def app(env, monkeypatch, tmp_path):
    monkeypatch.setenv("GROUP_APP_URL", env.url)
    monkeypatch.setenv("GROUP_APP_NS", env.ns)
    monkeypatch.setenv("GROUP_APP_EVENTS", str(tmp_path / "events"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    env.create_queues("q", "dead")
    module = importlib.reload(group_app)
    yield module
    module.worker.stop(0)
    module.rsmq.close()


@pytest.mark.parametrize("backend", ["redis"])
def test_a_child_process_that_dies_fails_only_its_handler(env, rsmq, app):
    rsmq.send_message("q", "x")
    app.worker.run(until_empty=True, timeout=WAIT_SECONDS)

    calls = app.EVENTS.read_text().split()
    assert calls == ["first1", "second1", "third1", "second2", "second3"]
    assert env.is_empty("q")
    assert env.is_empty("dead")
    assert finished(env) == {}


def test_all_handlers_are_called_with_the_messages_of_each_level(env, rsmq):
    env.create_queues("q", "q_high", "dead")
    worker = env.create_worker()

    def act(name, message):
        if name == "b" and message.attempt == 1:
            raise ValueError("boom")

    group = Group(worker, act, levels={"high": 2}, backoff=0.01, dead_letter_queue="dead")
    rsmq.send_message("q", "x")
    rsmq.send_message("q_high", "y")
    worker.run(until_empty=True)

    assert sorted(group.calls) == ["a1", "a1", "b1", "b1", "b2", "b2", "c1", "c1"]
    assert finished(env) == finished(env, "q_high") == {}
    assert env.scores("q") == env.scores("q_high") == {}
