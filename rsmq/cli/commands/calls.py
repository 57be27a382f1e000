"""
The commands that are one call of the client, made from the table of calls.

The command of a call is the attribute of its name, as ``delete_messages``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import YES, DocumentedCommand, command, options
from rsmq.cli.app.errors import Exit, Failed
from rsmq.cli.app.output import format_cell, format_text, format_time, to_json_value
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.cli.app.send_options import call_options, send_options
from rsmq.cli.commands.message_output import BodyFormat, PoppedWriter, raw_options, write_messages
from rsmq.errors.printable import format_count
from rsmq.model import Message, StoredMessage
from rsmq.vocabulary.calls import BY_NAME, OneCall, Outcome
from rsmq.wire.limits import MAX_BATCH, check_whole_number

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ

#: The arguments of commands that are the first one of the method.
_FIRST = ("queue", "queues", "name", "names")
#: The number of messages that pop removes at a time: so many can be lost if a write fails.
_POP_BATCH = 10
_OF_MISSING = "The exit code is 1 if a message is not in the queue."
_UNDO = options("--undo  Keep what is deleted for ten minutes: rsmq undo restores it.")


def __getattr__(name: str) -> DocumentedCommand:
    if name not in BY_NAME:
        raise AttributeError(name)
    return one_call(name)


@cache
def one_call(name: str) -> DocumentedCommand:
    """Return the command of a call of the table."""
    row = _row_of(name)

    def run(context: Call, /, **arguments: Any) -> Exit | None:
        return run_call(context, name, **arguments)

    rule = f" {_OF_MISSING}" if "ID..." in row.arguments else ""
    run.__doc__ = f"{row.summary}\n\n{row.detail}{rule}"
    decorated: Callable[..., Any] = run
    if row.outcome in _OF_MESSAGES:
        decorated = raw_options(decorated)
    if row.asks:
        decorated = YES(_UNDO(decorated))
    if row.options:
        decorated = options(row.options)(decorated)
    decorated = call_options(name)(decorated)
    if row.of_call:
        decorated = send_options(row.of_call, row.arguments)(decorated)
    return command(f"{BY_NAME[name].command.split()[-1]} {row.arguments}", *row.examples)(decorated)


def _row_of(name: str) -> OneCall:
    row = BY_NAME[name].one_call
    if row is None:
        raise ValueError(f"{name} is not the only call of its command")
    return row


@dataclass(frozen=True, slots=True)
class _CallRun:
    """
    A run of a command that is one call.

    Attributes:
        name: the method.
        first: its first argument: a name, or names; None if it has none.
        arguments: those by keyword.
        ids: the ids of messages.
    """

    context: Call
    rsmq: RSMQ[Any]
    name: str
    row: OneCall
    first: Any
    arguments: dict[str, Any]
    ids: Sequence[str]

    def call(self, *first: Any, **more: Any) -> Any:
        """Call the method, with other first arguments and with more than those of the command."""
        method = attrgetter(self.name)(self.rsmq)
        own = () if self.first is None else (self.first,)
        return method(*(first or own), **self.arguments | more)


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
    row, ids = _row_of(called), arguments.pop("ids", ())
    first = next((arguments.pop(each) for each in _FIRST if each in arguments), None)
    with context.open() as rsmq:
        return _RUNS[row.outcome](_CallRun(context, rsmq, called, row, first, arguments, ids))


def _run_texts(run: _CallRun) -> None:
    texts = run.call()
    run.context.out.result(texts, map(format_text, texts))


def _run_text(run: _CallRun) -> None:
    text = run.call()
    run.context.out.result({"name": run.first, run.row.word: text}, format_text(text))


def _run_number(run: _CallRun) -> None:
    number = run.call()
    run.context.out.result({run.row.word: number}, f"{number:,} {run.row.word}")


def _run_on_queues(run: _CallRun) -> None:
    queues, called = expand_patterns(run.rsmq, run.first), run.name
    if run.row.asks:
        contents = ", ".join(
            f"{format_count(run.rsmq.get_queue_attributes(each).messages)} of {format_text(each)}"
            for each in queues
        )
        question = run.row.asks.format(contents=contents)
        run.context.confirm(question, yes=run.arguments.pop("yes"))
        if run.arguments.pop("undo"):
            called = f"trash.{called}"
    method = attrgetter(called)(run.rsmq)
    run.context.for_each(queues, lambda queue: _describe(run.row, method(queue)))


def _run_on_new_queues(run: _CallRun) -> None:
    run.context.for_each(
        run.first, lambda queue: _describe(run.row, run.call(queue)), one_is_alone=True
    )


def _describe(row: OneCall, result: Any) -> tuple[dict[str, Any], str]:
    """Return the result of a call on one name as fields and as text."""
    if isinstance(result, bool):
        return {row.word: result}, row.word if result else row.otherwise
    if result is None:
        return {row.word: True}, row.word
    if isinstance(result, int):
        return {row.word: result}, f"{result:,} {row.word}"
    is_purge = result.kind == "purge"  # a deletion that can be undone
    fields, text = _describe(row, result.messages if is_purge else None)
    restored = "them" if is_purge else "it"
    return {**fields, "undo": result.id}, f"{text}; rsmq undo {result.id} restores {restored}"


def _run_on_names(run: _CallRun) -> Exit | None:
    results = run.context.for_each(
        run.first, lambda name: _describe(run.row, run.call(name)), kind="name"
    )
    return None if all(each[run.row.word] for each in results) else Exit.NOT_ALL


def _run_on_ids(run: _CallRun) -> Exit | None:
    """Act on messages in batches, and write which were changed and which are missing."""
    context, word, wanted = run.context, run.row.word, list(dict.fromkeys(run.ids))
    if run.row.for_all:
        if run.arguments.pop("all_of_them") is bool(wanted):
            raise click.UsageError("Give IDs or --all, one of them.")
        if not wanted:
            number = getattr(run.rsmq, run.row.for_all)(run.first)
            context.out.result({"queue": run.first, word: number}, f"{number:,} {word}")
            return None
    done: list[str] = []
    try:
        for start in range(0, len(wanted), MAX_BATCH):
            done += run.call(ids=wanted[start : start + MAX_BATCH])
    finally:
        changed = set(done)
        missing = [id for id in wanted if id not in changed]
        if done or context.as_json:
            context.out.result({word: done, "missing": missing}, done)
    return context.note_missing(missing)


class _Counted(int):
    """A number that a text has with its word, as in ``{number:message}``."""

    def __format__(self, word: str) -> str:
        return format_count(int(self), word)


def _run_attributes(run: _CallRun) -> None:
    row, values = run.row, [each for name, each in run.arguments.items() if name != "remove"]
    removes, sets = run.arguments.pop("remove", False), any(each is not None for each in values)
    if removes and sets:
        raise click.UsageError("--remove goes without other settings.")
    if row.whole and sets and None in values:
        raise click.UsageError(row.whole)
    attributes = run.call() if removes or sets else run.rsmq.get_queue_attributes(run.first)
    fields = {"queue": run.first, **to_json_value(attributes)}
    if row.phrases:
        _write_sentence(run, fields)
        return
    texts = {
        name.removesuffix("_ms"): format_time(value) if name.endswith("_ms") else format_cell(value)
        for name, value in fields.items()
    }
    width = max(map(len, texts))
    run.context.out.result(fields, [f"{name:{width}}  {text}" for name, text in texts.items()])


def _write_sentence(run: _CallRun, fields: dict[str, Any]) -> None:
    """Write the attributes that the phrases of a row name."""
    names = re.findall(r"\{(\w+)", " ".join(run.row.phrases))
    shown = {name: fields[name] for name in names}
    words = {
        name: _Counted(value) if isinstance(value, int) else format_text(value)
        for name, value in shown.items()
        if value is not None
    }
    said = [
        each.format_map(words)
        for each in run.row.phrases
        if words.keys() >= {*re.findall(r"\{(\w+)", each)}
    ]
    text = ", ".join(said) or run.row.otherwise
    run.context.out.result({"queue": run.first, **shown}, f"{format_text(run.first)}: {text}")


def _run_receive(run: _CallRun) -> Exit | None:
    bodies, queues = run.arguments.pop("bodies"), run.first
    if not isinstance(queues, str):
        queues = expand_patterns(run.rsmq, queues)
    messages = run.call(queues)
    with _released_if_unread(run.context, run.rsmq, messages):
        has_several = not isinstance(queues, str) and len(queues) > 1
        return write_messages(run.context, messages, bodies, has_queue_column=has_several)


@contextmanager
def _released_if_unread(
    context: Call, rsmq: RSMQ[Any], messages: Sequence[Message]
) -> Iterator[None]:
    """Release messages if the reader of the output closes the pipe: it may not have read them."""
    try:
        yield
        context.out.flush()
    except BrokenPipeError:
        number = len(rsmq.release_messages(messages))
        raise Failed(
            f"The reader has closed the pipe; {format_count(number)} released",
            exit=Exit.CLOSED_PIPE,
            code="closedPipe",
        ) from None


def _run_pop(run: _CallRun) -> Exit | None:
    number, wait = run.arguments.pop("max_messages"), run.arguments.pop("wait")
    check_whole_number("max_messages", number, 1, MAX_BATCH)
    queues = expand_patterns(run.rsmq, run.first)
    bodies = run.arguments.pop("bodies")
    writer = PoppedWriter(run.context, bodies, has_queue_column=len(queues) > 1)
    while writer.number < number:
        size = min(number - writer.number, _POP_BATCH)
        messages = run.call(queues, size, wait=0 if writer.number else wait)
        writer.write(messages)
        if len(messages) < size:
            break
    writer.end()
    if writer.number:
        return None
    run.context.out.note("no message")
    return Exit.NOT_ALL


def _run_show(run: _CallRun) -> Exit | None:
    context, bodies = run.context, run.arguments.pop("bodies")
    if not run.ids:
        return _show(run, run.call(), bodies, context.out.width)
    found = {id: run.call(run.first, id) for id in run.ids}
    existing = [message for message in found.values() if message is not None]
    if existing or context.as_json:
        _show(run, existing, bodies, None)
    return context.note_missing([id for id, message in found.items() if message is None])


def _show(
    run: _CallRun, messages: Sequence[StoredMessage], bodies: BodyFormat | None, width: int | None
) -> Exit | None:
    """Write messages, each that is in flight with the name of the worker that has it."""
    holders: Mapping[str, str] | None = None if bodies else {}
    if holders is not None and any(each.state == "in_flight" for each in messages):
        from rsmq.explain.reader import find_holders  # noqa: PLC0415 - takes time

        holders = find_holders(run.rsmq, messages)
    return write_messages(run.context, messages, bodies, width=width, holders=holders)


_RUNS: Mapping[Outcome, Callable[[_CallRun], Exit | None]] = {
    Outcome.TEXTS: _run_texts, Outcome.TEXT: _run_text, Outcome.NUMBER: _run_number,
    Outcome.OF_QUEUES: _run_on_queues, Outcome.OF_NEW_QUEUES: _run_on_new_queues,
    Outcome.OF_NAMES: _run_on_names, Outcome.OF_IDS: _run_on_ids,
    Outcome.ATTRIBUTES: _run_attributes, Outcome.RECEIVED: _run_receive,
    Outcome.POPPED: _run_pop, Outcome.STORED: _run_show,
}  # fmt: skip
_OF_MESSAGES = (Outcome.RECEIVED, Outcome.POPPED, Outcome.STORED)
