"""Messages: decoded on access, immutable, and picklable."""

from __future__ import annotations

import dataclasses
import pickle
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from rsmq import JSON, TEXT, BodyNotDecodable, Message, StoredMessage
from rsmq.model import make_received_message
from rsmq.vocabulary.sends import ANNOTATIONS
from rsmq.vocabulary.stored import SHOWN_FACTS
from rsmq.web.pages.formats import show_facts
from rsmq.worker.delivery import make_delivery

SENT_US = 1_700_000_000_000_001
ID = "gqll7vatq9" + 22 * "A"


class CountingCodec:
    """A codec that counts its decode calls."""

    def __init__(self):
        self.decoded = 0

    def encode(self, body):
        return body

    def decode(self, _):
        self.decoded += 1


def message(raw=b'{"a":1}', codec=JSON, kind=Message):
    return kind("q", ID, raw, 2, 1_700_000_000_123, codec)


def test_the_body_is_decoded_on_first_access_and_once():
    codec = CountingCodec()
    one = message(codec=codec)

    assert codec.decoded == 0
    assert one.body is one.body is None
    assert codec.decoded == 1


@pytest.mark.parametrize("kind", [Message, StoredMessage])
def test_a_body_that_cannot_be_decoded(kind):
    one = message(raw=b"{", kind=kind)

    with pytest.raises(BodyNotDecodable) as caught:
        _ = one.body
    assert (caught.value.queue, caught.value.id, caught.value.raw) == ("q", ID, b"{")


def test_a_body_nested_beyond_pythons_depth_is_not_decodable():
    with pytest.raises(BodyNotDecodable):
        _ = message(raw=b"[" * 100_000).body


def test_times_are_aware_datetimes():
    one = message()

    assert one.first_received_at == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert int(ID[:10], 36) == SENT_US
    assert (one.sent_ms, one.sent_at) == (
        SENT_US / 1000,
        datetime(2023, 11, 14, 22, 13, 20, 1, UTC),
    )
    assert dataclasses.replace(one, id="i").sent_ms is None
    assert dataclasses.replace(one, id="i").sent_at is None


def test_messages_are_frozen_and_equal_by_value():
    one = message()

    with pytest.raises(dataclasses.FrozenInstanceError):
        one.id = "other"
    assert one == message()
    assert hash(one) == hash(message())
    assert one != dataclasses.replace(one, receive_count=3)
    assert not isinstance(message(kind=StoredMessage), Message)


def test_received_messages_are_like_constructed_ones():
    received = make_received_message("q", ID, b"body", 2, 5, TEXT)
    constructed = Message("q", ID, b"body", 2, 5, TEXT)

    assert type(received) is Message
    assert (received, hash(received), received.body) == (constructed, hash(constructed), "body")
    for change in (lambda: setattr(received, "id", "x"), lambda: delattr(received, "id")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()


@pytest.mark.parametrize("decoded", [False, True])
def test_messages_can_be_pickled(decoded):
    one = message()
    if decoded:
        assert one.body == {"a": 1}
    copy = pickle.loads(pickle.dumps(one))

    assert copy == one
    assert copy.body == {"a": 1}


def test_repr_shows_the_length_of_the_body_and_never_the_body():
    assert repr(message(raw="é-secret".encode())) == (
        f"Message(queue='q', id='{ID}', raw=<9 bytes>, receive_count=2, "
        "first_received_ms=1700000000123)"
    )
    assert repr(message(raw=b"secret", kind=StoredMessage)) == (
        f"StoredMessage(queue='q', id='{ID}', raw=<6 bytes>, receive_count=2, "
        "first_received_ms=1700000000123, sent_ms=None, state='visible', visible_at_ms=0, "
        "last_received_ms=None, reason=None, last_error=None, "
        f"{', '.join(f'{each.name}=None' for each in SHOWN_FACTS)})"
    )
    decoded = message(raw=b'"secret"')
    assert decoded.body == "secret"
    assert "secret" not in repr(decoded)


def test_repr_of_a_delivery_does_not_contain_the_body():
    lease = SimpleNamespace(id=ID, raw=b"secret", count=1, first_received_ms=5)

    assert repr(make_delivery(lease, "q", JSON)) == (
        f"Delivery(queue='q', id='{ID}', raw=<6 bytes>, receive_count=1, first_received_ms=5)"
    )


def test_the_facts_that_faces_show_are_attributes_of_stored_messages():
    fields = {each.name: each for each in dataclasses.fields(StoredMessage)}
    for each in SHOWN_FACTS:
        assert fields[each.name].type == f"{ANNOTATIONS[each.kind]} | None"
        assert fields[each.name].default is None
        assert f"\n        {each.name}: " in StoredMessage.__doc__


def test_facts_of_a_message_are_shown_on_its_page_with_escapes():
    nothing = dict.fromkeys(each.name for each in SHOWN_FACTS)
    message = nothing | {"limit_key": "a\u202eb", "max_running": 1200}
    assert show_facts(message) == [("limit key", "a\\u202eb, 1,200 at a time")]
    assert show_facts(nothing | {"group": "g"}) == [("group", "g")]
