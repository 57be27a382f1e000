"""``rsmq.django.send_on_commit``."""

from __future__ import annotations

import pytest
from django.db import transaction

from rsmq import AsyncRSMQ
from rsmq.codecs import JSON
from rsmq.django import send_on_commit
from rsmq.errors import InvalidFormat, MessageNotString, QueueNotFound
from rsmq.tasks import Tasks


@pytest.fixture
def queues(env):
    env.client.create_queue("orders")
    return env.client


def test_messages_are_sent_after_the_commit_with_their_options(env, queues):
    body = {"number": 17}
    with transaction.atomic():
        send_on_commit(queues, "orders", body, delay=60, codec=JSON)
        send_on_commit(queues, "orders", "second", using="default")
        body["number"] = 18
        assert env.bodies("orders") == []

    assert sorted(env.bodies("orders")) == ['"second"', '{"number":17}']
    assert queues.count_messages("orders").delayed == 1


def test_a_rollback_sends_nothing_also_that_of_a_savepoint(env, queues):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        send_on_commit(queues, "orders", "lost")
        raise ZeroDivisionError
    with transaction.atomic():
        send_on_commit(queues, "orders", "before")
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            send_on_commit(queues, "orders", "lost")
            raise ZeroDivisionError
    assert env.bodies("orders") == ['"before"']


def test_it_is_sent_at_once_without_a_transaction(env, queues):
    send_on_commit(queues, "orders", "now")
    assert env.bodies("orders") == ['"now"']


def test_mistakes_are_errors_of_the_call(env, queues):
    with transaction.atomic():
        for error, arguments, options in (
            (MessageNotString, (queues, "orders", object()), {}),
            (InvalidFormat, (queues, "or ders", "m"), {}),
            (TypeError, (queues, "orders", "m"), {"no_option": 1}),
            (InvalidFormat, (AsyncRSMQ.from_url("memory://any"), "orders", "m"), {}),
        ):
            with pytest.raises(error):
                send_on_commit(*arguments, **options)
    assert env.bodies("orders") == []


def test_an_error_of_the_send_is_raised_unless_it_is_robust(env, queues, caplog):
    with pytest.raises(QueueNotFound), transaction.atomic():
        send_on_commit(queues, "missing", "m")
        send_on_commit(queues, "orders", "not sent")
    with transaction.atomic():
        send_on_commit(queues, "missing", "m", robust=True)
        send_on_commit(queues, "orders", "sent")
    assert env.bodies("orders") == ['"sent"']
    assert "Queue not found: 'missing'" in caplog.text


def test_the_call_of_a_task_is_sent_too(env, queues):
    tasks = Tasks(queues)

    @tasks.task(queue="mail", name="welcome")
    def welcome(user: int) -> None: ...

    with transaction.atomic():
        send_on_commit(welcome.signature(17))
        with pytest.raises(InvalidFormat, match="using and robust only"):
            send_on_commit(welcome.signature(17), "mail")
        assert "mail" not in queues.list_queues()

    assert env.bodies("mail") == ['{"task":"welcome","args":{"user":17}}']
