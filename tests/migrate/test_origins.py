"""
Encrypted bodies that this library takes to another queue can be decoded there; others can't.

Each carrier of ``rsmq.vocabulary.stored`` takes a body from one queue to another. The job migrate
and the archive of Spark read bodies in one place, which is tested without Spark.
"""

from __future__ import annotations

from io import BytesIO

import pytest

from rsmq import JSON, BodyNotDecodable
from rsmq.codecs import Compressed, Encrypted
from rsmq.migrate import Queues, copy, move
from rsmq.migrate.outward import Outward, ToList
from rsmq.push.operations import fan_out
from rsmq.transfer import export_queues, import_queues
from rsmq.wire.body_format import parse_body
from tests.migrate.keyed_server import Server

KEYS = {"k1": bytes(range(32))}
CODEC = Encrypted(Compressed(JSON), keys=KEYS)
ROWS = [{"number": number, "item": "a small thing"} for number in range(200)]


@pytest.fixture
def source(server, ns):
    with Server.from_url(server.url, ns=f"{ns}-source") as source:
        source.rsmq.create_queue("q", vt=60)
        source.rsmq.create_queue("other")
        yield source


@pytest.fixture
def sent(source):
    return source.rsmq.send_messages("q", [ROWS, "small"], codec=CODEC)


def check(rsmq, queue, origin):
    """Check that both messages can be decoded, and name their first queue."""
    messages = rsmq.peek_messages(queue, codec=CODEC)
    assert [each.body for each in messages] == [ROWS, "small"]
    assert {parse_body(each.raw).origin for each in messages} == {origin}


def origin_of(source):
    return f"{source.rsmq.namespace.name}:q".encode()


def test_a_sent_body_names_no_queue(source, sent):
    check(source.rsmq, "q", None)
    assert source.rsmq.peek_messages("q")[1].raw.startswith(b"rsmq-body/1:aes256gcm=k1::")


def test_a_move(source, sent):
    source.rsmq.move_messages("q", "other", sent)
    check(source.rsmq, "other", origin_of(source))
    source.rsmq.move_messages("other", "q", sent)
    check(source.rsmq, "q", origin_of(source))


def test_a_dead_letter_and_its_redrive(source, sent):
    source.rsmq.set_dead_letter_policy("q", "other", 1)
    for _ in range(2):
        source.rsmq.receive_messages("q", 10, vt=0)
    check(source.rsmq, "other", origin_of(source))
    source.rsmq.create_queue("third")
    source.rsmq.redrive_messages("other", "third")
    check(source.rsmq, "third", origin_of(source))


def test_a_redrive_of_messages_that_were_sent_there(source, sent):
    source.rsmq.redrive_messages("q", "other")
    check(source.rsmq, "other", origin_of(source))


def test_a_sweep_of_expired_messages(source, sent):
    source.rsmq.set_dead_letter_policy("q", "other", 5)
    source.rsmq.receive_messages("q", 10, vt=0)
    source.rsmq.set_dead_letter_policy("q", "other", 1)
    source.rsmq.sweep_dead_letters("q")
    check(source.rsmq, "other", origin_of(source))


@pytest.mark.parametrize("what", ["purge", "delete_queue", "delete_messages"])
def test_an_undo(source, sent, what):
    trash = source.rsmq.trash
    deletion = (
        trash.delete_messages("q", sent)
        if what == "delete_messages"
        else (trash.purge_queue("q") if what == "purge" else trash.delete_queue("q"))
    )
    trash.undo(deletion.id)
    check(source.rsmq, "q", None)


@pytest.mark.parametrize("new_ids", [False, True])
def test_an_export_and_an_import(source, sent, local, new_ids):
    file = BytesIO()
    export_queues(source.rsmq, ["q"], file)
    file.seek(0)
    import_queues(local.rsmq, file, new_ids=new_ids)
    check(local.rsmq, "q", origin_of(source))


@pytest.mark.parametrize("way", [copy, move])
def test_a_migration(source, sent, local, way):
    report = way(Queues(source), "q", local, "q")
    assert report.verified
    check(local.rsmq, "q", origin_of(source))


def test_a_publication_names_its_first_queue(source):
    for body in (ROWS, "small"):
        source.rsmq.publish(["q", "other"], body, codec=CODEC)
    for queue in ("q", "other"):
        check(source.rsmq, queue, origin_of(source))


def test_subscribers(source, sent, raw):
    keys = source.rsmq.namespace
    raw.hset(keys.subscribers, "", "1")
    assert source.rsmq.run(fan_out(keys, "q", ["q-one"], b"1")) == 2
    check(source.rsmq, "q-one", origin_of(source))


def test_a_copy_by_hand_can_not_be_decoded(source, sent, local):
    raw = source.rsmq.peek_messages("q")[0].raw
    for rsmq, queue in ((source.rsmq, "other"), (local.rsmq, "q")):
        rsmq.create_queue(queue, exist_ok=True)
        rsmq.send_message(queue, raw.decode())
        with pytest.raises(BodyNotDecodable) as caught:
            _ = rsmq.peek_messages(queue, codec=CODEC)[0].body
        assert caught.value.key_id == "k1"
        assert "does not open with the key 'k1'" in str(caught.value)
        assert raw.decode()[40:] not in str(caught.value)


def test_rows_of_spark_name_their_queue(source, sent):
    pa = pytest.importorskip("pyarrow")
    from rsmq.spark.read.record_batch import build_record_batch

    keys = source.rsmq.namespace.queue("q")
    raws = [each.raw for each in source.rsmq.peek_messages("q")]
    for kind in (pa.binary(), pa.string()):
        schema = pa.schema([pa.field("message", kind)])
        columns = {"id": [b"x"] * 3, "raw": [*raws, b"plain"]}
        *found, plain = build_record_batch(schema, keys, columns).column(0).to_pylist()
        encoded = [each.encode() if isinstance(each, str) else each for each in found]
        assert {parse_body(each).origin for each in encoded} == {origin_of(source)}
        assert [CODEC.for_queue(b"a:b").decode(each) for each in encoded] == [ROWS, "small"]
        assert plain in {"plain", b"plain"}


def test_a_bridge_to_a_list_and_back(source, sent, local, raw, ns):
    Outward(source, "q", local, ToList(f"{ns}:work")).step(10)
    elements = raw.lrange(f"{ns}:work", 0, -1)

    assert {parse_body(each).origin for each in elements} == {origin_of(source)}
    bodies = [CODEC.for_queue(b"elsewhere:q").decode(each) for each in elements]
    assert sorted(bodies, key=str) == sorted([ROWS, "small"], key=str)
