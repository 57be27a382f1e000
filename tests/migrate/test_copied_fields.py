"""
The fields of a queue that copies have beside its settings: attributes and tags that only SQS has.

Spark's job has its tests in tests/spark/session/test_pipelines.py.
"""

from __future__ import annotations

from io import BytesIO

import pytest

from rsmq.migrate import Queues, copy, move, verify
from rsmq.transfer import export_queues, import_queues
from rsmq.vocabulary.stored import COPIED_FIELDS, QUEUE_FIELDS
from tests.migrate.keyed_server import Server

STANDARD = b'{"attributes": {"KmsMasterKeyId": "k"}, "tags": {"team": "gr\\u00fcn"}}'
FIFO = b'{"attributes": {"FifoQueue": "true", "ContentBasedDeduplication": "true"}}'
NOT_CARRIED = "attributes and tags that only SQS has are not carried: "
KEEPS = f"{NOT_CARRIED}the queue keeps its own, or none"
NEEDS_NAME = f"{NOT_CARRIED}the name of a FIFO queue must end with _fifo"


@pytest.fixture
def source(server, ns):
    with Server.from_url(server.url, ns=f"{ns}-source") as source:
        yield source


def store(source, raw, value, queue="q"):
    """Create a queue whose field of SQS has a value, with a message."""
    source.rsmq.create_queue(queue)
    raw.hset(f"{source.rsmq.namespace.name}:{queue}:Q", "x:sqs", value)
    source.rsmq.send_message(queue, "m")


def transfer(**options):
    def run(source, local, queue, to):
        file = BytesIO()
        exported = export_queues(source.rsmq, [queue], file)
        assert exported.queues[0].left_behind == ()
        file.seek(0)
        done = import_queues(local.rsmq, file, queues={queue: to}, **options)
        assert (done.fault, done.added) == (None, 1)
        return [note for each in done.queues for note in each.notes]

    return run


def migrate(way, **options):
    def run(source, local, queue, to):
        return list(way(Queues(source), queue, local, to, **options).notes)

    return run


WAYS = {
    "import": transfer(),
    "import with new ids": transfer(new_ids=True),
    "copy": migrate(copy),
    "move": migrate(move),
}
DRY_RUNS = {
    "import": transfer(dry_run=True),
    "copy": migrate(copy, dry_run=True),
    "move": migrate(move, dry_run=True),
}


def test_what_sqs_stores_is_the_only_field_that_copies_have():
    assert [each.field for each in COPIED_FIELDS] == ["x:sqs"]


@pytest.mark.parametrize("value", [STANDARD, b"{}", b"\xff no JSON", b'{"a": "\n\x00"}'])
@pytest.mark.parametrize("way", WAYS)
def test_a_new_queue_has_the_field_byte_for_byte(source, local, raw, ns, way, value):
    store(source, raw, value)
    assert WAYS[way](source, local, "q", "other") == []
    assert raw.hget(f"{ns}:other:Q", "x:sqs") == value


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_field_is_none(source, local, raw, ns, way):
    store(source, raw, b"")
    assert WAYS[way](source, local, "q", "q") == []
    assert not raw.hexists(f"{ns}:q:Q", "x:sqs")


@pytest.mark.parametrize("way", WAYS)
def test_no_other_field_of_a_queue_is_copied(source, local, raw, ns, way):
    store(source, raw, STANDARD)
    others = [each.field for each in QUEUE_FIELDS if each.field != "x:sqs"]
    raw.hset(f"{ns}-source:q:Q", mapping=dict.fromkeys(others, "1"))
    WAYS[way](source, local, "q", "q")
    assert raw.hmget(f"{ns}:q:Q", others) == [None] * len(others)


@pytest.mark.parametrize("way", WAYS)
def test_a_fifo_queue_stays_one_if_its_name_allows_it(source, local, raw, ns, way):
    store(source, raw, FIFO, "q_fifo")
    for to in ("q_fifo", "other_fifo"):
        if way == "move" and to != "q_fifo":
            source.rsmq.send_message("q_fifo", "m")
        assert WAYS[way](source, local, "q_fifo", to) == []
        assert raw.hget(f"{ns}:{to}:Q", "x:sqs") == FIFO


@pytest.mark.parametrize("way", WAYS)
def test_a_name_of_no_fifo_queue_gets_no_field_of_one(source, local, raw, ns, way):
    """Clients of SQS would find neither the queue NAME nor NAME.fifo."""
    store(source, raw, FIFO, "q_fifo")
    if way in DRY_RUNS:
        assert DRY_RUNS[way](source, local, "q_fifo", "orders") == [NEEDS_NAME]
    assert WAYS[way](source, local, "q_fifo", "orders") == [NEEDS_NAME]
    assert not raw.hexists(f"{ns}:orders:Q", "x:sqs")
    assert verify(Queues(source), "q_fifo", local, "orders").notes.keys() == {NEEDS_NAME}


@pytest.mark.parametrize("own", [None, b'{"tags": {"its": "own"}}'])
@pytest.mark.parametrize("way", WAYS)
def test_a_queue_that_exists_keeps_its_own(source, local, raw, ns, way, own):
    store(source, raw, STANDARD)
    local.rsmq.create_queue("q")
    if own is not None:
        raw.hset(f"{ns}:q:Q", "x:sqs", own)
    if way in DRY_RUNS:
        assert DRY_RUNS[way](source, local, "q", "q") == [KEEPS]
    assert WAYS[way](source, local, "q", "q") == [KEEPS]
    assert raw.hget(f"{ns}:q:Q", "x:sqs") == own
    assert KEEPS in verify(Queues(source), "q", local, "q").notes


@pytest.mark.parametrize("way", WAYS)
def test_a_queue_that_has_the_same_field_is_not_reported(source, local, raw, ns, way):
    store(source, raw, STANDARD)
    local.rsmq.create_queue("q")
    raw.hset(f"{ns}:q:Q", "x:sqs", STANDARD)
    assert WAYS[way](source, local, "q", "q") == []
    assert verify(Queues(source), "q", local, "q").notes == {}


@pytest.mark.parametrize("way", [copy, move])
def test_a_dead_letter_queue_that_a_migration_creates_has_the_field(source, local, raw, ns, way):
    store(source, raw, STANDARD)
    store(source, raw, b"{}", "dead")
    source.rsmq.set_dead_letter_policy("q", "dead", 3)
    assert way(Queues(source), "q", local, "q").notes == {}
    assert raw.hget(f"{ns}:dead:Q", "x:sqs") == b"{}"
