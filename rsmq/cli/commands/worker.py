"""
``rsmq-worker``: runs the worker of a module.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from redis.exceptions import RedisError

from rsmq.client import RSMQ
from rsmq.errors import RSMQError
from rsmq.worker.logging import DetailedLogging, JSONLines, MessageFilter
from rsmq.worker.registry import list_workers
from rsmq.worker.worker import Worker

#: Exit codes: stopped in order; failed; wrong arguments, as argparse has it.
OK, FAILED, USAGE = 0, 1, 2

_DEFAULT_URL = "redis://127.0.0.1:6379/0"


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command.

    Args:
        arguments: those of the command line; None is sys.argv's.

    Returns:
        The exit code.
    """
    try:
        return run(arguments, "rsmq-worker")
    except RSMQError as error:
        hint = f" {error.hint}" if error.hint else ""
        print(f"rsmq-worker: {error}.{hint}", file=sys.stderr)
    except RedisError as error:
        print(f"rsmq-worker: {type(error).__name__}: {error}", file=sys.stderr)
    except OSError as error:
        print(f"rsmq-worker: {error}", file=sys.stderr)
    return FAILED


def run(arguments: Sequence[str] | None, name: str) -> int:
    """
    Run the command under a name of its program; what goes wrong is raised.

    Args:
        arguments: those of the command line; None is sys.argv's.
        name: as the usage shows it.

    Returns:
        The exit code.
    """
    parser = _parser(name)
    given = parser.parse_args(arguments)
    _log_to_standard_error(given)
    if given.list or given.pause or given.resume:
        return _look_or_steer(given)
    if given.app is None:
        parser.error(f"say which worker: {name} MODULE:NAME")
    return _run(_worker(given), given)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=name,
        description="Run the worker NAME of a module in the working folder or of a package: "
        "SIGTERM or Ctrl-C ends it in order, a second one at once.",
    )
    parser.add_argument("app", nargs="?", metavar="MODULE:NAME", help="as in myapp:worker")
    parser.add_argument("--url", help="of Redis (default: RSMQ_URL, else the worker's own)")
    parser.add_argument(
        "--ns", help="the namespace, with a url (default: RSMQ_NS, else the worker's own)"
    )
    parser.add_argument("--name", help="of this worker: its successor takes over by it")
    parser.add_argument("--concurrency", type=int, metavar="N", help="calls of handlers at once")
    parser.add_argument("--grace", type=float, metavar="SECONDS", help="for handlers to end in")
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning", "error"],
        help="debug tells every message (default: info)",
    )  # fmt: skip
    parser.add_argument(
        "--log-format", default="text", choices=["text", "json"], help="(default: text)"
    )
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT",
        help="answer Prometheus there, on 127.0.0.1 (needs the extra metrics)",
    )  # fmt: skip
    parser.add_argument(
        "--metrics-host", default="127.0.0.1", metavar="ADDRESS", help="or elsewhere"
    )
    steer = parser.add_argument_group("instead of running one")
    steer.add_argument("--list", action="store_true", help="show the workers of the namespace")
    steer.add_argument("--pause", metavar="QUEUE", help="let all workers leave a queue alone")
    steer.add_argument("--resume", metavar="QUEUE", help="let them go on with it")
    return parser


def _log_to_standard_error(given: argparse.Namespace) -> None:
    handler = logging.StreamHandler()
    handler.addFilter(MessageFilter())
    if given.log_format == "json":
        handler.setFormatter(JSONLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=given.log_level.upper(), handlers=[handler])


def _client(given: argparse.Namespace) -> RSMQ:
    url = given.url or os.environ.get("RSMQ_URL") or _DEFAULT_URL
    return RSMQ.from_url(url, ns=given.ns or os.environ.get("RSMQ_NS") or "rsmq")


def _worker(given: argparse.Namespace) -> Worker:
    module, colon, name = given.app.partition(":")
    if not colon or not module or not name:
        raise _NoWorker(f"{given.app!r} is not of the form MODULE:NAME, as in myapp:worker")
    if not all(part.isidentifier() for part in module.split(".")):
        raise _NoWorker(f"{module!r} is no module: write package.module:NAME, with dots")
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - as sys.path has it
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as above
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # something that the module imports is missing
        raise _NoWorker(f"there is no module {module!r} in {os.getcwd()}, nor installed") from None  # noqa: PTH109 - as above
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise _NoWorker(f"the module {module!r} has no {name!r}")
    if not isinstance(found, Worker):
        raise _NoWorker(f"{given.app} is no Worker, but of type {type(found).__name__}")
    return found


class _NoWorker(RSMQError):
    """What the command was given leads to no worker."""


def _run(worker: Worker, given: argparse.Namespace) -> int:
    url = given.url or os.environ.get("RSMQ_URL")
    ns = given.ns or os.environ.get("RSMQ_NS") or worker.rsmq.namespace.name
    before = worker.rsmq
    if url is not None:
        # The worker's own client stays open: handlers may use it.
        worker.rsmq = RSMQ.from_url(
            url, ns=ns, codec=before.codec, strict_names=before.namespace.strict_names
        )
    elif ns != before.namespace.name:
        raise _NoWorker(
            f"the namespace {ns!r}, of --ns or RSMQ_NS, goes with --url or RSMQ_URL; the worker's "
            f"own client has {before.namespace.name!r}"
        )
    for option in ("name", "concurrency", "grace"):
        value = getattr(given, option)
        if value is not None:
            setattr(worker, option, value)
    if given.log_level == "debug":
        worker.use(DetailedLogging())
    if given.metrics_port is not None:
        from rsmq.metrics import Metrics, serve  # noqa: PLC0415 - needs an extra

        if not worker.has(Metrics):
            worker.use(Metrics())
        try:
            serve(given.metrics_port, given.metrics_host)
        except OSError as error:
            raise _NoWorker(f"port {given.metrics_port}: {error.strerror}") from None
    try:
        worker.run()
    finally:
        worker.rsmq.close()
    return OK


def _look_or_steer(given: argparse.Namespace) -> int:
    with _client(given) as rsmq:
        for queue, steer, said in (
            (given.pause, rsmq.pause_queue, "paused"),
            (given.resume, rsmq.resume_queue, "resumed"),
        ):
            if queue:
                print(f"{queue}: {said}" if steer(queue) else f"{queue}: was {said} already")
        if given.list:
            _show_workers(rsmq)
    return OK


def _show_workers(rsmq: RSMQ) -> None:
    workers = list_workers(rsmq)
    if not workers:
        print("no workers")
    for each in workers:
        since, seen = (
            datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            for ms in (each.since_ms, each.seen_ms)
        )
        holds = ", ".join(f"{queue}: {number}" for queue, number in each.queues.items())
        print(
            f"{each.name}  {'alive' if each.alive else 'dead'}  since {since}  last seen {seen}  "
            f"{each.host}, process {each.pid}  holds {holds or 'nothing'}  "
            f"handled {each.handled}, failed {each.failed}"
        )


if __name__ == "__main__":
    sys.exit(main())
