"""The program of docs/bodies.md that stores a body in S3, with moto's server."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.documents.pages import DOCS
from tests.s3 import s3_server


def test_it_does_what_the_page_says(server, ns):
    page = (DOCS / "bodies.md").read_text()
    (program,) = re.findall(r"```python\n(from obstore.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"print\(.*\)  # (.*)\n", program)
    assert len(program.splitlines()) <= 11
    program = program.replace("redis://127.0.0.1:6379/0", f"{server.url}")
    program = program.replace("codec=", f"ns={ns!r}, codec=")
    with s3_server() as settings:
        result = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.stderr == ""
    assert result.stdout == f"{shown}\n"
