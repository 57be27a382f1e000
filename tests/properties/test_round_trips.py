"""Bodies of any kind are received as they were sent, for each server and client."""

from __future__ import annotations

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rsmq import BYTES, JSON, MSGPACK, RSMQ, MessageNotString, MessageTooLong
from tests.scale import scaled

relaxed = settings(
    max_examples=scaled(50, 500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(params=["redis", "memory", "decoding"])
def rsmq(request):
    if request.param == "memory":
        client, inner = RSMQ.from_url("memory://"), None
    elif request.param == "redis":
        client, inner = RSMQ.from_url(request.getfixturevalue("server").url, ns="trips"), None
    else:
        port = request.getfixturevalue("server").port
        inner = redis.Redis(port=port, decode_responses=True, encoding="ascii")
        client = RSMQ(inner, ns="trips")
    client.create_queue("q", exist_ok=True)
    client.purge_queue("q")
    yield client
    client.close()
    if inner is not None:
        inner.close()


def send_and_pop(rsmq, body, **options):
    id = rsmq.send_message("q", body, **options)
    stored = rsmq.get_message("q", id, **options)
    message = rsmq.pop_message("q", **options)
    assert (message.id, message.raw) == (id, stored.raw)
    assert stored.body == message.body
    return message.body


@relaxed
@given(body=st.text())
@example(body="")
@example(body="\0")
@example(body="a\0b\r\n$-1\r\n")
@example(body="x" * 65536)
@example(body="\N{GRINNING FACE}" * 32768)
def test_texts(rsmq, body):
    assert send_and_pop(rsmq, body) == body


@relaxed
@given(body=st.binary())
@example(body=bytes(range(256)))
@example(body=b"\xff" * 65536)
def test_bytes(rsmq, body):
    assert send_and_pop(rsmq, body, codec=BYTES) == body


@relaxed
@given(body=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json(rsmq, body):
    assert send_and_pop(rsmq, body, codec=JSON) == body


@relaxed
@given(body=st.dictionaries(st.text(), st.binary() | st.floats(allow_nan=False)))
def test_msgpack(rsmq, body):
    assert send_and_pop(rsmq, body, codec=MSGPACK) == body


@relaxed
@given(size=st.integers(65537, 200_000))
@example(size=65537)
def test_maxsize_refuses_large_bodies_and_without_it_all_are_stored(rsmq, size):
    with pytest.raises(MessageTooLong):
        rsmq.send_message("q", "x" * size)
    assert rsmq.get_queue_attributes("q").messages == 0

    rsmq.set_queue_attributes("q", maxsize=-1)
    assert send_and_pop(rsmq, "x" * size) == "x" * size
    rsmq.set_queue_attributes("q", maxsize=65536)


@relaxed
@given(body=st.text(st.characters(categories=["Cs"]), min_size=1))
def test_lone_surrogates_are_refused(rsmq, body):
    with pytest.raises(MessageNotString):
        rsmq.send_message("q", body)
