"""
Options of commands, written as the help shows them.

    @options('''
        --vt DURATION  How long to hide the messages; the queue's vt by default.
        --number, -n N  The highest number of messages.  [default: 10]
        --kind [json|csv]  The format of the files.  [required]
        --allow CIDR...  Allow these addresses; may be repeated.
        --wait DURATION=0  How long to wait.
        --from, origin NAME  The source, which is the argument origin of the function.
        --replace  Change the settings of a subscriber of this name.
    ''')

The word after the names says the type: DURATION, N and PORT are numbers, choices are in brackets,
and an option without a word is a flag. A default after = is not shown. Two spaces precede the text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import click

from rsmq.cli.app.command import DURATION, Decorator, complete_queues

_OPTION = re.compile(
    r"(?P<names>-[\w-]+(?:, [\w-]+)*)"
    r"(?: (?P<word>(?:\[\S*?\]|[^\s=\[])+?)(?P<many>(?<!,)\.\.\.)?(?:=(?P<default>\S+))?)?"
    r"(?:  +(?P<help>.*?)(?: *\[(?P<rule>required|default: .+)\])?)?"
)
_OF_WORD: Mapping[str, Mapping[str, Any]] = {
    "DURATION": {"type": DURATION},
    "N": {"type": int},
    "PORT": {"type": int},
    "FILE": {"type": click.Path(allow_dash=True)},
    "QUEUE": {"shell_complete": complete_queues},
}


def options(text: str, **further: Mapping[str, Any]) -> Decorator:
    """
    Return a decorator that gives a command options.

    Args:
        text: the options; the lines after the first of each are indented.
        further: by the argument of the function, further arguments of ``click.option``.

    Raises:
        ValueError: the text has another form, or an option of ``further`` is not in it.
    """
    rest = dict(further)
    entries = re.split(r"\n(?=-)", inspect.cleandoc(text))
    made = [_make_option(re.sub(r"\n +", " ", entry), rest) for entry in entries]
    if rest:
        raise ValueError(f"No options: {', '.join(rest)}")

    def add(function: Callable[..., Any]) -> Any:
        for option in reversed(made):
            function = option(function)
        return function

    return add


def _make_option(entry: str, further: dict[str, Mapping[str, Any]]) -> Decorator:
    found = _OPTION.fullmatch(entry)
    if found is None:
        raise ValueError(f"Not an option: {entry!r}")
    names = found["names"].split(", ")
    name = min(names, key=lambda each: (each.startswith("-"), not each.startswith("--")))
    attributes: dict[str, Any] = {"help": found["help"], "multiple": found["many"] is not None}
    own = further.pop(name.lstrip("-").replace("-", "_"), {})
    word, rule = found["word"], found["rule"]
    if word is None:
        attributes["is_flag"] = own.keys().isdisjoint({"type", "flag_value"})
    elif word.startswith("["):
        attributes["type"] = click.Choice(word[1:-1].split("|"))
    else:
        attributes |= {"metavar": word, **_OF_WORD.get(word, {})}
    if rule == "required":
        attributes["required"] = True
    elif rule is not None:
        attributes |= {"default": rule.removeprefix("default: "), "show_default": True}
    elif found["default"] is not None:
        attributes["default"] = found["default"]
    return click.option(*names, **attributes | dict(own))


VT = options("--vt DURATION  How long to hide the messages; the queue's vt by default.")
YES = options("--yes, -y  Do not ask for confirmation.")
