"""Reports of consumers over HTTP about the jobs of tracked messages."""

import pytest

from rsmq.errors import JobFailed


async def _receive(http):
    (message,) = (await http("POST", "/receive", {"queues": ["q"]})).json["messages"]
    return f"/queues/q/messages/{message['id']}", {"receipt": message["receipt"]}


async def _sent(queues, **options):
    await queues.create_queue("q")
    return queues.job("q", await queues.send_message("q", "a", track=True, **options))


async def test_a_consumer_reports_progress_and_the_result(http, queues):
    job = await _sent(queues)
    path, receipt = await _receive(http)
    content = receipt | {"done": 1, "total": 2, "text": "half", "vt": 100}
    reply = await http("POST", f"{path}:progress", content)
    assert (reply.status, reply.json) == (200, {"is_cancelling": False})
    status = await job.status()
    assert (status.state, status.progress.done, status.progress.total) == ("running", 1, 2)
    (stored,) = await queues.peek_messages("q", state="in_flight")
    assert stored.visible_at_ms - stored.first_received_ms > 90_000
    assert (await http("POST", f"{path}:progress", receipt | {"done": 2})).status == 200
    content = receipt | {"result": {"pages": [3]}}
    assert (await http("POST", f"{path}:succeed", content)).status == 204
    assert await job.result(timeout=1) == {"pages": [3]}
    assert (await queues.get_queue_attributes("q")).messages == 0
    assert (await http("POST", f"{path}:succeed", content)).status == 404


async def test_a_consumer_reports_failures_until_it_gives_up(http, queues):
    job = await _sent(queues)
    await queues.create_queue("dead")
    await queues.set_dead_letter_policy("q", "dead", 5)
    path, receipt = await _receive(http)
    first = receipt | {"error": "ValueError: 1", "retry_in": 60}
    assert (await http("POST", f"{path}:fail", first)).status == 204
    status = await job.status()
    assert (status.state, status.error) == ("retrying", "ValueError: 1")
    await queues.change_message_visibility("q", job.id, 0)
    path, receipt = await _receive(http)
    assert (await http("POST", f"{path}:fail", first)).json["code"] == "receiptExpired"
    assert (await http("POST", f"{path}:fail", receipt | {"error": "gone"})).status == 204
    with pytest.raises(JobFailed, match="gone"):
        await job.result(timeout=1)
    (letter,) = await queues.peek_messages("dead")
    assert (letter.reason.exception, letter.reason.worker) == ("gone", "everyone")
    assert (letter.reason.queue, letter.reason.attempts) == ("q", 2)


async def test_without_a_dead_letter_queue_a_message_that_is_given_up_is_deleted(http, queues):
    job = await _sent(queues)
    path, receipt = await _receive(http)
    assert (await http("POST", f"{path}:fail", receipt | {"error": "e"})).status == 204
    assert (await job.status()).state == "failed"
    assert (await queues.get_queue_attributes("q")).messages == 0


async def test_a_consumer_learns_of_a_cancel_and_ends_it(http, queues):
    job = await _sent(queues)
    path, receipt = await _receive(http)
    assert (await job.cancel()).value == "requested"
    reply = await http("POST", f"{path}:progress", receipt | {"done": 1})
    assert reply.json == {"is_cancelling": True}
    content = receipt | {"error": "cancelled", "retry_in": 1}
    assert (await http("POST", f"{path}:fail", content)).status == 204
    assert (await job.status()).state == "cancelled"
    assert (await queues.get_queue_attributes("q")).messages == 0


async def test_a_message_that_was_not_tracked_has_a_job_once_its_consumer_has_reported(
    http, queues
):
    await queues.create_queue("q")
    job = queues.job("q", await queues.send_message("q", "a"))
    path, receipt = await _receive(http)
    reply = await http("POST", f"{path}:progress", receipt | {"done": 1})
    assert reply.status == 200, reply.content
    assert (await job.status()).progress is None
    assert (await http("POST", f"{path}:succeed", receipt)).status == 204
    assert await job.result(timeout=1) is None


async def test_a_report_that_is_not_valid_changes_nothing(http, queues):
    job = await _sent(queues)
    path, receipt = await _receive(http)
    for action, content, status in (
        ("progress", receipt | {"done": -1}, 422),
        ("progress", {"done": 1}, 422),
        ("succeed", receipt | {"result": "a" * 65_536}, 413),
        ("fail", receipt | {"error": ""}, 422),
        ("fail", {"receipt": f"{'x' * 32}.1", "error": "a"}, 422),
    ):
        reply = await http("POST", f"{path}:{action}", content)
        assert reply.status == status, (action, reply.content)
    assert (await job.status()).state == "running"
    assert (await queues.get_queue_attributes("q")).messages == 1
