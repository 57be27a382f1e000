"""Jobs over HTTP: what has become of a message, and its result."""

import asyncio

import pytest

from rsmq import RSMQ, AsyncRSMQ
from rsmq.operations.plain import plain_command
from rsmq.web import create_app, search
from rsmq.web.access.secrets import hash_token
from rsmq.web.routes import jobs
from rsmq.worker import Worker
from tests.web.asgi import Http


@pytest.fixture
def worker(server, ns):
    """A worker that is not started, whose handler doubles numbers."""
    queues = RSMQ.from_url(server.url, ns=ns)
    queues.create_queue("q")
    worker = Worker(queues)

    @worker.listener("q", track=True, drop=True, max_retries=0)
    def double(body):
        return {"twice": 2 * int(body)}

    yield worker
    worker.stop()
    queues.close()


async def test_a_job_is_awaited_from_its_send_to_its_result(server, ns, worker):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        http = Http(create_app(queues, auth=False))
        sent = await http("POST", "/queues/q/messages", {"body": "21", "track": True})
        path = f"/queues/q/jobs/{sent.json['id']}"
        waiting = (await http("GET", path)).json
        assert (waiting["state"], waiting["is_ended"], waiting["attempt"]) == (
            "waiting", False, 0,
        )  # fmt: skip
        still = await http("GET", f"{path}?wait=0.01")
        assert (still.status, still.json["state"]) == (200, "waiting")
        call = asyncio.create_task(http("GET", f"{path}?wait=60"))
        await asyncio.to_thread(worker.start)
        ended = (await call).json
        assert (ended["state"], ended["result"], ended["worker"]) == (
            "succeeded", {"twice": 42}, worker.name,
        )  # fmt: skip
        sent = await http("POST", "/queues/q/messages", {"body": "x", "track": True})
        failed = (await http("GET", f"/queues/q/jobs/{sent.json['id']}?wait=60")).json
        assert (failed["state"], failed["result"]) == ("failed", None)
        assert failed["error"].startswith("ValueError: ")


def test_a_text_that_a_handler_returns_or_reports_is_not_shown_if_values_are_redacted(
    server, ns, worker
):
    @worker.listener("texts", track=True)
    def report(body, message):
        message.set_progress(1, text=body)
        return body

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            await queues.create_queue("texts")
            http = Http(create_app(queues, auth=False, redact=["customer.email"]))
            id = await queues.send_message("texts", "anna@example.org", track=True)
            await asyncio.to_thread(worker.start)
            one = await http("GET", f"/queues/texts/jobs/{id}?wait=60")
            every = await http("GET", "/queues/texts/jobs")
            assert every.json["jobs"] == [one.json]
            assert (one.json["result"], one.json["progress"]["text"]) == ("[redacted]",) * 2
            assert b"anna" not in one.content

    asyncio.run(test())


def test_the_job_after_another_one_is_shown_to_those_who_may_see_its_queue(server, ns, tmp_path):
    path = tmp_path / "users.toml"
    path.write_text(
        f'[tokens.viewer]\nsha256 = "{hash_token("viewer")}"\nscopes = ["peek"]\nqueues = ["q"]\n'
    )
    path.chmod(0o600)

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            await queues.create_queue("q")
            for queue, is_shown in (("q", True), ("other", False)):
                id = await queues.send_message("q", "1", track=True)
                key = queues.namespace.queue("q").job(id)
                await queues.run(plain_command("HSET", key, "next", f"{id} {queue}"))
                following = {"queue": queue, "id": id}
                for options, shown in (({"auth": False}, True), ({"users": path}, is_shown)):
                    http = Http(
                        create_app(queues, **options), headers={"authorization": "Bearer viewer"}
                    )
                    job = (await http("GET", f"/queues/q/jobs/{id}")).json
                    assert job["following"] == (following if shown else None)

    asyncio.run(test())


async def test_a_client_that_leaves_ends_its_wait_for_a_job(server, ns, worker):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        http = Http(create_app(queues, auth=False))
        id = await queues.send_message("q", "1", track=True)
        left = asyncio.Event()
        call = asyncio.create_task(http("GET", f"/queues/q/jobs/{id}?wait=60", left=left))
        await asyncio.sleep(0)
        left.set()
        assert await call is None


async def test_a_job_that_waits_is_cancelled_and_listed(server, ns, worker):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        http = Http(create_app(queues, auth=False))
        first, second = await queues.send_messages("q", ["1", "2"], track=True)
        cancelled = await http("POST", f"/queues/q/jobs/{first}:cancel")
        assert (cancelled.status, cancelled.json) == (200, {"result": "cancelled"})
        assert await queues.get_message("q", first) is None
        listed = (await http("GET", "/queues/q/jobs")).json["jobs"]
        assert {each["id"]: each["state"] for each in listed} == {
            first: "cancelled", second: "waiting",
        }  # fmt: skip
        [waiting] = (await http("GET", "/queues/q/jobs?state=waiting&limit=5")).json["jobs"]
        assert waiting == (await http("GET", f"/queues/q/jobs/{second}")).json
        assert (await http("GET", "/queues/q/jobs?state=x")).status == 422


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"/queues/q/jobs/{'x' * 32}", 404, "jobNotFound"),
        ("/queues/q/jobs/x", 422, "invalidFormat"),
        (f"/queues/q/jobs/{'x' * 32}?wait=61", 422, "invalidValue"),
    ],
)
async def test_a_job_that_is_not_there_is_a_problem(path, status, code, http, queues):
    await queues.create_queue("q")
    reply = await http("GET", path)
    assert (reply.status, reply.json["code"]) == (status, code)


async def test_limits_of_messages_are_sent_and_expired_ones_are_swept(http, queues):
    await queues.create_queue("q")
    content = {"messages": [{"body": "a"}, {"body": "b"}], "expires": 0.001, "max_retries": 2}
    ids = (await http("POST", "/queues/q/messages:batch", content)).json["ids"]
    swept = []
    async with asyncio.timeout(10):
        while len(swept) < 2:
            swept += (await http("POST", "/queues/q:sweep-expired")).json["ids"]
    assert sorted(swept) == sorted(ids)
    content = {"queues": ["q"], "body": "a", "expires": 60, "max_retries": 1}
    assert (await http("POST", "/publish", content)).status == 201


async def test_the_walk_through_all_keys_is_paced_with_those_of_searches(monkeypatch, http, queues):
    await queues.create_queue("q")
    ids = [await queues.send_message("q", "a", track=True) for _ in range(3)]
    paced = []

    async def run_paced(client, step):
        paced.append(step.script.name)
        return await search.run_paced(client, step)

    monkeypatch.setattr(jobs, "run_paced", run_paced)
    listed = (await http("GET", "/queues/q/jobs")).json["jobs"]
    assert sorted(each["id"] for each in listed) == sorted(ids)
    assert paced
    assert set(paced) == {"find_jobs"}
