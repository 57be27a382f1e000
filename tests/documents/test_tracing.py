"""The example of docs/tracing.md runs and prints its output."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "tracing.md").read_text()


def test_the_example_prints_its_output(server):
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    output = re.search(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
    program = example.replace("127.0.0.1:6379", f"127.0.0.1:{server.port}")
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert (completed.stderr, completed.returncode) == ("", 0)
    assert completed.stdout == output


def test_the_page_names_every_public_name():
    from rsmq import opentelemetry

    assert all(f"`{name}(" in PAGE for name in opentelemetry.__all__)
