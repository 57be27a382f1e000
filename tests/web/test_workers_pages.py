"""The pages of workers, and the release of what a dead one had in flight."""

import json
import re
import time
from datetime import UTC, datetime
from urllib.parse import urlencode

from rsmq.history.recorder import record_queues
from rsmq.operations.plain import plain_command
from rsmq.web import create_app
from rsmq.web.access.secrets import hash_token
from rsmq.wire.streams import StreamInfo, pack_stream
from tests.web.asgi import Http
from tests.web.pages_client import open_pages

_FORM = {"accept": "text/html", "content-type": "application/x-www-form-urlencoded"}


async def _die(queues, name, by_queue, *, is_reported=True, seconds_ago=60, **facts):
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
        **facts,
    }
    entry = f"{int((time.time() - seconds_ago) * 1000)}:token:{json.dumps(info)}"
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
        assert "look at the log of process 7 on &lt;b&gt;host. It does not come back by" in page
        assert "Release its messages" in page
        assert (await http("GET", "/workers/none")).status == 404
        confirm = (await http("GET", "/actions/release-held?worker=w1")).content.decode()
        assert re.search(
            r"Makes 1 message that w1 had in flight visible at once in q\. Otherwise it is visible "
            r"again at [0-9:]{8} UTC, when its visibility timeout ends\.",
            confirm,
        )
        body = urlencode({"worker": "w1"}).encode()
        done = await http("POST", "/actions/release-held", body=body, headers=_FORM)
        assert (done.status, done.headers["location"]) == (303, "/workers/w1")
        said = _text((await http("GET", "/workers/w1", headers=_cookie_of(done))).content)
        assert "was released. Other consumers may have received them since." in said
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


def _text(content):
    return " ".join(re.sub(r"<[^>]+>", " ", content.decode()).split())


def _cookie_of(reply):
    return {"cookie": reply.headers["set-cookie"].partition(";")[0]}


def test_a_message_that_is_hidden_for_longer_than_its_queue_says_is_explained(run):
    async def test(http, queues):
        held = {}
        for name, vt in (("p", 30), ("q", 600)):
            await queues.create_queue(name, vt=30)
            held[name] = [(await queues.send_message(name, "a"), 1)]
            await queues.receive_message(name, vt=vt)
        await _die(queues, "w1", held, seconds_ago=0)
        page = _text((await open_pages(http)("GET", "/workers/w1")).content)
        assert (
            "q has a visibility timeout of 30 s, and the worker had asked for a longer one"
        ) in page
        assert "p has a visibility timeout" not in page

    run(test)


def test_the_release_of_what_a_dead_worker_had_warns_of_a_message_that_may_have_killed_it(run):
    async def test(http, queues):
        await queues.create_queue("q", vt=600)
        often, once = await queues.send_messages("q", ["a", "b"])
        for _ in range(2):
            await queues.release_messages(await queues.receive_messages("q", 1))
        await queues.receive_messages("q", 2)
        await _die(queues, "w1", {"q": [(once, 1)]})
        http.prefix, http.headers = "", {"accept": "text/html"}
        for path in ("/workers/w1", "/actions/release-held?worker=w1"):
            assert "it will kill the next one" not in _text((await http("GET", path)).content)
        await _die(queues, "w1", {"q": [(once, 1), (often, 3)]})
        http = open_pages(Http(create_app(queues, auth=False)))  # without what it has read
        for path in ("/workers/w1", "/actions/release-held?worker=w1"):
            page = (await http("GET", path)).content
            assert f'href="/queues/q/messages/{often}"'.encode() in page
            assert "One of them was received 3 times: if it has killed" in _text(page)

    run(test)


def test_of_a_dead_worker_the_list_shows_what_is_still_in_flight_and_how_often_one_died(run):
    async def test(http, queues):
        await queues.create_queue("q", vt=600)
        ids = await queues.send_messages("q", ["a", "b"])
        await queues.receive_messages("q", 2)
        await _die(queues, "w1", {"q": [(id, 1) for id in ids]}, running=2, deaths=[5, 1000])
        await queues.delete_message("q", ids[0])
        [found] = (await http("GET", "/workers")).json["workers"]
        assert (found["in_flight"], found["deaths"]) == ({"q": 2}, [5, 1000])
        http.prefix, http.headers = "", {"accept": "text/html"}
        listed = (await http("GET", "/workers")).content.decode()
        assert '<td class="number">1</td><td class="number">\u2013</td>' in listed
        assert "died 2 times before" in _text(listed.encode())
        page = _text((await http("GET", "/workers/w1")).content)
        assert "what is still in flight with it queue in flight q 1" in page
        assert "died before 2 times, the last time at 1970-01-01 00:00:01" in page

    run(test)


