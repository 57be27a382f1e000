"""
Decorators and options of all commands.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from rsmq.cli.app import command_table
from rsmq.cli.app.call import Call
from rsmq.cli.app.exit_codes import MEANINGS


class _ForEvery(click.Option):
    """An option for every command: it stands before the command or after it."""

    def __init__(self, *names: str, **attributes: Any) -> None:
        super().__init__(list(names), expose_value=False, callback=_keep, **attributes)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value not in (None, False):
        ctx.ensure_object(Call).given[str(param.name)] = value


def _profiles(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from rsmq.cli.app.completion import profiles  # noqa: PLC0415 - only the shell asks

    return profiles(ctx, incomplete)


def complete_queues(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of queues, for the shell."""
    from rsmq.cli.app.completion import queues  # noqa: PLC0415 - as above

    return queues(ctx, incomplete)


def _for_every_command() -> list[click.Parameter]:
    return [
        _ForEvery("--url", metavar="URL", help="Redis: redis://, rediss:// or unix://."),
        _ForEvery("--ns", metavar="NAME", help="The namespace."),
        _ForEvery(
            "--profile",
            metavar="NAME",
            shell_complete=_profiles,
            help="A profile of the configuration file.",
        ),
        _ForEvery("--json", is_flag=True, is_eager=True, help="Write JSON, for a program."),
        _ForEvery("--any-names", is_flag=True, help="Also names that Node would refuse."),
    ]


class Command(click.Command):
    """
    A command that takes the options for every command, and shows examples.

    Attributes:
        examples: how it is called, a line each.
    """

    def __init__(
        self,
        name: str | None,
        *,
        examples: Sequence[str] = (),
        params: list[click.Parameter] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(name, params=[*(params or ()), *_for_every_command()], **attributes)
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_options(self, ctx, formatter)

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        _write_lines(formatter, "Examples", self.examples)


class Group(click.Group):
    """
    A group of commands, which takes the options for every command too.

    A name that is mistyped is answered with those that are near.
    """

    def __init__(
        self,
        name: str | None,
        *,
        examples: Sequence[str] = (),
        params: list[click.Parameter] | None = None,
        **attributes: Any,
    ) -> None:
        params = [*(params or ()), *_for_every_command()]
        super().__init__(name, params=params, no_args_is_help=False, **attributes)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.all_names(ctx), n=3)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def all_names(self, ctx: click.Context) -> list[str]:
        """The names that a command may be called by."""
        return self.list_commands(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        _write_lines(formatter, "Examples", self.examples)


class Root(Group):
    """The program: commands of the table, imported when they are called."""

    def list_commands(self, _: click.Context) -> list[str]:
        return [
            name for name, entry in command_table.COMMANDS.items() if command_table.is_there(entry)
        ]

    def all_names(self, ctx: click.Context) -> list[str]:
        return [*self.list_commands(ctx), *command_table.ALIASES]

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        entry = command_table.COMMANDS.get(command_table.ALIASES.get(cmd_name, cmd_name))
        if entry is None or not command_table.is_there(entry):
            return None
        found: click.Command = getattr(import_module(entry.module), entry.attribute)
        return found

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(_named(*each)) for each in command_table.COMMANDS.items())
        for title, section in command_table.SECTIONS.items():
            rows = [
                (_named(name, entry).ljust(width), entry.summary)
                for name, entry in section.items()
                if command_table.is_there(entry)
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(f"{int(code):3}", text) for code, text in MEANINGS.items()])
        super().format_epilog(ctx, formatter)


def _named(name: str, entry: command_table.Entry) -> str:
    return ", ".join((name, *entry.aliases))


def _write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    for title, of_every in (("Options", False), ("Options for every command", True)):
        rows = [
            row
            for param in command.get_params(ctx)
            if isinstance(param, click.Option)
            and isinstance(param, _ForEvery) is of_every
            and (row := param.get_help_record(ctx)) is not None
        ]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _write_lines(formatter: click.HelpFormatter, title: str, lines: Sequence[str]) -> None:
    if lines:
        with formatter.section(title):
            for line in lines:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


Decorator = Callable[[Callable[..., Any]], Any]


def command(
    name: str, *examples: str, **attributes: Any
) -> Callable[[Callable[..., Any]], Command]:
    """
    Make a function a command.

    Its docstring is the help: first the summary of the table, then the arguments with units and
    ranges. What it returns is the exit code, None is "done".

    Args:
        name: as in the table.
        examples: how it is called, a line each.
        attributes: of click's command.
    """
    return click.command(name, cls=Command, examples=examples, **attributes)


def SECONDS(text: str | float) -> float:  # noqa: N802 - a type, as click has them
    """A number of seconds, whole if it is written so; its range is the library's matter."""
    if isinstance(text, str):
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        raise click.BadParameter(f"{text!r} is no number of seconds.")
    return text


def queue_argument(name: str = "queue", **attributes: Any) -> Decorator:
    """The name of a queue, which the shell completes."""
    return click.argument(name, shell_complete=complete_queues, **attributes)


def queues_argument(name: str = "queues", *, required: bool = True) -> Decorator:
    """Names of queues."""
    metavar = "QUEUE..." if required else "[QUEUE...]"
    return queue_argument(name, nargs=-1, required=required, metavar=metavar)


def ids_argument(*, required: bool = True) -> Decorator:
    """Ids of messages."""
    metavar = "ID..." if required else "[ID...]"
    return click.argument("ids", nargs=-1, required=required, metavar=metavar)


def vt_option(help: str = "Seconds to hide them; the queue's vt by default.") -> Decorator:
    """A visibility timeout."""
    return click.option("--vt", type=SECONDS, metavar="SECONDS", help=help)


def yes_option() -> Decorator:
    """Consent, given before; for ``Call.confirm``."""
    return click.option("--yes", "-y", is_flag=True, help="Don't ask.")
