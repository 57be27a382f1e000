"""Flows over HTTP: what has become of one, and its cancellation."""

import asyncio

import pytest

from rsmq import RSMQ, AsyncRSMQ
from rsmq.tasks import RESULT, Tasks, chain
from rsmq.web import create_app
from tests.web.asgi import Http


@pytest.fixture
def tasks(server, ns):
    with Tasks(RSMQ.from_url(server.url, ns=ns)) as tasks:

        @tasks.task(queue="q", name="twice", track=True)
        def twice(number: int) -> int:
            return 2 * number

        tasks.twice = twice
        yield tasks


def test_a_flow_is_awaited_and_cancelled(server, ns, tasks):
    def send():
        return chain(tasks.twice.signature(1), tasks.twice.signature(RESULT)).send().id

    async def test(first, second):
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            http = Http(create_app(queues, auth=False))
            found = (await http("GET", f"/flows/{first}")).json
            assert (found["state"], found["is_ended"], found["done"]) == ("running", False, 0)
            assert found["counts"]["pending"] == 1
            assert [each["state"] for each in found["nodes"]] == ["waiting", "pending"]
            still = await http("GET", f"/flows/{first}?wait=0.01")
            assert (still.status, still.json["state"]) == (200, "running")
            cancelled = await http("POST", f"/flows/{second}:cancel")
            assert cancelled.json == {"result": "cancelled"}
            call = asyncio.create_task(http("GET", f"/flows/{first}?wait=60"))
            await asyncio.to_thread(tasks.run_all)
            ended = (await call).json
            assert (ended["state"], ended["ended_at"] is not None) == ("succeeded", True)
            assert [each["result"] for each in ended["nodes"]] == [2, 4]
            assert ended["nodes"][1]["after"] == [0]
            missing = await http("GET", f"/flows/{'0' * 22}")
            assert (missing.status, missing.json["code"]) == (404, "flowNotFound")
            assert (await http("GET", "/flows/short")).status == 422

    asyncio.run(test(send(), send()))
