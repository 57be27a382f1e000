"""
Jobs that people run on queues: functions here, and the commands of ``rsmq-pipeline``.

Each takes a SparkSession first, and ``Queues``, which say where queues are; each tells its
progress to a function, if it is given one, and returns what it has done.
"""

from rsmq.spark.pipelines.archive import Archived, archive
from rsmq.spark.pipelines.drain import Drained, drain
from rsmq.spark.pipelines.migrate import Migrated, MigratedQueue, migrate
from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.pipelines.redrive import Redriven, redrive
from rsmq.spark.pipelines.replay import Replayed, replay
from rsmq.spark.pipelines.report import Report, report
from rsmq.spark.pipelines.session import session
from rsmq.spark.pipelines.transform import Transformed, transform

__all__ = [
    "Archived",
    "Drained",
    "Migrated",
    "MigratedQueue",
    "Queues",
    "Redriven",
    "Replayed",
    "Report",
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
