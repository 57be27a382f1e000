"""
Celery on Redis. The module is the producer, ``celery -A`` runs the worker.

The safe settings acknowledge a task after it has run, and deliver a task again that was not
acknowledged after 20 seconds instead of an hour.
"""

from __future__ import annotations

import sys

from celery import Celery

from scripts.chaos_runner.systems.steps import IS_SAFE, URL, handle, produce

app = Celery("chaos", broker=URL)
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_enable_remote_control = False
if IS_SAFE:
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        broker_transport_options={"visibility_timeout": 20},
    )


@app.task(bind=True, name="work", ignore_result=True)
def work(self, body):  # noqa: ANN001, ANN201 - Celery has no types
    """Handle a task."""
    handle(self.request.id, body)


if __name__ == "__main__":
    produce(lambda body: work.delay(body).id, float(sys.argv[1]))
