"""Reports of consumers over HTTP about the jobs of tracked messages."""

import asyncio
import json

import pytest

from rsmq import RSMQ, AsyncRSMQ
from rsmq.errors import JobFailed
from rsmq.operations.plain import plain_command
from rsmq.tasks import RESULT, Tasks
from rsmq.web import create_app
from tests.web.asgi import Http


async def _receive(http):
    (message,) = (await http("POST", "/receive", {"queues": ["q"]})).json["messages"]
    return f"/queues/q/messages/{message['id']}", {"receipt": message["receipt"]}


async def _sent(queues, **options):
    await queues.create_queue("q")
    return queues.job("q", await queues.send_message("q", "a", track=True, **options))


def test_a_consumer_reports_progress_and_the_result(run):
    async def test(http, queues):
        job = await _sent(queues)
        path, receipt = await _receive(http)
        content = receipt | {"done": 1, "total": 2, "text": "half", "vt": 100}
        reply = await http("POST", f"{path}:progress", content)
        assert (reply.status, reply.json) == (200, {"is_cancelling": False})
        status = await job.status()
        assert (status.state, status.progress.done, status.progress.total) == ("running", 1, 2)
        (received,) = await queues.peek_messages("q")
        assert (status.attempt, status.begun_at) == (1, received.first_received_at)
        (stored,) = await queues.peek_messages("q", state="in_flight")
        assert stored.visible_at_ms - stored.first_received_ms > 90_000
        assert (await http("POST", f"{path}:progress", receipt | {"done": 2})).status == 200
        content = receipt | {"result": {"pages": [3]}}
        assert (await http("POST", f"{path}:succeed", content)).status == 204
        assert await job.result(timeout=1) == {"pages": [3]}
        assert (await queues.get_queue_attributes("q")).messages == 0
        assert (await http("POST", f"{path}:succeed", content)).status == 404

    run(test)


def test_a_consumer_reports_failures_until_it_gives_up(run):
    async def test(http, queues):
        job = await _sent(queues)
        await queues.create_queue("dead")
        await queues.set_dead_letter_policy("q", "dead", 5)
        path, receipt = await _receive(http)
        first = receipt | {"error": "ValueError: 1", "retry_in": 60}
        assert (await http("POST", f"{path}:fail", first)).status == 204
        status = await job.status()
        assert (status.state, status.error) == ("retrying", "ValueError: 1")
        await queues.change_message_visibility("q", job.id, 0)
        assert status.attempt == 1
        path, receipt = await _receive(http)
        assert (await http("POST", f"{path}:fail", first)).json["code"] == "receiptExpired"
        assert (await http("POST", f"{path}:fail", receipt | {"error": "gone"})).status == 204
        assert (await job.status()).attempt == 2
        with pytest.raises(JobFailed, match="gone"):
            await job.result(timeout=1)
        (letter,) = await queues.peek_messages("dead")
        assert (letter.reason.exception, letter.reason.worker) == ("gone", "everyone")
        assert (letter.reason.queue, letter.reason.attempts) == ("q", 2)

    run(test)


def test_without_a_dead_letter_queue_a_message_that_is_given_up_is_deleted(run):
    async def test(http, queues):
        job = await _sent(queues)
        path, receipt = await _receive(http)
        assert (await http("POST", f"{path}:fail", receipt | {"error": "e"})).status == 204
        assert (await job.status()).state == "failed"
        assert (await queues.get_queue_attributes("q")).messages == 0

    run(test)


def test_a_consumer_learns_of_a_cancel_and_ends_it(run):
    async def test(http, queues):
        job = await _sent(queues)
        path, receipt = await _receive(http)
        assert (await job.cancel()).value == "requested"
        reply = await http("POST", f"{path}:progress", receipt | {"done": 1})
        assert reply.json == {"is_cancelling": True}
        content = receipt | {"error": "cancelled", "retry_in": 1}
        assert (await http("POST", f"{path}:fail", content)).status == 204
        assert (await job.status()).state == "cancelled"
        assert (await queues.get_queue_attributes("q")).messages == 0

    run(test)


def test_a_message_that_was_not_tracked_has_a_job_once_its_consumer_has_reported(run):
    async def test(http, queues):
        await queues.create_queue("q")
        job = queues.job("q", await queues.send_message("q", "a"))
        path, receipt = await _receive(http)
        reply = await http("POST", f"{path}:progress", receipt | {"done": 1})
        assert reply.status == 200, reply.content
        assert (await job.status()).progress is None
        assert (await http("POST", f"{path}:succeed", receipt)).status == 204
        assert await job.result(timeout=1) is None

    run(test)


