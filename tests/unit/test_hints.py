"""Hints are in the words of each face."""

from __future__ import annotations

import pickle

import pytest

from rsmq.cli.app.errors import WORDS
from rsmq.errors import (
    InvalidCombination,
    InvalidFormat,
    InvalidValue,
    MissingParameter,
    QueueNotFound,
    add_remedy,
)
from rsmq.errors.hints import PYTHON, Argument, Hint, Method, Passed, in_words
from rsmq.web.wording import HttpWords

HTTP = HttpWords()


@pytest.mark.parametrize(
    ("part", "python", "program", "http"),
    [
        ("plain", "plain", "plain", "plain"),
        (Argument("max_messages"), "max_messages", "-n", "max"),
        (Argument("unique_key"), "unique_key", "--unique-key", "unique_key"),
        (Argument("db"), "db", "db", "db"),
        (Passed("replace"), "replace=True", "--replace", "replace"),
        (Passed("destination", "a b"), "destination='a b'", "--to 'a b'", "destination: 'a b'"),
        (
            Passed("strict_names", False), "strict_names=False", "--any-names",
            "--any-names to the server",
        ),
        (
            Method("set_queue_attributes", "vt"), "set_queue_attributes(qname, vt=...)",
            "rsmq attributes QUEUE --vt N", "vt of PATCH /queues/{queue}",
        ),
        (Method("schedules.list"), "schedules.list", "rsmq schedule list", "GET /schedules"),
        (
            Method("create_queue", queue="q"), "create_queue('q')", "rsmq create",
            "PUT /queues/{queue}",
        ),
    ],
)  # fmt: skip
def test_a_part_is_in_the_words_of_each_face(part, python, program, http):
    hint = Hint("Use ", part, ".")

    assert hint == f"Use {python}."
    assert in_words(hint, PYTHON) == f"Use {python}."
    assert in_words(hint, WORDS) == f"Use {program}."
    assert in_words(hint, HTTP) == f"Use {http}."


def test_a_hint_stays_one_when_text_is_added_and_in_another_process():
    hint = Hint("Pass ", Passed("replace"), ".") + " Or not."

    assert hint == "Pass replace=True. Or not."
    copy = pickle.loads(pickle.dumps(hint))
    assert copy == hint
    assert in_words(copy, WORDS) == "Pass --replace. Or not."


def test_a_remedy_is_added_to_a_hint():
    error = QueueNotFound("q")
    add_remedy(error, "Then try again.")

    assert error.hint_in(WORDS) == "Create it with rsmq create Then try again."


def test_an_error_is_a_part_of_a_hint():
    error = InvalidValue("max_messages", 1, 5, value=9, hint=Hint(Passed("replace"), "?"))
    hint = Hint("left out: ", error)

    assert hint == "left out: max_messages must be between 1 and 5, not 9. replace=True?"
    assert in_words(hint, WORDS) == "left out: -n must be between 1 and 5, not 9. --replace?"


@pytest.mark.parametrize(
    ("error", "python", "http"),
    [
        (
            MissingParameter("qname", value=""), "No qname supplied: got ''",
            "No queue supplied: got ''",
        ),
        (MissingParameter("qname"), "No qname supplied", "No queue supplied"),
        (
            InvalidFormat("front", value=True), "Invalid front format: True",
            "Invalid front format: true",
        ),
        (
            InvalidValue("max_jobs", 1, 9, value=0), "max_jobs must be between 1 and 9, not 0",
            "limit must be between 1 and 9, not 0",
        ),
    ],
)  # fmt: skip
def test_an_error_about_an_argument_has_it_as_data(error, python, http):
    assert str(error) == error.summary == python
    assert error.summary_in(HTTP) == http
    assert error.text.startswith(error.text.format())
    assert pickle.loads(pickle.dumps(error)).summary_in(HTTP) == http


def test_a_range_and_a_combination_are_data():
    error = InvalidValue("vt", 0, 5, value=6)
    combination = InvalidCombination(
        "max_wait", value=1, reason="It limits.", needs=(("replace",), ("delay",))
    )

    assert (error.argument, error.range, error.value) == ("vt", (0, 5), 6)
    assert combination.hint == "It limits. It needs replace and delay."
    assert combination.hint_in(WORDS) == "It limits. It needs --replace and --delay."
