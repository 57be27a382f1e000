"""A Spark standalone cluster of one worker, and an archive of Python for its executors."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager
from importlib.metadata import files, requires
from pathlib import Path

import pyspark

from tests.ports import free_port
from tests.spark.session.conftest import JAVA_OPTIONS, ROOT, SHORT

SPARK_HOME = Path(pyspark.__file__).parent
_START_SECONDS = 60
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


def write_settings(folder):
    """Write the settings of spark-submit into a folder, and return its environment variables."""
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text(
        f"spark.driver.extraJavaOptions {SHORT}\n"
        f"spark.executor.extraJavaOptions {JAVA_OPTIONS}\n"
        "spark.driver.memory 512m\nspark.executor.memory 512m\n"
        "spark.ui.enabled false\nspark.log.level ERROR\n"
    )
    return {
        "SPARK_CONF_DIR": str(folder), "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip


@contextmanager
def run_cluster(folder):
    """Run a master, and a worker whose Python lacks this library; yield the port of the master."""
    folder.mkdir()
    port = free_port()
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
    }  # fmt: skip
    place = ["--host", "127.0.0.1", "--webui-port", str(free_port())]
    commands = {
        "master.Master": [*place, "--port", str(port)],
        "worker.Worker": ["-c", "2", "-m", "1g", "-d", str(folder), f"spark://127.0.0.1:{port}"],
    }
    processes, logs = [], []
    try:
        for name, arguments in commands.items():
            logs.append(folder / f"{name}.log")
            with logs[-1].open("w") as log:
                processes.append(
                    subprocess.Popen(
                        [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}",
                         *(arguments if name == "master.Master" else [*place[:2], *arguments])],
                        cwd=folder, env=environment, stdout=log, stderr=log,
                        start_new_session=True,
                    )
                )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS
        while "Registering worker" not in logs[0].read_text():
            assert time.monotonic() < deadline, [log.read_text() for log in logs]
            time.sleep(0.1)
        yield port
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
