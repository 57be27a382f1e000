"""A real project, made by ``django-admin startproject``, with its worker as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from rsmq import RSMQ
from rsmq.worker import list_workers
from tests.django.environment import APPS
from tests.ports import free_port
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until

ROOT = Path(__file__).parents[2]

SETTINGS = """
INSTALLED_APPS += [*{apps}, "rsmq.django"]
TASKS = {{
    "default": {{
        "BACKEND": "rsmq.django.RSMQBackend",
        "OPTIONS": {{"url": {url!r}, "ns": {ns!r}}},
    }}
}}
"""
TASKS = """
import pathlib, time

from {module} import task

@task
def add(a, b):
    return a + b {change}

@task
def wait_for(path):
    pathlib.Path(path + "-begun").touch()
    while not pathlib.Path(path).exists():
        time.sleep(0.01)
    return "found"
"""


class Project:
    def __init__(self, folder, url, ns):
        self.folder = folder
        self.queues = RSMQ.from_url(url, ns=ns)
        self._raw, self._ns = redis.Redis.from_url(url), ns
        self._processes = []
        self._environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
        self.run("-m", "django", "startproject", "shop", ".")
        settings = (folder / "shop" / "settings.py").read_text()
        settings += SETTINGS.format(apps=APPS, url=url, ns=ns)
        (folder / "shop" / "settings.py").write_text(settings)
        self.write_tasks()

    def write_tasks(self, change="", times=0):
        """Write the tasks, with a time of the file that is later than that of all earlier ones."""
        path = self.folder / "shop" / "tasks.py"
        module = "django_tasks" if APPS else "django.tasks"
        path.write_text(TASKS.format(module=module, change=change))
        time = path.stat().st_mtime + times
        os.utime(path, (time, time))

    def run(self, *arguments):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=self._environment, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments):
        process = subprocess.Popen(
            [sys.executable, "manage.py", "rsmq_worker", *arguments], cwd=self.folder,
            env=self._environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def record(self, id):
        return self._raw.hgetall(f"{self._ns}:default:x:job:{id}")

    def send(self, task, *args):
        self.queues.create_queue("default", exist_ok=True)
        body = f'{{"task": "shop.tasks.{task}", "args": {{}}, "positional": {list(args)}}}'
        return self.queues.send_message("default", body.replace("'", '"'))

    def close(self):
        for process in self._processes:
            with process, suppress(ProcessLookupError):  # closes its pipes, and waits
                os.killpg(process.pid, signal.SIGKILL)  # with the child of the reloader
        self.queues.close()
        self._raw.close()


@pytest.fixture
def project(tmp_path, server, ns):
    project = Project(tmp_path, server.url, ns)
    yield project
    project.close()


def test_a_worker_ends_gracefully_and_another_process_reads_the_result(project):
    worker, path = project.start("--grace", "60"), project.folder / "done"
    script = f"from shop.tasks import wait_for; print(wait_for.enqueue({str(path)!r}).id)"
    setup = "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'shop.settings'"
    id = project.run("-c", f"{setup}; django.setup(); {script}").strip()
    # Its state is "running" before that, from the receive on; a worker that stops then releases it.
    wait_until((project.folder / "done-begun").exists)
    job = project.queues.job("default", id.removesuffix("-default"))
    assert job.status().state == "running"

    worker.send_signal(signal.SIGTERM)
    path.touch()
    _, log = worker.communicate()

    assert worker.returncode == 0, log
    assert "stops, by SIGTERM" in log
    script = (
        f"from shop.tasks import wait_for as w; r = w.get_result({id!r}); print(r.return_value)"
    )
    imports = "import sys, rsmq; assert 'django' not in sys.modules"
    assert project.run("-c", f"{imports}; {setup}; django.setup(); {script}") == "found\n"


def test_without_django_the_package_names_its_extra():
    script = "import sys; sys.modules['django'] = None; import rsmq.django; rsmq.django.health"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "MissingExtra: rsmq.django.health needs the extra 'django'" in done.stderr


@pytest.mark.slow
def test_the_task_of_a_killed_worker_is_run_again_and_both_attempts_are_recorded(project):
    worker, path = project.start("--name", "w"), project.folder / "done"
    id = project.send("wait_for", str(path))
    job = project.queues.job("default", id)
    wait_until(lambda: project.record(id).get(b"workers") == b"1 w\n")

    worker.kill()
    worker.wait()
    path.touch()
    project.start("--name", "w")

    assert job.result(timeout=WAIT_SECONDS) == "found"
    assert project.record(id)[b"workers"] == b"1 w\n2 w\n"
    assert b"errors" not in project.record(id)


def test_the_command_takes_all_options_of_the_program(project):
    port = free_port()
    first = project.queues.job("default", project.send("add", 1, 2))
    options = ["--processes", "2", "--name", "shop", "--log-format", "json"]
    worker = project.start(*options, "--health-port", str(port), "--queues", "default")
    assert first.result(timeout=WAIT_SECONDS) == 3
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as response:
        assert response.status == 200
    wait_until(lambda: len(list_workers(project.queues)) == 2)
    names = [each.name for each in list_workers(project.queues)]

    worker.send_signal(signal.SIGTERM)
    _, log = worker.communicate()
    assert worker.returncode == 0, log
    assert names == ["shop-0", "shop-1"]
    assert json.loads(log.splitlines()[-1])


def test_the_command_explains_faults_before_it_becomes_the_program(project):
    worker = project.start("--queues", "other")
    _, log = worker.communicate()
    assert worker.returncode == 1
    assert "CommandError: 'other' is not in TASKS['default']['QUEUES']" in log


def test_autoreload_runs_the_new_code_after_a_change(project):
    worker = project.start("--autoreload")
    first = project.queues.job("default", project.send("add", 1, 2))
    assert first.result(timeout=WAIT_SECONDS) == 3
    times = 0

    def is_changed():
        nonlocal times
        times += 1
        project.write_tasks("* 100", times)  # until the worker has seen a change
        return (
            project.queues.job("default", project.send("add", 1, 2)).result(timeout=WAIT_SECONDS)
            != 3
        )

    wait_until(is_changed)
    assert worker.poll() is None
