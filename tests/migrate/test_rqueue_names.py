"""Migration from Rqueue with configured names of keys, and from the releases 2.0 to 2.3."""

from __future__ import annotations

import pytest

from rsmq.errors import InvalidFormat
from rsmq.migrate import Rqueue, SourceNotFound, copy, move
from tests.expect import refused
from tests.migrate.rqueue_states import convert, fill_queue
from tests.migrate.stored import dump_keys, predicted_figures, read_bodies, read_messages

KINDS = {"queue::": "simple-", "d-queue::": "queue::later-", "p-queue::": "running-"}
DELETED = "deleted in Rqueue: left out"


def text(message):
    return message.fields["message"].encode()


def expected_bodies(state):
    return {
        text(each)
        for each in (*state.ready, state.failed, state.later, state.periodic, state.processing)
    }


@pytest.mark.parametrize("tagged", [True, False])
@pytest.mark.parametrize("release", [2, 3, 4])
def test_names_of_keys_are_read_from_the_stored_configuration(
    create_rqueue, local, raw, ns, release, tagged
):
    rqueue = create_rqueue(release=release, tagged=tagged, kinds=KINDS)
    state = fill_queue(rqueue, ns)
    source = Rqueue(local)

    assert source.queues() == sorted([ns, f"{ns}-dead", f"{ns}_critical"])
    report = move(source, ns, local, "to", in_flight=True)
    assert {each.body for each in read_messages(raw, ns, "to")} >= expected_bodies(state)
    assert not raw.exists(rqueue.ready(ns), rqueue.scheduled(ns), rqueue.processing(ns))
    assert (report.left, report.verified) == (0, True)
    move(source, state.priorities[0], local, "urgent")
    assert read_bodies(raw, ns, "urgent") == [text(state.urgent)]
    assert not raw.exists(rqueue.ready(state.priorities[0]))


def test_dry_run_of_configured_names_finds_the_messages(create_rqueue, local, raw, ns):
    fill_queue(create_rqueue(kinds=KINDS), ns)
    before = dump_keys(raw)
    dry = move(Rqueue(local), ns, local, "to", dry_run=True)

    assert dump_keys(raw) == before
    assert dry.found == {"ready": 4, "delayed": 3, "in_flight": 1}
    assert predicted_figures(dry) == predicted_figures(move(Rqueue(local), ns, local, "to"))


def test_messages_under_the_default_names_are_moved_too(create_rqueue, local, raw, ns):
    """The names were configured after messages had been sent."""
    create_rqueue().enqueue(ns, "old")
    rqueue = create_rqueue(kinds=KINDS)
    rqueue.configure(ns)
    rqueue.enqueue(ns, "new")
    move(Rqueue(local), ns, local, "to")

    assert sorted(read_bodies(raw, ns, "to")) == [b"new", b"old"]


@pytest.mark.parametrize("prefix", ["app[1]*::", ""])
@pytest.mark.parametrize("kinds", [{}, KINDS])
def test_prefix_of_all_keys_is_passed(create_rqueue, local, raw, ns, prefix, kinds):
    # The other application has the default prefix, and a queue of the same name.
    create_rqueue(release=3).enqueue(ns, "other application")
    rqueue = create_rqueue(prefix=prefix, kinds=kinds)
    state = fill_queue(rqueue, ns)
    source = Rqueue(local, prefix=prefix)

    assert {ns, f"{ns}-dead", f"{ns}_critical"} <= set(source.queues())
    report = move(source, ns, local, "to", in_flight=True)
    assert {each.body for each in read_messages(raw, ns, "to")} == expected_bodies(state)
    # Rqueue does not add the prefix to the keys of metadata.
    assert report.notes[DELETED].examples == [state.deleted.id]
    assert raw.llen(f"__rq::queue::{{{ns}}}") == 1


def test_prefix_is_used_if_no_configuration_is_stored(create_rqueue, local, raw, ns):
    rqueue = create_rqueue(prefix="app::")
    rqueue.enqueue(ns, "m")
    with refused(
        SourceNotFound, f"There is no Rqueue queue {ns!r}, nor a dead-letter queue of this name"
    ) as refusal:
        move(Rqueue(local), ns, local, "to")
    assert "give --prefix" in refusal.error.hint
    source = Rqueue(local, prefix="app::")

    assert source.queues() == [ns]
    move(source, ns, local, "to")
    assert read_bodies(raw, ns, "to") == [b"m"]


def test_prefix_is_text(local):
    with refused(InvalidFormat, "Invalid prefix format"):
        Rqueue(local, prefix=b"app::")


