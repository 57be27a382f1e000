"""Deletions that can be undone, over HTTP: who may, what is answered, and when they end."""

from __future__ import annotations

import asyncio

from rsmq.operations.plain import plain_command
from rsmq.trash.emptier import TrashEmptier
from rsmq.web import create_app
from rsmq.web.access.secrets import hash_token
from tests.web.asgi import Http


async def test_what_is_deleted_with_undo_can_be_restored(http, queues):
    await queues.create_queue("q")
    ids = await queues.send_messages("q", ["a", "b", "c", "d"])
    one = await http("DELETE", f"/queues/q/messages/{ids[0]}?undo=true")
    many = await http("POST", "/queues/q/messages:delete", {"ids": ids[:2], "undo": True})
    purged = await http("POST", "/queues/q:purge", {"undo": True})
    gone = await http("DELETE", "/queues/q?undo=true")
    answers = [each.json for each in (one, many, purged, gone)]

    assert [each.status for each in (one, many, purged, gone)] == [200] * 4
    assert answers[1]["ids"] == [ids[1]]
    assert answers[2]["removed"] == 2
    listed = (await http("GET", "/undo")).json
    assert listed["off"] is None
    kinds = ["delete-messages", "delete-messages", "delete-queue", "purge"]
    assert sorted(each["kind"] for each in listed["deletions"]) == kinds
    in_order = ("delete-queue", "purge", "delete-messages", "delete-messages")
    for answer, kind, count in zip(reversed(answers), in_order, (0, 2, 1, 1), strict=True):
        restored = await http("POST", f"/undo/{answer['undo']['id']}")
        assert restored.json == {"kind": kind, "queue": "q", "messages": count, "in_queue": 0}
    assert {m.id for m in await queues.peek_messages("q")} == set(ids)
    again = await http("POST", f"/undo/{answers[0]['undo']['id']}")
    assert (again.status, again.json["code"]) == (409, "notPossible")


async def test_a_deletion_without_undo_is_final_and_one_that_finds_nothing_is_a_404(http, queues):
    await queues.create_queue("q")
    id = await queues.send_message("q", "m")
    receipt = (await http("POST", "/receive", {"queues": ["q"]})).json["messages"][0]["receipt"]
    final = await http("POST", "/queues/q:purge")
    missing = await http("DELETE", f"/queues/q/messages/{id}?undo=true")
    refused = await http("DELETE", f"/queues/q/messages/{id}?undo=true&receipt={receipt}")
    receipts = {"receipts": [receipt], "undo": True}
    refused_too = await http("POST", "/queues/q/messages:delete", receipts)

    assert final.json == {"removed": 1, "undo": None}
    assert missing.status == 404
    assert [refused.status, refused_too.status] == [422, 422]
    assert (await http("POST", "/undo/none")).json["code"] == "deletionNotFound"
    assert (await http("GET", "/undo")).json["deletions"] == []


_USERS = """
[tokens.operator]
sha256 = "{}"
role = "operator"
queues = ["own*"]
"""


def test_who_may_not_delete_so_may_not_undo_it(run, tmp_path):
    path = tmp_path / "users.toml"
    path.write_text(_USERS.format(hash_token("token-of-operator")))
    path.chmod(0o600)

    async def test(http, queues):
        limited = Http(
            create_app(queues, users=path), headers={"Authorization": "Bearer token-of-operator"}
        )
        for name in ("own", "other"):
            await queues.create_queue(name)
        id = await queues.send_message("own", "m")
        purged = await queues.trash.purge_queue("own", by="admin")
        hidden = await queues.trash.purge_queue("other", by="admin")
        await queues.trash.undo(purged.id)
        again = await queues.trash.purge_queue("own", by="admin")
        await queues.trash.undo(again.id)
        deleted = await limited("DELETE", f"/queues/own/messages/{id}?undo=true")
        assert deleted.json["undo"]["by"] == "operator"
        third = await queues.trash.purge_queue("own", by="admin")
        listed = {each["id"]: each for each in (await limited("GET", "/undo")).json["deletions"]}

        assert hidden.id not in listed
        assert (listed[third.id]["by"], listed[third.id]["may_undo"]) == (None, False)
        assert (await limited("POST", f"/undo/{third.id}")).status == 403
        assert (await limited("POST", f"/undo/{hidden.id}")).status == 404
        assert (await limited("POST", f"/undo/{deleted.json['undo']['id']}")).status == 200

    run(test)


def test_a_read_only_server_lists_and_restores_nothing(run):
    async def test(http, queues):
        await queues.create_queue("q")
        purged = await queues.trash.purge_queue("q")
        assert len((await http("GET", "/undo")).json["deletions"]) == 1
        assert (await http("POST", f"/undo/{purged.id}")).status == 403

    run(test, read_only=True)


async def test_the_server_removes_what_is_over_without_a_call(http, queues):
    await queues.create_queue("q")
    purged = await queues.trash.purge_queue("q")
    client = queues

    async def raw(*words):
        return await client.run(plain_command(*words))

    text = await raw("HGET", "rsmq:x:trash", purged.id)
    state, kind, ms, rest = text.split(b" ", 3)
    over = b" ".join((state, kind, b"%d" % (int(ms) - 600_000), rest))
    await raw("HSET", "rsmq:x:trash", purged.id, over)
    async with TrashEmptier(queues):
        async with asyncio.timeout(30):
            while await raw("EXISTS", "rsmq:x:trash"):
                await asyncio.sleep(0.01)
    assert await raw("EXISTS", f"rsmq:x:trash:{purged.id}:hash") == 0
