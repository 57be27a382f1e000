"""The types of tasks. mypy and pyright check this file; it is never run."""

from __future__ import annotations

from typing import Any, assert_type

from rsmq import RSMQ
from rsmq.jobs import AsyncJobHandle, AsyncMapJobs, JobHandle, JobStatus, MapJobs
from rsmq.tasks import RESULT, Signature, Tasks
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

    job = welcome.send(17)
    assert_type(job, JobHandle[str])
    assert_type(job.result(timeout=1), str)
    assert_type(job.status(), JobStatus[str])
    assert_type(job.status().result(), str)
    assert_type(fetch.send("x").result(), bytes)
    assert_type(bare.send(1.5), JobHandle[None])
    assert_type(welcome.send(user_id=17, language="de"), JobHandle[str])
    assert_type(welcome.options(delay=60, level="high").send(17), JobHandle[str])
    assert_type(welcome.signature(17), Signature[str])
    assert_type(welcome.signature(17).send(), JobHandle[str])
    assert_type(tasks.send_many(welcome.signature(each) for each in [1]), list[JobHandle[str]])
    assert_type(queues.wait_for_jobs([job]), list[JobStatus[str]])
    assert_type(queues.wait_for_jobs(tasks.send_many([welcome.signature(1)])), list[JobStatus[str]])
    tasks.send_many([welcome.signature(1), bare.signature(1.5)])
    assert_type(welcome(17), str)
    assert_type(welcome.options(then=bare.signature(RESULT)).send(1), JobHandle[str])
    assert_type(tasks.map(bare, [1.5], then=welcome.signature(1)), MapJobs[None, str])
    jobs: list[JobHandle[None]] = tasks.map(bare, [1.5], then=welcome.signature(1))
    assert_type(tasks.map(bare, [1.5], then=welcome.signature(1)).following(), JobHandle[str])
    assert_type(jobs[0].following(timeout=1), JobHandle[Any])
    tasks.map(welcome.options(delay=1), [1], then=welcome.signature(1))
    tasks.map(bare, range(3), then=welcome.signature(1))
    tasks.map(bare, ["x"], then=welcome.signature(1))  # type: ignore[misc]
    tasks.map(welcome, ["17"], then=welcome.signature(1))  # type: ignore[misc]
    tasks.schedule("nightly", welcome.signature(1), cron="@daily")

    welcome.send("17")  # type: ignore[arg-type]
    welcome.send()  # type: ignore[call-arg]
    welcome.send(17, lang="de")  # type: ignore[call-arg]
    welcome.options(delay=60).send("17")  # type: ignore[arg-type]
    welcome.signature(17, 18)  # type: ignore[arg-type]
    bare.send("x")  # type: ignore[arg-type]
    tasks.task(queue="q", retries=5)  # type: ignore[call-overload]

    async def from_asyncio() -> None:
        assert_type(await welcome.asend(17), AsyncJobHandle[str])
        job = await fetch.options(unique_key="a").asend("x")
        assert_type(job, AsyncJobHandle[bytes])
        assert_type(await job, bytes)
        assert_type(await job.result(timeout=1), bytes)
        assert_type(await tasks.asend_many([fetch.signature("x")]), list[AsyncJobHandle[bytes]])
        assert_type(await fetch("x"), bytes)
        await welcome.asend("17")  # type: ignore[arg-type]
        mapped = await tasks.amap(fetch, ["x"], then=welcome.signature(1))
        assert_type(mapped, AsyncMapJobs[bytes, str])
        assert_type(await mapped.following(), AsyncJobHandle[str])
        await tasks.amap(fetch, [17], then=welcome.signature(1))  # type: ignore[misc]

    print(from_asyncio)
