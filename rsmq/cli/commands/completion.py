"""
The command completion.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.errors import Failed


@command(
    "completion",
    'eval "$(rsmq completion bash)"',
    "rsmq completion fish > ~/.config/fish/completions/rsmq.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(_: Call, shell: str) -> None:
    """
    Print the completion script of a shell.

    In a shell that has run the script, TAB completes commands, options, queues and profiles.
    """
    print_script(shell)


def print_script(shell: str) -> None:
    """Print the completion script of a shell."""
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise Failed(f"click knows no {shell}")
    # Only the script: click's source() also runs bash, to warn of old versions.
    print(
        completion_class.source_template
        % completion_class(click.Command("rsmq"), {}, "rsmq", "_RSMQ_COMPLETE").source_vars()
    )
