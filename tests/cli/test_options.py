"""The options of commands, from their text."""

from __future__ import annotations

import click
import pytest

from rsmq.cli.app.command import options


def make(text, **further):
    command = click.command()(options(text, **further)(lambda **_: None))
    return {each.name: each for each in command.params}


def test_the_word_after_the_names_is_the_type():
    made = make("""
        --vt DURATION  How long.
        --number, -n N  How many,
            at most.
        --kind [json|csv]  The format.
        --to QUEUE,...  The queues.
        --queue, names NAME[=NEW]...  The names.
        --all  A flag.
        """)

    assert made["vt"].type("5m", None, None) == 300
    assert made["number"].type is click.INT
    assert made["number"].opts == ["--number", "-n"]
    assert made["number"].help == "How many, at most."
    assert made["kind"].type.choices == ("json", "csv")
    assert (made["to"].metavar, made["to"].multiple) == ("QUEUE,...", False)
    assert (made["names"].metavar, made["names"].multiple) == ("NAME[=NEW]", True)
    assert made["all"].is_flag


def test_a_default_is_shown_or_not():
    made = make(
        "--port PORT  The port.  [default: 80]\n--wait DURATION=0  How long.\n--id ID  [required]"
    )

    assert (made["port"].default, made["port"].show_default) == ("80", True)
    assert (made["wait"].default, made["wait"].show_default) == ("0", None)
    assert made["id"].required
    assert made["id"].help == ""


def test_further_arguments_are_those_of_an_option_in_the_text():
    made = make("--from, origin NAME  The source.", origin={"envvar": "ORIGIN"})

    assert (made["origin"].envvar, made["origin"].opts) == ("ORIGIN", ["--from"])
    with pytest.raises(ValueError, match="No options: other"):
        make("--from NAME  The source.", other={})


@pytest.mark.parametrize("text", ["from NAME  The source.", "--from one two  The source.", ""])
def test_a_text_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match="Not an option"):
        make(text)
