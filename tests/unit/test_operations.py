"""Builders of operations: the order of argument checks as in Node, and the retry classes."""

from __future__ import annotations

import pytest

from rsmq import (
    BYTES,
    JSON,
    TEXT,
    InvalidFormat,
    InvalidValue,
    Message,
    MessageNotString,
    MessageTooLong,
    MissingParameter,
    NoAttributeSupplied,
    QueueExists,
    QueueNotFound,
)
from rsmq.operations.batches import (
    change_messages_visibility,
    delete_messages,
    pop_messages,
    receive_messages,
    release_messages,
)
from rsmq.operations.dead_letters import move_messages, set_dead_letter_policy
from rsmq.operations.lost_replies import LostReplies
from rsmq.operations.messages import (
    change_message_visibility,
    delete_message,
    get_message,
    pop_message,
    receive_message,
    send_message,
)
from rsmq.operations.operation import RetryClass
from rsmq.operations.queues import (
    create_queue,
    delete_queue,
    get_queue_attributes,
    list_queues,
    purge_queue,
    set_queue_attributes,
    set_queue_limits,
)
from rsmq.operations.restore import RestoredMessage, restore_messages
from rsmq.operations.sending import send_messages, send_raws
from rsmq.operations.time_limit import TimeLimit
from rsmq.spark.operations.staged_writes import stage_messages
from rsmq.wire import limits
from rsmq.wire.keys import Namespace
from tests.expect import refused

NS = Namespace()
MESSAGE = Message("q", "i" * 32, b"m", 3, 1)
GOOD = {"vt": 30, "delay": 0, "maxsize": 65536}


def create(qname="q", **attributes):
    return create_queue(NS, qname, **{**GOOD, "exist_ok": False, **attributes})


def send(qname="q", body="m", delay=None, codec=TEXT):
    return send_message(NS, qname, body, {"delay": delay}, codec=codec, realtime=False)


def send_named(name):
    return send_message(NS, "q", "m", {"dedup_id": name}, codec=TEXT, realtime=False)


def setting(qname="q", **attributes):
    nothing = {"vt": None, "delay": None, "maxsize": None}
    return set_queue_attributes(NS, qname, **{**nothing, **attributes})


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: create("a b", vt=-1, delay=-1, maxsize=1), InvalidFormat),
        (lambda: create(vt=-1, delay=-1, maxsize=1), "vt"),
        (lambda: create(delay=-1, maxsize=1), "delay"),
        (lambda: create(maxsize=1), "maxsize"),
        (lambda: setting("a b"), NoAttributeSupplied),
        (lambda: setting("a b", vt=-1), InvalidFormat),
        (lambda: setting(vt=-1, delay=-1, maxsize=1), "vt"),
        (lambda: setting(delay=-1, maxsize=1), "maxsize"),
        (lambda: setting(delay=-1), "delay"),
        (lambda: send("a b", body=3, delay=-1), InvalidFormat),
        (lambda: send(body=3, delay=-1), "delay"),
        (lambda: send(body=3), MessageNotString),
        (
            lambda: receive_message(NS, None, vt=-1, codec=TEXT, losses=LostReplies()),
            MissingParameter,
        ),
        (lambda: delete_message(NS, "a b", None), InvalidFormat),
        (lambda: delete_message(NS, "q", None), MissingParameter),
        (lambda: change_message_visibility(NS, "a b", "", -1), InvalidFormat),
        (lambda: change_message_visibility(NS, "q", "", -1), MissingParameter),
        (lambda: change_message_visibility(NS, "q", "i" * 32, -1), "vt"),
        (lambda: change_message_visibility(NS, "q", "i" * 32, None), "vt"),
        (lambda: change_message_visibility(NS, MESSAGE, None, None), "vt"),
    ],
)
def test_checks_run_in_nodes_order(call, kind):
    if isinstance(kind, str):
        with pytest.raises(InvalidValue) as caught:
            call()
        assert str(caught.value).startswith(f"{kind} must be between")
    else:
        with pytest.raises(kind):
            call()


