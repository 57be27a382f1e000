"""
Completion in the shell: commands, options, and the names of queues and profiles.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    shell_complete,
    split_arg_string,
)
from redis.exceptions import RedisError

from rsmq.cli.app.call import Call
from rsmq.cli.app.errors import Failed
from rsmq.errors import RSMQError

#: Seconds that a person who has pressed TAB waits for Redis.
_PATIENCE = 0.5


class Bash(BashComplete):
    """
    What bash asks, whose words end at : and = too.

    A url, ``--option=value`` and ``orphan-body:restore`` come in pieces. Of what is offered only
    the part behind the last such sign goes to bash, which keeps what stands before.
    """

    _kept = 0

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is completed, and that one."""
        pieces = split_arg_string(os.environ["COMP_WORDS"])
        at = int(os.environ["COMP_CWORD"])
        words = _joined(pieces[1 : at + 1])
        incomplete = words.pop() if at < len(pieces) else ""
        self._kept = max(incomplete.rfind(":"), incomplete.rfind("=")) + 1
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """A line of the answer."""
        return f"{item.type},{item.value[self._kept :]}"


def _joined(pieces: list[str]) -> list[str]:
    """Words of what bash has split; the value of an option stands for itself."""
    words: list[str] = []
    glued = False
    for at, piece in enumerate(pieces, 1):
        sign = set(piece) <= {":", "="} and piece != ""
        if piece == "=" and words and words[-1].startswith("--"):
            words += [""] * (at == len(pieces))  # the value is still to come
        elif words and (sign or glued):
            words[-1] += piece
            glued = sign
        else:
            words.append(piece)
    return words


def answer(root: click.Command, variable: str, instruction: str) -> int:
    """
    Answer the shell; of what is not a call of the program nothing is completed.

    Args:
        root: the program.
        variable: of the environment, that holds the instruction.
        instruction: what the shell asks.

    Returns:
        The exit code.
    """
    add_completion_class(Bash)
    try:
        return shell_complete(root, {"obj": Call()}, "rsmq", variable, instruction)
    except click.ClickException:
        return 0


def queues(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The queues whose names begin so; none if Redis does not answer at once."""
    call = ctx.ensure_object(Call)
    times = {"socket_timeout": _PATIENCE, "socket_connect_timeout": _PATIENCE}
    try:
        with call.open(options={"retry_deadline": 0, **times}) as rsmq:
            names = rsmq.list_queues()
    except (RedisError, RSMQError, OSError, Failed):
        return []
    given = {ctx.params.get("queue"), *(ctx.params.get("queues") or ())}
    return [
        CompletionItem(name) for name in names if name.startswith(incomplete) and name not in given
    ]


def profiles(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The profiles whose names begin so."""
    try:
        names = ctx.ensure_object(Call).config.profiles
    except Failed:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
