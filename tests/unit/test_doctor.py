"""Parts of the doctor that need no server."""

from __future__ import annotations

import pytest

from rsmq.doctor import message_faults
from rsmq.doctor.message_faults import FaultCount
from rsmq.doctor.server_faults import _find_version_faults


@pytest.fixture
def tally_of_3(monkeypatch):
    monkeypatch.setattr(message_faults, "MAX_REMEMBERED_IDS", 2)
    tally = FaultCount()
    for id in (b"a", b"a", b"b", b"c"):
        tally.add(id)
    return tally


def test_a_tally_counts_all_ids_and_remembers_some(tally_of_3):
    assert tally_of_3.number == 3
    assert list(tally_of_3.ids) == [b"a", b"b"]


def test_a_second_check_removes_ids_that_it_did_not_find(tally_of_3):
    recheck = FaultCount()
    recheck.add(b"b")
    tally_of_3.keep_confirmed(recheck)

    assert (tally_of_3.number, list(tally_of_3.ids)) == (1, [b"b"])
    tally_of_3.keep_confirmed(None)
    assert (tally_of_3.number, list(tally_of_3.ids)) == (0, [])


def test_the_number_stays_if_the_second_check_found_too_many(tally_of_3):
    recheck = FaultCount()
    for id in (b"b", b"c", b"d"):
        recheck.add(id)
    tally_of_3.keep_confirmed(recheck)

    assert (tally_of_3.number, list(tally_of_3.ids)) == (3, [b"b"])


@pytest.mark.parametrize(
    ("info", "codes"),
    [
        ({"redis_version": "5.0.14"}, ["old-server"]),
        ({"redis_version": "6.2.0"}, []),
        ({"redis_version": "7.4.1"}, []),
        ({}, []),
    ],
)
def test_an_old_server_is_a_fault(info, codes):
    assert [code for code, _ in _find_version_faults(info)] == codes
