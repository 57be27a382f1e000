"""
The command completion.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from rsmq.cli.app.command import command
from rsmq.cli.app.errors import Failed


@command(
    "completion",
    'eval "$(rsmq completion bash)"',
    "rsmq completion fish > ~/.config/fish/completions/rsmq.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """
    Print a script for the shell.

    With it TAB completes commands, options, queues and profiles.
    """
    found = get_completion_class(shell)
    if found is None:
        raise Failed(f"click knows no {shell}")
    # The script alone: click's way to it runs bash, to warn of old ones.
    print(
        found.source_template
        % found(click.Command("rsmq"), {}, "rsmq", "_RSMQ_COMPLETE").source_vars()
    )
