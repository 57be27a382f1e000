"""The program ``rsmq`` with the arguments and variables of JSON; see ``forks.py``."""

from __future__ import annotations

import json
import os
import sys

# The commands import these when they run.
import rsmq.cli.app.program
import rsmq.cli.commands.scheduler
import rsmq.cli.commands.worker_program
import rsmq.migrate
import rsmq.schedules.scheduler
import rsmq.tasks  # noqa: F401
from rsmq.cli import main as run_command


def main():
    arguments, environment = json.loads(sys.argv[1])
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(2, 1)
    sys.argv = ["rsmq", *arguments]
    sys.exit(run_command())


if __name__ == "__main__":
    main()
