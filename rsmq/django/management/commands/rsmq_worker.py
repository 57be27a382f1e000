"""
``manage.py rsmq_worker``: runs the tasks of a backend.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    handle_default_options,
)
from django.utils import autoreload

from rsmq.django import worker_app
from rsmq.django.backend import RSMQBackend
from rsmq.django.task_interface import task_backends
from rsmq.django.task_worker import make_worker
from rsmq.errors import RSMQError
from rsmq.worker.worker import Worker

#: Seconds between two attempts to stop a worker that may not have started yet.
_POLL_SECONDS = 0.1


class Command(BaseCommand):
    """The command."""

    help = (
        "Runs tasks that were enqueued with rsmq.django.RSMQBackend, until SIGTERM or Ctrl-C. It "
        "also takes all options of rsmq-worker, such as --processes, --metrics-port, --health-port "
        "and --log-format; see rsmq-worker --help."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of the command."""
        parser.add_argument(
            "--backend",
            default="default",
            metavar="ALIAS",
            help="the alias of the backend in TASKS (default: %(default)s)",
        )
        parser.add_argument(
            "--queues",
            default="",
            metavar="NAMES",
            help="its queues, separated by commas (default: all of QUEUES)",
        )
        parser.add_argument(
            "--concurrency",
            type=int,
            default=8,
            metavar="N",
            help="how many tasks run at the same time, in threads (default: %(default)s)",
        )
        parser.add_argument(
            "--grace",
            type=float,
            default=30.0,
            metavar="SECONDS",
            help="how long running tasks may take to end at a stop (default: %(default)g)",
        )
        parser.add_argument(
            "--name",
            help="the name of the worker, the same at every start, and used by one worker only",
        )
        parser.add_argument(
            "--until-empty", action="store_true", help="end when no task is due, as for a cron job"
        )
        parser.add_argument(
            "--autoreload",
            action="store_true",
            help="restart when a file of the project has changed, for development",
        )

    def run_from_argv(self, argv: list[str]) -> None:
        """Replace this process by the program rsmq-worker, which takes all its options."""
        parser = self.create_parser(argv[0], argv[1])
        options, others = parser.parse_known_args(argv[2:])
        if options.autoreload:
            super().run_from_argv(argv)
            return
        handle_default_options(options)
        try:
            self._make_worker(**vars(options)).rsmq.close()  # finds faults of the settings
        except CommandError as error:
            self.stderr.write(f"{type(error).__name__}: {error}")
            sys.exit(error.returncode)
        program = [
            sys.executable,
            "-m",
            "rsmq.cli.commands.worker",
            f"{worker_app.__name__}:backend",
        ]
        for option in ("name", "concurrency", "grace"):
            if (value := getattr(options, option)) is not None:
                program += [f"--{option}", str(value)]
        if options.until_empty:
            program.append("--burst")
        if options.verbosity == 0:
            program += ["--log-level", "warning"]
        path = [each for each in (options.pythonpath, os.environ.get("PYTHONPATH")) if each]
        os.environ |= {
            worker_app.BACKEND_VARIABLE: options.backend,
            worker_app.QUEUES_VARIABLE: options.queues.replace(" ", ""),
            "PYTHONPATH": os.pathsep.join(path),
        }
        os.execv(sys.executable, [*program, *others])  # noqa: S606 - our own program

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's
        """Run a worker."""
        if options["autoreload"]:
            autoreload.run_with_reloader(self._run_until_change, **options)
        else:
            self._run(self._make_worker(**options), **options)

    def _make_worker(self, **options: Any) -> Worker[Any]:
        alias = options["backend"]
        try:
            backend = task_backends[alias]
            if not isinstance(backend, RSMQBackend):
                raise CommandError(
                    f"TASKS[{alias!r}] is a {type(backend).__name__}, not rsmq.django.RSMQBackend."
                )
            return make_worker(
                backend,
                [name.strip() for name in options["queues"].split(",") if name.strip()],
                name=options["name"],
                concurrency=options["concurrency"],
                grace=options["grace"],
            )
        except (ImproperlyConfigured, RSMQError) as error:
            raise CommandError(str(error)) from error

    def _run(self, worker: Worker[Any], **options: Any) -> None:
        log = logging.getLogger("rsmq")
        if not log.hasHandlers():
            log.addHandler(logging.StreamHandler())
        if log.level == logging.NOTSET and options["verbosity"] > 0:
            log.setLevel(logging.INFO)
        try:
            worker.run(until_empty=options["until_empty"])
        except RSMQError as error:
            raise CommandError(str(error)) from error

    def _run_until_change(self, **options: Any) -> None:
        """Run a worker in this thread; it is stopped gracefully before the process is restarted."""
        autoreload.raise_last_exception()
        worker = self._make_worker(**options)
        ended = threading.Event()

        def stop(file_path: Path, **_: Any) -> None:
            # After a change of another file, such as a template, Django may continue.
            while file_path.suffix == ".py" and not ended.wait(_POLL_SECONDS):
                worker.stop()  # changes nothing before the worker has started

        autoreload.file_changed.connect(stop, weak=False)
        try:
            self._run(worker, **options)
        finally:
            ended.set()
