"""Operations of many messages: 202, progress, pauses, and the end of their process."""

import asyncio
import json
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rsmq import RSMQ, AsyncRSMQ
from rsmq.operations.plain import plain_command
from rsmq.web import OperationRunner, create_app, search
from rsmq.web.access.secrets import hash_token
from rsmq.web.bulk import steps
from rsmq.web.bulk.records import change_operation, read_operation
from rsmq.web.bulk.steps import run_step
from tests.scale import WAIT_SECONDS
from tests.web.asgi import Http

SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
_ASYNC = {"prefer": "respond-async"}


async def _ended(http, location):
    http = Http(http.app, "", http.headers)
    async with asyncio.timeout(20):
        while (shown := (await http("GET", location)).json)["ended_ms"] is None:
            await asyncio.sleep(0.01)
    return shown


async def _dead_letters(queues, number):
    for name in ("q", "dead"):
        await queues.create_queue(name)
    return await queues.send_messages("dead", [f"{each}" for each in range(number)])


async def test_a_redrive_of_all_dead_letters_goes_on_after_its_answer(http, queues):
    await _dead_letters(queues, 450)
    async with http.app.router.lifespan_context(http.app):
        reply = await http("POST", "/queues/dead:redrive", {"destination": "q"}, headers=_ASYNC)
        assert (reply.status, reply.json["total"]) == (202, 450)
        location = reply.headers["location"]
        assert location == f"/api/v1/operations/{reply.json['operation']}"
        shown = await _ended(http, location)
    assert (shown["state"], shown["done"], shown["creator"]) == ("succeeded", 450, "everyone")
    assert (await queues.get_queue_attributes("q")).messages == 450
    listed = (await http("GET", "/operations")).json["operations"]
    assert [each["operation"] for each in listed] == [reply.json["operation"]]
    entries = (await http("GET", "/audit")).json["entries"]
    assert "succeeded" in {each.get("outcome") for each in entries}
    key = queues.namespace.operation(reply.json["operation"])
    assert 0 < await queues.run(plain_command("PTTL", key)) <= 7 * 24 * 3600 * 1000


@pytest.mark.parametrize("kind", ["delete", "move"])
async def test_what_fits_a_filter_and_was_sent_before_is_deleted_or_moved(kind, http, queues):
    for name in ("q", "to"):
        await queues.create_queue(name)
    bodies = [f'{{"n": {each % 2}}}' for each in range(500)]
    await queues.send_messages("q", bodies)
    content = {"filter": "json.n:1"} | ({"destination": "to"} if kind == "move" else {})
    reply = await http("POST", f"/queues/q/messages:{kind}", content)
    assert reply.status == 202
    await asyncio.sleep(0.002)  # the fence is a millisecond of the server
    later = await queues.send_message("q", '{"n": 1}')
    async with http.app.router.lifespan_context(http.app):
        shown = await _ended(http, reply.headers["location"])
    assert (shown["state"], shown["done"], shown["scanned"]) == ("succeeded", 250, 501)
    left = await queues.peek_messages("q", count=1000)
    assert len(left) == 251
    assert later in {each.id for each in left}
    moved = (await queues.get_queue_attributes("to")).messages
    assert moved == (250 if kind == "move" else 0)
    end = (await http("GET", f"/audit?call=operation%20{kind}")).json["entries"][0]
    assert (end["done"], end.get("destination")) == ("250", content.get("destination"))


@pytest.mark.parametrize("kind", ["delete", "move"])
async def test_a_message_that_is_received_after_the_search_stays(monkeypatch, kind, http, queues):
    for name in ("q", "to"):
        await queues.create_queue(name)
    await queues.send_messages("q", ["a", "b", "c"])
    content = {"filter": ""} | ({"destination": "to"} if kind == "move" else {})
    reply = await http("POST", f"/queues/q/messages:{kind}", content)
    record = await read_operation(queues, reply.json["operation"])
    received = []

    async def change(*arguments):
        received.append(await queues.receive_message("q"))
        return await one_change(*arguments)

    one_change = steps._change
    monkeypatch.setattr(steps, "_change", change)
    assert (await run_step(queues, record, 200)).done == 2
    (left,) = await queues.peek_messages("q")
    assert left.id == received[0].id


