"""Two ``Tasks`` objects: each takes its own calls only, and they need queues of their own."""

from __future__ import annotations

import asyncio
import gc
import itertools

import pytest

from rsmq import RSMQ, InvalidFormat
from rsmq.tasks import RESULT, Tasks

_numbers = itertools.count()


@pytest.fixture
def other():
    with Tasks.from_url(f"memory://other-tasks-{next(_numbers)}") as other:
        yield other


def declare(tasks, queue):
    @tasks.task(queue=queue, name=f"{queue}.task")
    def task(number: int) -> int:
        return number

    return task


CALLS = {
    "then": lambda tasks, own, foreign: own.options(then=foreign.signature(RESULT)),
    "send": lambda tasks, own, foreign: tasks.send(foreign.signature(1)),
    "asend": lambda tasks, own, foreign: asyncio.run(tasks.asend(foreign.signature(1))),
    "send_many": lambda tasks, own, foreign: tasks.send_many(
        [own.signature(1), foreign.signature(2)]
    ),
    "asend_many": lambda tasks, own, foreign: asyncio.run(
        tasks.asend_many([own.signature(1), foreign.signature(2)])
    ),
    "map": lambda tasks, own, foreign: tasks.map(foreign, [1], then=own.signature(1)),
    "map then": lambda tasks, own, foreign: tasks.map(own, [1], then=foreign.signature(1)),
    "amap": lambda tasks, own, foreign: asyncio.run(
        tasks.amap(foreign, [1], then=own.signature(1))
    ),
    "schedule": lambda tasks, own, foreign: tasks.schedule("s", foreign.signature(1), every=60),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("is_immediate", [False, True])
def test_a_call_of_another_object_is_refused(tasks, other, call, is_immediate):
    own, foreign = declare(tasks, "own"), declare(other, "foreign")

    def refuse():
        with pytest.raises(InvalidFormat) as refused:
            call(tasks, own, foreign)
        assert "foreign.task is declared by another Tasks object" in str(refused.value)

    if is_immediate:
        with tasks.immediate():
            refuse()
    else:
        refuse()
    assert tasks.client.list_queues() == []
    assert other.client.list_queues() == []
    asyncio.run(tasks.close_asyncio())


def test_a_call_is_sent_by_its_own_object(tasks, other):
    declare(tasks, "own")
    declare(other, "foreign").signature(1).send()

    assert tasks.client.list_queues() == []
    assert other.client.list_queues() == ["foreign"]


@pytest.fixture
def url():
    return f"memory://shared-{next(_numbers)}"


@pytest.fixture
def tasks(url):
    with Tasks.from_url(url) as tasks:
        yield tasks


def share(tasks, own_name, other_name, url, queue="shared"):
    """Return another object, each with a task of one queue."""
    other = Tasks.from_url(url)
    tasks.task(queue="shared", name=own_name)(lambda: None)
    other.task(queue=queue, name=other_name)(lambda: None)
    return other


def test_a_worker_warns_of_tasks_of_its_queue_that_another_object_declares(tasks, url, caplog):
    other = share(tasks, "own", "other", url)
    tasks.worker()
    tasks.worker()

    [text] = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert text == (
        "queue shared: another Tasks object declares other, which this worker moves to the dead "
        "letters. Declare all tasks of a queue with one object, or use several queues"
    )
    other.close()


@pytest.mark.parametrize(
    ("other_name", "queue", "place"),
    [("own", "shared", None), ("other", "other", None), ("other", "shared", "memory://elsewhere")],
)
def test_a_worker_does_not_warn_of_what_it_does_not_receive_or_runs_itself(
    tasks, url, caplog, other_name, queue, place
):
    other = share(tasks, "own", other_name, place or url, queue)
    tasks.worker()

    assert [each for each in caplog.records if each.levelname == "WARNING"] == []
    other.close()


def test_a_worker_does_not_warn_of_an_object_that_is_gone_or_of_another_namespace(
    tasks, url, caplog
):
    share(tasks, "own", "other", url).close()
    gc.collect()
    with RSMQ.from_url(url, ns="else") as client:
        other = Tasks(client)
        other.task(queue="shared", name="other")(lambda: None)
        tasks.worker()

    assert [each for each in caplog.records if each.levelname == "WARNING"] == []
