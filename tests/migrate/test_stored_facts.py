"""
What is stored beside messages: each carrier carries it, or leaves it as the table says, by name.

Spark's jobs have the same tests in tests/spark/session/test_pipelines.py.
"""

from __future__ import annotations

from io import BytesIO

import pytest

from rsmq.migrate import Queues, copy, move
from rsmq.transfer import export_queues, import_queues
from rsmq.vocabulary.sends import SEND_OPTIONS, ValueKind
from rsmq.vocabulary.stored import MESSAGE_RECORDS, QUEUE_FIELDS, STORED_FACTS, Carrier
from rsmq.wire.keys import Namespace
from tests.migrate.keyed_server import Server
from tests.send_examples import EXAMPLES
from tests.stored_facts import FactKeys


@pytest.fixture
def source(server, ns):
    with Server.from_url(server.url, ns=f"{ns}-source") as source:
        source.rsmq.create_queue("q", vt=60)
        yield source


@pytest.fixture
def filled(source, raw, ns):
    keys = FactKeys(raw, f"{ns}-source")
    keys.fill(source.rsmq)
    return keys


def left_by(carrier):
    return {each.name for each in STORED_FACTS if carrier in each.left_by}


def check(carrier, keys):
    """Compare what the messages of a queue have with the table."""
    ids = keys.ids()
    assert ids.keys() == {each.name for each in STORED_FACTS}
    assert {name for name in ids if not keys.has(name)} == left_by(carrier)


def test_a_move(source, filled, raw, ns):
    source.rsmq.create_queue("other")
    source.rsmq.move_messages("q", "other", list(filled.ids().values()))
    check(Carrier.MOVE, FactKeys(raw, f"{ns}-source", "other"))


def test_a_dead_letter(source, filled, raw, ns):
    source.rsmq.create_queue("other")
    source.rsmq.set_dead_letter_policy("q", "other", 1)
    filled.make_visible(count=9)
    source.rsmq.sweep_dead_letters("q")
    check(Carrier.DEAD_LETTER, FactKeys(raw, f"{ns}-source", "other"))


def test_a_redrive(source, filled, raw, ns):
    source.rsmq.create_queue("other")
    filled.make_visible()
    source.rsmq.redrive_messages("q", "other")
    check(Carrier.REDRIVE, FactKeys(raw, f"{ns}-source", "other"))


@pytest.mark.parametrize("what", ["purge", "delete_queue", "delete_messages"])
def test_an_undo(source, filled, what):
    trash = source.rsmq.trash
    if what == "purge":
        deletion = trash.purge_queue("q")
    elif what == "delete_queue":
        deletion = trash.delete_queue("q")
    else:
        deletion = trash.delete_messages("q", list(filled.ids().values()))
    trash.undo(deletion.id)
    check(Carrier.UNDO, filled)


@pytest.mark.parametrize("carrier", [Carrier.EXPORT, Carrier.EXPORT_NEW])
def test_an_export_and_an_import(source, filled, local, raw, ns, carrier):
    file = BytesIO()
    exported = export_queues(source.rsmq, ["q"], file)
    file.seek(0)
    imported = import_queues(local.rsmq, file, new_ids=carrier is Carrier.EXPORT_NEW)

    check(carrier, FactKeys(raw, ns))
    assert set(exported.queues[0].left_behind) == left_by(Carrier.EXPORT)
    assert imported.queues[0].notes == ("dead letters whose reasons are not imported: 1",)


@pytest.mark.parametrize("way", ["copy", "move"])
def test_a_migration(source, filled, local, raw, ns, way):
    options = {"in_flight": True} if way == "move" else {}
    report = {"copy": copy, "move": move}[way](Queues(source), "q", local, "q", **options)

    check(Carrier.MIGRATE, FactKeys(raw, ns))
    text = report.as_text()
    for fact in STORED_FACTS:
        own = {"track": "its record as a job", "meta": "rsmq's meta"}.get(fact.name, fact.text)
        assert (own in text) == (Carrier.MIGRATE in fact.left_by), fact.name
    assert report.verified


def test_a_queue_without_facts_is_reported_with_none(source, local):
    source.rsmq.send_message("q", "m")
    assert copy(Queues(source), "q", local, "q").notes == {}
    assert export_queues(source.rsmq, ["q"], BytesIO()).queues[0].left_behind == ()


def test_a_purge_keeps_the_fields_that_stay(source, raw, ns):
    for each in QUEUE_FIELDS:
        raw.hset(f"{ns}-source:q:Q", each.field, "1")
    before = raw.hgetall(f"{ns}-source:q:Q")
    source.rsmq.purge_queue("q")
    gone = {each.field.encode() for each in QUEUE_FIELDS if not each.stays}
    assert raw.hgetall(f"{ns}-source:q:Q") == {
        field: value for field, value in before.items() if field not in gone
    }


def test_each_fact_has_a_key_and_each_key_a_fact():
    keys = Namespace("ns").queue("q")
    #: Those of queues, and of transfers in progress.
    others = {
        "leases", "staged", "copied", "admitted", "held_back", "running", "rates", "history",
        "calls", "call_times",
    }  # fmt: skip
    of_facts = {each.key for each in STORED_FACTS} - {"hash", "zset", "job"}
    assert of_facts | others == {
        name for name in keys.__slots__ if getattr(keys, name) in keys.extensions
    }


@pytest.mark.parametrize("record", MESSAGE_RECORDS, ids=lambda record: record.key)
def test_a_record_has_the_facts_that_the_table_has(record):
    of_sends = {each.name: each for each in SEND_OPTIONS}
    facts = [each for each in STORED_FACTS if each.key == record.key]
    ways = (Carrier.MOVE, Carrier.DEAD_LETTER, Carrier.REDRIVE)  # the scripts have one list of them
    assert len({way in each.left_by for way in ways for each in facts}) == 1
    for name in (each.name for each in facts):
        values = {each.name: None for each in record.values}
        assert record.make(values) == b""
        example = {name: EXAMPLES[name][name] for name in values.keys() & EXAMPLES[name].keys()}
        text = record.make(values | example)
        assert record.read(text) == example
    for value in record.values:
        option = of_sends[value.name]
        if option.kind is ValueKind.WHOLE_NUMBER:
            assert (value.low, value.high) == (option.low, option.high)
