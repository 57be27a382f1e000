"""The pages of workers, and the release of what a dead one had in flight."""

import json
import time
from urllib.parse import urlencode

from rsmq.operations.plain import plain_command

_FORM = {"accept": "text/html", "content-type": "application/x-www-form-urlencoded"}


async def _die(queues, name, by_queue, *, is_reported=True):
    """
    Store a worker that has died, with the messages that it had in flight: ids and counts.

    It has received them before its last heartbeat or, if that has not reported them, after it.
    """
    in_flight = {queue: len(receipts) * is_reported for queue, receipts in by_queue.items()}
    info = {
        "since_ms": 1,
        "host": "<b>host",
        "pid": 7,
        "queues": in_flight,
        "handled": 3,
        "failed": 1,
    }
    entry = f"{int(time.time() * 1000) - 60_000}:token:{json.dumps(info)}"
    await queues.run(plain_command("HSET", queues.namespace.workers, name, entry))
    for queue, receipts in by_queue.items():
        for id, count in receipts:
            key = queues.namespace.held(name)
            await queues.run(plain_command("HSET", key, id, f"{count}:{queue}"))


def test_a_worker_that_died_before_a_heartbeat_reported_its_messages_is_dead_too(run):
    async def test(http, queues):
        await queues.create_queue("q", vt=600)
        id = await queues.send_message("q", "a")
        await queues.receive_message("q")
        await _die(queues, "w1", {"q": [(id, 1)]}, is_reported=False)
        texts = [each["text"] for each in (await http("GET", "/alerts")).json["alerts"]]
        assert "Worker w1 died with 1 message in flight." in texts

    run(test)


def test_what_a_dead_worker_had_in_flight_is_shown_and_released_unless_it_was_received_again(run):
    async def test(http, queues):
        await queues.create_queue("q")
        ids = await queues.send_messages("q", ["a", "b", "c"])
        await queues.receive_messages("q", 3)
        await queues.release_messages("q", ids[:1])
        assert (await queues.receive_message("q")).receive_count == 2
        await queues.delete_message("q", ids[1])
        await _die(queues, "w1", {"q": [(id, 1) for id in ids]})
        [alert] = [
            each for each in (await http("GET", "/alerts")).json["alerts"]
            if each["kind"] == "dead-worker"
        ]  # fmt: skip
        assert alert["text"] == "Worker w1 died with 1 message in flight."
        held = (await http("GET", "/workers/w1/held")).json["messages"]
        assert [each["id"] for each in held if each["visible_at_ms"] is not None] == ids[2:]
        assert (await http("POST", "/workers/none:release")).status == 404
        http.prefix, http.headers = "", {"accept": "text/html"}
        listed = (await http("GET", "/workers")).content.decode()
        assert "&lt;b&gt;host" in listed
        page = (await http("GET", "/workers/w1")).content.decode()
        assert ids[2] in page
        assert ids[0] not in page
        assert "with 3 messages in flight; 1 of them is visible again at" in page
        assert "or when a worker of this name starts." in page
        assert "Release its messages" in page
        assert (await http("GET", "/workers/none")).status == 404
        confirm = (await http("GET", "/actions/release-held?worker=w1")).content.decode()
        assert "Makes 1 message that w1 had in flight visible at once in q." in confirm
        body = urlencode({"worker": "w1"}).encode()
        done = await http("POST", "/actions/release-held", body=body, headers=_FORM)
        assert (done.status, done.headers["location"]) == (303, "/workers/w1")
        page = (await http("GET", "/workers/w1")).content.decode()
        assert "1 of them is visible again; others were received by other consumers" in page
        assert "Release its messages" not in page
        assert ids[2] not in page
        assert '<div class="value">0</div>' in page
        assert (await http("GET", "/actions/release-held?worker=w1")).status == 409
        again = await http("POST", "/actions/release-held", body=body, headers=_FORM)
        assert "no message that is still hidden" in again.content.decode()
        assert (await queues.receive_message("q")).id == ids[2]
        assert await queues.receive_message("q") is None

    run(test)


def test_without_workers_the_page_names_the_command_that_starts_one(run):
    async def test(http, _):
        http.prefix, http.headers = "", {"accept": "text/html"}
        assert b"rsmq-worker app:worker" in (await http("GET", "/workers")).content

    run(test)


def test_the_page_of_a_queue_says_why_it_is_not_drained_and_what_is_not_recorded(run):
    async def test(http, queues):
        await queues.create_queue("q")
        await queues.send_message("q", "a")
        await queues.pause_queue("q")
        http.prefix, http.headers = "", {"accept": "text/html"}
        page = (await http("GET", "/queues/q")).content.decode()
        assert "Queue q is paused" in page
        assert "No history is recorded for this time yet." in page
        assert "/actions/change-queue?queue=q&amp;vt=30" in page
        examined = (await http("GET", "/queues/q?doctor=1")).content.decode()
        assert "No fault was found." in examined

    run(test)
