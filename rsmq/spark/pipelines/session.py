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

#: Attempts of a task. Spark's own default of local mode is one.
_ATTEMPTS = 4


class JavaMissing(RSMQError):
    """Spark needs Java, and there is none."""

    code = "javaMissing"


def session(name: str = "rsmq", master: str | None = None, **settings: Any) -> SparkSession:
    """
    The session under spark-submit, or one of this machine's processors.

    Args:
        name: the application's name.
        master: where Spark runs, as in ``local[2]`` or ``spark://host:7077``.
        settings: Spark's, with ``__`` for dots.

    Raises:
        JavaMissing: there is no Java.
    """
    submitted = "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        _require_java()
        # Workers must find what this process finds.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if master is None or master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder
    builder = builder.appName(name)
    if not submitted:
        builder = builder.master(master or f"local[*,{_ATTEMPTS}]")
        builder = builder.config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.log.level", "ERROR")
    elif master is not None:
        builder = builder.master(master)
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    for setting, value in settings.items():
        builder = builder.config(setting.replace("__", "."), value)
    spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if (home and (Path(home) / "bin" / "java").exists()) or shutil.which("java"):
        return
    raise JavaMissing(
        "Spark needs Java 17 or 21, and there is none",
        hint="Debian: sudo apt-get install openjdk-17-jre-headless; macOS: brew install "
        "openjdk@17. Or set JAVA_HOME.",
    )
