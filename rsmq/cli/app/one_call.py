"""
Commands that are one call of the client, made from the table of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import DocumentedCommand, command, options
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_text
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.vocabulary.calls import BY_NAME, OneCall, Outcome
from rsmq.wire.limits import MAX_BATCH

#: The arguments of commands that are the first one of the method.
_FIRST = ("queue", "queues", "name", "names")


def one_call(name: str) -> DocumentedCommand:
    """Return the command of a call of the table."""
    row = _row_of(name)

    def run(context: Call, /, **arguments: Any) -> Exit | None:
        return run_call(context, name, **arguments)

    run.__doc__ = f"{row.summary}\n\n{row.detail}"
    decorated = options(row.options)(run) if row.options else run
    return command(f"{BY_NAME[name].command.split()[-1]} {row.arguments}", *row.examples)(decorated)


def run_call(context: Call, called: str, /, **arguments: Any) -> Exit | None:
    """
    Run a call of the table, and write its result.

    Args:
        context: the call of the program.
        called: the method.
        arguments: those of the command, by their names.

    Returns:
        The exit code; None is DONE.
    """
    row = _row_of(called)
    ids = arguments.pop("ids", ())
    first = [arguments.pop(each) for each in _FIRST if each in arguments]
    with context.open() as rsmq:
        method: Callable[..., Any] = attrgetter(called)(rsmq)
        if row.outcome is Outcome.OF_IDS:
            act = partial(method, *first, **arguments)
            return run_on_ids(context, ids, row.word, lambda some: act(ids=some))
        if row.outcome is Outcome.OF_QUEUES:
            context.for_each(expand_patterns(rsmq, first[0]), partial(_change, method, row))
            return None
        if row.outcome is Outcome.OF_NAMES:
            return _change_each(context, first[0], partial(_change, method, row))
        result = method(*first, **arguments)
    if row.outcome is Outcome.TEXTS:
        context.out.result(result, map(format_text, result))
    elif row.outcome is Outcome.NUMBER:
        context.out.result({row.word: result}, f"{result:,} {row.word}")
    else:
        context.out.result({"name": first[0], row.word: result}, format_text(result))
    return None


def _row_of(name: str) -> OneCall:
    row = BY_NAME[name].one_call
    if row is None:
        raise ValueError(f"{name} is not the only call of its command")
    return row


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
