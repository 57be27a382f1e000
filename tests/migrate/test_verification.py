"""Verification of a copy or a move, which changes nothing."""

from __future__ import annotations

import pytest

from rsmq import QueueNotFound
from rsmq.migrate import Lists, SourceChanged, copy, move, verify
from tests.migrate.keyed_server import Server
from tests.migrate.source_systems import SourceSystems, create_source
from tests.migrate.stored import dump_keys


@pytest.fixture(params=["rfq", "rsmq", "rqueue"])
def source(request, server, raw, ns, create_rqueue):
    systems = SourceSystems(raw, ns, create_rqueue)
    systems.fill(request.param)
    with Server.from_url(server.url, ns=f"{ns}-old" if request.param == "rsmq" else ns) as own:
        yield create_source(request.param, own, ns)
    systems.clear()


def numbers(report):
    return report.before, report.consumed, report.arrived, report.missing, report.aside


def test_complete_copy_is_verified(source, target, raw, ns):
    copied = copy(source, ns, target, "to")
    before = dump_keys(raw), dump_keys(target.raw)
    report = verify(source, ns, target, "to")

    assert report.verified
    assert report.done
    assert numbers(report) == (copied.arrived, 0, 0, 0, 0)
    assert (dump_keys(raw), dump_keys(target.raw)) == before


def test_each_difference_is_counted(source, target, ns):
    copied = copy(source, ns, target, "to")
    consumed, changed, *_ = target.raw.zrange(f"{ns}:to", 0, -1)
    target.rsmq.delete_message("to", consumed.decode())
    target.raw.hset(f"{ns}:to:Q", changed, "other")
    report = verify(source, ns, target, "to")

    assert numbers(report) == (copied.arrived - 2, 1, 0, 1, 0)
    assert not report.verified
    assert not report.done
    assert "IN THE QUEUE WITH ANOTHER BODY" in report.as_text()
    assert report.as_text().endswith("NOT VERIFIED")


def test_messages_that_were_not_copied_are_counted(source, target, ns):
    target.rsmq.create_queue("to")
    report = verify(source, ns, target, "to")

    assert report.arrived > 0
    assert report.before == 0
    assert not report.verified


def test_complete_move_is_verified(source, target, ns):
    move(source, ns, target, "to", in_flight=True)
    report = verify(source, ns, target, "to")

    assert report.verified
    assert numbers(report) == (0, 0, 0, 0, 0)


def test_messages_set_aside_are_counted(local, remote, raw, ns):
    remote.rsmq.create_queue("to")
    source = Lists(local)
    raw.hset(source.aside_key(f"{ns}:work"), mapping={"": "{}", "1" * 10 + "x" * 22: "5 0   a"})
    report = verify(source, f"{ns}:work", remote, "to")

    assert report.aside == 1
    assert not report.verified
    raw.unlink(source.aside_key(f"{ns}:work"))


def test_list_is_compared_while_its_copy_is_open(local, remote, raw, ns):
    work = f"{ns}:work"
    raw.lpush(work, "a", "b")
    copy(Lists(local), work, remote, "to")
    assert verify(Lists(local), work, remote, "to").verified

    raw.lpush(work, "c")
    with pytest.raises(SourceChanged):
        verify(Lists(local), work, remote, "to")
    remote.raw.unlink(f"{ns}:to:x:copied")
    report = verify(Lists(local), work, remote, "to")
    assert (report.arrived, report.verified) == (3, False)
    assert any("elements of a list have no ids" in note for note in report.notes)


def test_missing_target_queue_is_an_error(local, raw, ns):
    raw.lpush(f"{ns}:work", "a")
    with pytest.raises(QueueNotFound):
        verify(Lists(local), f"{ns}:work", local, "to")
    assert not raw.exists(f"{ns}:to:Q")
