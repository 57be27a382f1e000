"""The image of the kit: its command handles messages, and its health check passes."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.operations.image import run_image


def test_the_command_of_the_image_works_and_its_health_check_passes(server, tmp_path):
    with server.raw() as raw:
        raw.flushall()  # pages of the documentation have used the same queues
        run_image(Path(sys.executable).parent, server, tmp_path)
        raw.flushall()