def test_an_action_on_a_message_says_that_the_worker_which_had_it_is_dead(run):
    async def test(http, queues):
        await queues.create_queue("q", vt=600)
        ids = await queues.send_messages("q", ["a", "b"])
        await queues.receive_messages("q", 2)
        await _die(queues, "w1", {"q": [(ids[0], 1)]})
        open_pages(http)
        texts = [
            _text((await http("GET", f"/actions/delete-messages?queue=q&ids={id}")).content)
            for id in ids
        ]
        assert "Worker w1, which had received it, is dead." in texts[0]
        assert "A consumer has received it and may be at work on it" in texts[1]

    run(test)


def test_a_queue_that_only_other_consumers_receive_from_says_so(run):
    async def test(http, queues):
        await queues.create_queue("q", vt=600)
        now = int(datetime.now(UTC).timestamp()) // 60
        await record_queues(queues, now - 1)
        open_pages(http)
        assert "rsmq-worker app:worker" in _text((await http("GET", "/queues/q")).content)
        await queues.send_message("q", "a")
        await queues.receive_message("q")
        await record_queues(queues, now)
        http = open_pages(Http(create_app(queues, auth=False)))
        text = _text((await http("GET", "/queues/q")).content)
        assert "other consumers receive from it" in text
        assert "rsmq-worker app:worker" not in text
        assert "What happens" in text

    run(test)


def test_a_queue_shows_the_streams_of_spark_that_read_it(run):
    async def test(http, queues):
        await queues.create_queue("q")
        at_ms = int(datetime.now(UTC).timestamp() * 1000)
        entry = pack_stream(StreamInfo("nightly", at_ms, {"q": 1234}))
        key = queues.namespace.streams
        await queues.run(plain_command("HSET", key, "nightly:q", entry))
        other = pack_stream(StreamInfo("of another queue", at_ms, {"other": 1}))
        await queues.run(plain_command("HSET", key, "other", other))
        streams = (await http("GET", "/queues/q/why")).json["streams"]
        assert streams == [{"name": "nightly", "seen_ms": at_ms, "received": 1234}]
        open_pages(http)
        text = _text((await http("GET", "/queues/q")).content)
        assert "a stream of Spark reads it" in text
        assert "nightly" in text
        assert "1,234" in text
        assert "of another queue" not in text
        assert "rsmq-worker app:worker" not in text

    run(test)


def test_a_calm_overview_says_how_many_workers_are_alive(run):
    async def test(http, queues):
        await queues.create_queue("q")
        now = int(datetime.now(UTC).timestamp()) // 60
        await record_queues(queues, now - 1)
        await record_queues(queues, now)
        http.prefix, http.headers = "", {"accept": "text/html"}
        page = (await http("GET", "/")).content
        assert b'<p class="calm"><i class="dot good">' in page
        text = _text(page)
        assert "received, workers are alive, and" in text
        assert re.search(r"visible 0 in flight 0 at \d\d:\d\d delayed 0 at \d\d:\d\d sent", text)
        await _die(queues, "w1", {"q": []}, seconds_ago=20)
        http = open_pages(Http(create_app(queues, auth=False)))
        assert "of 1 worker 0 are alive, and the others have no message" in _text(
            (await http("GET", "/")).content
        )
        await _die(queues, "w1", {"q": []}, seconds_ago=70)
        http = open_pages(Http(create_app(queues, auth=False)))
        page = (await http("GET", "/")).content
        assert re.search(r"note Worker w1 has been dead since [^.]* not started again", _text(page))
        assert b'<a href="/workers/w1">w1</a>' in page

    run(test)


