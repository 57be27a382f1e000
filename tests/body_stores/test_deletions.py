"""Deletions of stored bodies with their messages: what undo and a retry need of them."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from rsmq import JSON
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Stored
from rsmq.operations.deleted_bodies import note_deleted
from rsmq.operations.messages import delete_message

BODY = ["a small thing"] * 50


@pytest.fixture
def codec():
    return Stored(JSON, store=ObjectStore(MemoryStore()), above=20)


def objects(rsmq, codec):
    return list(codec.store.list(rsmq.namespace.name.encode()))


def test_a_deletion_that_can_be_undone_keeps_the_objects(rsmq, codec):
    rsmq.create_queue("q")
    ids = rsmq.send_messages("q", [BODY, BODY], codec=codec)
    received = rsmq.receive_message("q", codec=codec)
    deletion = rsmq.trash.delete_messages("q", ids)

    assert not rsmq.delete_message(received)
    assert len(objects(rsmq, codec)) == 2
    rsmq.trash.undo(deletion.id)
    assert [each.body for each in rsmq.peek_messages("q", codec=codec)] == [BODY, BODY]


def test_a_retry_of_a_delete_that_finds_nothing_keeps_the_object(rsmq, codec):
    """The reply is True then, although another client may have moved the message."""
    rsmq.create_queue("q")
    rsmq.create_queue("other")
    rsmq.send_message("q", BODY, codec=codec)
    message = rsmq.receive_message("q", codec=codec)
    rsmq.move_messages([message], "other")

    operation = delete_message(rsmq.namespace, message, None)
    deleted = note_deleted(operation, [message])
    assert operation.parse_retried(0) is True
    assert deleted == []
    assert operation.parse(1) is True
    assert deleted == [message]


def test_the_end_of_processing_deletes_the_object(rsmq, codec):
    rsmq.create_queue("q")
    rsmq.create_queue("other")
    rsmq.send_messages("q", [BODY, BODY], codec=codec)
    first, second = rsmq.receive_messages("q", 2, codec=codec)
    with rsmq.processing(first) as message:
        assert message.body == BODY
    assert len(objects(rsmq, codec)) == 1
    with rsmq.processing(second):
        rsmq.move_messages([second], "other")  # it is not an error that it has gone
    assert rsmq.receive_message("other", codec=codec).body == BODY
