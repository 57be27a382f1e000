"""The lists of options and attributes in pages agree with the tables of the vocabulary."""

from __future__ import annotations

import re
from itertools import product
from typing import get_args

import pytest

from rsmq.errors import InvalidCombination
from rsmq.model import State
from rsmq.vocabulary.queues import CREATE, LIMIT, POLICY, QUEUE_ATTRIBUTES, SET
from rsmq.vocabulary.sends import PUBLISH, SEND_OPTIONS, SendOption, check_combinations
from tests.documents.pages import PAGES
from tests.documents.test_tables import read_section

OPTIONS = {each.name: each for each in SEND_OPTIONS}


def names_in(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def sentence_of(page: str, begin: str) -> str:
    """Return the line of a page that begins with a text."""
    (line,) = (each for each in PAGES[page].read_text().splitlines() if each.startswith(begin))
    return line


def rows_of(page: str, heading: str) -> dict[str, list[str]]:
    """Return the cells of a table by the first one."""
    lines = re.findall(r"^\|(.*)\|$", read_section(page, heading), re.MULTILINE)
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    return {first: cells for first, *cells in rows if not first.startswith("--")}


def value_of(option: SendOption) -> object:
    return ["x"] if option.of_message else 1


def is_refused(*names: str) -> bool:
    """Return whether options exclude each other, with all that they need."""
    found, wanted = {}, list(names)
    for name in wanted:  # which grows
        found[name] = value_of(OPTIONS[name])
        wanted += [group[0] for group in OPTIONS[name].needs if not {*group} & {*found, *wanted}]
    try:
        check_combinations(found)
    except InvalidCombination as error:
        return bool(error.excludes)
    return False


def test_the_combinations_of_unique_keys_are_those_that_are_refused():
    rows = rows_of("unique.md", "## Combinations")
    columns = names_in(" ".join(rows[""]))
    shown = {
        (name, column): "InvalidCombination" in cell
        and name in (names_in(cell.partition("InvalidCombination` with")[2]) or [name])
        for row, cells in rows.items()
        for name in names_in(row)
        if name in OPTIONS and not row.startswith("without")
        for column, cell in zip(columns, cells, strict=True)
    }
    listed = {name for name, _ in shown}

    assert shown == {pair: is_refused(*pair) for pair in shown}
    assert not any(is_refused(*pair) for pair in product(OPTIONS.keys() - listed, columns))
    alone = dict(zip(columns, rows["without `unique_key`"], strict=True))
    for column in columns:
        needs = {name for group in OPTIONS[column].needs for name in group}
        assert ("InvalidCombination" in alone[column]) is bool(needs & {"unique_key", "replace"})
    others = sentence_of("unique.md", "`InvalidCombination` is both")
    for one, other in product(("delay", "deliver_at", "front"), repeat=2):
        assert f"`{one}`" in others
        assert one == other or is_refused(one, other)


@pytest.mark.parametrize("name", ["expires", "max_retries"])
def test_limits_of_messages_are_never_refused_with_what_their_table_has(name):
    rows = rows_of("expiry.md", "## Combinations")
    for row in rows:
        for other in names_in(row):
            if other in OPTIONS and other != name:
                assert not is_refused(other, name)
    assert ("`publish`" in rows) is (name in PUBLISH.options)


def test_the_options_that_tasks_do_not_have_are_listed():
    line = sentence_of("tasks.md", "`options` takes all options of")
    listed = names_in(line.partition("but ")[2].partition(",")[0])

    assert listed == [each.name for each in SEND_OPTIONS if not each.in_tasks]


def test_the_options_that_schedules_do_not_have_are_listed():
    line = sentence_of("schedules.md", "| `unique_key`, `expires`, `group`, `delay`, ... |")
    listed = names_in(line.partition("but ")[2].partition(";")[0])

    assert listed == [each.name for each in SEND_OPTIONS if not each.in_schedules]


def test_the_options_that_writes_of_spark_do_not_have_are_listed():
    line = sentence_of("spark.md", "| `delay`, `maxRetries`, ... |")
    listed = names_in(line.partition("but ")[2].partition(",")[0])

    assert listed == [each.name for each in SEND_OPTIONS if not each.in_spark]
    assert set(re.findall(r"`(\w+)` and `(\w+)` in columns only", line)[0]) == {
        each.name for each in SEND_OPTIONS if each.is_unique
    }


@pytest.mark.parametrize("call", [CREATE, SET, LIMIT, POLICY], ids=lambda call: call.name)
def test_each_call_that_sets_attributes_has_those_of_its_row(call):
    section = read_section("reference.md", "## Methods")
    (row,) = re.findall(rf"^\| `{call.name}\((.*?)\)`", section, re.MULTILINE)
    arguments = re.findall(r"(\w+)(?:=\S+)?(?:, |$)", row)

    assert [each for each in arguments if each in call.options] == list(call.options)


def test_the_attributes_of_a_queue_are_listed():
    section = read_section("reference.md", "## Values")
    (row,) = re.findall(r"^\| `QueueAttributes` \| (.*) \|$", section, re.MULTILINE)

    assert set(names_in(row)) >= {each.name for each in QUEUE_ATTRIBUTES}


def test_the_states_of_filtered_operations_are_those_of_messages():
    line = sentence_of("http-operations.md", "| `messages:delete`")
    listed = names_in(line.partition("`state` (")[2].partition(")")[0])

    assert set(listed) == set(get_args(State))
