"""
The modules that Spark's Python processes import: most processes need no connection to Redis.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


def run_python(code):
    """Run code in a new interpreter; return its output."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_the_import_of_the_data_source_leaves_connections_and_arrow_out():
    loaded = run_python(
        "import sys, rsmq.spark\n"
        "from rsmq.spark import RsmqDataSource\n"
        "source = RsmqDataSource({'queue': 'q'})\n"
        "print(len(source.schema().fields), *sys.modules)"
    ).split()

    assert loaded[0] == "7"
    unwanted = {
        "redis",
        "asyncio",
        "numpy",
        "pyarrow",
        "rsmq._sync.client",
        "rsmq.spark.connections",
    }
    assert unwanted.isdisjoint(loaded)


@pytest.mark.parametrize("module", ["read.batch_read", "stream.reader", "write.sink"])
def test_a_task_imports_what_it_needs_only(module):
    loaded = run_python(f"import sys, rsmq.spark.{module}\nprint(*sys.modules)").split()

    others = {"read.batch_read", "stream.reader", "write.sink"} - {module}
    assert {f"rsmq.spark.{name}" for name in others}.isdisjoint(loaded)


def test_the_listeners_are_imported_by_name():
    text = run_python("from rsmq.spark import StreamMetrics\nprint(StreamMetrics.__name__)")
    assert text == "StreamMetrics\n"
    text = run_python(
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from rsmq import MissingExtra\n"
        "try:\n    from rsmq.spark import StreamMetrics\n"
        "except MissingExtra as error:\n    print(error)"
    )
    assert "needs the extra 'metrics'" in text
    text = run_python(
        "from rsmq.spark import AcknowledgeListener, register\n"
        "from rsmq.spark.stream import acknowledgement\n"
        "print(AcknowledgeListener is acknowledgement.AcknowledgeListener)"
    )
    assert text == "True\n"
    assert run_python("import rsmq.spark as s; print(hasattr(s, 'Listener'))") == "False\n"


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_a_missing_package_is_a_missing_extra(package):
    text = run_python(
        f"import sys; sys.modules[{package!r}] = None\n"
        "from rsmq import MissingExtra\n"
        "try:\n    import rsmq.spark\n"
        "except MissingExtra as error:\n    print(error)"
    )
    assert "needs the extra 'spark'" in text
