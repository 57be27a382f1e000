"""A server of S3 for tests: moto's, a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.ports import free_port
from tests.scale import WAIT_SECONDS

BUCKET = "my-bucket"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Yield the environment variables of a client of a server with an empty bucket."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "moto.server", "-p", url.rpartition(":")[2]]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                urlopen(Request(f"{url}/{BUCKET}", method="PUT"), timeout=WAIT_SECONDS).close()
                break
            except URLError:
                assert process.poll() is None, "moto has ended"
                assert time.monotonic() < deadline, "moto does not answer"
                time.sleep(0.05)
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
    finally:
        process.kill()
        process.wait()
