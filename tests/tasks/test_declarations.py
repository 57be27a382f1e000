"""What can be declared as a task, and what happens if it is declared again."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from functools import partial

import pytest

from rsmq import InvalidFormat
from rsmq.tasks import RESULT, Tasks
from rsmq.worker.children.processes import ChildProcesses
from tests.scale import WAIT_SECONDS
from tests.tasks import process_app as app


def add(first: int, second: int, *, scale: int = 1) -> int:
    return scale * (first + second)


async def add_async(first: int, second: int) -> int:
    return first + second


class Adder:
    first: str  # an annotation of the class, not of a parameter

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def __call__(self, first: int, second: int) -> int:
        return self.offset + first + second

    def add(self, first: int, second: int) -> int:
        return self(first, second)


class AsyncAdder(Adder):
    async def __call__(self, first: int, second: int) -> int:
        return self.offset + first + second


CALLABLES = {
    "partial": (partial(add, scale=10), 30),
    "partial of partial": (partial(partial(add, scale=2), scale=10), 30),
    "partial of an async function": (partial(add_async), 3),
    "object": (Adder(100), 103),
    "partial of an object": (partial(Adder(100)), 103),
    "async object": (AsyncAdder(100), 103),
    "method": (Adder(100).add, 103),
    "cached": (functools.lru_cache(add), 3),
}


@pytest.mark.parametrize("has_pydantic", [True, False])
@pytest.mark.parametrize(("function", "result"), CALLABLES.values(), ids=CALLABLES)
def test_whatever_can_be_called_by_names_can_be_a_task(
    tasks, monkeypatch, function, result, has_pydantic
):
    if not has_pydantic:
        monkeypatch.delitem(sys.modules, "rsmq.tasks.pydantic_arguments", raising=False)
        monkeypatch.setitem(sys.modules, "pydantic", None)
    task = tasks.task(queue="q", name="t", track=True)(function)
    with pytest.raises(InvalidFormat, match="second"):
        task.send(1, "many")
    job = task.send(1, 2)
    with tasks.immediate():
        assert task.send(1, 2).result() == result
    tasks.run_all()

    assert job.result(timeout=WAIT_SECONDS) == result


def test_a_name_that_a_partial_has_chosen_can_not_be_passed_by_position(tasks, raw):
    task = tasks.task(queue="q", name="t")(partial(add, 5))
    task.send(2)
    task.send(second=3, scale=4)

    assert raw("q") == [
        '{"task":"t","args":{"second":2}}',
        '{"task":"t","args":{"second":3,"scale":4}}',
    ]


def pages():
    yield 1


@pytest.mark.parametrize("function", [partial(pages), partial(partial(pages))])
def test_a_partial_of_a_generator_is_refused(tasks, function):
    with pytest.raises(InvalidFormat, match="It has a yield"):
        tasks.task(queue="q", name="t")(function)


class Unreadable(Adder):
    __signature__ = "as some functions written in C"


def test_a_function_whose_parameters_are_unknown_is_refused_at_its_declaration(tasks):
    with pytest.raises(InvalidFormat, match="Its parameters can't be read"):
        tasks.task(queue="q", name="t")(Unreadable(1))
    with pytest.raises(InvalidFormat, match="There is no task"):
        tasks.worker()


def test_a_parameter_may_have_any_name(tasks, raw):
    ran = []

    @tasks.task(queue="q", name="t", track=True)
    def task(self: int, args: int = 0, kwargs: int = 0, task: int = 0, name: int = 0) -> int:
        ran.append((self, args, kwargs, task, name))
        return self

    assert task(self=1) == 1
    task.send(2)
    job = task.options(then=task.signature(self=RESULT, args=5)).send(self=3, kwargs=4)
    with tasks.immediate():
        assert task.send(self=6, name=7).result() == 6
    assert raw("q")[0] == '{"task":"t","args":{"self":2}}'
    tasks.run_all()

    assert job.result(timeout=WAIT_SECONDS) == 3
    assert sorted(ran) == [
        (1, 0, 0, 0, 0),
        (2, 0, 0, 0, 0),
        (3, 0, 4, 0, 0),
        (3, 5, 0, 0, 0),
        (6, 0, 0, 0, 7),
    ]


def test_an_argument_self_that_a_task_does_not_have_is_a_dead_letter_at_once(tasks):
    @tasks.task(queue="q", name="t")
    def task() -> None: ...

    task.send()
    tasks.client.purge_queue("q")
    tasks.client.send_message("q", '{"task":"t","args":{"self":1}}')
    tasks.run_all()

    [dead] = tasks.client.peek_messages("q-dead")
    assert "got an unexpected keyword argument 'self'" in dead.reason.text
    assert dead.reason.attempts == 1


MODULE = """
from tests.tasks.test_declarations import again, ran

@again.tasks.task(queue={queue!r}, name="mail.welcome"{options})
def welcome(number: int) -> None:
    ran.append((number, {version}))

