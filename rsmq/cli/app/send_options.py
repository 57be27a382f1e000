"""
The options of commands, from the tables of calls, of sends and of the attributes of queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.cli.app.command import Decorator, options
from rsmq.cli.app.errors import WORDS, option_of
from rsmq.vocabulary.call_arguments import CallArgument
from rsmq.vocabulary.calls import BY_NAME
from rsmq.vocabulary.queues import QueueCall
from rsmq.vocabulary.sends import SEND_OPTIONS, ValueKind
from rsmq.vocabulary.signatures import OptionCall

_WORDS = {
    ValueKind.SECONDS: " DURATION",
    ValueKind.TIME: " TIME",
    ValueKind.FLAG: "",
    ValueKind.WHOLE_NUMBER: " N",
    ValueKind.RATE: " RATE",
    ValueKind.LABEL: " TEXT",
}


def call_options(name: str) -> Decorator:
    """Return a decorator that gives a command the options of a method, under their names there."""
    own = [each for each in BY_NAME[name].arguments if each.option is not None]
    return options("\n".join(map(_describe_argument, own))) if own else lambda function: function


def _describe_argument(each: CallArgument) -> str:
    names = each.option or option_of(each.name)
    word = f" [{'|'.join(each.choices)}]" if each.choices else _WORDS[each.kind]
    text = each.describe(WORDS.argument, each.unset)
    if each.word == "WAIT":
        text = f"{text.removesuffix('.')}, or forever."
    rule = "  [required]" if each.is_required else ""
    if each.default is not None:
        rule = f"  [default: {each.default}]"
    return f"{names}, {each.name}{f' {each.word}' if each.word else word}  {text}{rule}"


def send_options(call: OptionCall, arguments: str = "") -> Decorator:
    """
    Return a decorator that gives a command the options of a call.

    Args:
        arguments: the arguments of the command, which are no options.
    """
    passed = (each for name, each in call.options.items() if name.upper() not in arguments)
    return options("\n".join(_describe(each, call) for each in passed))


def _describe(option: Any, call: OptionCall) -> str:
    if option.kind is ValueKind.CHOICE:
        word = f" [{'|'.join(value for value, _ in option.choices)}]"
    else:
        word = _WORDS[option.kind]
    default = option.default_in(call) if isinstance(call, QueueCall) else None
    rule = "" if default is None else f"  [default: {default}]"
    return f"{option_of(option.name)}{word}  {option.describe(option_of)}{rule}"


def drop_unset(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of sends that the command line has set."""
    return {
        name: value for name, value in values.items() if value is not None and value is not False
    }


def find_unique(values: Mapping[str, Any]) -> str | None:
    """Return the first option that only one message can have; None without one."""
    return next(
        (option_of(each.name) for each in SEND_OPTIONS if each.is_unique and each.name in values),
        None,
    )
