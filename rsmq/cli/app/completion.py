"""
Completion in the shell: commands, options, and the names of queues and profiles.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    shell_complete,
    split_arg_string,
)

from rsmq.cli.app.call import Call
from rsmq.cli.app.errors import Failed
from rsmq.errors import RSMQError

#: How long the user, who has pressed TAB, waits for Redis at most.
_REDIS_TIMEOUT_SECONDS = 0.5


class BashCompletion(BashComplete):
    """
    Completion in bash, which also splits words at : and =.

    So bash passes a URL, ``--option=value`` and ``orphan-body:restore`` in pieces. A completion
    must contain only the text after the last : or =, because bash keeps the text before it.
    """

    _prefix_length = 0

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor and the incomplete word."""
        pieces = split_arg_string(os.environ["COMP_WORDS"])
        index = int(os.environ["COMP_CWORD"])
        words = _join_pieces(pieces[1 : index + 1])
        incomplete = words.pop() if index < len(pieces) else ""
        self._prefix_length = max(incomplete.rfind(":"), incomplete.rfind("=")) + 1
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return the line of the answer for a completion."""
        return f"{item.type},{item.value[self._prefix_length :]}"


def _join_pieces(pieces: list[str]) -> list[str]:
    """Join the pieces into which bash has split words. The value of an option is its own word."""
    words: list[str] = []
    joins_next = False
    for index, piece in enumerate(pieces, 1):
        is_separator = set(piece) <= {":", "="} and piece != ""
        if piece == "=" and words and words[-1].startswith("--"):
            words += [""] * (index == len(pieces))  # the value is not yet typed
        elif words and (is_separator or joins_next):
            words[-1] += piece
            joins_next = is_separator
        else:
            words.append(piece)
    return words


def answer_shell(command: click.Command, name: str, variable: str, instruction: str) -> int:
    """
    Answer the shell. A line that is not a valid call of the program gets no completions.

    Args:
        command: the command that the program runs.
        variable: the environment variable that contains the instruction.
        instruction: the request of the shell, such as ``bash_complete``.

    Returns:
        The exit code.
    """
    add_completion_class(BashCompletion)
    try:
        return shell_complete(command, {"obj": Call()}, name, variable, instruction)
    except click.ClickException:
        return 0


def find_queues(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the queues whose names begin with a text; none if Redis does not answer in time."""
    call = ctx.ensure_object(Call)
    timeouts = {
        "socket_timeout": _REDIS_TIMEOUT_SECONDS,
        "socket_connect_timeout": _REDIS_TIMEOUT_SECONDS,
    }
    try:
        from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

        with call.open(retry_deadline=0, **timeouts) as rsmq:
            names = rsmq.list_queues()
    except (RedisError, RSMQError, OSError, Failed):
        return []
    present = {*_passed(ctx, "queue"), *_passed(ctx, "queues")}
    return [
        CompletionItem(name)
        for name in names
        if name.startswith(incomplete) and name not in present
    ]


def _passed(ctx: click.Context, name: str) -> Sequence[str]:
    value = ctx.params.get(name) or ()
    return [value] if isinstance(value, str) else value


def find_profiles(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the profiles whose names begin with a text."""
    try:
        names = ctx.ensure_object(Call).config.profiles
    except Failed:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
