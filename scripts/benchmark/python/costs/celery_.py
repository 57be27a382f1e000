"""Celery's worker with its defaults: a process for each processor; usage as ours.py."""

from __future__ import annotations

import os
import sys

from celery import Celery
from job import bodies, handle

port, queues, action, *rest = sys.argv[1:]
url = f"redis://127.0.0.1:{port}/0"
app = Celery("costs", broker=url, backend=url)
job = app.task(name="job")(handle)

if action == "send":
    count, size, tracked = rest
    for number, body in enumerate(bodies(count, size)):
        queue = f"q{number % int(queues)}"
        job.apply_async((body,), queue=queue, ignore_result=tracked == "0")
else:
    names = ",".join(f"q{number}" for number in range(int(queues)))
    app.worker_main(
        ["worker", "--queues", names, "--loglevel", "ERROR", "--hostname", f"{os.getpid()}@%h"]
    )
