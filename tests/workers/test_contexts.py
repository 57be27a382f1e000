"""Context variables: each call has a copy of the context in which the worker was started."""

from __future__ import annotations

import asyncio
import decimal
import importlib
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path

import pytest

from rsmq.worker import Middleware
from rsmq.worker.middlewares import CallContext
from tests.scale import WAIT_SECONDS
from tests.workers import context_app
from tests.workers.polling import wait_until

tenant: ContextVar[str] = ContextVar("tenant", default="none")
KINDS = ["thread", "task", "batch", "several", "several async"]


def listen(worker, kind, queue, handle):
    """Add a listener whose handler is a thread, a task, a batch or one of two for each message."""

    async def handle_later(body):
        handle(body)
        await asyncio.sleep(0)
        handle(body)

    options = {"drop": True, "max_retries": 0}
    if kind.startswith("several"):
        group = worker.handlers(queue, **options)
        for name in ("one", "two"):
            group.handler(name)(handle_later if kind == "several async" else handle)
    elif kind == "batch":
        worker.listener(queue, batch=2, **options)(lambda bodies: [handle(each) for each in bodies])
    else:
        worker.listener(queue, **options)(handle_later if kind == "task" else handle)


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_sees_the_variables_of_another_one(env, rsmq, kind):
    env.create_queues("q", "r")
    worker = env.create_worker(concurrency=1)
    seen = {}

    def handle(body):
        seen.setdefault(body, []).append(tenant.get())
        tenant.set(body)

    for queue in ("q", "r"):  # one slot: calls of both queues follow each other
        listen(worker, kind, queue, handle)
    bodies = [f"{queue}{number}" for queue in ("q", "r") for number in range(10)]
    for body in bodies:
        rsmq.send_message(body[0], body)
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    expected = {
        "thread": ["none"],
        "task": ["none", ...],
        "batch": None,
        "several": ["none", "none"],
        "several async": ["none", ..., "none", ...],
    }[kind]
    assert sorted(seen) == sorted(bodies)
    for body, values in seen.items():
        if expected is None:  # the first message of a batch, or the second one of the same call
            assert values[0] == "none" or values[0] in bodies
        else:
            assert values == [body if each is ... else each for each in expected]
    if kind == "batch":
        assert sum(values == ["none"] for values in seen.values()) >= len(bodies) / 2
    assert tenant.get() == "none"


@pytest.mark.parametrize("kind", KINDS)
def test_calls_see_the_context_in_which_the_worker_was_started(env, rsmq, kind):
    env.create_queues("q")
    worker = env.create_worker()
    seen = []
    listen(worker, kind, "q", lambda _body: seen.append(tenant.get()))
    context = copy_context()
    context.run(tenant.set, "of the program")
    rsmq.send_message("q", "1")
    context.run(lambda: worker.run(until_empty=True, timeout=WAIT_SECONDS))

    assert set(seen) == {"of the program"}


def test_a_task_on_the_loop_of_the_program_has_a_context_of_its_own(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)
    seen = []

    @worker.listener("q", drop=True, max_retries=0)
    async def handle(body):
        seen.append(tenant.get())
        tenant.set(body)
        await asyncio.sleep(0)
        # What the handler starts has its context, and a timeout works in it.
        async with asyncio.timeout(30):
            seen.append(await asyncio.create_task(read()))
        seen.append(await asyncio.to_thread(tenant.get))

    async def read():
        return tenant.get()

    async def main():
        tenant.set("of the program")
        running = asyncio.create_task(worker.run_async())
        while worker.numbers.handled < 3:
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        return tenant.get()

    rsmq.send_messages("q", ["1", "2", "3"])
    assert asyncio.run(main()) == "of the program"
    own = [[seen[at], seen[at + 1], seen[at + 2]] for at in range(0, 9, 3)]
    assert own == [["of the program", each, each] for each in ("1", "2", "3")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_used_before", [False, True])
def test_the_precision_of_decimals_belongs_to_a_call(env, rsmq, kind, is_used_before):
    env.create_queues("q")
    worker = env.create_worker(concurrency=1)
    seen = []

    def handle(body):
        seen.append(decimal.getcontext().prec)
        decimal.getcontext().prec = int(body)

    def run():
        if is_used_before:
            decimal.getcontext().prec = 50
        worker.run(until_empty=True, timeout=WAIT_SECONDS)
        return decimal.getcontext().prec

    listen(worker, kind, "q", handle)
    rsmq.send_messages("q", [str(number) for number in range(3, 9)])
    prec = 50 if is_used_before else decimal.DefaultContext.prec
    context = copy_context()
    context.run(decimal.setcontext, decimal.Context(prec=prec)) if is_used_before else None
    assert context.run(run) == prec
    firsts = {
        "thread": seen,
        "task": seen[::2],
        "batch": seen[::2],
        "several": seen,
        "several async": seen[::2],
    }[kind]
    assert len(firsts) >= 3
    assert set(firsts) == {prec}


@pytest.mark.parametrize("kind", ["thread", "task", "batch", "several", "several async"])
def test_hooks_share_the_context_of_their_call_only(env, rsmq, kind):
    env.create_queues("q")
    left = []

    class SetTenant(Middleware):
        def before_handle(self, message):
            assert tenant.get() in ("none", "of 1")  # of the same batch
            tenant.set(f"of {message.body}")

        def after_handle(self, message, error, seconds):
            left.append(tenant.get())

    worker = env.create_worker(concurrency=1, middleware=[SetTenant()])
    seen = []
    listen(worker, kind, "q", lambda _body: seen.append(tenant.get()))
    rsmq.send_message("q", "1")
    rsmq.send_message("q", "2")
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert set(seen) <= {"of 1", "of 2"}
    assert "none" not in left
    assert worker.numbers.handled == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_context_is_over_for_the_next_call(env, rsmq, is_async):
    env.create_queues("q", "r")
    entered = []

    @contextmanager
    def enter(message):
        entered.append(message.body)
        yield message.body

    session = CallContext(enter)
    worker = env.create_worker(concurrency=1, middleware=[session])
    seen = []
    kind = "task" if is_async else "thread"
    listen(worker, kind, "q", lambda body: seen.append((body, session.value)))
    rsmq.send_messages("q", ["1", "2"])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert set(seen) == {("1", "1"), ("2", "2")}
    with pytest.raises(LookupError):
        _ = session.value


def test_calls_in_child_processes_share_no_variables(env, rsmq, monkeypatch, tmp_path):
    monkeypatch.setenv("CONTEXT_APP_URL", env.url)
    monkeypatch.setenv("CONTEXT_APP_NS", env.ns)
    monkeypatch.setenv("CONTEXT_APP_EVENTS", str(tmp_path / "events"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    env.create_queues("q")
    app = importlib.reload(context_app)
    try:
        rsmq.send_messages("q", ["1", "2", "3"])
        app.worker.start()
        wait_until(lambda: app.worker.numbers.handled == 3)
    finally:
        app.worker.stop(0)
        app.rsmq.close()

    # The variables of ``child_start`` are those of each call.
    assert app.EVENTS.read_text().splitlines() == ["none open"] * 3