def test_a_calm_overview_says_that_messages_wait_though_no_cause_is_known(run):
    async def test(http, queues):
        await queues.create_queue("q")
        now = int(datetime.now(UTC).timestamp())
        for minute in (now // 60 - 1, now // 60):
            await record_queues(queues, minute)
        id = await queues.send_message("q", "a")
        await queues.run(
            plain_command("ZADD", queues.namespace.queue("q").zset, (now - 45) * 1000, id)
        )
        http.prefix, http.headers = "", {"accept": "text/html"}
        page = (await http("GET", "/")).content
        assert re.search(
            r"Nothing is known to be wrong, but messages of q wait for \d+ s; workers", _text(page)
        )
        assert b'<p class="calm"><i class="dot warn">' in page

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
        assert '"/actions/change-queue?queue=q"' in page
        examined = (await http("GET", "/queues/q?doctor=1")).content.decode()
        assert "No fault was found." in examined

    run(test)


async def _live(queues, name, *, running=None, **facts):
    """Store a worker that lives, and what it has reported."""
    info = {"since_ms": 1, "host": "h", "pid": 7, "slots": 8, "queues": {"q": 1}, **facts}
    entry = f"{int((time.time() + 600) * 1000)}:token:{json.dumps(info)}"
    await queues.run(plain_command("HSET", queues.namespace.workers, name, entry))
    fields = {"": "token", **({":running": json.dumps(running)} if running else {})}
    for field, value in fields.items():
        await queues.run(plain_command("HSET", queues.namespace.held(name), field, value))


async def _orders_of(queues, name):
    stored = await queues.run(plain_command("HGET", queues.namespace.held(name), ":orders"))
    orders = json.loads(stored.partition(b":")[2])
    return {order: value["value"] for order, value in orders.items()}


def test_the_resume_of_a_queue_names_its_workers_that_are_paused_too(run):
    async def test(http, queues):
        await queues.create_queue("q")
        await queues.pause_queue("q")
        await _live(queues, "w1", paused=True)
        await _live(queues, "w2")
        await _die(queues, "dead", {"q": []}, seconds_ago=20)
        open_pages(http)
        page = _text((await http("GET", "/actions/resume?queue=q")).content)
        assert re.findall(r"Worker \S+ of it is paused too", page) == [
            "Worker w1 of it is paused too"
        ]

    run(test)


def test_a_worker_is_given_orders_on_its_page(run):
    async def test(http, queues):
        await queues.create_queue("q")
        await _live(queues, "w1")
        http.prefix, http.headers = "", {"accept": "text/html"}
        page = (await http("GET", "/workers/w1")).content.decode()
        for text in ("Show what it runs", "Pause", "Change the concurrency", "Stop"):
            assert text in page
        assert "Resume" not in page
        confirm = _text((await http("GET", "/actions/worker-concurrency?worker=w1")).content)
        assert "It runs at most 8 calls at once now." in confirm
        confirm = _text((await http("GET", "/actions/stop-worker?worker=w1")).content)
        assert "If it has a supervisor, that starts it again, with the version" in confirm

        async def act(action, **fields):
            body = urlencode({"worker": "w1", **fields}).encode()
            done = await http("POST", f"/actions/{action}", body=body, headers=_FORM)
            assert (done.status, done.headers["location"]) == (303, "/workers/w1")

        await act("pause-worker")
        await act("worker-concurrency", concurrency="4")
        assert await _orders_of(queues, "w1") == {"pause": "", "concurrency": "4"}
        await act("resume-worker")
        await act("worker-concurrency", concurrency="")
        await act("stop-worker")
        assert await _orders_of(queues, "w1") == {"stop": ""}
        await _live(queues, "w1", paused=True)
        page = (await http("GET", "/workers/w1")).content.decode()
        assert '<span class="mark warn">paused</span>' in page
        assert "Resume" in page
        await queues.run(plain_command("HDEL", queues.namespace.workers, "w1"))  # as it has
        http = Http(create_app(queues, auth=False), prefix="", headers=http.headers)
        gone = await http("GET", "/workers/w1")
        assert gone.status == 404
        assert re.search(r"At \d\d:\d\d:\d\d UTC a caller stopped it\.", _text(gone.content))
        never = await http("GET", "/workers/w2")
        assert "stopped it" not in _text(never.content)

    run(test)


def test_what_a_worker_runs_is_shown_for_a_minute_after_it_was_asked(run):
    async def test(http, queues):
        await queues.create_queue("q")
        stack = [["/app/<b>.py", 3, "handle"], ["/lib/time.py", 12, "sleep"]]
        await _live(queues, "w1", running=[["q", "a" * 32, 3, 2, 61.5, "thread", stack]])
        page = _text((await open_pages(http)("GET", "/workers/w1")).content)
        assert "/lib/time.py:12" in page
        assert "/app/&lt;b&gt;.py:3, handle" in page
        assert "and 2 more q 2 61 thread" in page

    run(test)


def test_the_last_errors_of_a_worker_are_shown_to_those_who_may_see_bodies(run, tmp_path):
    users = tmp_path / "users.toml"
    names = {"peeks": 'scopes = ["peek", "stats"]\nqueues = ["q"]', "stats": 'scopes = ["stats"]'}
    names["redacted"] = f'{names["peeks"]}\nredact = ["a"]'
    users.write_text(
        "\n".join(
            f'[tokens.{name}]\nsha256 = "{hash_token(name * 20)}"\n{rights}'
            for name, rights in names.items()
        )
    )
    users.chmod(0o600)

    async def test(http, queues):
        failures = {"q": [7, "ValueError: a-secret"], "other": [8, "KeyError: b"]}
        await _live(queues, "w1", failures=failures)

        async def read(name):
            headers = {"authorization": f"Bearer {name * 20}"}
            answer = await http("GET", "/workers", headers=headers)
            return answer.json["workers"][0]["failures"]

        assert await read("peeks") == {"q": {"at_ms": 7, "error": "ValueError: a-secret"}}
        assert await read("stats") == {}
        assert await read("redacted") == {"q": {"at_ms": 7, "error": "ValueError: [redacted]"}}

    run(test, auth=True, users=users)
