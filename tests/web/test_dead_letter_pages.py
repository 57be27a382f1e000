"""The pages of dead letters, and redrives and deletions of those of a cause."""

import asyncio
import json
import re
import time

import pytest
from redis.exceptions import NoPermissionError

from rsmq.operations.plain import plain_command
from rsmq.web.access.secrets import hash_token
from tests.web.pages_client import open_pages, read_page, run_action


async def _make_queues(queues):
    for name in ("orders", "dead"):
        await queues.create_queue(name)
    await queues.set_dead_letter_policy("orders", "dead", 3)


async def _bury(queues, exception, number, *, later_ms=0, queue="dead"):
    """Put dead letters of a cause into a dead-letter queue, as a worker does."""
    ids = await queues.send_messages(queue, ["body"] * number)
    shown = await queues.get_message(queue, ids[0])
    traceback = f'Traceback\n  File "shop.py", line 7, in handle\n{exception}: <b>\n'
    reason = {
        "queue": "orders", "text": "failed", "exception": f"{exception}: <b>", "worker": "w",
        "traceback": traceback, "attempts": 3,
    }  # fmt: skip
    stored = f"{int(shown.sent_ms) + later_ms}:{json.dumps(reason)}"
    for id in ids:
        key = queues.namespace.queue(queue).reasons
        await queues.run(plain_command("HSET", key, id, stored))
    return ids


async def _run_operations(http, queues, *, number):
    """Run all operations until the dead-letter queue has a number of messages."""
    async with http.app.router.lifespan_context(http.app), asyncio.timeout(20):
        while (await queues.get_queue_attributes("dead")).messages != number:
            await asyncio.sleep(0.01)


def _filter_of(page, action, exception):
    """Return the filter in the link of an action for the group of an exception."""
    group = next(each for each in page.split("<li>")[1:] if f"<strong>{exception}</strong>" in each)
    return re.search(rf"/actions/{action}\?queue=dead&amp;filter=cause%3A(\w+)", group)[1]


async def test_dead_letter_queues_are_those_of_policies_and_workers_with_their_newest_death(
    http, queues
):
    open_pages(http)
    assert "rsmq dead-letter orders" in await read_page(http, "/dead-letters")
    await _make_queues(queues)
    await queues.create_queue("other")
    await _bury(queues, "ValueError", 3)
    http.app.router.default.forget_all()
    text = await read_page(http, "/dead-letters")
    assert '<div class="name">dead letters</div>' in text
    assert '<div class="name">dead-letter queue</div>' in text
    assert '<div class="name">cause</div>' in await read_page(http, "/dead-letters/dead")
    assert 'href="/dead-letters/dead"' in text
    assert "ValueError: &lt;b&gt;" in text
    assert 'href="/queues/orders"' in text
    assert "other" not in text
    http.prefix = "/api/v1"
    assert (await http("GET", "/dead-letters")).json["queues"] == [
        {"queue": "dead", "messages": 3, "visible": 3, "new_messages": 3, "sources": ["orders"]}
    ]
    await _bury(queues, "KeyError", 2, queue="other")
    assert (await http("GET", "/dead-letters")).json["queues"][1] == {
        "queue": "other", "messages": 2, "visible": 2, "new_messages": 2, "sources": []
    }  # fmt: skip
    open_pages(http)
    http.app.router.default.forget_all()
    text = await read_page(http, "/dead-letters")
    assert 'href="/dead-letters/other"' in text
    assert "workers; no policy names it" in text


async def test_a_dead_letter_without_a_reason_has_the_policy_that_has_moved_it(http, queues):
    await _make_queues(queues)
    await _bury(queues, "ValueError", 1)
    open_pages(http)
    assert "No reason is stored" not in await read_page(http, "/dead-letters/dead")
    await queues.send_message("dead", "a")
    http.app.router.default.forget_all()
    text = await read_page(http, "/dead-letters/dead")
    assert "<strong>No reason is stored.</strong> Neither a move by hand nor a receive" in text
    assert "that was received 3 times and not deleted; its visibility timeout is 30 s at" in text
    await queues.set_dead_letter_policy("orders", None)
    http.app.router.default.forget_all()
    assert "No cause is known" in await read_page(http, "/dead-letters/dead")


async def _receive_three_times(queues, id):
    """Let a message of orders be received as by workers that die."""
    for _ in range(3):
        await queues.receive_message("orders")
        await queues.change_message_visibility("orders", id, 0)


