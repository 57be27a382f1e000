"""
The commands worker and workers.

``rsmq-worker`` is the command worker as a program. The import of ``worker_program.py`` takes time,
so it is done when a worker runs.
"""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.program import run
from rsmq.cli.app.send_options import call_options
from rsmq.cli.commands.metrics_server import metrics_options

#: The word that stands for MODULE:NAME when workers are checked.
_CHECK = "check"
#: The words behind the name of a worker that runs.
_ORDERS = ("pause", "resume", "concurrency", "running", "stop")
_MAX_PROCESSES = 1000
_MAX_CONCURRENCY = 10_000
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMG])?B?", re.IGNORECASE)
_UNIT_BYTES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def _memory_size(text: str) -> int:
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size. Give bytes, or as in 500M or 2G.")
    return round(float(found[1]) * _UNIT_BYTES[(found[2] or "").upper()])


@command(
    "worker",
    "rsmq worker myapp:worker --concurrency 20",
    "rsmq worker myapp:worker --processes 4 --name shop",
    "rsmq worker myapp:worker --ns '{shop.0}' --ns '{shop.1}'",
    "rsmq worker check shop",
    "rsmq worker shop running",
    "rsmq worker shop concurrency 4 --for 1h",
    "rsmq worker --list",
)
@click.argument("app", required=False, metavar="[MODULE:NAME]")
@click.argument("checked", required=False, metavar="[NAME]")
@click.argument("number", required=False, metavar="[N]", type=click.IntRange(1, _MAX_CONCURRENCY))
@options(
    """
    --name NAME  The name of this worker. The next worker with this name takes over its messages. By
        default a new one at each start; with --processes or several --ns the host and MODULE-NAME.
    --processes N  Run N processes, named NAME-0 to NAME-(N-1), and start them again when they die;
        SIGHUP restarts one after the other. With several --ns, each has one or more of them.
    --max-jobs-per-child N  With --processes: restart a process gracefully after so many messages.
    --max-memory-per-child SIZE  With --processes: restart a process gracefully when it uses more
        memory, as in 500M.
    --reload  Restart when a Python file in the working folder changes; for development.
    --supervised
    --sends-metrics
    --shows-ns
    --concurrency N  The most handlers that run at the same time, in each process.
    --grace DURATION  How long handlers may still run at shutdown, as in 30, 30s or 2m.
    --wait-for-redis DURATION  Wait so long at the start for a Redis that is away.  [default: 60]
    --burst  End when all queues of the worker are empty, instead of waiting for messages.
    --strict  Refuse listeners that retry forever without retry_forever=True.
    --log-level [debug|info|warning|error]  debug logs every message.  [default: info]
    --log-format [text|json]  The format of log lines and errors; text by default.
    """,
    processes={"type": click.IntRange(1, _MAX_PROCESSES)},
    max_jobs_per_child={"type": click.IntRange(1)},
    max_memory_per_child={"type": _memory_size},
    supervised={"type": int, "hidden": True},
    sends_metrics={"hidden": True},
    shows_ns={"hidden": True},
)
@metrics_options
@options("""
    --health-port PORT  Answer probes on this port: /healthz if the worker makes progress, /readyz
        if it receives messages.
    --health-host ADDRESS  Answer probes on this address.  [default: 127.0.0.1]
    --list  Show the workers of the namespace.
    --pause QUEUE  Stop all workers from receiving from a queue.
    --resume QUEUE  Let workers receive from a paused queue again.
    """)
@call_options("workers.pause")
def worker(call: Call, /, **options: Any) -> int:
    """
    Run a worker until it is stopped.

    MODULE:NAME is a worker, or the Tasks, in a module that is in the working folder or installed,
    as in myapp:worker. SIGTERM or Ctrl-C shuts it down gracefully; a second signal ends it at
    once. Its queues are where the worker's own client looks for them, unless --url, RSMQ_URL or a
    profile names another server. Another namespace needs a URL. With several --ns, each namespace
    has a process of its own; --processes spreads N processes over them.

    check in place of MODULE:NAME ends with exit code 0 if the worker NAME, or all processes of
    NAME, are alive, else with 1. Without NAME, a worker of this host must be alive. --list, --pause
    and --resume run no worker either.

    Orders are given to a worker that runs, by its name, or to all its processes: NAME pause, NAME
    resume, NAME concurrency N (its own again without N), NAME stop, and NAME running, which shows
    what each slot runs, for how long, and the lines where threads and tasks are. A worker follows
    within about a second, at rest within three. Its next run has no orders; a supervisor starts a
    stopped process again.
    """
    args = SimpleNamespace(**options)
    if args.app is None and not (args.list or args.pause or args.resume):
        raise click.UsageError("Missing argument 'MODULE:NAME'.")
    if args.checked in _ORDERS and args.app != _CHECK:
        if args.number is not None and args.checked != "concurrency":
            rule = " It ends after --for." if args.checked == "pause" else ""
            raise click.UsageError(f"{args.checked} takes no number.{rule}")
        from rsmq.cli.commands.worker_control import order_workers  # noqa: PLC0415 - takes time

        order_workers(call, args.app, args.checked, args)
        return Exit.DONE
    if args.number is not None:
        raise click.UsageError(f"Got unexpected extra argument ({args.number})")
    if args.checked is not None and args.app != _CHECK:
        if ":" not in args.app:
            orders = ", ".join(_ORDERS)
            raise click.UsageError(f"{args.checked!r} is not an order. The orders are {orders}.")
        raise click.UsageError(f"Got unexpected extra argument ({args.checked})")
    _check_supervision(call, args)
    if args.log_format == "json":
        call.options["json"] = True
    if args.app == _CHECK:
        from rsmq.cli.commands.worker_control import check_workers  # noqa: PLC0415 - takes time

        return check_workers(call, args.checked)
    from rsmq.cli.commands.worker_program import run_worker  # noqa: PLC0415 - as above

    return run_worker(call, args)


def _check_supervision(call: Call, args: SimpleNamespace) -> None:
    """Set whether there is a supervisor, and refuse options that need one, or others."""
    number = len(call.namespaces)
    args.has_supervisor = args.processes is not None or args.reload or number > 1
    if args.processes is not None and args.processes < number:
        raise click.UsageError(
            f"--processes {args.processes} is fewer than the {number} namespaces, each of which "
            "needs a process of its own. Without --processes each has one."
        )
    if not (args.has_supervisor or args.supervised is not None):
        for option in ("max_jobs_per_child", "max_memory_per_child"):
            if getattr(args, option) is not None:
                raise click.UsageError(f"--{option.replace('_', '-')} needs --processes.")


@command("workers", "rsmq workers", "rsmq workers --json")
def workers(call: Call) -> None:
    """
    Show the workers of the namespace.

    It shows workers that are alive, and workers that died within the last day. ALIVE is paused for
    a worker that was ordered to receive nothing, and stalled for one that can't call handlers. FOR
    is the time since the start of a worker that is alive, and since the last sign of life of a dead
    one. A terminal gets the columns that fit.
    """
    from rsmq.cli.commands.worker_control import show_workers  # noqa: PLC0415 - takes time

    show_workers(call)


if __name__ == "__main__":
    sys.exit(run(worker, "rsmq-worker"))