def test_a_report_that_is_not_valid_changes_nothing(run):
    async def test(http, queues):
        job = await _sent(queues)
        path, receipt = await _receive(http)
        for action, content, status in (
            ("progress", receipt | {"done": -1}, 422),
            ("progress", {"done": 1}, 422),
            ("succeed", receipt | {"result": "a" * 65_536}, 413),
            ("fail", receipt | {"error": ""}, 422),
            ("fail", receipt | {"error": "a", "retry_in": -1}, 422),
            ("fail", receipt | {"error": "a", "retry_in": 10_000_000, "retry": True}, 422),
            ("fail", {"receipt": f"{'x' * 32}.1", "error": "a"}, 422),
        ):
            reply = await http("POST", f"{path}:{action}", content)
            assert reply.status == status, (action, reply.content)
        assert (await job.status()).state == "running"
        assert (await queues.get_queue_attributes("q")).messages == 1

    run(test)


async def _fail_again(http, queues, id, **fields):
    """Receive a message, report a failure, let the server decide, and make it visible again."""
    path, receipt = await _receive(http)
    content = receipt | {"error": "ValueError: 1", "retry": True} | fields
    reply = await http("POST", f"{path}:fail", content)
    assert reply.status == 200, reply.content
    await queues.change_message_visibility("q", id, 0)
    return reply.json


def test_the_server_decides_by_the_policy_of_the_queue(run):
    async def test(http, queues):
        job = await _sent(queues)
        await queues.create_queue("dead")
        await queues.set_dead_letter_policy("q", "dead", 3)
        pauses = [await _fail_again(http, queues, job.id) for _ in range(2)]
        assert [each["outcome"] for each in pauses] == ["retried", "retried"]
        assert 0.5 <= pauses[0]["seconds"] <= 1 <= pauses[1]["seconds"] <= 2
        assert (await job.status()).state == "retrying"
        last = await _fail_again(http, queues, job.id, retry_in=5)
        assert last == {
            "outcome": "dead-lettered", "seconds": None, "dead_letter_queue": "dead",
            "reason": "ValueError on attempt 3, the last",
        }  # fmt: skip
        (letter,) = await queues.peek_messages("dead")
        assert (letter.reason.exception, letter.reason.attempts) == ("ValueError: 1", 3)
        assert letter.reason.text == last["reason"]
        with pytest.raises(JobFailed, match="ValueError: 1"):
            await job.result(timeout=1)

    run(test)


def test_the_number_of_retries_of_the_message_and_the_pause_of_the_consumer_win(run):
    async def test(http, queues):
        job = await _sent(queues, max_retries=1)
        await queues.create_queue("dead")
        await queues.set_dead_letter_policy("q", "dead", 10)
        first = await _fail_again(http, queues, job.id, retry_in=7)
        assert (first["outcome"], first["seconds"]) == ("retried", 7)
        assert (await _fail_again(http, queues, job.id))["outcome"] == "dead-lettered"

    run(test)


def test_without_a_policy_the_server_retries_forever(run):
    async def test(http, queues):
        job = await _sent(queues)
        for _ in range(5):
            assert (await _fail_again(http, queues, job.id))["outcome"] == "retried"
        assert (await queues.get_queue_attributes("q")).messages == 1

    run(test)


def test_a_deferral_is_no_attempt(run):
    async def test(http, queues):
        job = await _sent(queues)
        await queues.create_queue("dead")
        await queues.set_dead_letter_policy("q", "dead", 2)
        for number in (1, 2, 3):
            path, receipt = await _receive(http)
            content = receipt | {"after": 30, "reason": "the printer is busy"}
            reply = await http("POST", f"{path}:defer", content)
            assert reply.json["outcome"] == "deferred", number
            assert reply.json["seconds"] == 30
            assert (await queues.peek_messages("q"))[0].state in {"in_flight", "delayed"}
            assert (await job.status()).state == "waiting"
            await queues.change_message_visibility("q", job.id, 0)
        assert (await _fail_again(http, queues, job.id))["outcome"] == "retried"
        last = await _fail_again(http, queues, job.id)
        assert last["reason"] == "ValueError on attempt 2, the last"
        path, receipt = await _sent_and_received(http, queues)
        assert (await http("POST", f"{path}:defer", receipt)).json["seconds"] <= 1
        assert (await http("POST", f"{path}:defer", receipt | {"after": 700_000})).status == 422
        expired = receipt | {"receipt": receipt["receipt"].replace(".1", ".2")}
        assert (await http("POST", f"{path}:defer", expired)).json["code"] == "receiptExpired"

    run(test)


async def _sent_and_received(http, queues):
    await queues.purge_queue("q")
    await queues.send_message("q", "b")
    return await _receive(http)


def _task(name, **fields):
    return json.dumps({"task": name, "args": {"page": 1}, **fields})


