"""The catalogue of faults is complete."""

from __future__ import annotations

import re

import pytest

from rsmq import InvalidFormat, doctor
from rsmq.doctor import finding, repairer
from rsmq.doctor.catalogue import FAULTS, OPT_IN_REPAIRS


@pytest.mark.parametrize("code", FAULTS)
def test_fault_has_text_cause_harm_and_remedy(code):
    result = finding.make_finding(code, "rsmq", "orders", number=2, detail="it")

    assert re.fullmatch(r"[a-z-]+", code)
    for text in (result.text, result.cause, result.harm, result.remedy):
        assert text
        assert "{" not in text.replace("{rsmq}", "")
    assert result.harm.endswith(".")
    assert result.remedy.endswith(".")
    assert not (result.safe and result.ways)
    by_hand = result.remedy.startswith("By hand")
    assert by_hand == (not result.safe and not result.ways)
    assert (code in repairer._REPAIR_ORDER) == (result.safe or bool(result.ways))


def test_unknown_repair_is_refused_with_a_list_of_all():
    with pytest.raises(InvalidFormat) as caught:
        doctor.repair(None, [], also=["everything"])

    assert all(way in caught.value.hint for way in OPT_IN_REPAIRS)
    assert str(caught.value).startswith("Invalid also format: 'everything'. ")


def test_two_repairs_of_one_fault_are_refused():
    with pytest.raises(InvalidFormat) as caught:
        doctor.repair(None, [], also=["orphan-body:remove", "orphan-body:restore"])

    assert "exclude one another" in caught.value.hint


def test_queue_name_is_quoted_for_a_shell():
    result = finding.make_finding("unlisted-queue", "rsmq", "größe 1")

    assert result.remedy.endswith("rsmq delete-queue --any-names -- 'größe 1'.")
    assert "--any-names" not in finding.make_finding("unlisted-queue", "n", "a-b").remedy