@again.tasks.task(queue="mail", name="mail.farewell")
def farewell() -> None: ...

again.tasks.schedule("nightly", welcome.signature(1), every=3600)
"""


class again:  # noqa: N801 - a place for the object of a test
    tasks: Tasks


ran: list[tuple[int, int]] = []


@pytest.fixture
def load(tasks, tmp_path, monkeypatch):
    """Return a function that writes a module, and loads it for the first or another time."""
    again.tasks = tasks
    ran.clear()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(version, queue="mail", options=""):
        code = MODULE.format(version=version, queue=queue, options=options)
        (tmp_path / "declaring_module.py").write_text(code)
        importlib.invalidate_caches()
        if "declaring_module" not in sys.modules:
            return importlib.import_module("declaring_module")
        return importlib.reload(sys.modules["declaring_module"])

    yield load
    sys.modules.pop("declaring_module", None)


def test_a_module_that_is_loaded_again_replaces_its_tasks(tasks, load):
    module = load(1)
    first = module.welcome
    load(2)
    first.send(1)
    module.welcome.send(2)
    tasks.run_all()

    assert sorted(ran) == [(1, 2), (2, 2)]
    assert tasks.worker().queues == ["mail"]


def test_a_cell_that_is_run_again_replaces_its_task_also_with_other_options_and_queue(tasks):
    values = {"__name__": "__main__", "tasks": tasks, "ran": []}
    cell = """
@tasks.task(queue={queue!r}, name="count"{options})
{prefix}def count(number: int) -> None:
    ran.append(number)
"""
    exec(cell.format(queue="a", options=", max_retries=1", prefix=""), values)
    exec(cell.format(queue="a", options=", max_retries=2, track=True", prefix=""), values)
    assert values["count"].is_tracked
    exec(cell.format(queue="a", options="", prefix="async "), values)
    assert (values["count"].is_async, values["count"].is_tracked) == (True, False)
    exec(cell.format(queue="b", options="", prefix=""), values)
    values["count"].send(5)
    tasks.run_all()

    assert values["ran"] == [5]
    assert tasks.worker().queues == ["b"]
    assert sorted(tasks.client.list_queues()) == ["b", "b-dead"]


def test_another_function_of_the_name_and_other_options_of_a_shared_queue_are_refused(tasks, load):
    load(1, options=", max_retries=1")
    tasks.queue("mail", concurrency=2)
    with pytest.raises(InvalidFormat, match=r"tasks\.queue\('mail'\) has another one"):
        load(2, options=", concurrency=3")
    for other in (add, lambda number: None, partial(add, 1), Adder(1)):
        with pytest.raises(InvalidFormat, match="There is a task of this name, for queue 'mail'"):
            tasks.task(queue="mail", name="mail.welcome")(other)
    tasks.task(queue="q", name="lambda")(lambda: None)
    with pytest.raises(InvalidFormat, match="There is a task of this name"):
        tasks.task(queue="q", name="lambda")(lambda: None)

    sys.modules["declaring_module"].welcome.send(1)
    tasks.run_all()
    assert ran == [(1, 1)]


def test_a_schedule_may_be_declared_again_but_not_another_one_of_its_name(tasks):
    task = tasks.task(queue="q", name="t")(lambda number: None)
    for _ in range(2):
        tasks.schedule("s", task.signature(1), every=60)
    for signature, every in ((task.signature(2), 60), (task.signature(1), 61)):
        with pytest.raises(InvalidFormat, match="This schedule is declared already"):
            tasks.schedule("s", signature, every=every)


@pytest.fixture
def started(monkeypatch):
    """Return the calls that started a child process."""
    calls, start_child = [], ChildProcesses._start_child

    def note(children):
        calls.append(children)
        return start_child(children)

    monkeypatch.setattr(ChildProcesses, "_start_child", note)
    return calls


@pytest.fixture
def tasks_of_processes():
    for queue in app.tasks.client.list_queues():
        app.tasks.client.purge_queue(queue)
    return app.tasks


def test_run_all_starts_a_child_process_only_for_a_message_that_needs_one(
    tasks_of_processes, started
):
    job = app.find_thread.send()
    tasks_of_processes.run_all(timeout=None)
    assert job.result(timeout=WAIT_SECONDS) == os.getpid()
    assert started == []

    with tasks_of_processes.worker():  # its start finds faults of the module
        assert len(started) == 1
    job = app.find_process.send()
    tasks_of_processes.run_all(timeout=None)
    assert len(started) == 2
    assert job.result(timeout=WAIT_SECONDS) != os.getpid()


def test_run_all_raises_the_error_of_a_child_process_that_can_not_start(
    tasks_of_processes, monkeypatch
):
    monkeypatch.setattr(
        "rsmq.worker.worker.find_import_name", lambda worker, source: "no.such.module:tasks"
    )
    app.find_process.send()
    with pytest.raises(InvalidFormat, match="A child process can't start"):
        tasks_of_processes.run_all(timeout=None)
