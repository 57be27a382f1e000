"""
The options of the commands that send and that set attributes of queues, from their tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.cli.app.command import Decorator, options
from rsmq.cli.app.errors import option_of
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


def send_options(call: OptionCall) -> Decorator:
    """Return a decorator that gives a command the options of a call."""
    return options("\n".join(_describe(each, call) for each in call.options.values()))


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
