"""
The commands worker and pipeline, which have their own arguments; and the command workers.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from rsmq.cli.app.call import Call

_Function = Callable[..., int]


def _program(name: str) -> Callable[[_Function], click.Command]:
    """Return a decorator for a command that passes on all its arguments, also ``--help``."""

    def make(function: _Function) -> click.Command:
        passed_on = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
        return click.command(
            name,
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        )(click.pass_obj(passed_on(function)))

    return make


@_program("pipeline")
def pipeline(call: Call, arguments: tuple[str, ...]) -> int:
    """Run a job on Spark, as rsmq-pipeline does."""
    import rsmq.spark  # noqa: F401, PLC0415 - raises MissingExtra
    from rsmq.cli.commands.pipeline import parse, run  # noqa: PLC0415 - needs the extra

    return run(call, parse(call, arguments, "rsmq pipeline"))
