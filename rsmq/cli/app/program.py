"""
The program ``rsmq``: runs a command, and returns an exit code.

How a command is written:

- Each group of commands is one module. ``command_table.py`` lists the module of each command, and
  its summary.
- ``@command("name", "rsmq name example", ...)`` makes the function a click command with the options
  for every command; ``queue_argument()``, ``vt_option()``, ``yes_option()`` and their like stand in
  ``command.py``. The docstring is the help, its first line the summary of the table.
- ``@click.pass_obj`` hands it the ``Call``. ``call.open()`` is a client whose bodies are bytes
  (``message.raw``); ``with`` closes it. ``call.confirm(question, yes=yes)`` asks before something
  is lost. ``call.out`` writes: ``result(value, lines)`` is one JSON document with ``--json``, else
  lines; ``note(text)`` is for a person, on the standard error; ``progress(...)`` a bar there.
  ``shown``, ``shown_body``, ``shown_time`` and ``table`` of ``output.py`` make text of values.
- It returns an exit code of ``exit_codes.py``; None is DONE. It raises errors: those of the library
  and of redis-py as they are, ``Failed(text, hint=...)`` for the rest. ``run.py`` makes a line and
  an exit code of each.
- Nothing that takes long is imported at the top of a module: rich, the worker, Spark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import Root
from rsmq.cli.app.errors import Failed
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.run import run_program

#: Set by the script that ``rsmq completion`` prints.
COMPLETE = "_RSMQ_COMPLETE"

_HELP = """
RSMQ queues on Redis.

The place of the queues is that of the options, else of RSMQ_URL and RSMQ_NS, else of a profile
(--profile, RSMQ_PROFILE, or the default one) of the configuration file, RSMQ_CONFIG or
~/.config/rsmq/config.toml. A profile given with --profile goes before the environment.
"""

root = Root(
    "rsmq",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=_HELP,
    examples=[
        "rsmq create orders --vt 60",
        "rsmq send orders hello",
        "rsmq receive orders --json",
    ],
)
root = click.version_option(package_name="rsmq", message="rsmq %(version)s")(root)


def run(arguments: Sequence[str] | None = None) -> int:
    """
    Run the program.

    Args:
        arguments: those of the command line; None is sys.argv's.

    Returns:
        The exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if instruction := os.environ.get(COMPLETE):
        from rsmq.cli.app.completion import answer  # noqa: PLC0415 - only the shell asks

        return answer(root, COMPLETE, instruction)
    call = Call()
    return run_program(
        "rsmq", lambda: _invoke(call, given), as_json=lambda: call.as_json or _asks_for_json(given)
    )


def _invoke(call: Call, given: list[str]) -> int:
    try:
        with root.make_context("rsmq", given, obj=call) as ctx:
            return int(root.invoke(ctx) or Exit.DONE)
    except click.exceptions.Exit as ended:  # of --help and --version
        return ended.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = None if context is None else f"See {context.command_path} --help."
        raise Failed(error.format_message(), hint=hint) from None


def _asks_for_json(given: list[str]) -> bool:
    """Whether arguments that could not be read ask for JSON."""
    end = given.index("--") if "--" in given else len(given)
    return "--json" in given[:end]