@pytest.mark.parametrize("kind", ["delete", "move"])
async def test_an_operation_leaves_messages_in_flight_if_it_shall(kind, http, queues):
    for name in ("q", "to"):
        await queues.create_queue(name)
    await queues.send_messages("q", ["a"] * 5)
    held = await queues.receive_messages("q", 2, vt=600)
    content = {"filter": "", "skip_in_flight": True}
    content |= {"destination": "to"} if kind == "move" else {}
    reply = await http("POST", f"/queues/q/messages:{kind}", content)
    assert reply.json["arguments"]["skip_in_flight"] is True
    record = await read_operation(queues, reply.json["operation"])
    assert (await run_step(queues, record, 200)).done == 3
    assert {each.id for each in await queues.peek_messages("q")} == {each.id for each in held}
    without = {"skip_in_flight": True, "ids": ["a"]}
    refused = await http("POST", f"/queues/q/messages:{kind}", {**content, **without})
    assert refused.status == 422


async def test_a_delete_by_filter_and_state_can_be_undone(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a"] * 450)
    await queues.send_messages("q", ["a"] * 3, delay=60)
    await queues.receive_messages("q", 150)
    content = {"filter": 'body:"a"', "state": "visible", "undo": True}
    reply = await http("POST", "/queues/q/messages:delete", content)
    async with http.app.router.lifespan_context(http.app):
        shown = await _ended(http, reply.headers["location"])
    assert (shown["state"], shown["done"]) == ("succeeded", 300)
    assert (await queues.get_queue_attributes("q")).messages == 153
    undo = shown["arguments"]["undo"]
    (listed,) = (await http("GET", "/undo")).json["deletions"]
    assert (listed["id"], listed["messages"], listed["by"]) == (undo, 300, "everyone")
    pages = Http(http.app, "", {"accept": "text/html"})
    assert b"300 of 300 can be undone" in (await pages("GET", "/activity")).content
    assert (await http("POST", f"/undo/{undo}")).json["messages"] == 300
    http.app.router.default.forget_all()
    assert b"0 of 300 can be undone" in (await pages("GET", "/activity")).content
    assert (await queues.get_queue_attributes("q")).visible_messages == 300


async def _make_older(queues, undo, seconds):
    """Let a deletion have begun earlier."""
    trash = queues.namespace.trash
    stored = (await queues.run(plain_command("HGET", trash, undo))).split(b" ")
    stored[2] = b"%d" % (int(stored[2]) - seconds * 1000)
    await queues.run(plain_command("HSET", trash, undo, b" ".join(stored)))


async def _begin_delete(http, queues, *numbers):
    """Begin to delete all messages of a new queue; return the path and the record."""
    await queues.create_queue("q")
    for number in numbers:
        await queues.send_messages("q", ["a"] * number)
    reply = await http("POST", "/queues/q/messages:delete", {"filter": "", "undo": True})
    return reply.headers["location"], await read_operation(queues, reply.json["operation"])


async def _undoable(http):
    return {each["id"]: each["messages"] for each in (await http("GET", "/undo")).json["deletions"]}


async def test_a_delete_that_takes_longer_than_its_undo_succeeds_and_its_parts_end_in_order(
    http, queues
):
    location, record = await _begin_delete(http, queues, 450)
    undo = record.arguments["undo"]
    first = await run_step(queues, record, 100)
    await _make_older(queues, undo, 60)
    second = await run_step(queues, replace(record, cursor=first.cursor), 100)
    assert await _undoable(http) == {undo: 100, f"{undo}-1": 100}
    # The step runs again: its process has ended before it was recorded.
    third = await run_step(queues, replace(record, cursor=first.cursor), 100)
    assert (third.done, third.cursor[-1]) == (100, second.cursor[-1])
    assert await _undoable(http) == {undo: 100, f"{undo}-1": 200}
    await _make_older(queues, undo, 540)
    await _make_older(queues, f"{undo}-1", 60)
    async with OperationRunner(queues):
        shown = await _ended(http, location)
    assert shown["state"] == "succeeded"
    assert (await queues.get_queue_attributes("q")).messages == 0
    assert (await http("POST", f"/undo/{undo}-1")).json["messages"] == 200
    assert await _undoable(http) == {f"{undo}-1": 200, f"{undo}-2": 150}
    assert (await queues.get_queue_attributes("q")).messages == 200


async def test_a_delete_that_is_undone_while_it_runs_fails_and_deletes_no_more(http, queues):
    location, record = await _begin_delete(http, queues, 250)
    assert (await run_step(queues, record, 200)).done == 200
    await http("POST", f"/undo/{record.arguments['undo']}")
    async with OperationRunner(queues):
        shown = await _ended(http, location)
    assert (shown["state"], shown["error"]) == ("failed", "notPossible")
    assert (await queues.get_queue_attributes("q")).messages == 250


async def test_received_messages_that_fit_are_released(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a"] * 5)
    await queues.receive_messages("q", 3)
    content = {"filter": "", "state": "in_flight"}
    reply = await http("POST", "/queues/q/messages:release", content)
    async with http.app.router.lifespan_context(http.app):
        shown = await _ended(http, reply.headers["location"])
    assert (shown["kind"], shown["state"], shown["done"]) == ("release", "succeeded", 3)
    assert (await queues.get_queue_attributes("q")).visible_messages == 5


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ({"filter": "nothing"}, "invalidFormat"),
        ({"filter": "", "state": "gone"}, "invalidFormat"),
        ({"ids": ["a" * 32], "state": "visible"}, "missingParameter"),
        ({"ids": ["a" * 32], "before_ms": 1}, "missingParameter"),
        ({"ids": ["a" * 32], "filter": ""}, "invalidFormat"),
    ],
)
async def test_an_operation_that_is_not_valid_does_not_begin(content, code, http, queues):
    await queues.create_queue("q")
    reply = await http("POST", "/queues/q/messages:delete", content)
    assert (reply.status, reply.json["code"]) == (422, code)
    assert (await http("GET", "/operations")).json == {"operations": []}


