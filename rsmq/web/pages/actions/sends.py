"""
The fields of the form of a send, and the options of its command, from the table of send options.
"""

from __future__ import annotations

from rsmq.vocabulary.sends import SEND, SendOption, ValueKind
from rsmq.web.pages.actions.form import Fields, Input, one, options_of

#: The options that are seen at once.
_FIRST = ("group", "delay")
_YES = "true"
_KINDS = {ValueKind.SECONDS: "number", ValueKind.WHOLE_NUMBER: "number", ValueKind.FLAG: "choice"}
_UNITS = {ValueKind.SECONDS: ", in seconds", ValueKind.TIME: ", as 2030-01-31T12:00:00Z"}


def _label_of(name: str) -> str:
    return name.replace("_", " ")


def _input_of(option: SendOption, *, is_further: bool) -> Input:
    label = _label_of(option.name)
    return Input(
        option.name,
        f"{label[0].upper()}{label[1:]}{_UNITS.get(option.kind, '')}",
        _KINDS.get(option.kind, "text"),  # type: ignore[arg-type]
        hint=option.describe(_label_of),
        choices=(("", "no"), (_YES, "yes")) if option.kind is ValueKind.FLAG else (),
        is_further=is_further,
    )


#: The options of a send.
SEND_INPUTS = (
    *(_input_of(SEND.options[name], is_further=False) for name in _FIRST),
    *(
        _input_of(option, is_further=True)
        for name, option in SEND.options.items()
        if name not in _FIRST
    ),
)


def options_of_send(fields: Fields) -> list[str]:
    """Return the options of the command that sends the same."""
    flags = [name for name, each in SEND.options.items() if each.kind is ValueKind.FLAG]
    chosen = [f"--{name.replace('_', '-')}" for name in flags if one(fields, name) == _YES]
    return chosen + options_of(fields, *(name for name in SEND.options if name not in flags))