def test_what_follows_a_task_is_sent_with_its_result(run):
    async def test(http, queues):
        await queues.create_queue("q")
        then = {"queue": "next", "task": "mail", "args": {"to": "ann"}, "result": "url",
                "then": {"queue": "last", "task": "log", "args": {}}}  # fmt: skip
        await queues.send_message("q", _task("render", then=then, headers={"trace": "1"}))
        path, receipt = await _receive(http)
        content = receipt | {"result": "https://a.example"}
        assert (await http("POST", f"{path}:succeed", content)).status == 204
        (sent,) = await queues.peek_messages("next")  # the queue was created
        assert json.loads(sent.body) == {
            "task": "mail", "args": {"to": "ann", "url": "https://a.example"},
            "then": {"queue": "last", "task": "log", "args": {}}, "headers": {"trace": "1"},
        }  # fmt: skip
        assert (await queues.get_queue_attributes("q")).messages == 0
        assert (await http("POST", f"{path}:succeed", content)).status == 404
        assert (await queues.get_queue_attributes("next")).messages == 1
        job = (await http("GET", f"/queues/q/jobs/{receipt['receipt'].partition('.')[0]}")).json
        assert job["following"] == {"queue": "next", "id": sent.id}

    run(test)


def test_a_message_whose_next_task_is_refused_stays(run):
    async def test(http, queues):
        await queues.create_queue("q")
        await queues.create_queue("next", maxsize=1024)
        then = {"queue": "next", "task": "mail", "args": {}, "result": "text"}
        await queues.send_message("q", _task("render", then=then))
        path, receipt = await _receive(http)
        large = receipt | {"result": "a" * 2000}
        assert (await http("POST", f"{path}:succeed", large)).json["code"] == "messageTooLong"
        await queues.purge_queue("next")
        assert (await queues.get_queue_attributes("q")).messages == 1
        assert (await http("POST", f"{path}:succeed", receipt | {"result": "a"})).status == 204
        await queues.send_message("q", _task("render", then={"queue": 5}))
        path, receipt = await _receive(http)
        reply = await http("POST", f"{path}:succeed", receipt)
        assert (reply.status, reply.json["code"]) == (422, "invalidFormat")
        assert (await queues.get_queue_attributes("q")).messages == 1

    run(test)


@pytest.mark.parametrize(
    "body", ["text", "[1]", '{"then": 1}', '{"task": "a", "args": {}}', "\xff"]
)
async def test_bodies_that_nothing_follows_succeed(body, http, queues):
    await queues.create_queue("q")
    await queues.send_message("q", body)
    path, receipt = await _receive(http)
    assert (await http("POST", f"{path}:succeed", receipt)).status == 204


def test_a_success_frees_the_limit_of_the_queue(run):
    async def test(http, queues):
        await queues.create_queue("q")
        await queues.set_queue_limits("q", max_running=1)
        await queues.send_messages("q", ["a", "b"])
        path, receipt = await _receive(http)
        received = await http("POST", "/receive", {"queues": ["q"]})
        assert received.json["messages"] == []
        assert (await http("POST", f"{path}:succeed", receipt)).status == 204
        await _receive(http)

    run(test)


def test_messages_of_a_map_are_counted(run):
    async def test(http, queues):
        await queues.create_queue("q")
        await queues.create_queue("next")
        key = queues.namespace.task_map("m1")
        for field, value in (("0", ""), ("1", ""), ("then", '27:{"task": "sum", "args": {}}')):
            await queues.run(plain_command("HSET", key, field, value))
        for number in (0, 1):
            of_map = {"id": "m1", "number": number, "queue": "next"}
            await queues.send_message("q", _task("part", map=of_map))
        for sent in (0, 1):
            path, receipt = await _receive(http)
            assert (await http("POST", f"{path}:succeed", receipt)).status == 204
            assert (await queues.get_queue_attributes("next")).messages == sent

    run(test)


def test_a_node_of_a_flow_is_settled_and_the_next_one_sent(server, ns):
    queues = RSMQ.from_url(server.url, ns=ns)
    tasks = Tasks(queues)

    @tasks.task(queue="a", track=True)
    def measure(width: int) -> int:
        return width

    @tasks.task(queue="b", track=True)
    def store(pixels: int) -> None:
        pass

    flow = tasks.flow()
    first = flow.add(measure.signature(3))
    flow.add(store.signature(RESULT(first)), after=[first])
    flow.send()

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as client:
            http = Http(create_app(client, auth=False))
            for queue, args, result in (("a", {"width": 3}, 9), ("b", {"pixels": 9}, None)):
                reply = await http("POST", "/receive", {"queues": [queue]})
                (message,) = reply.json["messages"]
                assert json.loads(message["body"])["args"] == args
                path = f"/queues/{queue}/messages/{message['id']}:succeed"
                content = {"receipt": message["receipt"], "result": result}
                assert (await http("POST", path, content)).status == 204
                assert (await client.job(queue, message["id"]).status()).state == "succeeded"

    asyncio.run(test())
    queues.close()
