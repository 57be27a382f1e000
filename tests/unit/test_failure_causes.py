"""Failures that differ only in values have one cause, and others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq.errors import InvalidFormat
from rsmq.explain.failure_groups import MAX_GROUPS, FailureGroups
from rsmq.model import DeadLetterReason
from rsmq.search.failure_causes import cause_of, is_cause_key, without_values
from rsmq.search.message_filter import FilteredMessage, parse_filter
from rsmq.search.operations import DeadLetterEntry
from rsmq.wire.ids import is_redriven, make_id_suffixes, make_redrive_suffixes

TRACEBACK = """Traceback (most recent call last):
  File "/app/{release}/shop/worker.py", line {line}, in run
    self.handle()
  File "C:\\app\\charge.py", line {line}, in charge
    raise ValueError(number)
ValueError: order {number} of '{name}' failed
"""


def reason(number=1, name="Ada L", line=5, release="7", error="ValueError"):
    text = f"{error}: order {number} of '{name}' failed"
    trace = TRACEBACK.format(number=number, name=name, line=line, release=release)
    return DeadLetterReason("q", "attempt 3 of 3 failed", text, trace, "w", 3, 5000)


def test_values_lines_and_folders_do_not_change_a_cause():
    first = cause_of(reason())
    assert first == cause_of(reason(99, "Bob C", 7, "release-8"))
    assert first.exception == "ValueError"
    assert first.text == "order 0 of … failed"
    assert first.frames == ("worker.py:run", "charge.py:charge")
    assert is_cause_key(first.key)


def test_the_type_the_text_and_the_functions_change_a_cause():
    causes = [
        reason(),
        reason(error="KeyError"),
        replace(reason(), exception="ValueError: another text"),
        replace(reason(), traceback=(reason().traceback or "").replace("in charge", "in refund")),
        replace(reason(), traceback=None),
        replace(reason(), exception=None),
        replace(reason(), status=500),
        replace(reason(), status=404),
        None,
    ]
    assert len({cause_of(each).key for each in causes}) == len(causes)


def test_names_and_codes_that_decide_make_causes_of_their_own():
    texts = ["KeyError: 'customer'", "KeyError: 'price'", "ExitError: exit code 1",
             "ExitError: exit code 137", "ModuleNotFoundError: No module named 'shop'",
             "ModuleNotFoundError: No module named 'stock'"]  # fmt: skip
    causes = [cause_of(replace(reason(), exception=each, traceback=None)) for each in texts]
    assert len({each.key for each in causes}) == len(texts)
    assert [f"{each.exception}: {each.text}" for each in causes] == texts


def test_a_key_is_the_same_in_every_process():
    assert cause_of(reason()).key == "8f1231afeea5"
    assert cause_of(None).key == "none"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("can't reach 10.0.0.1:6379", "can't reach 0"),
        ("no \"a b\" in 'c d'", "no … in …"),
        ("'customer_id'", "'customer_id'"),
        ("'First Name'", "'First Name'"),
        ("'ada.l@example.org'", "…"),
        ("'hocfdlzqs8mf9oJypfX0YbIG5vOe9dTs'", "'…'"),
        ("'order-4711'", "'order-0'"),
        ("'str' object has no attribute 'price'", "'str' object has no attribute 'price'"),
        ("no such file: '/data/4.csv'", "no such file: …"),
        ("exit code 137 after 5 s", "exit code 137 after 0 s"),
        ("[Errno 104] of 10.0.0.1", "[Errno 104] of 0"),
        ("status=503, order 503", "status=503, order 0"),
        ("code 17.5", "code 0"),
        ("it ends in 'a val", "it ends in …"),
        ("<Order at 0x7f12ab>", "<Order at …>"),
        ("job 0f8fad5b-d9cb-469f-a165-70867728950e", "job …"),
        ("message hocfdlzqs8mf9oJypfX0YbIG5vOe9dTs", "message …"),
        ("commit 3f2a9b7c", "commit …"),
        ("mail to ada.l@example.org failed", "mail to … failed"),
        ("first\nsecond", "first"),
        ("", ""),
    ],
)
def test_values_are_replaced(text, shown):
    assert without_values(text) == shown


@given(st.text(), st.text(), st.text())
def test_any_text_has_a_cause(exception, trace, text):
    found = cause_of(DeadLetterReason("q", text, exception, trace, "w", 1, 0))
    assert is_cause_key(found.key)
    assert len(found.text) <= 200


def test_groups_are_bounded_and_the_rest_is_counted():
    groups = FailureGroups()
    for number in range(MAX_GROUPS + 3):
        exception = f"E{chr(0x4E00 + number)}: x"
        letter = replace(reason(), exception=exception, traceback=None)
        groups.add(DeadLetterEntry(f"{number}", number, letter))
    assert (groups.count, groups.others, len(groups.groups())) == (MAX_GROUPS + 3, 3, MAX_GROUPS)


def test_a_group_has_its_last_ids_its_queues_and_those_that_died_again():
    groups = FailureGroups()
    again = (b"hocfdlzqs8" + make_redrive_suffixes(1)[0]).decode()
    for number, id in enumerate(["a", "b", "c", "d", "e", "f", again]):
        letter = replace(reason(number), queue="p" if number == 1 else "q")
        groups.add(DeadLetterEntry(id, 10 - number, letter))
    groups.add(DeadLetterEntry("g", 99, None))
    [first, second] = groups.groups()
    assert (first.count, first.redriven, first.queues) == (7, 1, {"q": 6, "p": 1})
    assert (first.ids, first.first_died_ms, first.last_died_ms) == (tuple("abcde"), 4, 10)
    assert (second.cause.key, second.ids, second.example) == ("none", ("g",), None)


def test_a_cause_is_a_filter():
    message = FilteredMessage("a", b"m", 3, None, reason())
    assert parse_filter(f"cause:{cause_of(reason()).key} rc>=3").fits(message)
    assert not parse_filter("cause:none").fits(message)
    assert parse_filter("cause:none").fits(FilteredMessage("a", b"m", 3, None))
    with pytest.raises(InvalidFormat, match="cause:x"):
        parse_filter("cause:x")


def test_redriven_ids_are_distinct_sorted_and_recognized():
    suffixes = make_redrive_suffixes(1000)
    ids = [(b"hocfdlzqs8" + each).decode() for each in suffixes]
    assert sorted(set(suffixes)) == suffixes
    assert all(len(id) == 32 and is_redriven(id) for id in ids)
    others = [(b"hocfdlzqs8" + each).decode() for each in make_id_suffixes(100)]
    assert not any(map(is_redriven, [*others, ids[0][:-1] + "_", ids[0][1:], "0Redo"]))
