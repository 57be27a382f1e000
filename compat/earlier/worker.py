"""A worker whose handler writes a line when it begins and when it ends: worker.py URL NS FILE."""

import json
import os
import sys
import time

from rsmq import JSON, RSMQ
from rsmq.worker import Worker

url, ns, path = sys.argv[1:]
file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write(*words):
    os.write(file, (" ".join(map(str, words)) + "\n").encode())


worker = Worker(RSMQ.from_url(url, ns=ns), name="turns", concurrency=4)


@worker.listener("jobs", codec=JSON, vt=20, max_retries=1, dead_letter_queue="dead", backoff=0.01)
def handle(job, message):
    write("begin", message.id, message.receive_count)
    if job["do"] == "fail":
        raise ValueError("as it was told to")
    time.sleep(60 if job["do"] == "hang" and message.receive_count == 1 else 0)
    write("end", message.id, message.receive_count)


if __name__ == "__main__":
    write("module", json.dumps(sys.modules["rsmq"].__file__))
    worker.run()
