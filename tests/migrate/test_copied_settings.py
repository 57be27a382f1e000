"""
Every setting of a queue goes to its copy, or the report names it: imports and migrations.

The settings are those of the table of attributes. Spark's job has the same test in
tests/spark/session/test_pipelines.py.
"""

from __future__ import annotations

from io import BytesIO

import pytest

from rsmq.migrate import Queues, copy, move, verify
from rsmq.transfer import export_queues, import_queues
from rsmq.vocabulary.queues import COPIED_ATTRIBUTES, CREATE, LIMIT, SET
from tests.migrate.keyed_server import Server

#: A value of each setting that a new queue does not have.
VALUES = {
    "dead_letter_queue": "dead",
    "rate": "100/m",
    "paused": True,
    **{each.name: each.choices[-1][0] for each in COPIED_ATTRIBUTES if each.choices},
    **{each.name: int(each.high) - 1 for each in COPIED_ATTRIBUTES if each.high is not None},
}
NAMES = [each.name for each in COPIED_ATTRIBUTES]


@pytest.fixture
def source(server, ns):
    with Server.from_url(server.url, ns=f"{ns}-source") as source:
        yield source


def fill(rsmq):
    """Create a queue with all settings, and its dead-letter queue."""
    rsmq.create_queue("dead")
    rsmq.create_queue("q", **{name: VALUES[name] for name in CREATE.options})
    rsmq.set_dead_letter_policy("q", VALUES["dead_letter_queue"], VALUES["max_receives"])
    rsmq.set_queue_attributes("q", **{name: VALUES[name] for name in SET.options})
    rsmq.set_queue_limits("q", **{name: VALUES[name] for name in LIMIT.options})
    rsmq.pause_queue("q")
    rsmq.send_message("q", "m", delay=0)


def read_fields(raw, ns):
    """Return the fields of the settings; not since when a queue is paused."""
    stored = raw.hgetall(f"{ns}:q:Q")
    fields = {each.field.encode() for each in COPIED_ATTRIBUTES}
    return {
        name: None if name == b"x:paused" else value
        for name, value in stored.items()
        if name in fields
    }


def transfer(source, local):
    """Export and import all queues, and return the notes."""
    file = BytesIO()
    export_queues(source.rsmq, None, file)
    file.seek(0)
    done = import_queues(local.rsmq, file)
    assert done.complete
    return [note for each in done.queues for note in each.notes]


def migrate(way):
    def run(source, local):
        report = way(Queues(source), "q", local, "q")
        return list(report.notes)

    return run


WAYS = {"import": transfer, "copy": migrate(copy), "move": migrate(move)}


def test_the_values_are_those_of_every_setting(source):
    assert VALUES.keys() == set(NAMES)
    fill(source.rsmq)
    attributes = source.rsmq.get_queue_attributes("q")
    assert {name: getattr(attributes, name) for name in NAMES} == VALUES


@pytest.mark.parametrize("way", WAYS)
def test_a_new_queue_has_every_setting_of_its_source(source, local, raw, ns, way):
    fill(source.rsmq)
    expected = read_fields(raw, f"{ns}-source")
    notes = WAYS[way](source, local)

    assert {each.field.encode() for each in COPIED_ATTRIBUTES} == expected.keys()
    assert read_fields(raw, ns) == expected
    assert notes in ([], ["it is paused for workers: the queue is too"])


@pytest.mark.parametrize("way", [*WAYS, "verify"])
def test_a_queue_that_keeps_its_own_settings_is_reported_by_the_name_of_each(
    source, local, raw, ns, way
):
    fill(source.rsmq)
    local.rsmq.create_queue("q")
    local.rsmq.send_message("q", "its own")  # a queue that was used is not paused
    before = read_fields(raw, ns)
    notes = {**WAYS, "verify": migrate(verify)}[way](source, local)

    assert read_fields(raw, ns) == before
    text = "\n".join(notes)
    for name in NAMES:
        word = "policy" if name in {"dead_letter_queue", "max_receives"} else name
        assert word in text or name in text, name


def test_a_dry_run_reports_the_settings_that_a_run_reports(source, local):
    fill(source.rsmq)
    local.rsmq.create_queue("q")
    for way in (copy, move):
        dry = way(Queues(source), "q", local, "q", dry_run=True)
        assert list(dry.notes) == list(way(Queues(source), "q", local, "q").notes)
