"""Which handler a message goes to."""

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
def test_what_stands_before_the_first_colon_is_the_type(body, expected):
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
def test_a_field_is_the_type_and_the_whole_object_stays(body, kind):
    found, payload = json_field("type")(body)

    assert found == kind
    assert payload is body


@pytest.mark.parametrize("body", ['{"type": "created"}', b'{"type": "created"}'])
def test_where_the_codec_makes_no_objects_a_field_is_read_from_json(body):
    assert json_field("type")(body) == ("created", {"type": "created"})


def test_a_text_that_is_no_json_has_no_field():
    with pytest.raises(ValueError, match="Expecting value"):
        json_field("type")("type")


def routed(**by_type):
    handlers = Handlers(event_payload)
    for kind, handler in by_type.items():
        handlers.add(kind, handler)
    return handlers


def test_a_message_goes_to_the_handler_of_its_type():
    def created(payload): ...

    def gone(payload, message): ...

    handlers = routed(created=created, gone=gone)

    assert handlers.find("created:1") == (created, False, "1")
    assert handlers.find("gone:2") == (gone, True, "2")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("changed:1", "there is no handler for 'changed'"),
        (":1", "there is no handler for ''"),
        ("no type", "the message has no type"),
    ],
)
def test_a_message_without_a_handler_says_why(body, why):
    with refused(Unroutable, why):
        routed(created=lambda payload: None).find(body)


def test_what_a_route_raises_is_the_handlers_error():
    def route(body):
        raise KeyError(body)

    handlers = Handlers(route)
    handlers.add("a", lambda body: None)

    with pytest.raises(KeyError):
        handlers.find("x")


def test_handlers_of_one_queue_are_all_plain_or_all_async():
    async def later(payload): ...

    with refused(InvalidFormat, "Invalid handler format") as refusal:
        routed(created=lambda payload: None, changed=later)

    assert refusal.error.hint == (
        "The handlers of a queue are all plain functions or all async ones."
    )


def test_a_type_has_one_handler():
    handlers = routed(created=lambda payload: None)

    with refused(InvalidFormat, "Invalid handler format") as refusal:
        handlers.add("created", lambda payload: None)
    assert refusal.error.value == "created"
    assert refusal.error.hint == "There is a handler for 'created' already."
