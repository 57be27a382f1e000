"""The table of actions: each calls an entry of the API, and its line is one of the program."""

import re
import shlex
from collections import defaultdict

import click
import pytest

from rsmq.cli.app.program import root
from rsmq.web.pages.actions import ACTIONS
from rsmq.web.routes import TABLE

_ROUTES = {(each.method, each.path): each for each in TABLE}
#: Values of fields that are not texts.
_VALUES = {
    "id": ["i" * 32],
    "ids": ["i" * 32, "j" * 32],
    "every": ["60"],
    "body": ["-x"],
    "max_receives": ["3"],
}


def _parse(words):
    """Parse a line as the program does, and run nothing."""
    command, context, rest = root, click.Context(root), words[1:]
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(context, rest)
    command.make_context(name, rest)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda each: each.name)
def test_the_line_of_an_action_is_one_that_the_program_accepts(action):
    if action.command is None:
        return
    fields = {name: [name] for name in re.findall(r"{(\w+)}", action.path)}
    fields |= {"queue": ["orders"]} | {k: v for k, v in _VALUES.items() if k != "every"}
    for more in ({"every": ["60"]}, {"cron": ["0 8 * * *"]}):
        _parse(shlex.split(shlex.join(["rsmq", *action.command_of({**fields, **more})])))


def test_actions_have_names_of_their_own_and_an_entry_each():
    names = [each.name for each in ACTIONS]
    assert len(names) == len(set(names))
    entries = defaultdict(list)
    for each in ACTIONS:
        entries[each.method, each.path].append(each.name)
    assert set(entries) <= set(_ROUTES)


def test_each_field_of_an_action_is_one_of_its_entry():
    for action in ACTIONS:
        route = _ROUTES[action.method, action.path]
        known = set(re.findall(r"{(\w+)}", action.path))
        known |= {each.name for each in route.query}
        known |= {each.name for each in route.body} if isinstance(route.body, tuple) else set()
        assert {each.name for each in action.inputs} <= known, action.name
        assert set(action.fixed) <= known, action.name


def test_the_button_of_what_removes_something_is_red_and_no_other():
    assert {each.name for each in ACTIONS if each.destroys} == {
        "purge", "delete-queue", "remove-policy", "remove-limits", "sweep-expired",
        "delete-messages", "delete-matching", "delete-group", "delete-schedule",
        "remove-subscriber", "remove-alert-target", "end-silence",
    }  # fmt: skip
