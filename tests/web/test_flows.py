"""Flows over HTTP: what has become of one, and its cancellation."""

import asyncio

import pytest

from rsmq import RSMQ, AsyncRSMQ
from rsmq.tasks import RESULT, Tasks, chain
from rsmq.web import create_app
from rsmq.web.access.secrets import hash_token
from rsmq.web.pages.views.flow import draw
from tests.web.asgi import Http
from tests.web.pages_client import open_pages, read_page, run_action


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


def test_the_page_draws_the_graph(server, ns, tasks):
    call = tasks.twice.signature
    sent = chain(call(1), [call(RESULT), call(RESULT)], call(3), finally_=call(4)).send()

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            app = create_app(queues, auth=False)
            page = await Http(app, prefix="")("GET", f"/flows/{sent.id}")
            text = page.content.decode()
            assert page.status == 200
            assert text.count("<rect") == 5
            assert text.count('class="edge"') == 4
            assert "0: twice, waiting" in text
            [node, *_] = (await Http(app)("GET", f"/flows/{sent.id}")).json["nodes"]
            # What the flow waits for, the box of the node, and its row.
            assert text.count(f'href="/queues/q/messages/{node["id"]}"') == 3
            assert "4 pending, 1 sent" in " ".join(text.split())

    asyncio.run(test())


def test_a_flow_is_cancelled_on_its_page(server, ns, tasks):
    sent = chain(tasks.twice.signature(1), tasks.twice.signature(RESULT)).send()

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            http = open_pages(Http(create_app(queues, auth=False)))
            path = f"/flows/{sent.id}"
            assert f"/actions/cancel-flow?flow={sent.id}" in await read_page(http, path)
            asked = await read_page(http, f"/actions/cancel-flow?flow={sent.id}")
            assert "its 2 nodes that have not ended" in " ".join(asked.split())
            assert f"rsmq flow {sent.id} --cancel" in " ".join(asked.split())
            done = await run_action(http, "cancel-flow", flow=sent.id)
            assert (done.status, done.headers["location"]) == (303, path)
            assert (await queues.flow(sent.id).status()).state == "cancelled"
            assert "/actions/cancel-flow" not in await read_page(http, path)
            again = await http("GET", f"/actions/cancel-flow?flow={sent.id}")
            assert (again.status, b"The flow has ended" in again.content) == (409, True)

    asyncio.run(test())


def test_flows_are_listed(server, ns, tasks):
    def send():
        return chain(tasks.twice.signature(1), tasks.twice.signature(RESULT)).send().id

    ids = [send() for _ in range(3)]
    tasks.client.flow(ids[1]).cancel()

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            app = create_app(queues, auth=False)
            http = Http(app)
            found = (await http("GET", "/flows")).json["flows"]
            assert [each["id"] for each in found] == ids[::-1]
            assert (found[1]["state"], found[1]["done"], found[1]["total"]) == ("cancelled", 2, 2)
            assert (found[0]["task"], found[0]["queues"]) == ("twice", ["q"])
            [one] = (await http("GET", "/flows?state=running&limit=1")).json["flows"]
            assert one["id"] == ids[2]
            assert (await http("GET", "/flows?limit=1001")).status == 422
            text = (await Http(app, prefix="")("GET", "/flows?state=cancelled")).content.decode()
            assert ids[1] in text
            assert ids[0] not in text
            assert (
                "No flow is in this state"
                in (await Http(app, prefix="")("GET", "/flows?state=failed")).content.decode()
            )

    asyncio.run(test())


def test_a_list_has_the_flows_of_queues_that_the_caller_may_see(server, ns, tasks, tmp_path):
    @tasks.task(queue="secret", name="secret", track=True)
    def secret(number: int) -> int:
        return number

    seen = chain(tasks.twice.signature(1)).send().id
    hidden = chain(tasks.twice.signature(1), secret.signature(1)).send().id
    path = tmp_path / "users.toml"
    token = f'sha256 = "{hash_token("viewer")}"\nscopes = ["peek"]\nqueues = ["q"]\n'
    path.write_text(f"[tokens.viewer]\n{token}")
    path.chmod(0o600)

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            headers = {"authorization": "Bearer viewer"}
            http = Http(create_app(queues, users=path), headers=headers)
            found = (await http("GET", "/flows")).json["flows"]
            assert [each["id"] for each in found] == [seen]
            assert (await http("GET", f"/flows/{hidden}")).status == 403

    asyncio.run(test())


def test_nodes_are_right_of_those_before_them_and_large_graphs_are_not_drawn():
    def node(number, *after, is_finally=False):
        return {
            "number": number, "task": "t" * 40, "after": after, "is_finally": is_finally,
            "state": "succeeded", "queue": "q", "id": f"id{number}",
        }  # fmt: skip

    graph = draw([node(0), node(1, 0), node(2), node(3, 1, 2), node(4, is_finally=True)])
    assert [each.x for each in graph.boxes] == [10, 230, 10, 450, 670]
    assert [each.y for each in graph.boxes] == [10, 10, 58, 10, 10]
    assert len(graph.edges) == 3
    assert all(len(each.text) == 20 for each in graph.boxes)
    assert (graph.boxes[0].sign, graph.boxes[0].kind) == ("✓", "good")
    assert graph.boxes[3].job == ("q", "id3")
    assert draw([{**node(0), "state": "pending"}]).boxes[0].job is None
    assert draw([node(number) for number in range(201)]) is None
    added = draw([node(0), node(1, 0, 3), node(2, 9), node(3, 0), node(4, 5), node(5, 4)])
    assert [each.x for each in added.boxes] == [10, 450, 10, 230, 10, 230]  # 1 waits for 3