def test_priority_without_a_stored_configuration_has_its_name(create_rqueue, local, raw, ns):
    rqueue = create_rqueue()
    critical, _ = rqueue.prioritize(f"{ns}_a", critical=10, low=1)
    rqueue.enqueue(critical, "m")
    raw.delete(*raw.keys("__rq::q-config::*"))

    assert rqueue.ready(critical) == f"__rq::queue::{{{ns}_a}}_critical"
    assert Rqueue(local).queues() == [critical]
    move(Rqueue(local), critical, local, "to")
    assert read_bodies(raw, ns, "to") == [b"m"]


def test_list_of_another_program_is_not_read(create_rqueue, local, raw, ns):
    create_rqueue().configure(ns)
    raw.rpush(ns, "another program")
    report = move(Rqueue(local), ns, local, "to")

    assert (report.arrived, raw.llen(ns)) == (0, 1)


@pytest.mark.parametrize("run", [move, copy])
def test_messages_deleted_by_rqueue_2_0_are_left_out(create_rqueue, local, raw, ns, run):
    rqueue = create_rqueue(release=2)
    deleted = rqueue.enqueue(ns, "deleted")
    rqueue.enqueue(ns, "kept")
    rqueue.delete(deleted)

    assert raw.exists(f"__rq::m-mdata::{deleted.id}")
    report = run(Rqueue(local), ns, local, "to")
    assert read_bodies(raw, ns, "to") == [b"kept"]
    assert report.notes[DELETED].examples == [deleted.id]


def test_metadata_of_another_queues_message_does_not_count(create_rqueue, local, raw, ns):
    """Since 2.1 programs choose ids, so one may look like the name of a queue and an id."""
    rqueue = create_rqueue()
    deleted = rqueue.enqueue("other", "deleted", id="1")
    rqueue.delete(deleted)
    rqueue.enqueue(ns, "kept", id="other::1")
    raw.delete(rqueue.metadata(ns, "other::1"))
    move(Rqueue(local), ns, local, "to")

    assert read_bodies(raw, ns, "to") == [b"kept"]


@pytest.mark.parametrize("release", [2, 3])
def test_dead_letters_of_each_release_come_oldest_first(
    create_rqueue, local, raw, ns, release, monkeypatch
):
    rqueue = create_rqueue(release=release)
    rqueue.configure(ns, dead_letter_queue=f"{ns}-dead")
    began = rqueue.now_ms()
    for number in range(3):
        rqueue.enqueue(ns, convert(number))
        monkeypatch.setattr(rqueue, "now_ms", lambda number=number: began + number)
        rqueue.dead_letter(rqueue.receive(ns), f"{ns}-dead")
    stored = [b"0" in each.split(b"msg")[1][:8] for each in raw.lrange(f"{ns}-dead", 0, -1)]

    assert stored == ([True, False, False] if release == 2 else [False, False, True])
    assert f"{ns}-dead" in Rqueue(local).queues()
    move(Rqueue(local), f"{ns}-dead", local, "dead")
    assert read_bodies(raw, ns, "dead") == [convert(number).encode() for number in range(3)]


@pytest.mark.parametrize("is_used", [False, True])
def test_pause_is_carried_over_to_a_new_queue(create_rqueue, local, raw, ns, is_used):
    rqueue = create_rqueue()
    rqueue.configure(ns, paused=True)
    rqueue.enqueue(ns, "m")
    if is_used:
        local.rsmq.create_queue("to")
        local.rsmq.send_message("to", "own")
    report = move(Rqueue(local), ns, local, "to")

    assert raw.hexists(f"{ns}:to:Q", "x:paused") is not is_used
    assert ("it is paused for workers: the queue is too" in report.notes) is not is_used
    assert ("it is paused for workers: the queue is not" in report.notes) is is_used
    rqueue.configure(ns)
    assert not any("paused" in note for note in move(Rqueue(local), ns, local, "to").notes)


def test_pause_is_carried_over_if_the_first_run_broke_off_before(create_rqueue, local, raw, ns):
    rqueue = create_rqueue()
    rqueue.configure(ns, paused=True)
    local.rsmq.create_queue("to")
    move(Rqueue(local), ns, local, "to")

    assert raw.hexists(f"{ns}:to:Q", "x:paused")


def test_dry_run_reports_the_pause(create_rqueue, local, raw, ns):
    create_rqueue().configure(ns, paused=True)
    report = move(Rqueue(local), ns, local, "to", dry_run=True)

    assert "it is paused for workers: the queue is too" in report.notes
    assert not raw.exists(f"{ns}:to:Q")


def test_default_concurrency_is_not_a_finding(create_rqueue, local, ns):
    minimum_and_maximum = {
        "@class": "com.github.sonus21.rqueue.models.MinMax", "min": -1, "max": -1
    }  # fmt: skip
    create_rqueue().configure(ns, concurrency=minimum_and_maximum)
    notes = move(Rqueue(local), ns, local, "to").notes

    assert not any("concurrency" in note for note in notes)
