"""
The frame of the programs: runs a command, and returns an exit code.

How a command is written:

- Each group of commands is one module. ``command_table.py`` lists the module of each command, and
  its summary.
- ``@command("name QUEUE", "rsmq name orders", ...)`` turns the function into a click command with
  these arguments and the options for every command. ``@options(...)`` takes its options as the help
  shows them. The docstring is the help text; its first line is the summary in the table.
- The function gets the ``Call`` and its arguments. ``call.open()`` returns a client of the
  only namespace, whose bodies are bytes (``message.raw``); ``with`` closes it. A command that works
  on several namespaces calls ``call.open_each()``.
  ``call.confirm(question, yes=yes)`` asks before data is removed.
- ``call.out`` writes. ``result(value, lines)`` writes one JSON document with ``--json``, else
  lines. ``note(text)`` writes a line for people on the standard error, and ``progress(...)`` shows
  a bar there. ``format_text``, ``format_body``, ``format_time`` and ``format_table`` of
  ``output.py`` turn values into text.
- The function returns an ``Exit`` of ``errors.py``; None is DONE. It does not catch errors of
  the library and of redis-py, and raises ``Failed(text, hint=...)`` for all others. ``run`` turns
  each error into a line and an exit code.
- A module that takes long to import is not imported at the top of a module: rich, the worker,
  Spark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from rsmq import __version__
from rsmq.cli.app.call import Call
from rsmq.cli.app.errors import Exit, Failed, describe_error
from rsmq.cli.app.root import Root
from rsmq.cli.app.standard_streams import complete_streams

_HELP = """
RSMQ queues on Redis.

rsmq help COMMAND shows the options of a command. Where a command takes several queues, a name may
be a pattern: 'orders*' in quotes. A duration is a number of seconds, or has units: 500ms, 30s, 10m,
2h, 7d, 1h30m.

The server and the namespace are those of --url and --ns, else of RSMQ_URL and RSMQ_NS, else of a
profile (--profile, RSMQ_PROFILE, or the default profile) of the configuration file, which is
RSMQ_CONFIG or ~/.config/rsmq/config.toml. A profile of --profile has precedence over RSMQ_URL and
RSMQ_NS. top, exporter, web, worker and pipeline work on several namespaces: repeat --ns, or list
them in the profile.
"""

root = Root(
    "rsmq",
    help=_HELP,
    examples=[
        "rsmq create orders --vt 60",
        "rsmq send orders hello",
        "rsmq receive orders --json",
    ],
)
root = click.version_option(__version__, message="rsmq %(version)s")(root)


def run(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """
    Run a command as a program. An error becomes one line on the standard error.

    The variable ``_NAME_COMPLETE`` asks for completions instead, as the scripts of click set it.

    Args:
        name: the name of the program, which begins that line.
        arguments: the arguments of the command line; None takes those of the process.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    variable = f"_{name.upper().replace('-', '_')}_COMPLETE"
    if instruction := os.environ.get(variable):
        from rsmq.cli.app.completion import answer_shell  # noqa: PLC0415 - only the shell asks

        return answer_shell(command, name, variable, instruction)
    call = Call()
    try:
        complete_streams()
        code = _invoke(command, name, call, words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed the pipe
        _discard_output()
        return Exit.CLOSED_PIPE
    except BaseException as error:  # noqa: BLE001 - raised again if it is not expected
        return _report_error(error, name, as_json=call.as_json or _has_json_option(words))
    return code


def _invoke(command: click.Command, name: str, call: Call, words: list[str]) -> int:
    try:
        with command.make_context(name, words, obj=call) as ctx:
            return int(command.invoke(ctx) or Exit.DONE)
    except click.exceptions.Exit as exit_request:  # of --help and --version
        return exit_request.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = None if context is None else f"See {context.command_path} --help."
        raise Failed(error.format_message(), hint=hint) from None


def _has_json_option(words: list[str]) -> bool:
    """Return whether arguments that could not be parsed contain ``--json``."""
    end = words.index("--") if "--" in words else len(words)
    return "--json" in words[:end]


def _report_error(error: BaseException, name: str, *, as_json: bool) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    report = describe_error(error)
    if report is None:
        raise error
    print(report.line(as_json=as_json, program=name), file=sys.stderr, flush=True)
    return report.exit


def _discard_output() -> None:
    """Discard the rest of the output, which Python would write at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