async def test_messages_in_flight_are_released_and_sweeps_run_as_operations(http, queues):
    await _dead_letters(queues, 0)
    await queues.set_dead_letter_policy("q", "dead", 1)
    await queues.send_messages("q", ["a", "b"])
    await queues.receive_messages("q", 2)
    async with http.app.router.lifespan_context(http.app):
        for action, done in (("release-all", 2), ("sweep", 2), ("sweep-expired", 0)):
            reply = await http("POST", f"/queues/q:{action}", headers=_ASYNC)
            shown = await _ended(http, reply.headers["location"])
            assert (shown["kind"], shown["state"], shown["done"]) == (action, "succeeded", done)
    assert (await queues.get_queue_attributes("dead")).messages == 2


async def test_an_operation_is_paused_resumed_and_cancelled(http, queues):
    await _dead_letters(queues, 30)
    content = {"destination": "q", "rate": 10}
    reply = await http("POST", "/queues/dead:redrive", content)
    path = f"/operations/{reply.json['operation']}"
    assert (await http("POST", f"{path}:resume")).status == 409
    assert (await http("POST", f"{path}:pause")).json["state"] == "paused"
    async with http.app.router.lifespan_context(http.app):
        assert (await http("POST", f"{path}:resume")).json["state"] in {"waiting", "running"}
        async with asyncio.timeout(20):
            while not (await http("GET", path)).json["done"]:
                await asyncio.sleep(0.01)
        assert (await http("POST", f"{path}:cancel")).json["state"] == "cancelled"
    assert (await http("POST", f"{path}:cancel")).json["code"] == "operationState"
    assert (await http("GET", f"/operations/{'x' * 32}")).json["code"] == "operationNotFound"


async def test_a_resumed_operation_goes_on_at_once(http, queues):
    await _dead_letters(queues, 30)
    async with http.app.router.lifespan_context(http.app):
        content = {"destination": "q", "rate": 20}
        reply = await http("POST", "/queues/dead:redrive", content)
        path = f"/operations/{reply.json['operation']}"
        await _until(lambda: _reached(http, path, 20))
        assert (await http("POST", f"{path}:pause")).json["state"] == "paused"
        assert (await http("GET", path)).json["remaining_seconds"] is None
        # Its runner may still be in the pause behind its step.
        assert (await http("POST", f"{path}:resume")).json["state"] in {"waiting", "running"}
        shown = await _ended(http, f"/api/v1{path}")
    assert (shown["state"], shown["done"], shown["total"]) == ("succeeded", 30, 30)


async def _until(is_true):
    async with asyncio.timeout(20):
        while not await is_true():
            await asyncio.sleep(0.01)


async def _reached(http, path, number):
    return (await http("GET", path)).json["done"] >= number


