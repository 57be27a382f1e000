"""
Jobs on queues that run in Spark, as functions; ``rsmq-pipeline`` runs them as commands.

The first argument of each job is a SparkSession; ``Queues`` name a server and namespaces. A job
reports its progress to the function ``tell``, if there is one, and returns a result with counts.
"""

from rsmq.spark.pipelines.between import Redriven, Transformed, redrive, transform
from rsmq.spark.pipelines.files import Archived, Drained, Replayed, archive, drain, replay
from rsmq.spark.pipelines.migrate import Migrated, MigratedQueue, NotCarried, migrate
from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.pipelines.report import QueueReport, report
from rsmq.spark.pipelines.session import JavaMissing, session
from rsmq.spark.pipelines.streams import JobProgress

__all__ = [
    "Archived",
    "Drained",
    "JavaMissing",
    "JobProgress",
    "Migrated",
    "MigratedQueue",
    "NotCarried",
    "QueueReport",
    "Queues",
    "Redriven",
    "Replayed",
    "Transformed",
    "archive",
    "drain",
    "migrate",
    "redrive",
    "replay",
    "report",
    "session",
    "transform",
]
