"""The types of tasks. mypy and pyright check this file; it is never run."""

from __future__ import annotations

from typing import Any, assert_type

from rsmq import RSMQ
from rsmq.tasks import RESULT, Job, Signature, Tasks
from rsmq.worker import Worker


def declared(tasks: Tasks, queues: RSMQ[str]) -> None:
    """Check that a task has the parameters of its function."""
    assert_type(Tasks(queues), Tasks)
    assert_type(Tasks.from_url("memory://"), Tasks)
    assert_type(tasks.worker(concurrency=2), Worker[Any])

    @tasks.task(queue="mail", max_retries=5, levels={"high": 6})
    def welcome(user_id: int, language: str = "en") -> str:
        return language * user_id

    @tasks.task(queue="async")
    async def fetch(url: str) -> bytes:
        return url.encode()

    @tasks.task
    def bare(number: float) -> None: ...

    assert_type(welcome.send(17), Job)
    assert_type(welcome.send(user_id=17, language="de"), Job)
    assert_type(welcome.options(delay=60, level="high").send(17), Job)
    assert_type(welcome.signature(17), Signature)
    assert_type(tasks.send_many([welcome.signature(1), bare.signature(1.5)]), list[Job])
    assert_type(welcome(17), str)
    assert_type(welcome.options(then=bare.signature(RESULT)).send(1), Job)
    assert_type(tasks.map(bare, [1.5], then=welcome.signature(1)), list[Job])
    assert_type(tasks.map(welcome.options(delay=1), [1], then=welcome.signature(1)), list[Job])
    tasks.schedule("nightly", welcome.signature(1), cron="@daily")

    welcome.send("17")  # type: ignore[arg-type]
    welcome.send()  # type: ignore[call-arg]
    welcome.send(17, lang="de")  # type: ignore[call-arg]
    welcome.options(delay=60).send("17")  # type: ignore[arg-type]
    welcome.signature(17, 18)  # type: ignore[arg-type]
    bare.send("x")  # type: ignore[arg-type]
    tasks.task(queue="q", retries=5)  # type: ignore[call-overload]

    async def from_asyncio() -> None:
        assert_type(await welcome.asend(17), Job)
        assert_type(await fetch.options(unique_key="a").asend("x"), Job)
        assert_type(await fetch("x"), bytes)
        await welcome.asend("17")  # type: ignore[arg-type]

    print(from_asyncio)