async def test_a_running_operation_shows_its_rate_and_the_time_that_is_left(http, queues):
    await _dead_letters(queues, 300)
    reply = await http("POST", "/queues/dead:redrive", {"destination": "q", "rate": 100})
    shown = reply.json
    assert (shown["rate"], shown["remaining_seconds"]) == (None, None)
    record = await read_operation(queues, shown["operation"])
    key = queues.namespace.operation(record.id)
    taking = change_operation(queues.namespace, record, "take", owner="a", lease_ms=60_000)
    assert (await queues.run(taking))[1]
    taken = int(await queues.run(plain_command("HGET", key, "taken")))
    fields = {"scanned": 200, "done": 200, "advanced": taken + 2000}
    for name, value in fields.items():
        await queues.run(plain_command("HSET", key, name, value))
    shown = (await http("GET", f"/operations/{record.id}")).json
    assert (shown["rate"], shown["remaining_seconds"]) == (100.0, 1.0)


@pytest.mark.parametrize("content", [{}, {"filter": "rc<1"}])
async def test_dead_letters_whose_queue_is_gone_stay_and_the_others_are_redriven(
    content, http, queues
):
    for name in ("a", "b", "c", "dead"):
        await queues.create_queue(name)
    await queues.set_dead_letter_policy("c", "dead", 1)
    for name in ("a", "b"):
        await queues.set_dead_letter_policy(name, "dead", 1)
        ids = await queues.send_messages("dead", [name] * 150)
        reason = f"5:{json.dumps({'queue': name})}"
        reasons = [part for id in ids for part in (id, reason)]
        await queues.run(plain_command("HSET", b"rsmq:dead:x:reasons", *reasons))
    await queues.delete_queue("a")
    reply = await http("POST", "/queues/dead:redrive", content, headers=_ASYNC)
    async with http.app.router.lifespan_context(http.app):
        shown = await _ended(http, reply.headers["location"])
    assert (shown["state"], shown["error"]) == ("failed", "queueNotFound")
    assert (shown["done"], shown["left"], shown["scanned"]) == (150, 150, 300)
    assert (await queues.get_queue_attributes("b")).messages == 150


async def test_what_came_after_the_time_of_the_caller_is_not_touched(http, queues):
    await _dead_letters(queues, 1)
    (first,) = await queues.peek_messages("dead")
    await asyncio.sleep(0.002)
    later = await queues.send_message("dead", "later")
    fence = {"before_ms": int(first.sent_ms) + 1}
    async with http.app.router.lifespan_context(http.app):
        for path, content in (
            ("dead:redrive", {"destination": "q"}),
            ("q/messages:delete", {"filter": "rc<1"}),
        ):
            reply = await http("POST", f"/queues/{path}", content | fence)
            shown = await _ended(http, reply.headers["location"])
            assert shown["state"] == "succeeded"
    assert [each.id for each in await queues.peek_messages("dead")] == [later]
    assert len(await queues.peek_messages("q")) == 1  # sent again by the redrive, so later


