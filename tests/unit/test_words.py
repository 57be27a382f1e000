"""The check of phrases and names."""

from __future__ import annotations

import pytest

from scripts.checks.words import name_faults, phrase_faults


@pytest.mark.parametrize(
    "text",
    [
        "It waits for ever.",
        "This is no queue.",
        "What is sent stays.",
        "It stays. Who waits is woken.",
        "The worker is told of it.",
        "It\n    goes\n    on.",
        "somebody else received it",
        "a message that comes back",
    ],
)
def test_a_forbidden_phrase_is_found(text):
    assert len(phrase_faults(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "It waits forever.",
        "There is no queue.",
        "It is no longer there.",
        "``what it is``",
        "What does it cost?",
        "The table shows what was measured.",
        "RSMQ stands for Redis Simple Message Queue.",
    ],
)
def test_other_phrases_pass(text):
    assert phrase_faults(text) == []


def test_names_of_definitions_are_checked():
    source = """
def told(given, *, known=1):
    _some = given
    self.said = known
    for tell in known:
        print(tell, "told", other.told)
class Nobody: ...
"""
    assert name_faults(source, {"tell"}) == [
        (2, "told"),
        (7, "Nobody"),
        (2, "given"),
        (2, "known"),
        (3, "_some"),
        (4, "said"),
    ]
