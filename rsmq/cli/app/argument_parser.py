"""
The parser of arguments of ``rsmq-worker`` and ``rsmq-pipeline``.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

from rsmq.transport.url import redact


class RedactingParser(argparse.ArgumentParser):
    """A parser whose errors do not show the password of a URL."""

    def error(self, message: str) -> NoReturn:
        """Write the usage and the error, and end the process with code 2."""
        super().error(redact(message))
