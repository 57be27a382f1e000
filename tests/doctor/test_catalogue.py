"""Every fault is told of fully, and the table in the documentation is the catalogue."""

from __future__ import annotations

import re

import pytest

from rsmq import InvalidFormat, doctor
from rsmq.doctor import finding, repairer
from rsmq.doctor.catalogue import FAULTS, OPT_IN_REPAIRS


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_says_what_who_and_what_to_do(code):
    told = finding.make_finding(code, "rsmq", "orders", number=2, detail="it")

    assert re.fullmatch(r"[a-z-]+", code)
    for text in (told.text, told.cause, told.harm, told.remedy):
        assert text
        assert "{" not in text.replace("{rsmq}", "")
    assert told.harm.endswith(".")
    assert told.remedy.endswith(".")
    assert not (told.safe and told.ways)
    by_hand = told.remedy.startswith("By hand")
    assert by_hand == (not told.safe and not told.ways)
    assert (code in repairer._REPAIR_ORDER) == (told.safe or bool(told.ways))


def test_the_table_of_the_package_has_every_fault_and_its_repair():
    rows = re.findall(
        r"^    ([a-z-]+) +([EWN])  (safe|asked for|by hand)", doctor.__doc__, re.MULTILINE
    )
    kinds = {"E": "error", "W": "warning", "N": "note"}
    repairs = {"safe": (True, False), "asked for": (False, True), "by hand": (False, False)}

    assert [(code, kinds[kind], repairs[how]) for code, kind, how in rows] == [
        (code, fault.severity, (fault.safe, bool(fault.ways))) for code, fault in FAULTS.items()
    ]


def test_an_unknown_repair_is_refused_with_those_that_there_are():
    with pytest.raises(InvalidFormat) as caught:
        doctor.repair(None, [], also=["everything"])

    assert all(way in caught.value.hint for way in OPT_IN_REPAIRS)
    assert "'everything'" in caught.value.hint


def test_two_repairs_of_one_fault_are_refused():
    with pytest.raises(InvalidFormat) as caught:
        doctor.repair(None, [], also=["orphan-body:remove", "orphan-body:restore"])

    assert "exclude one another" in caught.value.hint


def test_a_name_that_a_shell_would_split_is_quoted():
    told = finding.make_finding("unlisted-queue", "rsmq", "größe 1")

    assert told.remedy.endswith("rsmq delete-queue --any-names -- 'größe 1'.")
    assert "--any-names" not in finding.make_finding("unlisted-queue", "n", "a-b").remedy


def test_a_name_that_is_no_text_is_escaped():
    assert finding.escape_unprintable(b"\xffa\n") == r"\\xffa\n"
    assert finding.escape_unprintable("größe") == "größe"
