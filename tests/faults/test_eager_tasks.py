"""Event loops whose tasks run their first step when they are created."""

from __future__ import annotations

import asyncio
import types
from asyncio import tasks as asyncio_tasks

import pytest
import redis.exceptions as redis_errors

from rsmq import AsyncRSMQ, Confirm
from tests.servers import Server, redis_7


async def go_on(coroutine, first_step):
    return await run_rest(coroutine, first_step)  # a generator is not accepted as a task


@types.coroutine
def run_rest(coroutine, first_step):
    """Run the rest of a coroutine whose first step, which has a result or raised, has run."""
    while True:
        kind, value = first_step.pop()
        if kind is StopIteration:
            return value
        if kind is not None:
            raise value
        try:
            sent = yield value
        except BaseException as error:  # noqa: BLE001 - the coroutine handles it
            step = coroutine.throw, error
        else:
            step = coroutine.send, sent
        first_step.append(run_step(*step))


def run_step(function, argument):
    try:
        return None, function(argument)
    except StopIteration as end:
        return StopIteration, end.value
    except BaseException as error:  # noqa: BLE001 - go_on raises it
        return type(error), error


def emulated_eager_task_factory(loop, coroutine, context=None):
    """As ``asyncio.eager_task_factory`` of Python 3.12; the task is done a step later."""
    first_step = []
    task = asyncio.Task(go_on(coroutine, first_step), loop=loop, context=context)
    current = asyncio.current_task(loop)
    if current is not None:
        asyncio_tasks._leave_task(loop, current)
    asyncio_tasks._enter_task(loop, task)
    try:
        first_step.append(run_step(coroutine.send, None))
    finally:
        asyncio_tasks._leave_task(loop, task)
        if current is not None:
            asyncio_tasks._enter_task(loop, current)
    return task


FACTORIES = {"emulated": emulated_eager_task_factory}
if hasattr(asyncio, "eager_task_factory"):
    FACTORIES["eager"] = asyncio.eager_task_factory


@pytest.fixture(params=FACTORIES)
def run(request):
    """Run a coroutine in a loop with eager tasks."""

    async def start(coroutine):
        asyncio.get_running_loop().set_task_factory(FACTORIES[request.param])
        await asyncio.create_task(coroutine)

    return lambda coroutine: asyncio.run(start(coroutine))


@pytest.fixture
def stopped():
    """A server with a unix socket, which is not running yet."""
    server = Server(redis_7(), "--unixsocket", "redis.sock", "--appendonly", "yes")
    server.kill()
    server.socket_url = f"unix://{server.folder}/redis.sock?db=0"
    yield server
    server.stop()


def test_a_client_works_after_a_failed_connect_over_a_unix_socket(run, stopped):
    """Such a connect fails at once: before the task that connects is stored."""

    async def main():
        async with AsyncRSMQ.from_url(stopped.socket_url, retry_deadline=0) as client:
            for _ in range(2):
                calls = (client.list_queues(), client.create_queue("q"))
                for each in await asyncio.gather(*calls, return_exceptions=True):
                    assert isinstance(each, redis_errors.ConnectionError)
                with pytest.raises(redis_errors.ConnectionError):
                    await client.send_message("q", "m", confirm=Confirm(replicas=1))
            await asyncio.to_thread(stopped.start)
            await client.create_queue("q")
            id = await client.send_message("q", "m")
            with stopped.raw() as raw:
                assert raw.hget("rsmq:q:Q", id) == b"m"
            await asyncio.to_thread(stopped.kill)
            with pytest.raises(redis_errors.ConnectionError):
                await client.list_queues()
            await asyncio.to_thread(stopped.start)
            assert await client.list_queues() == ["q"]

    run(main())


def test_a_waiting_receive_gets_a_message_after_the_server_was_restarted(run, stopped):
    async def main():
        stopped.start()
        async with AsyncRSMQ.from_url(stopped.socket_url) as client:
            await client.create_queue("q")
            waiting = asyncio.create_task(client.receive_message("q", wait=60))
            await asyncio.sleep(0)
            stopped.kill()
            stopped.start()
            id = await client.send_message("q", "m", dedup_id="x")  # which is sent again
            assert (await waiting).id == id

    run(main())
