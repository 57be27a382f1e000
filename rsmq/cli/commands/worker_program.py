"""
The run of ``rsmq-worker`` and ``rsmq worker``: one worker process, or a supervisor of several.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.cli.app.call import Call
from rsmq.cli.app.errors import Exit, Failed
from rsmq.cli.app.loading import loading
from rsmq.cli.app.wait_for_redis import ask_for_queue, wait_for_redis
from rsmq.cli.commands.calls import run_call
from rsmq.cli.commands.health_server import serve_health
from rsmq.cli.commands.metrics_server import serve_metrics
from rsmq.cli.commands.worker_control import show_workers
from rsmq.errors.guarded_log import get_logger
from rsmq.worker.children.child_process import ChildSettings
from rsmq.worker.importing import NotImportable, import_worker, use_other_place
from rsmq.worker.logging import DetailedLogging, log_to_standard_error
from rsmq.worker.supervisor.supervised_worker import SupervisedWorker
from rsmq.worker.supervisor.supervisor import Process, Supervisor, default_name
from rsmq.worker.worker import Worker

_log = get_logger("rsmq.worker")


def run_worker(call: Call, args: SimpleNamespace) -> int:
    """
    Run a worker until it is stopped, or list workers, or pause or resume a queue.

    Args:
        args: the options of the command ``worker``, and whether it ``has_supervisor``.

    Returns:
        The exit code.
    """
    running: list[Worker] = []
    name = args.name or default_name(args.app or "") if args.has_supervisor else None
    log_to_standard_error(
        args.log_level,
        lambda: running[0].name if running else name,
        as_json=_logs_json(call, args),
        ns=call.namespace if args.shows_ns else None,
    )
    if args.pause:
        run_call(call, "pause_queue", queues=[args.pause])
    if args.resume:
        run_call(call, "resume_queue", queues=[args.resume])
    if args.list:
        show_workers(call)
    if args.pause or args.resume or args.list:
        return Exit.DONE
    if args.has_supervisor:
        return _supervise(call, args)
    supervised = None
    if args.supervised is not None:  # reports also while the worker is imported
        supervised = SupervisedWorker(
            args.supervised,
            max_jobs=args.max_jobs_per_child,
            max_memory=args.max_memory_per_child,
        )
    try:
        with loading():
            running.append(_import_worker(args.app))
        _run_process(running[0], call, args, supervised)
    finally:
        if supervised is not None:
            supervised.end()
    return Exit.DONE


def _logs_json(call: Call, args: SimpleNamespace) -> bool:
    return call.as_json and args.log_format != "text"


def _import_worker(name: str) -> Worker:
    try:
        return import_worker(name)
    except NotImportable as error:
        raise Failed(str(error)) from None


def _supervise(call: Call, args: SimpleNamespace) -> int:
    """Run worker processes; return the exit code."""
    processes = _make_processes(call, args)
    metrics = None
    if args.metrics_port is not None:
        from rsmq.metrics.processes import ProcessMetrics  # noqa: PLC0415 - needs an extra

        metrics = ProcessMetrics()
        serve_metrics(args.metrics_port, args.metrics_host)
    supervisor = Supervisor(processes, metrics=metrics, is_burst=args.burst, reload=args.reload)
    if args.health_port is not None:
        serve_health(args.health_port, args.health_host, supervisor.is_healthy, supervisor.is_ready)
    return supervisor.run()


def _make_processes(call: Call, args: SimpleNamespace) -> list[Process]:
    """
    Return the processes of a supervisor: each has one namespace, and each namespace one or more.

    Names are numbered within a namespace. So another namespace, given later, changes no name, and
    each worker takes over the messages of its own predecessor.
    """
    namespaces = call.configured_namespaces
    environment = dict(os.environ)
    if call.configured_url is not None:
        environment["RSMQ_URL"] = call.configured_url
    name, count = args.name or default_name(args.app), max(len(namespaces), 1)
    made = []
    for index in range(args.processes or count):
        own_name = label = f"{name}-{index // count}"
        command, own_environment = _make_command(args, own_name), environment
        if namespaces:
            ns = namespaces[index % count]
            own_environment = {**environment, "RSMQ_NS": ns}
            if count > 1:
                label = f"{own_name} of {ns}"
                command.append("--shows-ns")
        made.append(Process(label, command, own_environment, args.grace))
    return made


def _make_command(args: SimpleNamespace, name: str) -> list[str]:
    """
    Return the command of a worker process of a supervisor.

    The URL is not part of it: other users can see the arguments of a process.

    Args:
        args: the options of the supervisor.
    """
    command = [sys.executable, "-m", "rsmq.cli.commands.worker", args.app, "--name", name]
    for option in (
        "concurrency", "grace", "wait_for_redis", "log_level", "log_format", "max_jobs_per_child",
        "max_memory_per_child",
    ):  # fmt: skip
        value = getattr(args, option)
        if value is not None:
            command += [f"--{option.replace('_', '-')}", str(value)]
    flags = [option for option in ("burst", "strict") if getattr(args, option)]
    if args.metrics_port is not None:
        flags.append("sends-metrics")
    return command + [f"--{flag}" for flag in flags]


def _run_process(
    worker: Worker, call: Call, args: SimpleNamespace, supervised: SupervisedWorker | None
) -> None:
    place = _find_place(call, worker.rsmq)
    if place is not None:
        use_other_place(worker, place)
    for option in ("name", "concurrency", "grace"):
        value = getattr(args, option)
        if value is not None:
            setattr(worker, option, value)
    worker.strict = worker.strict or args.strict
    if args.log_level == "debug":
        worker.use(DetailedLogging())
    take_snapshot = _use_metrics(worker, args)
    if args.health_port is not None:
        serve_health(
            args.health_port,
            args.health_host,
            lambda: worker.health().is_healthy,
            lambda: worker.health().is_ready,
        )
    if supervised is not None:
        supervised.observe(worker, take_snapshot)
    worker.child_settings = ChildSettings(
        args.app,
        list(sys.path),
        place=place,
        log_level=args.log_level,
        log_as_json=_logs_json(call, args),
    )
    try:
        _wait_for_redis(worker, args.wait_for_redis)
        worker.run(until_empty=args.burst)
    finally:
        worker.rsmq.close()


def _find_place(call: Call, own: RSMQ[Any]) -> dict[str, Any] | None:
    """
    Return the configured place of the worker's client; None is that of its own client.

    Raises:
        Failed: a namespace is configured that the own client does not have, and no URL.
    """
    own_ns = own.namespace.name
    ns = call.namespace if call.configured_namespaces else own_ns
    if call.configured_url is not None:
        return {"url": call.configured_url, "ns": ns}
    if ns != own_ns:
        raise Failed(
            f"the namespace {ns!r}, of --ns or RSMQ_NS, goes with --url or RSMQ_URL; the worker's "
            f"own client has {own_ns!r}"
        )
    return None


def _wait_for_redis(worker: Worker, seconds: float) -> None:
    if worker.queues:
        asking = partial(ask_for_queue, worker.rsmq, worker.queues[0])
        wait_for_redis(asking, seconds, _log.warning)


def _use_metrics(worker: Worker, args: SimpleNamespace) -> Callable[[], Any]:
    """
    Count the worker's messages, if a port or a supervisor wants metrics.

    Returns:
        A function that returns their values for the supervisor.
    """
    if args.metrics_port is None and not args.sends_metrics:
        return lambda: None
    from rsmq.metrics import Metrics  # noqa: PLC0415 - needs an extra

    metrics = worker.find(Metrics)
    if metrics is None:
        metrics = Metrics()
        worker.use(metrics)
    if args.metrics_port is not None:
        serve_metrics(args.metrics_port, args.metrics_host)
    return metrics.snapshot
