"""
Commands that are one call of the client, made from the table of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import (
    DURATION,
    Decorator,
    DocumentedCommand,
    complete_queues,
    ids_argument,
    queue_argument,
    queues_argument,
)
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import format_text
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.vocabulary.calls import BY_NAME, OneCall, Outcome, Parameter, ParameterKind
from rsmq.wire.limits import MAX_BATCH

_ARGUMENTS = {
    ParameterKind.QUEUE: queue_argument("qname", metavar="QUEUE"),
    ParameterKind.QUEUES: queues_argument("qname"),
    ParameterKind.IDS: ids_argument(),
    ParameterKind.NAME: click.argument("name"),
    ParameterKind.NAMES: click.argument("name", nargs=-1, required=True, metavar="NAME..."),
}
_OPTIONS: Mapping[ParameterKind, Mapping[str, Any]] = {
    ParameterKind.SECONDS: {"type": DURATION, "metavar": "DURATION"},
    ParameterKind.WHOLE_NUMBER: {"type": int, "metavar": "N"},
    ParameterKind.OTHER_QUEUE: {"metavar": "QUEUE", "shell_complete": complete_queues},
}


def one_call(name: str) -> DocumentedCommand:
    """Return the command of a call of the table."""
    call = BY_NAME[name]
    row = _row_of(name)

    @click.pass_obj
    def run(context: Call, /, **arguments: Any) -> Exit | None:
        return run_call(context, name, arguments)

    command: Callable[..., Any] = run
    for parameter in reversed(row.parameters):
        command = _declare(parameter)(command)
    return click.command(
        call.command.split()[-1],
        cls=DocumentedCommand,
        help=f"{row.summary}\n\n{row.detail}",
        examples=row.examples,
    )(command)


def run_call(context: Call, name: str, arguments: Mapping[str, Any]) -> Exit | None:
    """
    Run a call of the table, and write its result.

    Args:
        context: the call of the program.
        name: the method.
        arguments: its arguments; several queues, names or ids are a sequence.

    Returns:
        The exit code; None is DONE.
    """
    row = _row_of(name)
    with context.open() as rsmq:
        method: Callable[..., Any] = attrgetter(name)(rsmq)
        if row.outcome is Outcome.OF_IDS:
            others = {each: arguments[each] for each in arguments.keys() - {"qname", "ids"}}
            act = partial(method, arguments["qname"], **others)
            return run_on_ids(context, arguments["ids"], row.word, lambda ids: act(ids=ids))
        if row.outcome is Outcome.OF_QUEUES:
            queues = expand_patterns(rsmq, arguments["qname"])
            context.for_each(queues, partial(_change, method, row))
            return None
        if row.outcome is Outcome.OF_NAMES:
            return _change_each(context, arguments["name"], partial(_change, method, row))
        result = method(**arguments)
    if row.outcome is Outcome.TEXTS:
        context.out.result(result, map(format_text, result))
    elif row.outcome is Outcome.NUMBER:
        context.out.result({row.word: result}, f"{result:,} {row.word}")
    else:
        context.out.result({**arguments, row.word: result}, format_text(result))
    return None


def _row_of(name: str) -> OneCall:
    row = BY_NAME[name].one_call
    if row is None:
        raise ValueError(f"{name} is not the only call of its command")
    return row


def _declare(parameter: Parameter) -> Decorator:
    if parameter.kind in _ARGUMENTS:
        return _ARGUMENTS[parameter.kind]
    attributes = {**_OPTIONS[parameter.kind], "help": parameter.text}
    if parameter.default is None:
        attributes["required"] = True
    else:
        attributes |= {"default": parameter.default, "show_default": True}
    return click.option(*parameter.option.split(", "), parameter.name, **attributes)


def _change(method: Callable[[str], bool], row: OneCall, name: str) -> tuple[dict[str, Any], str]:
    is_changed = method(name)
    return {row.word: is_changed}, row.word if is_changed else row.otherwise


def _change_each(
    context: Call, names: Sequence[str], change: Callable[[str], tuple[dict[str, Any], str]]
) -> Exit | None:
    results: dict[str, tuple[dict[str, Any], str]] = {}
    try:
        for name in names:
            results[name] = change(name)
    finally:
        context.out.result(
            [{"name": name, **shown} for name, (shown, _) in results.items()],
            [f"{format_text(name)}: {text}" for name, (_, text) in results.items()],
        )
    is_done = all(all(shown.values()) for shown, _ in results.values())
    return None if is_done else Exit.NOT_ALL


def run_on_ids(
    context: Call,
    ids: Sequence[str],
    result_key: str,
    act: Callable[[Sequence[str]], list[str]],
) -> Exit | None:
    """
    Act on messages in batches, and write which were changed and which are missing.

    Args:
        ids: the ids of the messages; a repeated id counts once.
        result_key: the JSON key of the changed ids.
        act: acts on a batch, and returns the ids of the messages that it has changed.
    """
    wanted = list(dict.fromkeys(ids))
    done: list[str] = []
    try:
        for start in range(0, len(wanted), MAX_BATCH):
            done += act(wanted[start : start + MAX_BATCH])
    finally:
        changed = set(done)
        missing = [id for id in wanted if id not in changed]
        if done or context.as_json:
            context.out.result({result_key: done, "missing": missing}, done)
    for id in missing:
        context.out.note(f"{format_text(id)}: not there")
    return Exit.NOT_ALL if missing else None
