"""
The program: the commands of the table.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from rsmq.cli.app import command_table
from rsmq.cli.app.command import Group
from rsmq.cli.app.exit_codes import MEANINGS


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
