"""Explanations, timelines and groups of dead letters over HTTP."""

import json

from rsmq.operations.plain import plain_command
from rsmq.web import create_app
from rsmq.web.access.secrets import hash_token
from tests.web.asgi import Http, open_queues

_REASON = {"queue": "q", "text": "attempt 3 of 3 failed", "worker": "w", "attempts": 3}


async def _bury(queues, number, exception, traceback=None):
    """Send dead letters with reasons, as a worker stores them. Return their ids."""
    ids = await queues.send_messages("d", [f"m{each}" for each in range(number)])
    client = queues
    for id in ids:
        reason = _REASON | {"exception": exception, "traceback": traceback}
        words = (id.rpartition("-")[2], f"5000:{json.dumps(reason)}")
        await client.run(plain_command("HSET", client.namespace.queue("d").reasons, *words))
    return ids


async def test_a_message_and_a_queue_say_why_they_wait(http, queues):
    await queues.create_queue("q")
    id = await queues.send_message("q", "m")
    await queues.pause_queue("q")
    shown = (await http("GET", f"/queues/q/messages/{id}/why")).json
    assert (shown["id"], shown["cause"], shown["causes"][0]["text"]) == (
        id, "paused", shown["sentence"],
    )  # fmt: skip
    shown = (await http("GET", "/queues/q/why")).json
    assert (shown["id"], shown["cause"]) == (None, "paused")
    shown = (await http("GET", f"/queues/q/messages/{id}/timeline")).json
    assert [each["kind"] for each in shown["events"]] == ["sent"]
    assert (await http("GET", f"/queues/q/messages/{'a' * 32}/why")).json["cause"] == "gone"
    for path in ("why", f"messages/{id}/why", f"messages/{id}/timeline"):
        assert (await http("GET", f"/queues/none/{path}")).json["code"] == "queueNotFound"


async def test_dead_letters_are_grouped_and_a_group_is_a_filter(http, queues):
    for name in ("q", "d"):
        await queues.create_queue(name)
    await _bury(queues, 250, "ValueError: order 7 of 'Ada L'", 'File "/a/b.py", line 7, in pay\n')
    [other, again] = await _bury(queues, 2, "KeyError: 'x'")
    pairs = await queues.redrive_messages("d", "q", [again])
    await queues.move_messages("q", "d", [new for _, new in pairs])
    shown = (await http("GET", "/queues/d/dead-letters/groups")).json
    assert (shown["scanned"], shown["others"], shown["cursor"]) == (252, 0, None)
    first, *rest = shown["groups"]
    assert (first["exception"], first["text"], first["frames"]) == (
        "ValueError", "order 0 of …", ["b.py:pay"],
    )  # fmt: skip
    assert (first["count"], first["queues"], first["redriven"]) == (250, {"q": 250}, 0)
    assert {each["key"]: (each["count"], each["redriven"]) for each in rest}["none"] == (1, 1)
    key = next(each["key"] for each in rest if each["exception"] == "KeyError")
    path = f"/queues/d/messages?filter=cause:{key}&limit=5"
    assert [each["id"] for each in (await http("GET", path)).json["messages"]] == [other]
    found = (await http("GET", f"/queues/d/messages?filter=cause:{first['key']}&limit=240")).json
    assert (len(found["messages"]), found["cursor"] is None) == (240, False)
    assert (await http("GET", "/queues/d/messages?filter=cause:x")).status == 422


async def test_pages_of_groups_have_each_dead_letter_once(server, ns):
    async with open_queues(server.url, ns=ns) as queues:
        http = Http(create_app(queues, auth=False))
        await queues.create_queue("d")
        for _ in range(5):
            await queues.send_messages("d", ["m"] * 100)
        counted, path, pages = 0, "/queues/d/dead-letters/groups?max=200", 0
        cursor = ""
        while cursor is not None:
            page = (await http("GET", path + (cursor and f"&cursor={cursor}"))).json
            counted += sum(each["count"] for each in page["groups"])
            cursor, pages = page["cursor"], pages + 1
        assert counted == 500
        assert pages >= 3
        assert (await http("GET", f"{path}&cursor=x")).status == 422


def test_only_those_who_may_undo_a_deletion_see_whose_it_is(run, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(
        f'[tokens.t]\nsha256 = "{hash_token("t" * 40)}"\nscopes = ["peek", "stats", "manage"]\n'
    )
    users.chmod(0o600)

    async def test(http, queues):
        await queues.create_queue("q")
        deleted, purged = await queues.send_messages("q", ["a", "b"])
        await queues.trash.delete_messages("q", [deleted], by="anna")
        await queues.trash.purge_queue("q", by="anna")
        headers = {"authorization": "Bearer " + "t" * 40}
        for id, is_shown in ((deleted, True), (purged, False)):
            answer = await http("GET", f"/queues/q/messages/{id}/why", headers=headers)
            assert answer.json["cause"] == "deleted"
            assert (" by anna at " in answer.json["sentence"]) == is_shown

    run(test, auth=True, users=users)


def test_texts_of_failures_and_other_queues_are_not_shown_to_everyone(run, tmp_path):
    users = tmp_path / "users.toml"
    users.write_text(
        f'[tokens.t]\nsha256 = "{hash_token("t" * 40)}"\nqueues = ["q"]\n'
        'scopes = ["peek", "stats"]\nredact = ["a"]\n'
    )
    users.chmod(0o600)

    async def test(http, queues):
        for name in ("q", "d"):
            await queues.create_queue(name)
        await queues.set_dead_letter_policy("q", "d", 3)
        [id] = await _bury(queues, 1, "ValueError: Ada")
        [own] = await queues.send_messages("q", ["m"])
        client = queues
        reason = json.dumps(_REASON | {"exception": "ValueError: Ada", "traceback": "Ada"})
        keys = client.namespace.queue("q")
        await client.run(plain_command("HSET", keys.reasons, own, f"5:{reason}"))
        headers = {"authorization": "Bearer " + "t" * 40}
        for path in (f"messages/{id}/why", f"messages/{id}/timeline"):
            answer = await http("GET", f"/queues/q/{path}", headers=headers)
            assert answer.status == 200
            assert b"Ada" not in answer.content
            assert b"dead" not in answer.content
        for path in (f"messages/{own}/timeline", "dead-letters/groups"):
            answer = await http("GET", f"/queues/q/{path}", headers=headers)
            assert answer.status == 200
            assert b"Ada" not in answer.content
        assert (await http("GET", "/queues/d/why", headers=headers)).status == 403

    run(test, auth=True, users=users)