async def test_a_message_that_was_moved_by_hand_may_crash_its_workers_again(http, queues):
    await _make_queues(queues)
    id = await queues.send_message("orders", "poison")
    await _receive_three_times(queues, id)
    body = {"ids": [id], "destination": "dead"}
    assert (await http("POST", "/queues/orders/messages:move", body)).status == 200
    open_pages(http)
    page = await read_page(http, f"/queues/dead/messages/{id}")
    assert (
        "It was received 3 times, and it is not stored how these receives ended. If workers "
        "died with it in flight, it may crash them again"
    ) in page
    assert "visibility timeout of" not in page
    groups = await read_page(http, "/dead-letters/dead")
    assert "A move by hand stores none. It is not stored how the receives" in groups
    assert "and not deleted" not in groups
    for action in ("redrive?queue=dead", "redrive-group?queue=dead&filter=cause:none",
                   f"redrive-messages?queue=dead&ids={id}"):  # fmt: skip
        asked = await read_page(http, f"/actions/{action}")
        assert "they may crash their workers again: find out why before" in asked, action
    asked = await read_page(http, "/actions/redrive-group?queue=dead&filter=cause:none")
    assert "Sends 1 dead letter of dead again without a stored reason, with" in asked
    # Another one, that nobody has moved: the policy may be its cause.
    await queues.send_message("dead", "a")
    http.app.router.default.forget_all()
    groups = await read_page(http, "/dead-letters/dead")
    assert "A receive moves a message of orders here that was received 3 times" in groups


async def test_the_pages_of_a_suspect_say_what_the_overview_says(http, queues):
    await _make_queues(queues)
    await queues.set_dead_letter_policy("orders", "dead", 9)
    id = await queues.send_message("orders", "poison")
    await _receive_three_times(queues, id)
    await queues.receive_message("orders")
    now = int(time.time() * 1000)
    info = {
        "since_ms": 1, "host": "h", "pid": 7, "queues": {"orders": 0}, "handled": 0,
        "failed": 0, "deaths": [now - 30_000, now - 20_000],
    }  # fmt: skip
    entry = f"{now + 60_000}:token:{json.dumps(info)}"
    await queues.run(plain_command("HSET", queues.namespace.workers, "shop-1", entry))
    page = await read_page(open_pages(http), f"/queues/orders/messages/{id}")
    assert "Worker shop-1 died 2 times in 10 s." in page
    assert f"The suspect is message {id} of orders" in page
    assert "It may only have been in flight beside" not in page
    http.prefix = "/api/v1"
    body = {"ids": [id], "destination": "dead"}
    assert (await http("POST", "/queues/orders/messages:move", body)).status == 200
    open_pages(http)
    http.app.router.default.forget_all()
    for path in (f"/queues/dead/messages/{id}", "/actions/redrive?queue=dead"):
        page = await read_page(http, path)
        assert f"The suspect was message {id} of orders, of which 4 receives" in page, path
        assert "moved it to dead. No worker has died since." in page, path


async def test_the_dead_letters_of_a_cause_are_redriven_and_the_others_stay(http, queues):
    await _make_queues(queues)
    await _bury(queues, "KeyError", 2)
    chosen = await _bury(queues, "ValueError", 3)
    open_pages(http)
    text = await read_page(http, "/dead-letters/dead")
    key = _filter_of(text, "redrive-group", "ValueError")
    assert chosen[0] in text
    page = await read_page(http, f"/actions/redrive-group?queue=dead&filter=cause:{key}")
    assert "Sends 3 dead letters of dead again that died of ValueError" in page
    [before_ms] = re.findall(r'name="before_ms" value="(\d+)"', page)
    fields = {"queue": "dead", "filter": f"cause:{key}", "before_ms": before_ms}
    done = await run_action(http, "redrive-group", **fields, rate="100", destination="")
    assert (done.status, done.headers["location"]) == (303, "/activity")
    await _run_operations(http, queues, number=2)
    assert (await queues.get_queue_attributes("orders")).messages == 3
    left = await queues.peek_messages("dead", 0, 10)
    assert {each.reason.exception for each in left} == {"KeyError: <b>"}


