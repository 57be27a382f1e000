"""Routing of messages to handlers."""

from __future__ import annotations

import pytest

from rsmq import InvalidFormat
from rsmq.worker import Unroutable, event_payload, json_field
from rsmq.worker.listener import Handlers
from tests.expect import refused


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('created:{"id": 1}', ("created", '{"id": 1}')),
        ("created:", ("created", "")),
        ("a:b:c", ("a", "b:c")),
        (":x", ("", "x")),
        ("created", (None, "created")),
        ("", (None, "")),
        (b"created:x", ("created", "x")),
        ({"created": 1}, (None, {"created": 1})),
        (None, (None, None)),
    ],
)
def test_the_text_before_the_first_colon_is_the_type(body, expected):
    assert event_payload(body) == expected


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"type": "created", "id": 1}, "created"),
        ({"type": ""}, ""),
        ({"type": 5}, None),
        ({"type": None}, None),
        ({"type": ["created"]}, None),
        ({"kind": "created"}, None),
        ({}, None),
        (["type"], None),
        (None, None),
    ],
)
def test_a_field_is_the_type_and_the_payload_is_the_object(body, kind):
    found, payload = json_field("type")(body)

    assert found == kind
    assert payload is body


@pytest.mark.parametrize("body", ['{"type": "created"}', b'{"type": "created"}'])
def test_a_field_is_read_from_json_if_the_body_is_text(body):
    assert json_field("type")(body) == ("created", {"type": "created"})


def test_a_text_that_is_not_json_raises():
    with pytest.raises(ValueError, match="Expecting value"):
        json_field("type")("type")


def make_handlers(**by_type):
    handlers = Handlers(event_payload)
    for kind, handler in by_type.items():
        handlers.add(kind, handler)
    return handlers


def test_a_message_is_routed_to_the_handler_of_its_type():
    def created(payload): ...

    def gone(payload, message): ...

    handlers = make_handlers(created=created, gone=gone)

    assert handlers.find("created:1") == ("created", "1")
    assert handlers.find("gone:2") == ("gone", "2")
    assert handlers.by_type == {"created": (created, False), "gone": (gone, True)}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("changed:1", "there is no handler for 'changed'"),
        (":1", "there is no handler for ''"),
        ("no type", "the message has no type"),
    ],
)
def test_a_message_without_a_handler_is_unroutable(body, why):
    with refused(Unroutable, why):
        make_handlers(created=lambda payload: None).find(body)


def test_an_exception_of_a_route_is_raised():
    def route(body):
        raise KeyError(body)

    handlers = Handlers(route)
    handlers.add("a", lambda body: None)

    with pytest.raises(KeyError):
        handlers.find("x")


def test_handlers_of_one_queue_are_all_plain_or_all_async():
    async def later(payload): ...

    with refused(InvalidFormat, "Invalid handler format") as refusal:
        make_handlers(created=lambda payload: None, changed=later)

    assert refusal.error.hint == (
        "The handlers of a queue are all plain functions or all async functions."
    )


def test_a_type_has_one_handler():
    handlers = make_handlers(created=lambda payload: None)

    with refused(InvalidFormat, "Invalid handler format") as refusal:
        handlers.add("created", lambda payload: None)
    assert refusal.error.value == "created"
    assert refusal.error.hint == "This type already has a handler."
