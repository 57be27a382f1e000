"""
Decorators of commands: their arguments, and their options as the help shows them.

    @options('''
        --vt DURATION  How long to hide the messages; the queue's vt by default.
        --number, -n N  The highest number of messages.  [default: 10]
        --kind [json|csv]  The format of the files.  [required]
        --allow CIDR...  Allow these addresses; may be repeated.
        --wait DURATION=0  How long to wait.
        --from, origin NAME  The source, which is the argument origin of the function.
        --replace  Change the settings of a subscriber of this name.
    ''')

The word after the names says the type: DURATION, N and PORT are numbers, choices are in brackets,
and an option without a word is a flag. A default after = is not shown. Two spaces precede the text.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import click
from click.shell_completion import CompletionItem

from rsmq.cli.app.call import Call
from rsmq.cli.app.durations import parse_duration


class _CommonOption(click.Option):
    """An option for every command, which may precede or follow the command's name."""


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


_COMMON_OPTIONS = """
    --url URL  The URL of Redis: redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://.
    --ns NAME...  The namespace. top, exporter, web, worker and pipeline take it several times.
    --profile NAME  A profile of the configuration file.
    --json  Write JSON, for programs.
    --any-names  Allow queue names that the Node client refuses.
    --realtime  Publish the number of messages after each send, as Node does with realtime.
    --codec MODULE:NAME  The codec that compresses and encrypts bodies, as in app:codec.
    """


def _common_options() -> list[click.Parameter]:
    own: dict[str, Any] = {"cls": _CommonOption, "expose_value": False, "callback": _store_option}
    special: dict[str, Any] = {
        "profile": {"shell_complete": _complete_profiles},
        "json": {"is_eager": True},
    }
    names = re.findall(r"^ +--(\S+)", _COMMON_OPTIONS, re.MULTILINE)
    further = {name.replace("-", "_"): own | special.get(name, {}) for name in names}

    @options(_COMMON_OPTIONS, **further)
    def holder() -> None:
        """Have the options, the last one first."""

    made: list[click.Parameter] = holder.__click_params__
    return made[::-1]


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

    def subcommand(self, usage: str, *examples: str) -> Callable[[Callable[..., Any]], Any]:
        """Return a decorator that adds a command to this group, as ``command`` makes it."""

        def add(function: Callable[..., Any]) -> Any:
            made = command(usage, *examples)(function)
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


Decorator = Callable[[Callable[..., Any]], Any]


def command(
    usage: str, *examples: str, **attributes: Any
) -> Callable[[Callable[..., Any]], DocumentedCommand]:
    """
    Return a decorator that turns a function into a command. It passes the ``Call`` first.

    The docstring of the function is the help text. Its first line must be the summary in the table
    of commands. The function returns the exit code; None is 0.

    Args:
        usage: the name of the command in the table, and its arguments as the help shows them, as in
            ``delete QUEUE ID...`` or ``stats [QUEUE...]``; several are passed as ``queues``.
        examples: examples of calls, one line each.
        attributes: further arguments of ``click.command``.
    """
    name, *arguments = usage.split()

    def make(function: Callable[..., Any]) -> DocumentedCommand:
        decorated: Callable[..., Any] = click.pass_obj(function)
        for each in reversed(arguments):
            decorated = argument(each)(decorated)
        return click.command(name, cls=DocumentedCommand, examples=examples, **attributes)(
            decorated
        )

    return make


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


#: For one text with names, with commas between.
_OF_LIST: Mapping[str, Any] = {"type": _split_names}


def argument(metavar: str, name: str | None = None, **attributes: Any) -> Decorator:
    """
    Return an argument.

    Args:
        metavar: it as the help shows it, as in ``QUEUE``, ``[QUEUE]`` or ``ID...``.
        name: that of the function's argument; by default that of the help.
        attributes: further arguments of ``click.argument``.
    """
    word = metavar.strip("[].,")
    has_several = "..." in metavar
    attributes |= _OF_LIST if ",..." in metavar else {}
    attributes |= _OF_WORD.get(word.rpartition("_")[2], {})
    return click.argument(
        name or word.lower() + "s" * has_several,
        required=not metavar.startswith("["),
        metavar=metavar,
        nargs=-1 if has_several and ",..." not in metavar else 1,
        **attributes,
    )


def _read_duration(value: str | float) -> float:
    """Return a duration in seconds, for options. The library checks its range."""
    try:
        return parse_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _read_wait(text: str | float) -> float | None:
    """Return a duration in seconds; None for ``forever``."""
    return None if text == "forever" else _read_duration(text)


def _read_time(text: str) -> datetime:
    """Return a time with its offset, as ISO 8601 writes it."""
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time
    raise click.BadParameter(
        f"{text!r} is not a time with its offset, such as 2026-10-25T01:30:00Z."
    )


_OPTION = re.compile(
    r"(?P<names>-[\w-]+(?:, [\w-]+)*)"
    r"(?: (?P<word>(?:\[\S*?\]|[^\s=\[])+?)(?P<many>(?<!,)\.\.\.)?(?:=(?P<default>\S+))?)?"
    r"(?:  +(?P<help>.*?)(?: *\[(?P<rule>required|default: .+)\])?)?"
)
_OF_WORD: Mapping[str, Mapping[str, Any]] = {
    "DURATION": {"type": _read_duration},
    "WAIT": {"type": _read_wait, "metavar": "DURATION"},
    "TIME": {"type": _read_time},
    "N": {"type": int},
    "PORT": {"type": int},
    "FILE": {"type": click.Path(allow_dash=True)},
    "QUEUE": {"shell_complete": complete_queues},
    "QUEUE,...": _OF_LIST,
}


def options(text: str, **further: Mapping[str, Any]) -> Decorator:
    """
    Return a decorator that gives a command options.

    Args:
        text: the options; the lines after the first of each are indented.
        further: by the argument of the function, further arguments of ``click.option``.

    Raises:
        ValueError: the text has another form, or an option of ``further`` is not in it.
    """
    rest = dict(further)
    entries = re.split(r"\n(?=-)", inspect.cleandoc(text))
    made = [_make_option(re.sub(r"\n +", " ", entry), rest) for entry in entries]
    if rest:
        raise ValueError(f"No options: {', '.join(rest)}")

    def add(function: Callable[..., Any]) -> Any:
        for option in reversed(made):
            function = option(function)
        return function

    return add


def _make_option(entry: str, further: dict[str, Mapping[str, Any]]) -> Decorator:
    found = _OPTION.fullmatch(entry)
    if found is None:
        raise ValueError(f"Not an option: {entry!r}")
    names = found["names"].split(", ")
    name = min(names, key=lambda each: (each.startswith("-"), not each.startswith("--")))
    attributes: dict[str, Any] = {"help": found["help"], "multiple": found["many"] is not None}
    own = further.pop(name.lstrip("-").replace("-", "_"), {})
    word, rule = found["word"], found["rule"]
    if word is None:
        attributes["is_flag"] = own.keys().isdisjoint({"type", "flag_value"})
    elif word.startswith("["):
        attributes["type"] = click.Choice(word[1:-1].split("|"))
    else:
        attributes |= {"metavar": word, **_OF_WORD.get(word, {})}
    if rule == "required":
        attributes["required"] = True
    elif rule is not None:
        attributes |= {"default": rule.removeprefix("default: "), "show_default": True}
    elif found["default"] is not None:
        attributes["default"] = found["default"]
    return click.option(*names, **attributes | dict(own))


YES = options("--yes, -y  Do not ask for confirmation.")
