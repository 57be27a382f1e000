"""
The fields of forms that send, and the options of their commands, from the table of send options.
"""

from __future__ import annotations

from rsmq.vocabulary.sends import SendCall, SendOption, ValueKind
from rsmq.web.pages.actions.form import Fields, Input, one, options_of

_YES = "true"
_UNITS = {ValueKind.SECONDS: ", in seconds", ValueKind.TIME: ", as 2030-01-31T12:00:00Z"}


def _label_of(name: str) -> str:
    return name.replace("_", " ")


def _input_of(option: SendOption, *, is_further: bool) -> Input:
    label = _label_of(option.name)
    return Input(
        option.name,
        f"{label[0].upper()}{label[1:]}{_UNITS.get(option.kind, '')}",
        hint=option.describe(_label_of),
        choices=(("", "no"), (_YES, "yes")) if option.kind is ValueKind.FLAG else (),
        is_further=is_further,
    )


def inputs_of(call: SendCall, *first: str) -> tuple[Input, ...]:
    """
    Return the fields of the options of a call.

    Args:
        call: the call.
        first: the options that are seen at once; the others are in a part that is closed at first.
    """
    return tuple(
        _input_of(call.options[name], is_further=name not in first)
        for name in (*first, *(name for name in call.options if name not in first))
    )


def options_of_call(fields: Fields, call: SendCall) -> list[str]:
    """Return the options of the command that makes the same call."""
    flags = [name for name, each in call.options.items() if each.kind is ValueKind.FLAG]
    chosen = [f"--{name.replace('_', '-')}" for name in flags if one(fields, name) == _YES]
    return chosen + options_of(fields, *(name for name in call.options if name not in flags))
