"""A worker whose handler logs a line at its begin and its end: worker.py URL NS FILE."""

import json
import os
import sys
import time

from rsmq import JSON, RSMQ
from rsmq.worker import Worker

url, ns, path = sys.argv[1:]
file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write_line(*words):
    os.write(file, (" ".join(map(str, words)) + "\n").encode())


worker = Worker(RSMQ.from_url(url, ns=ns), name="turns", concurrency=4)


@worker.listener("jobs", codec=JSON, vt=20, max_retries=1, dead_letter_queue="dead", backoff=0.01)
def handle(job, message):
    write_line("begin", message.id, message.receive_count)
    if job["do"] == "fail":
        raise ValueError("as requested")
    time.sleep(60 if job["do"] == "hang" and message.receive_count == 1 else 0)
    write_line("end", message.id, message.receive_count)


if __name__ == "__main__":
    write_line("module", json.dumps(sys.modules["rsmq"].__file__))
    worker.run()