async def test_dead_letters_that_come_after_the_preview_stay(http, queues):
    await _make_queues(queues)
    await _bury(queues, "ValueError", 2)
    open_pages(http)
    key = _filter_of(await read_page(http, "/dead-letters/dead"), "delete-group", "ValueError")
    page = await read_page(http, f"/actions/delete-group?queue=dead&filter=cause:{key}")
    assert "Removes 2 dead letters of dead that died of ValueError" in page
    [before_ms] = re.findall(r'name="before_ms" value="(\d+)"', page)
    later = await _bury(queues, "ValueError", 2, later_ms=1)
    fields = {"queue": "dead", "filter": f"cause:{key}", "before_ms": before_ms, "undo": "true"}
    assert (await run_action(http, "delete-group", **fields)).status == 422
    done = await run_action(http, "delete-group", **fields, typed="dead")
    await _run_operations(http, queues, number=2)
    assert {each.id for each in await queues.peek_messages("dead", 0, 10)} == set(later)
    cookie = done.headers["set-cookie"].partition(";")[0]
    text = await read_page(http, "/activity", cookie=cookie)
    [id] = set(
        re.findall(r'action="/actions/undo"><input type="hidden" name="id" value="(\w+)"', text)
    )
    await run_action(http, "undo", id=id)
    assert (await queues.get_queue_attributes("dead")).messages == 4


async def test_all_dead_letters_without_a_reason_are_deleted_as_a_group(http, queues):
    await _make_queues(queues)
    await queues.send_messages("dead", ["a", "b", "c"])
    open_pages(http)
    page = await read_page(http, "/actions/delete-group?queue=dead&filter=cause:none")
    assert "Removes 3 dead letters of dead" in page
    [before_ms] = re.findall(r'name="before_ms" value="(\d+)"', page)
    fields = {"queue": "dead", "filter": "cause:none", "before_ms": before_ms, "undo": "true"}
    await run_action(http, "delete-group", **fields, typed="dead")
    await _run_operations(http, queues, number=0)
    assert (await queues.get_queue_attributes("dead")).messages == 0


async def test_more_than_a_hundred_dead_letters_are_redriven_after_the_name_is_typed(http, queues):
    await _make_queues(queues)
    await queues.send_messages("dead", ["x"] * 101)
    open_pages(http)
    page = await read_page(http, "/actions/redrive?queue=dead")
    assert "Sends 101 dead letters of dead again" in page
    assert "rsmq redrive -- dead" in page
    fields = {"queue": "dead", "rate": "10000", "destination": "orders"}
    assert (await run_action(http, "redrive", **fields)).status == 422
    assert (await run_action(http, "redrive", **fields, typed="dead")).status == 303
    await _run_operations(http, queues, number=0)
    assert (await queues.get_queue_attributes("orders")).messages == 101


async def test_a_cause_that_is_gone_is_not_found(http, queues):
    await _make_queues(queues)
    path = "/actions/redrive-group?queue=dead&filter=cause:0123456789ab"
    assert (await http("GET", path, headers={"accept": "text/html"})).status == 404
    open_pages(http)
    assert (await http("GET", path)).status == 404
    assert "The queue has no dead letter." in await read_page(http, "/dead-letters/dead")


async def test_dead_letters_that_come_after_the_page_of_a_redrive_of_all_stay(http, queues):
    await _make_queues(queues)
    await _bury(queues, "ValueError", 2)
    open_pages(http)
    page = await read_page(http, "/actions/redrive?queue=dead")
    [before_ms] = re.findall(r'name="before_ms" value="(\d+)"', page)
    await asyncio.sleep(0.02)
    later = await _bury(queues, "ValueError", 2)
    fields = {"queue": "dead", "before_ms": before_ms, "rate": "10000", "destination": ""}
    assert (await run_action(http, "redrive", **fields)).status == 303
    await _run_operations(http, queues, number=2)
    assert {each.id for each in await queues.peek_messages("dead", 0, 10)} == set(later)


async def test_an_address_does_not_narrow_a_redrive_of_all(http, queues):
    await _make_queues(queues)
    await _bury(queues, "KeyError", 2)
    open_pages(http)
    for narrowing in ("filter=rc%3E9", "max=1", "ids=a"):
        reply = await http("GET", f"/actions/redrive?queue=dead&{narrowing}")
        assert reply.status == 422, narrowing
        name, _, value = narrowing.partition("=")
        fields = {"queue": "dead", "rate": "100", name: value}
        assert (await run_action(http, "redrive", **fields)).status == 422, narrowing
    assert (await queues.get_queue_attributes("dead")).messages == 2


