"""
The Spark session of a command.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rsmq.errors import RSMQError
from rsmq.spark import register

#: How often a task is attempted in local mode, where Spark's own default is once.
_MAX_TASK_FAILURES = 4


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
    """
    is_submitted = "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if not is_submitted:
        _require_java()
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
