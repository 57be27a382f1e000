"""Bodies in a store over HTTP: sent, received, read and popped with the codec of the server."""

from __future__ import annotations

import itertools

import pytest
from obstore.store import MemoryStore

from rsmq import JSON, AsyncRSMQ
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Compressed, Stored
from rsmq.web import bodies, create_app
from tests.web.asgi import Http

BODY = ["a small thing"] * 50
TEXT = JSON.encode(BODY)
_numbers = itertools.count()


class AwayStore(ObjectStore):
    is_away = False

    def read(self, *args):
        if self.is_away:
            raise ConnectionError("away")
        return super().read(*args)


class Face:
    def __init__(self, codec):
        self.queues = AsyncRSMQ.from_url(f"memory://stored{next(_numbers)}", codec=codec)
        self.http = Http(create_app(self.queues, auth=False))
        self.store = codec.store

    def names(self):
        return [name for _, name in self.store.list(b"rsmq")]


@pytest.fixture(params=["plain", "compressed"])
def face(request, runner):
    inner = JSON if request.param == "plain" else Compressed(JSON, above=0)

    async def start():
        face = Face(Stored(inner, store=AwayStore(MemoryStore()), above=20))
        await face.queues.create_queue("q")
        return face

    face = runner.run(start())
    yield face
    runner.run(face.queues.close())


async def test_what_is_sent_is_stored_and_what_is_received_is_whole(face):
    for call in (
        ("POST", "/queues/q/messages", {"body": TEXT}),
        ("POST", "/queues/q/messages:batch", {"messages": [{"body": TEXT}, {"body": "5"}]}),
        ("POST", "/publish", {"queues": ["q"], "body": TEXT}),
    ):
        assert (await face.http(*call)).status == 201
    assert len(face.names()) == 3
    received = await face.http("POST", "/receive", {"queues": ["q"], "max": 9})
    assert [(each["body"], each["steps"]) for each in received.json["messages"]] == [
        (TEXT, None), (TEXT, None), ("5", None), (TEXT, None)
    ]  # fmt: skip
    raw = await face.http("POST", "/queues/q/messages:recover", {"idle": 0, "max": 1})
    assert raw.json["messages"][0]["body"] == TEXT
    await face.http("POST", "/queues/q/raw", body=TEXT.encode())
    assert len(face.names()) == 4
    assert (await face.http("POST", "/queues/q/raw:receive")).content == TEXT.encode()


async def test_a_single_message_is_whole_and_a_list_has_references(face):
    id = await face.queues.send_message("q", BODY)
    one = (await face.http("GET", f"/queues/q/messages/{id}?max_bytes=5")).json
    assert (one["body"], one["size"], one["steps"]) == (TEXT[:5], len(TEXT), None)
    assert (await face.http("GET", f"/queues/q/messages/{id}/body")).content == TEXT.encode()
    (listed,) = (await face.http("GET", "/queues/q/messages")).json["messages"]
    assert "stored elsewhere" in listed["steps"]


async def test_a_pop_takes_one_message_with_its_object(face):
    await face.queues.send_messages("q", [BODY, BODY, BODY])
    popped = (await face.http("POST", "/pop", {"queues": ["q"], "max": 2})).json["messages"]
    assert [each["body"] for each in popped] == [TEXT]
    assert (await face.http("POST", "/queues/q/raw:pop")).content == TEXT.encode()
    assert len(face.names()) == 1


async def test_bodies_beyond_the_room_and_a_store_that_is_away_are_references(face, monkeypatch):
    await face.queues.send_messages("q", [BODY, BODY, BODY])
    monkeypatch.setattr(bodies, "MAX_BATCH_BYTES", 1)
    received = await face.http("POST", "/receive", {"queues": ["q"], "max": 3, "vt": 0})
    first, second, third = received.json["messages"]
    assert (first["body"], first["steps"]) == (TEXT, None)
    for each in (second, third):
        assert "stored elsewhere" in each["steps"]
        whole = await face.http("GET", f"/queues/q/messages/{each['id']}/body")
        assert whole.content == TEXT.encode()

    face.store.is_away = True
    received = await face.http("POST", "/receive", {"queues": ["q"]})
    assert "stored elsewhere" in received.json["messages"][0]["steps"]
    assert (await face.http("GET", f"/queues/q/messages/{first['id']}")).status == 200


async def test_a_schedule_stores_its_body(face):
    added = await face.http("PUT", "/schedules/s", {"every": 3600, "queue": "q", "body": TEXT})
    assert added.status in {200, 201}
    assert len(face.names()) == 1


async def test_a_delete_by_receipt_deletes_the_object(face):
    await face.queues.create_queue("other")
    await face.queues.send_messages("q", [BODY, BODY, BODY, 5, BODY])
    received = await face.http("POST", "/receive", {"queues": ["q"], "max": 5})
    receipts = [each["receipt"] for each in received.json["messages"]]
    ids = [each["id"] for each in received.json["messages"]]
    deleted = await face.http("DELETE", f"/queues/q/messages/{ids[0]}?receipt={receipts[0]}")
    assert deleted.status == 204
    assert len(face.names()) == 3
    await face.http("POST", "/queues/q/messages:move", {"ids": [ids[1]], "destination": "other"})
    deleted = await face.http("POST", "/queues/q/messages:delete", {"receipts": receipts[:4]})
    assert deleted.json["ids"] == ids[2:4]
    assert len(face.names()) == 2
    deleted = await face.http("POST", "/queues/gone/messages:delete", {"receipts": receipts[:1]})
    assert deleted.json["ids"] == []
    assert (await face.http("DELETE", f"/queues/q/messages/{ids[4]}")).status == 204
    assert len(face.names()) == 2  # without a receipt it is left to the sweep