async def test_a_queue_of_dead_letters_needs_no_worker_and_offers_their_redrive(http, queues):
    await _make_queues(queues)
    await queues.create_queue("of-workers")
    # As a policy moves it: no reason is recorded.
    [id] = await queues.send_messages("dead", ["a"])
    open_pages(http)
    page = await read_page(http, "/queues/dead")
    assert "Why it is not drained" not in page
    assert "rsmq-worker" not in page
    assert 'Dead letters of <a class="mono" href="/queues/orders">orders</a>' in page
    assert 'href="/actions/redrive?queue=dead"' in page
    asked = await read_page(http, "/actions/redrive?queue=dead")
    assert '<a class="button" href="/dead-letters/dead">Back</a>' in asked
    assert 'href="/dead-letters/dead">By cause' in page
    message = await read_page(http, f"/queues/dead/messages/{id}")
    assert f"/actions/redrive-messages?queue=dead&amp;ids={id}" in message
    assert "It is a dead letter" in message
    assert 'href="/queues/orders">orders</a>' in message
    source = await read_page(http, "/queues/orders")
    assert 'href="/dead-letters/dead">dead</a>' in source
    await queues.send_messages("of-workers", ["a"])
    assert "Why it is not drained" in await read_page(http, "/queues/of-workers")
    await _bury(queues, "KeyError", 1, queue="of-workers")
    http.app.router.default.forget_all()
    page = await read_page(http, "/queues/of-workers")
    assert "Why it is not drained" not in page
    assert 'Dead letters of <a class="mono" href="/queues/orders">orders</a>' in page


def test_a_message_is_shown_to_a_caller_who_may_only_peek(run, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(f'[tokens.t]\nsha256 = "{hash_token("t" * 40)}"\nscopes = ["peek"]\n')
    users.chmod(0o600)

    async def test(http, queues):
        await _make_queues(queues)
        [id] = await _bury(queues, "KeyError", 1)
        open_pages(http).headers["authorization"] = "Bearer " + "t" * 40
        assert "It is a dead letter" in await read_page(http, f"/queues/dead/messages/{id}")

    run(test, auth=True, users=users)


async def test_pages_of_a_queue_are_shown_if_the_other_queues_cannot_be_read(
    monkeypatch, http, queues
):
    await _make_queues(queues)
    [id] = await _bury(queues, "KeyError", 1)
    site = open_pages(http).app.router.default
    call = site._api.call

    async def fail(caller, method, path, *args, **options):
        if path == "/dead-letters":
            raise NoPermissionError("no keys")
        return await call(caller, method, path, *args, **options)

    monkeypatch.setattr(site._api, "call", fail)
    for path in ("/queues/dead", "/queues/dead/messages", f"/queues/dead/messages/{id}"):
        await read_page(http, path)


async def test_a_purged_dead_letter_queue_says_so_and_has_the_undo(http, queues):
    await _make_queues(queues)
    await queues.send_messages("dead", ["a", "b"])
    await queues.trash.purge_queue("dead")
    page = await read_page(open_pages(http), "/queues/dead")
    assert "<p>It is empty.</p>" in page
    assert "2 messages were purged at " in page
    assert "<button>Undo the purge" in page


@pytest.mark.parametrize(("has_reason", "listens"), [(0, 0), (0, 1), (1, 0), (1, 1)])
async def test_a_message_of_a_dead_letter_queue_says_why_it_does_not_move(
    has_reason, listens, http, queues
):
    await _make_queues(queues)
    if has_reason:
        [id] = await _bury(queues, "KeyError", 1)
    else:
        [id] = await queues.send_messages("dead", ["a"])
    if listens:
        await queues.receive_message("dead", vt=600)
    page = await read_page(open_pages(http), f"/queues/dead/messages/{id}")
    assert ("It is a dead letter" in page) == (has_reason or not listens)
    assert ("It stays here until somebody" in page) == (not listens)
    assert ("It was received at" in page or "in flight" in page) == listens
    assert ("No reason is stored: it was" in page) == (not has_reason and not listens)
    assert ("It failed too often, or expired, in" in page) == bool(has_reason)
    assert "No live worker listens" not in page
    assert f"/actions/redrive-messages?queue=dead&amp;ids={id}" in page


async def test_a_message_beside_dead_letters_is_not_one_if_no_policy_names_the_queue(http, queues):
    await queues.create_queue("dead")
    [dead] = await _bury(queues, "KeyError", 1)
    [other] = await queues.send_messages("dead", ["a"])
    open_pages(http)
    assert "It is a dead letter" in await read_page(http, f"/queues/dead/messages/{dead}")
    page = await read_page(http, f"/queues/dead/messages/{other}")
    assert "Why is it not moving?" in page
    assert "It failed too often" not in page


async def test_groups_show_what_decides_with_an_example(http, queues):
    open_pages(http)
    await _make_queues(queues)
    for key in ("customer", "price"):
        await _bury(queues, f"ValueError: order 17: no '{key}' of 'Ada L'", 1)
    page = await read_page(http, "/dead-letters/dead")
    for key in ("customer", "price"):
        assert f"order 0: no &#39;{key}&#39; of …" in page
        assert f"order 17: no &#39;{key}&#39; of &#39;Ada L&#39;" in page
