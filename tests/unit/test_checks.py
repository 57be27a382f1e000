"""The checks in scripts/checks find the faults that they search for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "scripts" / "checks"


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "source",
    [
        'key = name + b":Q"',
        'key = f"{ns}:QUEUES"',
        'field = "x:dlq"',
        'key = b"rsmq:x:acked"',
        'fields = ("totalrecv", "totalsent")',
        'count = id + ":rc"',
    ],
)
def test_a_key_or_field_in_code_is_found(source):
    assert load("key_names").spelled(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A queue is the hash ns:q:Q"""',
        'hint = "Look at it with HGETALL rsmq:q:Q"',
        "total = attributes.total_sent",
        'option = "--max"',
    ],
)
def test_keys_in_texts_for_people_are_allowed(source):
    assert not load("key_names").spelled(source)


def test_a_class_name_that_is_used_twice_is_found():
    sources = {"a.py": "class Lease: ...\n", "b.py": "class Lease: ...\nclass Other: ...\n"}

    assert load("class_names").repeated(sources) == {"Lease": ["a.py", "b.py"]}


MODULE = '''"""
A module.
"""

import os  # a comment

# a comment


class Lease:
    """A lease."""

    TEXT = """
first

last
"""

    def end(
        self,
    ):
        """Ends it."""
        return "no docstring"
'''


def test_only_lines_with_code_are_counted():
    assert load("size").count_python(MODULE) == 10


def test_lines_of_a_generated_module_are_not_counted():
    generated = "# Generated from rsmq/aio.py by scripts/generate-sync. Do not edit.\n"

    assert load("size").count_python(generated + MODULE) == 0


def test_each_generated_module_says_so_as_the_check_of_sizes_expects():
    for module in importlib.import_module("scripts.generate_sync").MODULES:
        assert load("size").count_python(module.target.read_text()) == 0


def test_lines_are_counted_by_folder_and_lua_apart(tmp_path):
    for name, text in {
        "top.py": "a = 1\n",
        "feature/one.py": "a = 1\n\n",
        "feature/deeper/two.py": "# none\nb = 2\nc = 3\n",
        "feature/scripts/get.lua": "-- Keys: none\n\nlocal a = 1\nreturn a\n",
        "feature/program": "#!/usr/bin/env python\nprint(1)\n",
        "feature/page.html": "<p>\n",
        "feature/shell": "#!/bin/sh\nls\n",
        "node_modules/foreign.py": "a = 1\n",
        ".venv/lib/foreign.py": "a = 1\n",
        "empty.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    python, lua = load("size").measure(tmp_path)

    assert python == {"top.py": 1, "feature/": 4}
    assert lua == {"feature/": 2}
    assert load("size").measure(tmp_path / "top.py")[0] == {"top.py": 1}


@pytest.mark.parametrize(
    ("parameters", "is_found"),
    [
        ("a, b, c, d, e, f, g, h", False),
        ("self, a, b, c, d, e, f, g, h", False),
        ("a, b, c, d, e, f, g, h, i", True),
        ("self, a, /, b, *, c, d, e, f, g, h, i", True),
        ("a, b, c, d, e, f, g, *h, **i", True),
    ],
)
def test_a_function_with_more_than_eight_parameters_is_found(parameters, is_found):
    source = f"class Lease:\n    async def send({parameters}): ...\n"
    parameters_check = load("parameters")

    assert parameters_check.with_many(source) == ({"send"} if is_found else set())
    assert not parameters_check.with_many("# Generated from rsmq/aio.py.\n" + source)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("It waits for ever.\n", 1),
        ("A title\n\nThe job\ngoes on.\n", 4),
        ("`code`\n\n```\ngoes on\n```\nSo it goes on.\n", 6),
        ("One. It keeps what it had.\n", 1),
        ("One. What is left is kept.\n", 1),
    ],
)
def test_a_phrase_with_a_plainer_wording_is_found_with_its_line(monkeypatch, tmp_path, text, line):
    words = load("words")
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setattr(words, "_ROOT", tmp_path)

    (fault,) = words.find_faults("page.md")

    assert fault.startswith(f"page.md:{line}: ")


@pytest.mark.parametrize(
    "text",
    [
        "Ask a worker what it runs.\n",
        "There is no queue.\n",
        "# What is left?\n",
        "`goes on`\n",
    ],
)
def test_plain_sentences_headings_and_code_are_allowed(monkeypatch, tmp_path, text):
    words = load("words")
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setattr(words, "_ROOT", tmp_path)

    assert words.find_faults("page.md") == []


def test_only_entries_that_are_not_released_are_read_in_the_changelog(monkeypatch, tmp_path):
    words = load("words")
    text = "# Changes\n\n## Unreleased\n\n- It goes on.\n\n## 0.1\n\n- It goes on.\n"
    (tmp_path / "CHANGELOG.md").write_text(text)
    monkeypatch.setattr(words, "_ROOT", tmp_path)

    (fault,) = words.find_faults("CHANGELOG.md")

    assert fault.startswith("CHANGELOG.md:5: ")
