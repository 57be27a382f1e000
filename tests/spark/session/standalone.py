"""A Spark standalone cluster of two workers, and an archive of Python for its executors."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager, suppress
from importlib.metadata import files, requires
from pathlib import Path

import pyspark

from tests.ports import free_port
from tests.scale import WAIT_SECONDS
from tests.spark.session.conftest import JAVA_OPTIONS, ROOT

SPARK_HOME = Path(pyspark.__file__).parent
#: The variables of programs that call spark-submit.
SPARK_ENVIRONMENT = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
_UNUSED = shutil.ignore_patterns("include", "tests", "src", "*flight*")


def find_packages():
    """Return the folders of the installed packages that executors need."""
    names = {
        name
        for requirement in requires("rsmq")
        if ";" not in requirement or "extra == 'spark'" in requirement
        for name in re.findall(r"[a-z-]+", re.match("[^<>=]+", requirement)[0])
    }
    names -= {"pyspark", "matplotlib"}  # Spark has the first one, and only drivers draw
    return {file.parts[0] for name in names for file in files(name)} - {".."}


def make_environment(folder):
    """Make a virtual environment that has this library, without the network."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target = folder / "lib" / version / "site-packages"
    for name in find_packages():
        source = Path(sysconfig.get_path("platlib")) / name
        shutil.copytree(source, target / name, symlinks=True, ignore=_UNUSED)
    shutil.copytree(ROOT / "rsmq", target / "rsmq")
    # As in the wheel: by this module Spark finds the format.
    shutil.copy(ROOT / "rsmq" / "spark" / "pyspark_rsmq.py", target)


def submit_options(folder):
    """
    Write the settings of spark-submit into a folder, and return the options that name them.

    A folder of settings instead would be in the class path, and Java uses no archive of classes
    then.
    """
    file = folder / "settings.conf"
    file.write_text(
        f"spark.driver.extraJavaOptions {JAVA_OPTIONS}\n"
        f"spark.executor.extraJavaOptions {JAVA_OPTIONS}\n"
        "spark.driver.memory 512m\nspark.executor.memory 512m\n"
        "spark.ui.enabled false\nspark.log.level ERROR\n"
    )
    return "--properties-file", str(file)


class Cluster:
    """
    A master and its workers, whose Python lacks this library.

    Attributes:
        port: the port of the master.
        workers: the processes of the workers.
    """

    def __init__(self, folder):
        folder.mkdir()
        self.port, self.workers, self._folder = free_port(), [], folder
        self._master = self._start("master.Master", "--port", str(self.port))

    def add_worker(self):
        """Start a worker that has a processor, and wait until the master has it."""
        registered = self._count_registrations()
        place = ["-d", str(self._folder), f"spark://127.0.0.1:{self.port}"]
        self.workers.append(self._start("worker.Worker", "-c", "1", "-m", "1g", *place))
        deadline = time.monotonic() + WAIT_SECONDS
        while self._count_registrations() == registered:
            logs = [self._log(name).read_text() for name in ("master.Master", "worker.Worker")]
            assert time.monotonic() < deadline, logs
            time.sleep(0.1)

    def kill_worker(self, number):
        """Kill a worker; its executors end themselves."""
        _kill(self.workers.pop(number))

    def _count_registrations(self):
        return self._log("master.Master").read_text().count("Registering worker")

    def _log(self, name):
        return self._folder / f"{name}.log"

    def _start(self, name, *arguments):
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
            **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
        }  # fmt: skip
        with self._log(name).open("a") as log:
            return subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}",
                 "--host", "127.0.0.1", "--webui-port", str(free_port()), *arguments],
                cwd=self._folder, env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def stop(self):
        for process in (*self.workers, self._master):
            _kill(process)


def _kill(process):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def run_cluster(folder, workers=2):
    """Run a cluster."""
    cluster = Cluster(folder)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()
