"""
The options of the commands that send and that set attributes of queues, from their tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import click

from rsmq.cli.app.command import DURATION, Decorator
from rsmq.cli.app.errors import option_of
from rsmq.vocabulary.queues import QueueCall
from rsmq.vocabulary.sends import SEND_OPTIONS, ValueKind
from rsmq.vocabulary.signatures import OptionCall


class _Time(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3
    """A time with its offset, as ISO 8601 writes it."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            time = None
        if time is None or time.tzinfo is None:
            self.fail(
                f"{value!r} is not a time with its offset, such as 2026-10-25T01:30:00Z.",
                param,
                ctx,
            )
        return time


_TYPES: dict[ValueKind, Any] = {
    ValueKind.SECONDS: DURATION,
    ValueKind.TIME: _Time(),
    ValueKind.WHOLE_NUMBER: int,
    ValueKind.RATE: str,
    ValueKind.LABEL: str,
}
_METAVARS = {
    ValueKind.SECONDS: "DURATION",
    ValueKind.TIME: "TIME",
    ValueKind.WHOLE_NUMBER: "N",
    ValueKind.RATE: "RATE",
    ValueKind.LABEL: "TEXT",
}


def send_options(call: OptionCall) -> Decorator:
    """Return a decorator that gives a command the options of a call."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(call.options.values()):
            function = _make_option(option, call)(function)
        return function

    return add


def _make_option(option: Any, call: OptionCall) -> Decorator:
    name, text = option_of(option.name), option.describe(option_of)
    if option.kind is ValueKind.FLAG:
        return click.option(name, is_flag=True, help=text)
    default = option.default_in(call) if isinstance(call, QueueCall) else None
    if option.kind is ValueKind.CHOICE:
        choices = click.Choice([value for value, _ in option.choices])
        return click.option(name, type=choices, default=default, help=text)
    return click.option(
        name, type=_TYPES[option.kind], metavar=_METAVARS[option.kind], help=text,
        default=default, show_default=default is not None,
    )  # fmt: skip


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
