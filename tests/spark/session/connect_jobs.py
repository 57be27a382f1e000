"""All jobs and the listener over Spark Connect; run by test_recipes.py in a process of its own."""

from __future__ import annotations

import threading
import time

from rsmq import RSMQ
from rsmq.spark import AcknowledgeListener, pipelines
from rsmq.spark.pipelines.queues import count_partitions

QUEUES = ("jobs", "jobs-dead", "jobs-rest", "jobs-upper", "listened")


class Listener(AcknowledgeListener):
    """A listener that tells that a query has ended, which is Spark's last event of it."""

    def __init__(self, **options):
        super().__init__(**options)
        self.has_seen_the_end = threading.Event()

    def onQueryTerminated(self, event):
        super().onQueryTerminated(event)
        self.has_seen_the_end.set()


def run(spark, url, folder):
    """Run each job but archive, and a query with the listener, and check their results."""
    assert count_partitions(spark) == 6  # the session is local[3]
    here = pipelines.Queues(url)
    with RSMQ.from_url(url) as rsmq, RSMQ.from_url(url, ns="copies") as copies:
        for queue in QUEUES:
            rsmq.create_queue(queue)
        rsmq.send_messages("jobs", ["a", "b", "c"])
        rsmq.send_messages("jobs-dead", ["timeout", "broken"])
        rsmq.send_messages("listened", ["x", "y"])

        def count(queue, client=rsmq):
            return client.get_queue_attributes(queue).messages

        done = pipelines.migrate(spark, here, pipelines.Queues(url, "copies"), list(QUEUES))
        assert (done.messages, done.verified, count("jobs", copies)) == (7, True, 3)
        for queue in QUEUES:
            copies.delete_queue(queue)

        report = pipelines.report(spark, here, QUEUES, path=f"{folder}/report")
        counts = {row["queue"]: row["messages"] for row in report.queues}
        assert counts == dict(zip(QUEUES, (3, 2, 0, 0, 2), strict=True))

        done = pipelines.transform(
            spark, here, "jobs", here, "jobs-upper",
            lambda frame: frame.selectExpr("upper(message) AS message"),
            checkpoint=f"{folder}/transform",
        )  # fmt: skip
        assert (done.messages, count("jobs")) == (3, 0)

        to = "CASE WHEN message = 'timeout' THEN 'jobs' END"
        checkpoint = f"{folder}/redrive"
        done = pipelines.redrive(spark, here, "jobs-dead", to, "jobs-rest", checkpoint=checkpoint)
        assert (done.messages, count("jobs"), count("jobs-rest")) == (2, 1, 1)

        drained = f"{folder}/drained"
        done = pipelines.drain(spark, here, ("jobs-upper", "jobs-rest"), drained, kind="parquet")
        assert (done.messages, count("jobs-upper"), count("jobs-rest")) == (4, 0, 0)

        where = "queue = 'jobs-upper'"
        done = pipelines.replay(spark, drained, here, "jobs", where=where, write_id="w")
        assert (done.messages, count("jobs")) == (3, 4)
        again = pipelines.replay(spark, drained, here, "jobs", where=where, write_id="w")
        assert (again.done_before, count("jobs")) == (True, 4)

        listener = Listener(url=url)
        spark.streams.addListener(listener)
        stream = spark.readStream.format("rsmq").options(url=url, queue="listened").load()
        writer = stream.writeStream.format("noop").option("checkpointLocation", f"{folder}/noop")
        query = writer.trigger(processingTime="1 hour").start()
        while count("listened"):  # the query itself would delete them in an hour
            assert query.isActive, query.exception()
            time.sleep(0.1)
        query.stop()
        assert listener.has_seen_the_end.wait(600)
        spark.streams.removeListener(listener)  # with an event on its way, it hangs: SPARK-59623
    print("all jobs are done", flush=True)