def test_a_filter_on_bodies_and_another_queue_are_not_shown_to_everyone(run, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(
        f'[tokens.t]\nsha256 = "{hash_token("t" * 40)}"\nqueues = ["q"]\n'
        'scopes = ["peek", "stats"]\nredact = ["ssn"]\n'
    )
    users.chmod(0o600)

    async def test(http, queues):
        for name in ("q", "secret"):
            await queues.create_queue(name)
        admin = Http(create_app(queues, auth=False))
        for filter in ('json.ssn:"123-45"', 'body:"123-45"', "rc>7"):
            content = {"filter": filter, "destination": "secret"}
            assert (await admin("POST", "/queues/q/messages:move", content)).status == 202
        headers = {"authorization": "Bearer " + "t" * 40}
        listed = (await http("GET", "/operations", headers=headers)).json["operations"]
        one = await http("GET", f"/operations/{listed[0]['operation']}", headers=headers)
        shown = [each["arguments"] for each in (*listed, one.json)]
        assert sorted(map(str, shown[:3])) == ["{'filter': 'rc>7'}", "{}", "{}"]
        assert not any("destination" in each for each in shown)
        everything = (await admin("GET", "/operations")).json["operations"]
        assert all(set(each["arguments"]) == {"filter", "destination"} for each in everything)

    run(test, auth=True, users=users)


async def test_a_filter_that_is_not_found_is_looked_for_in_few_steps_with_pauses(
    monkeypatch, http, queues
):
    await _dead_letters(queues, 400)
    content = {"filter": "json.a:1", "destination": "q", "rate": 1}
    reply = await http("POST", "/queues/dead:redrive", content)
    pauses = []

    async def step(runner, record):
        step, seconds = await one_step(runner, record)
        pauses.append(seconds)
        return step, seconds

    one_step = OperationRunner._step
    monkeypatch.setattr(OperationRunner, "_step", step)
    async with OperationRunner(queues):
        shown = await _ended(http, reply.headers["location"])
    assert (shown["state"], shown["done"], shown["scanned"]) == ("succeeded", 0, 400)
    assert len(pauses) <= 3
    assert all(seconds > 0 for seconds in pauses)


async def test_a_step_of_a_small_rate_changes_no_more_than_it_says(http, queues):
    await _dead_letters(queues, 0)
    await queues.send_messages("dead", [f'{{"a": {each % 3}}}' for each in range(12)])
    content = {"filter": "json.a:1", "destination": "q", "rate": 1}
    reply = await http("POST", "/queues/dead:redrive", content)
    record = await read_operation(queues, reply.json["operation"])
    taken = []
    while not taken or record.cursor is not None:
        taken.append(await run_step(queues, record, 3))
        record = replace(record, cursor=taken[-1].cursor)
    assert [each.done for each in taken] == [3, 1]
    assert sum(each.scanned for each in taken) == 12


async def test_an_outer_application_runs_the_operations_of_a_mounted_one(http, queues):
    await _dead_letters(queues, 10)
    async with OperationRunner(queues):
        reply = await http("POST", "/queues/dead:redrive", {"destination": "q"}, headers=_ASYNC)
        assert (await _ended(http, reply.headers["location"]))["done"] == 10


async def test_an_operation_ends_with_its_queue(http, queues):
    await _dead_letters(queues, 1)
    reply = await http("POST", "/queues/dead:redrive", {"destination": "q"}, headers=_ASYNC)
    await queues.delete_queue("dead")
    async with http.app.router.lifespan_context(http.app):
        shown = await _ended(http, reply.headers["location"])
    assert (shown["state"], shown["error"]) == ("failed", "queueNotFound")


async def test_a_step_that_ran_and_was_not_recorded_may_run_again(http, queues):
    await _dead_letters(queues, 300)
    reply = await http("POST", "/queues/dead:redrive", {"destination": "q"}, headers=_ASYNC)
    record = await read_operation(queues, reply.json["operation"])
    taking = change_operation(queues.namespace, record, "take", owner="killed")
    assert (await queues.run(taking))[1]
    await run_step(queues, record, 200)
    async with OperationRunner(queues):
        shown = await _ended(http, reply.headers["location"])
    assert shown["state"] == "succeeded"
    bodies = [each.body for each in await queues.peek_messages("q", count=1000)]
    assert sorted(bodies) == sorted(f"{each}" for each in range(300))
    assert (await queues.get_queue_attributes("dead")).messages == 0


async def test_an_operation_whose_runner_has_ended_in_the_same_step_twice_is_set_aside(
    http, queues
):
    await _dead_letters(queues, 300)
    reply = await http("POST", "/queues/dead:redrive", {"destination": "q"}, headers=_ASYNC)
    record = await read_operation(queues, reply.json["operation"])

    async def tell(event, owner):
        changed = replace(record, cursor=[0])
        change = change_operation(queues.namespace, changed, event, owner=owner)
        state, is_allowed = await queues.run(change)
        return state.value, is_allowed

    assert await tell("take", "first") == ("running", True)
    assert await tell("take", "first") == ("running", True)  # it has met an error of Redis
    assert await tell("take", "second") == ("running", True)
    assert await tell("advance", "second") == ("running", True)
    assert await tell("take", "third") == ("running", True)
    assert await tell("take", "fourth") == ("failed", True)
    async with OperationRunner(queues):
        shown = await _ended(http, reply.headers["location"])
    assert (shown["state"], shown["error"]) == ("failed", "serverEnded")
    assert (await queues.get_queue_attributes("dead")).messages == 300


async def test_a_step_of_much_work_leaves_the_event_loop_free_and_changes_all_that_fit(
    monkeypatch, http, queues
):
    await _dead_letters(queues, 0)
    bodies = [f"[{'[0],' * 10_000}{each % 2}]" for each in range(20)]
    await queues.send_messages("dead", bodies)
    threads = set()

    def fits(*arguments):
        threads.add(threading.current_thread())
        return one_fits(*arguments)

    one_fits = search.fits
    monkeypatch.setattr(search, "fits", fits)
    monkeypatch.setattr(search, "MAX_SECONDS", WAIT_SECONDS)
    listed = await http("GET", "/queues/dead/messages?filter=json.10000:1")
    assert len(listed.json["messages"]) == 10
    content = {"filter": "json.10000:1", "destination": "q"}
    reply = await http("POST", "/queues/dead:redrive", content, headers=_ASYNC)
    async with OperationRunner(queues):
        shown = await _ended(http, reply.headers["location"])
    assert (shown["state"], shown["done"], shown["scanned"]) == ("succeeded", 10, 20)
    assert threading.main_thread() not in threads


async def test_a_search_of_much_work_ends_early_and_goes_on_behind_what_it_has_looked_at(
    monkeypatch, http, queues
):
    await _dead_letters(queues, 0)
    await queues.send_messages("dead", [f'{{"a": {each}}}' for each in range(5)])
    monkeypatch.setattr(search, "MAX_SECONDS", -1.0)
    path, found = "/queues/dead/messages?filter=json.a>=0", []
    while path:
        page = (await http("GET", path)).json
        assert len(page["messages"]) <= 1
        found += [each["body"] for each in page["messages"]]
        cursor = page["cursor"]
        path = cursor and f"/queues/dead/messages?filter=json.a>=0&cursor={cursor}"
    assert found == [f'{{"a": {each}}}' for each in range(5)]


async def test_operations_run_on_a_server(server, ns):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        for name in ("q", "to"):
            await queues.create_queue(name)
        await queues.send_messages("q", ["a"] * 100)
        app = create_app(queues, auth=False)
        async with app.router.lifespan_context(app):
            http = Http(app)
            content = {"filter": "rc<1", "destination": "to"}
            reply = await http("POST", "/queues/q/messages:move", content)
            shown = await _ended(http, reply.headers["location"])
        assert (shown["state"], shown["done"]) == ("succeeded", 100)
        assert (await queues.get_queue_attributes("to")).messages == 100


async def test_a_read_only_server_runs_no_operations(http, queues):
    await _dead_letters(queues, 1)
    app = create_app(queues, auth=False, read_only=True)
    before = len(asyncio.all_tasks())
    async with app.router.lifespan_context(app):
        assert len(asyncio.all_tasks()) == before
    reply = await Http(app)("POST", "/queues/dead:redrive", {"destination": "q"})
    assert reply.status == 403


def test_operations_need_no_more_than_the_documented_rights(server):
    rows = [
        "producer",
        "consumer",
        "administrator, on",
        "workers, on",
        "recorder of",
        r"\[`rsmq web`",
    ]
    found = [re.search(rf"^\| {each}.*", SECURITY, re.MULTILINE)[0] for each in rows]
    rules = re.findall(r"\+[\w\\|]+", " ".join(found).replace("\\|", "|"))

    async def test():
        url = f"redis://web:secret@127.0.0.1:{server.port}/0"
        async with AsyncRSMQ.from_url(url, ns="rights") as queues:
            await _dead_letters(queues, 3)
            app = create_app(queues, auth=False)
            async with app.router.lifespan_context(app):
                http = Http(app)
                for path, content in (
                    ("dead:redrive", {"rate": 100, "destination": "q"}),
                    ("q/messages:delete", {"filter": "rc<1"}),
                ):
                    reply = await http("POST", f"/queues/{path}", content)
                    shown = await _ended(http, reply.headers["location"])
                    assert (shown["state"], shown["done"]) == ("succeeded", 3)
            assert (await http("GET", "/operations")).status == 200

    with server.raw() as raw:
        user = ["ACL", "SETUSER", "web", "reset", "on", ">secret", "~rights:*", *rules]
        raw.execute_command(*user)
        asyncio.run(test())
        raw.execute_command("ACL", "DELUSER", "web")


def test_without_a_right_to_its_key_an_operation_is_refused_and_other_calls_run(server, caplog):
    async def test():
        url = f"redis://few:secret@127.0.0.1:{server.port}/0"
        async with AsyncRSMQ.from_url(url, ns="few") as queues:
            app = create_app(queues, auth=False)
            async with app.router.lifespan_context(app):
                http = Http(app)
                reply = await http("POST", "/queues/q/messages:delete", {"filter": "rc<1"})
                assert reply.json["code"] == "redis-refused"
                assert (await http("POST", "/queues/q/messages", {"body": "a"})).status == 201
                await _until(lambda: _logged(caplog, "operations are not taken"))

    with server.raw() as raw:
        RSMQ(raw, ns="few").create_queue("q")
        keys = "~few:QUEUES", "~few:q", "~few:q:Q", "~few:x:audit"
        raw.execute_command("ACL", "SETUSER", "few", "reset", "on", ">secret", "+@all", *keys)
        asyncio.run(test())
        raw.execute_command("ACL", "DELUSER", "few")


async def _logged(caplog, text):
    return any(text in line for line in caplog.messages)
