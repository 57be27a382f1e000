"""The extra: without it, and without the import, nothing of OpenTelemetry is needed."""

from __future__ import annotations

import subprocess
import sys


def run(program):
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    return completed.stdout


def test_without_opentelemetry_the_extra_is_named():
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try:\n"
        "    import rsmq.opentelemetry\n"
        "except ImportError as error:\n"
        "    print(type(error).__name__, error.value)\n"
        "    print('rsmq.opentelemetry' in str(error))\n"
    )

    assert run(program) == "MissingExtra opentelemetry\nTrue\n"


def test_the_rest_of_the_library_does_not_import_it():
    """redis-py imports OpenTelemetry by itself where it is installed."""
    program = (
        "import sys, redis.asyncio\n"
        "before = set(sys.modules)\n"
        "import rsmq, rsmq.worker, rsmq.cli.commands.worker\n"
        "print([name for name in set(sys.modules) - before if 'opentelemetry' in name])\n"
    )

    assert run(program) == "[]\n"


def test_the_sdk_is_not_needed():
    program = (
        "import sys\n"
        "for name in ('sdk', 'semconv'): sys.modules[f'opentelemetry.{name}'] = None\n"
        "from rsmq import JSON, RSMQ\n"
        "from rsmq.codecs import EnvelopeCodec\n"
        "from rsmq.opentelemetry import TracingMiddleware, instrument_client\n"
        "queues = instrument_client(RSMQ.from_url('memory://', codec=EnvelopeCodec(JSON)))\n"
        "queues.create_queue('orders')\n"
        "queues.send_message('orders', {'number': 1})\n"
        "print(queues.receive_message('orders').body, TracingMiddleware())\n"
    )

    assert run(program).startswith("{'number': 1} <rsmq.opentelemetry.")