def test_the_retry_class_of_each_operation():
    found = {
        operation.script.name: operation.retry
        for operation in (
            create(),
            setting(vt=1),
            send(),
            delete_queue(NS, "q"),
            list_queues(NS),
            get_queue_attributes(NS, "q"),
            purge_queue(NS, "q"),
            receive_message(NS, "q", vt=None, codec=TEXT, losses=LostReplies()),
            pop_message(NS, "q", codec=TEXT, losses=LostReplies()),
            delete_message(NS, MESSAGE, None),
            change_message_visibility(NS, MESSAGE, 1, None),
            get_message(NS, "q", "i" * 32, codec=TEXT),
            receive_messages(NS, "q", 5, vt=None, codec=TEXT, losses=LostReplies()),
            pop_messages(NS, "q", 5, codec=TEXT, losses=LostReplies()),
            delete_messages(NS, [MESSAGE], None),
            change_messages_visibility(NS, [MESSAGE], 1, None),
            release_messages(NS, [MESSAGE], None),
            move_messages(NS, [MESSAGE], "p", None),
            set_dead_letter_policy(NS, "q", "p", 5),
            set_queue_limits(NS, "q", max_running=5, rate=None),
        )
    }
    bare = release_messages(NS, "q", ["i" * 32])
    named = send_named("x")

    assert found == {
        "create_queue": RetryClass.ALWAYS,
        "set_queue_attributes": RetryClass.ALWAYS,
        "delete_queue": RetryClass.NEVER,
        "list_queues": RetryClass.ALWAYS,
        "get_queue_attributes": RetryClass.ALWAYS,
        "delete_message": RetryClass.ALWAYS,
        "change_message_visibility": RetryClass.ALWAYS,
        "get_message": RetryClass.ALWAYS,
        "receive_message": RetryClass.ONCE,
        "send_message": RetryClass.NEVER,
        "pop_message": RetryClass.NEVER,
        "purge_queue": RetryClass.NEVER,
        "receive_messages": RetryClass.ONCE,
        "pop_messages": RetryClass.NEVER,
        "delete_messages": RetryClass.ALWAYS,
        "change_messages_visibility": RetryClass.ALWAYS,
        "release_messages": RetryClass.ALWAYS,
        "move_messages": RetryClass.NEVER,
        "set_dead_letter_policy": RetryClass.ALWAYS,
        "set_queue_limits": RetryClass.ALWAYS,
    }
    assert (bare.retry, named.retry) == (RetryClass.NEVER, RetryClass.ALWAYS)


def test_create_after_an_ambiguous_failure_accepts_the_queue_it_may_have_created():
    operation = create()

    assert operation.parse([1]) is operation.parse_retried([1]) is True
    assert operation.parse_retried([0, b"30", b"0", b"65536", b"0"]) is True
    for parse in (operation.parse, operation.parse_retried):
        with refused(QueueExists, "Queue exists"):
            parse([0, b"31", b"0", b"65536"])
    with refused(QueueExists, "Queue exists"):
        operation.parse([0, b"30", b"0", b"65536", b"0"])
    assert create(exist_ok=True).parse_retried([0, b"31", b"0", b"65536"]) is False


def test_delete_after_an_ambiguous_failure_accepts_a_missing_message():
    message = delete_message(NS, MESSAGE, None)

    assert [message.parse(reply) for reply in (0, 1, 2)] == [False, True, False]
    assert [message.parse_retried(reply) for reply in (0, 1, 2)] == [True, True, False]


def test_deleting_a_missing_queue_is_queue_not_found():
    with refused(QueueNotFound, "Queue not found"):
        delete_queue(NS, "q").parse(0)


@pytest.mark.parametrize("bodies", [["m"], ["m" * 10_000] * 2])
def test_all_steps_of_a_batch_share_its_time_limit(bodies):
    limit = TimeLimit(2.0, 1000.0)
    steps = send_messages(NS, "q", bodies, {}, codec=TEXT, realtime=False, limit=limit)
    step = next(steps)
    assert step.limit is limit
    if len(bodies) > 1:
        assert step.fallback.limit is limit
        assert steps.send((b"0" * 10, -1)).limit is limit


def test_a_receipt_is_id_and_receive_count_and_a_bare_id_has_no_count():
    by_receipt = delete_message(NS, MESSAGE, None)
    by_id = delete_message(NS, "q", "i" * 32)

    assert by_receipt.args == (b"i" * 32, b"3")
    assert by_id.args == (b"i" * 32, b"")
    assert by_receipt.keys == by_id.keys == (b"rsmq:q:Q", b"rsmq:q")


def test_the_undo_of_a_receive_has_a_receipt():
    operation = receive_message(NS, "q", vt=None, codec=TEXT, losses=LostReplies())
    undo = operation.undo(MESSAGE)

    assert undo.script.name == "release_messages"
    assert undo.args[:3] == (b"1", b"3", b"i" * 32)
    assert operation.undo(None) is None


def test_a_codec_that_encodes_to_another_type_is_refused():
    class Odd:
        def encode(self, body):
            return body

        def decode(self, raw):
            return raw

    with refused(MessageNotString, "Message must be a string") as caught:
        send(body=3, codec=Odd())
    assert "encoded the body to int. A codec encodes to str or bytes" in str(caught.error)


def test_sizes_are_counted_as_for_maxsize():
    assert send(body="é😀").args[:2] == ("é😀".encode(), b"3")
    assert send(body=["é"], codec=JSON).args[:2] == ('["é"]'.encode(), b"5")


def test_bodies_too_large_for_redis_are_refused_by_every_operation(monkeypatch):
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 1000)
    monkeypatch.setattr(limits, "ACCEPTED_BODY_BYTES", 100)
    keys = NS.queue("q")
    large, small = b"x" * 1001, b"x" * 900
    restored = RestoredMessage("i" * 32, large, None, 0, None)
    options = {"largest": 0, "lifetime": 60}
    for build in (
        lambda: send(body=large, codec=BYTES),
        lambda: list(send_raws(keys, [small, large], largest=0, delay=b"", channel=b"")),
        lambda: restore_messages(keys, [restored], largest=0, realtime=False).args,
        lambda: stage_messages(NS, keys, "w:0:a:0", [small, small], **options),
    ):
        with pytest.raises(MessageTooLong) as caught:
            build()
        assert caught.value.value > 1000
    send(body=small, codec=BYTES)
    stage_messages(NS, keys, "w:0:a:0", [small], **options)
