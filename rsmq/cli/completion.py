"""
``rsmq completion``, and what the shell completes: queues and profiles.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class
from redis.exceptions import RedisError

from rsmq.cli.call import Call
from rsmq.cli.command import command
from rsmq.cli.exits import Failed
from rsmq.errors import RSMQError

#: Seconds that a person who has pressed TAB waits for Redis.
_PATIENCE = 0.5


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


def queues(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The queues whose names begin so; none if Redis does not answer at once."""
    call = ctx.ensure_object(Call)
    times = {"socket_timeout": _PATIENCE, "socket_connect_timeout": _PATIENCE}
    try:
        with call.open(options={"retry_deadline": 0, **times}) as rsmq:
            names = rsmq.list_queues()
    except (RedisError, RSMQError, OSError, Failed):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def profiles(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The profiles whose names begin so."""
    try:
        names = ctx.ensure_object(Call).config.profiles
    except Failed:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
