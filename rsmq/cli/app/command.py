"""
Decorators and options of all commands.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from rsmq.cli.app import command_table
from rsmq.cli.app.call import Call
from rsmq.cli.app.durations import parse_duration
from rsmq.cli.app.exit_codes import MEANINGS


class _CommonOption(click.Option):
    """An option for every command, which may precede or follow the command's name."""

    def __init__(self, *names: str, **attributes: Any) -> None:
        super().__init__(list(names), expose_value=False, callback=_store_option, **attributes)


def _store_option(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None and value is not False and value != ():
        ctx.ensure_object(Call).options[str(param.name)] = value


def _complete_profiles(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from rsmq.cli.app.completion import find_profiles  # noqa: PLC0415 - only the shell asks

    return find_profiles(ctx, incomplete)


def complete_queues(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of queues that begin with the incomplete word, for the shell."""
    from rsmq.cli.app.completion import find_queues  # noqa: PLC0415 - as above

    return find_queues(ctx, incomplete)


def _common_options() -> list[click.Parameter]:
    return [
        _CommonOption(
            "--url",
            metavar="URL",
            help="The URL of Redis: redis://, rediss://, unix://, redis+cluster:// or "
            "redis+sentinel://.",
        ),
        _CommonOption(
            "--ns",
            metavar="NAME",
            multiple=True,
            help="The namespace. top, exporter, web, worker and pipeline take it several times.",
        ),
        _CommonOption(
            "--profile",
            metavar="NAME",
            shell_complete=_complete_profiles,
            help="A profile of the configuration file.",
        ),
        _CommonOption("--json", is_flag=True, is_eager=True, help="Write JSON, for programs."),
        _CommonOption(
            "--any-names", is_flag=True, help="Allow queue names that the Node client refuses."
        ),
        _CommonOption(
            "--realtime",
            is_flag=True,
            help="Publish the number of messages after each send, as Node does with realtime.",
        ),
    ]


class DocumentedCommand(click.Command):
    """
    A command that takes the options for every command, and shows examples in its help.

    Attributes:
        examples: examples of calls, one line each.
    """

    def __init__(
        self,
        name: str | None,
        *,
        examples: Sequence[str] = (),
        params: list[click.Parameter] | None = None,
        **attributes: Any,
    ) -> None:
        attributes.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(name, params=[*(params or ()), *_common_options()], **attributes)
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, is_common in (("Options", False), ("Options for every command", True)):
            rows = [
                row
                for param in self.get_params(ctx)
                if isinstance(param, click.Option)
                and isinstance(param, _CommonOption) is is_common
                and (row := param.get_help_record(ctx)) is not None
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Group(DocumentedCommand, click.Group):
    """
    A group of commands, which also takes the options for every command.

    The error for an unknown command suggests commands with similar names.
    """

    def subcommand(self, name: str, *examples: str) -> Callable[[Callable[..., Any]], Any]:
        """Return a decorator that adds a command to this group, as ``command`` makes it."""

        def add(function: Callable[..., Any]) -> Any:
            made = command(name, *examples)(function)
            self.add_command(made)
            return made

        return add

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            similar = self.suggest(ctx, args[0])
            suggestion = f" Did you mean {' or '.join(similar)}?" if similar else ""
            ctx.fail(f"There is no command {args[0]!r}.{suggestion}")
        return super().resolve_command(ctx, args)

    def suggest(self, ctx: click.Context, word: str) -> list[str]:
        """Return the names of commands that were probably meant."""
        return difflib.get_close_matches(word, self.all_names(ctx), n=3)

    def all_names(self, ctx: click.Context) -> list[str]:
        """Return all names by which a command can be called."""
        return self.list_commands(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class Root(Group):
    """The program: the commands of the table, each imported when it is called."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(command_table.COMMANDS)

    def all_names(self, ctx: click.Context) -> list[str]:
        return [*self.list_commands(ctx), *command_table.ALIASES]

    def suggest(self, ctx: click.Context, word: str) -> list[str]:
        other_terms = command_table.OTHER_TERMS.get(word.lower())
        return list(other_terms) if other_terms else super().suggest(ctx, word)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. ``help COMMAND`` is the same as ``COMMAND --help``."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        entry = command_table.COMMANDS.get(command_table.ALIASES.get(cmd_name, cmd_name))
        return entry.load() if entry else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return commands from the table, whose modules need not be imported, and options."""
        items = [
            CompletionItem(name, help=entry.summary)
            for name, entry in command_table.COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(_name_with_aliases(*each)) for each in command_table.COMMANDS.items())
        for title, section in command_table.SECTIONS.items():
            rows = [
                (_name_with_aliases(name, entry).ljust(width), entry.summary)
                for name, entry in section.items()
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(f"{int(code):3}", text) for code, text in MEANINGS.items()])
        super().format_epilog(ctx, formatter)


def _name_with_aliases(name: str, entry: command_table.Entry) -> str:
    return ", ".join((name, *entry.aliases))


Decorator = Callable[[Callable[..., Any]], Any]


def command(
    name: str, *examples: str, **attributes: Any
) -> Callable[[Callable[..., Any]], DocumentedCommand]:
    """
    Return a decorator that turns a function into a command.

    The docstring of the function is the help text. Its first line must be the summary in the table
    of commands. The function returns the exit code; None is 0.

    Args:
        name: the name of the command in the table.
        examples: examples of calls, one line each.
        attributes: further arguments of ``click.command``.
    """
    return click.command(name, cls=DocumentedCommand, examples=examples, **attributes)


class _Duration(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3
    """A duration, as int or float seconds. The library checks its range."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, str):
            try:
                return parse_duration(value)
            except ValueError as error:
                self.fail(str(error), param, ctx)
        return float(value) if isinstance(value, float) else int(value)


DURATION = _Duration()


def queue_argument(name: str = "queue", **attributes: Any) -> Decorator:
    """Return an argument that is the name of a queue, which the shell completes."""
    return click.argument(name, shell_complete=complete_queues, **attributes)


def queues_argument(name: str = "queues", *, required: bool = True) -> Decorator:
    """Return an argument that is one or more names of queues; none is allowed if not required."""
    metavar = "QUEUE..." if required else "[QUEUE...]"
    return queue_argument(name, nargs=-1, required=required, metavar=metavar)


def ids_argument(*, required: bool = True) -> Decorator:
    """Return an argument that is one or more message ids; none is allowed if not required."""
    metavar = "ID..." if required else "[ID...]"
    return click.argument("ids", nargs=-1, required=required, metavar=metavar)
