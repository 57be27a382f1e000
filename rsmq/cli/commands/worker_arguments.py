"""
The arguments of ``rsmq-worker`` and ``rsmq worker``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from rsmq.cli.app.argument_parser import RedactingParser
from rsmq.cli.app.durations import duration_argument
from rsmq.wire.cells import MAX_CELLS

#: The word that stands for MODULE:NAME when workers are checked.
CHECK = "check"
_MAX_PROCESSES = 1000
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMG])?B?", re.IGNORECASE)
_UNIT_BYTES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def parse(arguments: Sequence[str] | None, name: str) -> argparse.Namespace:
    """
    Parse the arguments; wrong ones end the process with a usage text and code 2.

    Args:
        arguments: the arguments of the command line; None takes those of the process.
        name: the name of the program in the usage text.
    """
    parser = _parser(name)
    args = parser.parse_args(arguments)
    if args.app is None and not (args.list or args.pause or args.resume):
        parser.error(f"say which worker: {name} MODULE:NAME")
    if args.checked is not None and args.app != CHECK:
        parser.error(f"unrecognized arguments: {args.checked}")
    args.has_supervisor = args.processes is not None or args.reload
    if not (args.has_supervisor or args.supervised is not None):
        for option in ("max_jobs_per_child", "max_memory_per_child"):
            if getattr(args, option) is not None:
                parser.error(f"--{option.replace('_', '-')} needs --processes")
    args.processes = args.processes or 1
    return args


def child_arguments(args: argparse.Namespace, name: str) -> list[str]:
    """
    Return the arguments of a worker process that a supervisor starts.

    The URL is not among them: other users can see the arguments of a process.

    Args:
        args: the arguments of the supervisor.
        name: the name of the process's worker.
    """
    found = [args.app, "--name", name]
    for option in (
        "concurrency", "grace", "wait_for_redis", "log_level", "log_format", "max_jobs_per_child",
        "max_memory_per_child",
    ):  # fmt: skip
        value = getattr(args, option)
        if value is not None:
            found += [f"--{option.replace('_', '-')}", str(value)]
    return found + [f"--{option}" for option in ("burst", "strict") if getattr(args, option)]


def _process_count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _MAX_PROCESSES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of processes. Give one from 1 to {_MAX_PROCESSES}."
        )
    return int(text)


def _cell_count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MAX_CELLS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of cells. Give one from 1 to {MAX_CELLS}."
        )
    return int(text)


def _job_count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of jobs. Give one from 1.")
    return int(text)


def _memory_size(text: str) -> int:
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size. Give bytes, or as in 500M or 2G."
        )
    return round(float(found[1]) * _UNIT_BYTES[(found[2] or "").upper()])


def _parser(name: str) -> argparse.ArgumentParser:
    parser = RedactingParser(
        prog=name,
        description="Run the worker NAME of a module, which is in the working folder or installed. "
        "SIGTERM or Ctrl-C shuts it down gracefully; a second signal ends it at once.",
    )
    parser.add_argument("app", nargs="?", metavar="MODULE:NAME", help="as in myapp:worker")
    parser.add_argument(
        "checked", nargs="?", metavar="NAME",
        help="with check instead of MODULE:NAME: the worker, or all processes of this name, that "
        "must be alive (default: a worker of this host); exit code 0 or 1",
    )  # fmt: skip
    parser.add_argument(
        "--url", action="append",
        help="the URL of Redis (default: RSMQ_URL or a profile, else that of the worker's client); "
        "with --cells also one for each cell",
    )  # fmt: skip
    parser.add_argument(
        "--ns",
        help="the namespace; needs a URL (default: RSMQ_NS or a profile, else that of the worker's "
        "client)",
    )
    parser.add_argument(
        "--cells", type=_cell_count, metavar="N",
        help="the queues are spread over N cells, and --ns is the name of the set (default: "
        "RSMQ_CELLS or a profile, else as the worker's client)",
    )  # fmt: skip
    parser.add_argument(
        "--name",
        help="the name of this worker; the next worker with this name takes over its messages "
        "(default: a new one at each start; with --processes the host and MODULE-NAME)",
    )
    parser.add_argument(
        "--processes", type=_process_count, metavar="N",
        help="run N processes, named NAME-0 to NAME-(N-1), and start them again when they die; "
        "SIGHUP restarts one after the other",
    )  # fmt: skip
    parser.add_argument(
        "--max-jobs-per-child", type=_job_count, metavar="N",
        help="with --processes: restart a process gracefully after so many messages",
    )  # fmt: skip
    parser.add_argument(
        "--max-memory-per-child", type=_memory_size, metavar="SIZE",
        help="with --processes: restart a process gracefully when it uses more memory, as in 500M",
    )  # fmt: skip
    parser.add_argument(
        "--reload", action="store_true",
        help="restart when a Python file in the working folder changes; for development",
    )  # fmt: skip
    parser.add_argument("--supervised", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--sends-metrics", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--concurrency", type=int, metavar="N", help="the most handlers that run at the same time"
    )
    parser.add_argument(
        "--grace",
        type=duration_argument,
        metavar="DURATION",
        help="how long handlers may still run at shutdown, as in 30, 30s or 2m",
    )
    parser.add_argument(
        "--wait-for-redis",
        type=duration_argument,
        default=60.0,
        metavar="DURATION",
        help="wait so long at the start for a Redis that is away (default: 60)",
    )
    parser.add_argument(
        "--burst",
        action="store_true",
        help="end when all queues of the worker are empty, instead of waiting for messages",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse listeners that retry forever without retry_forever=True",
    )
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning", "error"],
        help="debug logs every message (default: info)",
    )  # fmt: skip
    parser.add_argument(
        "--log-format",
        choices=["text", "json"],
        help="the format of log lines and errors (default: text)",
    )
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT",
        help="serve metrics for Prometheus on this port (needs the extra metrics)",
    )  # fmt: skip
    parser.add_argument(
        "--metrics-host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="serve metrics on this address (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--health-port", type=int, metavar="PORT",
        help="answer probes on this port: /healthz if the worker makes progress, /readyz if it "
        "receives messages",
    )  # fmt: skip
    parser.add_argument(
        "--health-host", default="127.0.0.1", metavar="ADDRESS",
        help="answer probes on this address (default: 127.0.0.1)",
    )  # fmt: skip
    control = parser.add_argument_group("instead of running a worker")
    control.add_argument("--list", action="store_true", help="show the workers of the namespace")
    control.add_argument(
        "--pause", metavar="QUEUE", help="stop all workers from receiving from a queue"
    )
    control.add_argument(
        "--resume", metavar="QUEUE", help="let workers receive from a paused queue again"
    )
    return parser
