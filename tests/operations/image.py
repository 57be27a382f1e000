"""Runs what the image of the kit runs, without Docker."""

from __future__ import annotations

import json
import os
import signal
import subprocess

from rsmq import JSON, RSMQ
from tests.operations.kit import APPLICATION, DOCKER_COMMAND, PORTS, read_dockerfile
from tests.ports import free_port

INSTRUCTIONS = read_dockerfile()


def run_image(programs, server, folder):
    """
    Run the command of the image until its health check passes and it has handled a message.

    Args:
        programs: the folder of the programs, in place of that of the image.
        server: the Redis.
        folder: an empty folder, in place of the image's working directory.
    """
    (folder / "shop.py").write_text(APPLICATION)
    check = json.loads(dict(INSTRUCTIONS)["HEALTHCHECK"].partition(" CMD ")[2])
    command = DOCKER_COMMAND.words
    for name, port in DOCKER_COMMAND.parse().items():
        if name in PORTS:
            free = str(free_port())
            command, check = (
                [word.replace(str(port), free) for word in each] for each in (command, check)
            )
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "RSMQ_URL": server.url,
        "PYTHONUNBUFFERED": "1",
    }
    options = {"cwd": folder, "env": environment, "text": True}
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, **options) as process,
        RSMQ.from_url(server.url, codec=JSON) as queues,
    ):
        try:
            while subprocess.run(check, capture_output=True, check=False, **options).returncode:
                assert process.poll() is None, f"{command} has ended: {process.returncode}"
            queues.create_queue("orders", exist_ok=True)
            queues.send_message("orders", {"number": 17})
            while (line := json.loads(process.stderr.readline()))["message"] != "order 17":
                assert line["level"] == "info", line
            assert line["queue"] == "orders"
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
