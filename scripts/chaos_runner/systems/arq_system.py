"""
arq. The module is the producer, ``arq`` runs the worker.

The safe settings limit a job to ten seconds: arq runs a job of a dead worker again after its limit
and ten seconds more, 310 seconds by default.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from arq.connections import RedisSettings, create_pool

from scripts.chaos_runner.systems.steps import HANDLER_SECONDS, IS_SAFE, PORT, produce, recorder

_SETTINGS = RedisSettings(port=PORT)


async def work(context: dict[str, Any], body: str) -> None:
    """Handle a job."""
    op = recorder.begin("handle", id=context["job_id"], body=body, count=None)
    await asyncio.sleep(HANDLER_SECONDS)
    recorder.end(op)


class Settings:
    """The settings of the worker."""

    functions = (work,)
    redis_settings = _SETTINGS
    max_jobs = 4
    keep_result = 0
    job_timeout = 10 if IS_SAFE else 300


def main(rate: str) -> None:
    """Send jobs until SIGTERM."""
    with asyncio.Runner() as runner:
        pool = runner.run(create_pool(_SETTINGS))

        async def enqueue(body: str) -> str:
            job = await pool.enqueue_job("work", body)
            assert job  # noqa: S101 - its id is new
            return job.job_id

        produce(lambda body: runner.run(enqueue(body)), float(rate))


if __name__ == "__main__":
    main(*sys.argv[1:])
