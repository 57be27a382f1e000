"""Stored bodies leave their namespace with their bytes, or not at all."""

from __future__ import annotations

import io

import pytest
from obstore.store import MemoryStore

from rsmq import JSON, RSMQ, NotPossible
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Encrypted, Stored
from rsmq.transfer import export_queues, import_queues

BODY = ["x" * 50] * 5


def test_an_export_has_the_bytes_of_the_object(rsmq, ns, server):
    inner = Encrypted(JSON, keys={"k1": bytes(32)})
    codec = Stored(inner, store=ObjectStore(MemoryStore()), above=20)
    rsmq.create_queue("q")
    rsmq.send_messages("q", [BODY, 5], codec=codec)
    with pytest.raises(NotPossible, match=r"stored elsewhere.*--codec app:codec"):
        export_queues(rsmq, ["q"], io.BytesIO())

    file = io.BytesIO()
    with RSMQ.from_url(server.url, ns=ns, codec=codec) as queues:
        export_queues(queues, ["q"], file)
    file.seek(0)
    rsmq.delete_queue("q")
    import_queues(rsmq, file)
    found = rsmq.receive_messages("q", 2, codec=inner)
    assert [each.body for each in found] == [BODY, 5]
