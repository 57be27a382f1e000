"""
The Spark session of a command.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rsmq.errors import InvalidOption, RSMQError
from rsmq.spark import register

#: How often a task is attempted in local mode, where Spark's own default is once.
_MAX_TASK_FAILURES = 4

#: How long a master has time to accept a connection. Spark itself waits for a minute.
_CONNECT_SECONDS = 10.0

_MASTER = re.compile(
    r"local(\[(\*|\d+)(,\s*\d+)?\])?|local-cluster\[.+\]|yarn|k8s://.+"
    r"|spark://[^,:]+:\d{1,5}(,[^,:]+:\d{1,5})*|spark://\[[0-9a-fA-F:.]+\]:\d{1,5}"
)


class JavaMissing(RSMQError):
    """Spark needs Java, and none was found."""

    code = "javaMissing"


def session(name: str = "rsmq", master: str | None = None, **settings: Any) -> SparkSession:
    """
    Return the Spark session: that of spark-submit, or else one that uses this machine's processors.

    Args:
        name: the application's name.
        master: the URL of Spark's master, such as ``local[2]`` or ``spark://host:7077``.
        settings: settings of Spark, with ``__`` in place of dots.

    Raises:
        JavaMissing: no Java was found.
        InvalidOption: ``master`` is not the URL of a master, or no master answers there.
    """
    is_submitted = check_environment(master)
    if not is_submitted:
        # Python workers must be able to import what this process can.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if master is None or master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder
    builder = builder.appName(name)
    if not is_submitted:
        builder = builder.master(master or f"local[*,{_MAX_TASK_FAILURES}]")
        builder = builder.config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.log.level", "ERROR")
    elif master is not None:
        builder = builder.master(master)
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    for setting, value in settings.items():
        builder = builder.config(setting.replace("__", "."), value)
    spark: SparkSession = builder.getOrCreate()
    if not _has_format(spark):
        register(spark)
    return spark


def check_environment(master: str | None = None) -> bool:
    """
    Check what a session needs, before it starts.

    Args:
        master: the URL of Spark's master; None is this machine, or that of spark-submit.

    Returns:
        Whether spark-submit has started this process. Then nothing is checked.

    Raises:
        JavaMissing: no Java was found.
        InvalidOption: ``master`` is not the URL of a master, or no master answers there.
    """
    if "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ:
        return True
    _require_java()
    if master is not None:
        _require_master(master)
    return False


def _require_master(master: str) -> None:
    if not _MASTER.fullmatch(master):
        raise InvalidOption(
            "master",
            "is the URL of a Spark master, such as local[2], spark://host:7077, yarn or "
            f"k8s://https://host:443; got {master!r}.",
            value=master,
        )
    if not master.startswith("spark://"):
        return
    failures = []
    for address in master.removeprefix("spark://").split(","):  # standby masters
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError as error:
            failures.append(f"{address}: {error.strerror or error}")
        else:
            return
    raise InvalidOption("master", f"no Spark master answers ({', '.join(failures)}).", value=master)


def _has_format(spark: Any) -> bool:
    """
    Return whether the session has ``format("rsmq")``: Spark warns about a second registration.

    False with Spark Connect, whose client can't find out.
    """
    java_session = getattr(spark, "_jsparkSession", None)
    if java_session is None:
        return False
    return bool(java_session.sessionState().dataSourceManager().dataSourceExists("rsmq"))


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if (home and (Path(home) / "bin" / "java").exists()) or shutil.which("java"):
        return
    raise JavaMissing(
        "Spark needs Java 17 or 21, and there is none",
        hint="Debian: sudo apt-get install openjdk-17-jre-headless; macOS: brew install "
        "openjdk@17. Or set JAVA_HOME.",
    )
