"""
``rsmq-worker`` and ``rsmq worker``: the program that runs the worker of a module.

It needs nothing but the core of the library: no extra, so no click and no rich.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from rsmq.cli.app.argument_parser import RedactingParser
from rsmq.cli.app.call import Call
from rsmq.cli.app.durations import duration_argument
from rsmq.cli.app.errors import Failed
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.run import run_program
from rsmq.cli.app.wait_for_redis import wait_for_redis
from rsmq.cli.commands.worker_control import pause_queues, resume_queues, show_workers
from rsmq.client import RSMQ
from rsmq.errors import RSMQError
from rsmq.worker.logging import DetailedLogging, JSONLines, MessageFilter
from rsmq.worker.worker import Worker

_log = logging.getLogger("rsmq.worker")


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run ``rsmq-worker``.

    Args:
        arguments: the arguments of the command line; None takes those of the process.

    Returns:
        The exit code, one of ``rsmq``.
    """
    args = parse(arguments, "rsmq-worker")
    as_json = args.log_format == "json"
    return run_program("rsmq-worker", lambda: run(Call(), args), as_json=lambda: as_json)


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
    return args


def run(call: Call, args: argparse.Namespace) -> int:
    """
    Run a worker until it is stopped, or list workers, or pause or resume a queue.

    Args:
        call: the options, the environment and the profile; ``args`` has precedence.
        args: the parsed arguments.

    Returns:
        The exit code.
    """
    call = call.with_options(url=args.url, ns=args.ns, json=args.log_format == "json")
    running: list[Worker] = []
    _log_to_standard_error(
        args.log_level, running, as_json=call.as_json and args.log_format != "text"
    )
    if args.pause:
        pause_queues(call, [args.pause])
    if args.resume:
        resume_queues(call, [args.resume])
    if args.list:
        show_workers(call)
    if not (args.list or args.pause or args.resume):
        running.append(_import_worker(args.app))
        _run_worker(running[0], call, args)
    return Exit.DONE


def _parser(name: str) -> argparse.ArgumentParser:
    parser = RedactingParser(
        prog=name,
        description="Run the worker NAME of a module, which is in the working folder or installed. "
        "SIGTERM or Ctrl-C shuts it down gracefully; a second signal ends it at once.",
    )
    parser.add_argument("app", nargs="?", metavar="MODULE:NAME", help="as in myapp:worker")
    parser.add_argument(
        "--url",
        help="the URL of Redis (default: RSMQ_URL or a profile, else that of the worker's client)",
    )
    parser.add_argument(
        "--ns",
        help="the namespace; needs a URL (default: RSMQ_NS or a profile, else that of the worker's "
        "client)",
    )
    parser.add_argument(
        "--name",
        help="the name of this worker; the next worker with this name takes over its messages",
    )
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
    control = parser.add_argument_group("instead of running a worker")
    control.add_argument("--list", action="store_true", help="show the workers of the namespace")
    control.add_argument(
        "--pause", metavar="QUEUE", help="stop all workers from receiving from a queue"
    )
    control.add_argument(
        "--resume", metavar="QUEUE", help="let workers receive from a paused queue again"
    )
    return parser


class _TextLines(logging.Formatter):
    """Lines with times in UTC, in the format of all programs, to the millisecond."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def _log_to_standard_error(level: str, running: Sequence[Worker], *, as_json: bool) -> None:
    """Set up logging. Lines have the name of the running worker, if there is one."""
    handler = logging.StreamHandler()
    handler.addFilter(MessageFilter())
    if as_json:
        handler.setFormatter(JSONLines(lambda: running[0].name if running else None))
    else:
        handler.setFormatter(_TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _import_worker(name: str) -> Worker:
    """
    Import the worker that ``MODULE:NAME`` names.

    Raises:
        Failed: the name has another form, or there is no such module or worker.
    """
    module, colon, path = name.partition(":")
    if not colon or not module or not path:
        raise Failed(f"{name!r} is not of the form MODULE:NAME, as in myapp:worker")
    if not all(part.isidentifier() for part in module.split(".")):
        raise Failed(f"{module!r} is not a module: write package.module:NAME, with dots")
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - as sys.path has it
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as above
    try:
        loaded: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # a module that it imports is missing
        raise Failed(f"there is no module {module!r} in {os.getcwd()}, nor installed") from None  # noqa: PTH109 - as above
    for part in path.split("."):
        loaded = getattr(loaded, part, None)
    if loaded is None:
        raise Failed(f"the module {module!r} has no {path!r}")
    if not isinstance(loaded, Worker):
        raise Failed(f"{name} is not a Worker, but of type {type(loaded).__name__}")
    return loaded


def _run_worker(worker: Worker, call: Call, args: argparse.Namespace) -> None:
    url, ns = call.configured
    ns = ns or worker.rsmq.namespace.name
    own = worker.rsmq
    if url is not None:
        # The worker's own client stays open: handlers may use it.
        worker.rsmq = RSMQ.from_url(
            url, ns=ns, codec=own.codec, strict_names=own.namespace.strict_names
        )
    elif ns != own.namespace.name:
        raise Failed(
            f"the namespace {ns!r}, of --ns or RSMQ_NS, goes with --url or RSMQ_URL; the worker's "
            f"own client has {own.namespace.name!r}"
        )
    for option in ("name", "concurrency", "grace"):
        value = getattr(args, option)
        if value is not None:
            setattr(worker, option, value)
    worker.strict = worker.strict or args.strict
    if args.log_level == "debug":
        worker.use(DetailedLogging())
    if args.metrics_port is not None:
        _serve_metrics(worker, args)
    try:
        _wait_for_redis(worker, args.wait_for_redis)
        worker.run(until_empty=args.burst)
    finally:
        worker.rsmq.close()


def _wait_for_redis(worker: Worker, seconds: float) -> None:
    def ask() -> None:
        with contextlib.suppress(RSMQError):  # Redis has answered
            worker.rsmq.get_queue_attributes(worker.queues[0])

    if worker.queues:
        wait_for_redis(ask, seconds, _log.warning)


def _serve_metrics(worker: Worker, args: argparse.Namespace) -> None:
    from rsmq.metrics import Metrics, serve  # noqa: PLC0415 - needs an extra

    if not worker.has(Metrics):
        worker.use(Metrics())
    try:
        serve(args.metrics_port, args.metrics_host)
    except OSError as error:
        raise Failed(f"port {args.metrics_port}: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
