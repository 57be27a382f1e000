"""
The server, the namespaces and the queues of a job.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions

from rsmq.errors import InvalidOption
from rsmq.spark.connection_options import ConnectionOptions, parse_connection_options
from rsmq.spark.connections import SparkServer, get_servers, require_queues
from rsmq.spark.read.schema import DEFAULT_COLUMNS
from rsmq.spark.read.sent_columns import SENT_COLUMNS
from rsmq.vocabulary.stored import GROUP
from rsmq.wire.keys import DEFAULT_NS

#: A table of a report.
Rows = tuple[dict[str, Any], ...]

#: Messages that were received this often, or more often, are counted together in reports.
MAX_RECEIVE_COUNT = 10

#: The columns of groups and limit keys, which new messages get too.
GROUP_COLUMNS = tuple(value.column for value in GROUP.values)

#: The most processors that are counted over Spark Connect.
_MAX_PARALLELISM = 100_000


@dataclass(frozen=True, slots=True)
class Queues:
    """
    The queues of a namespace on a Redis server, or of several.

    Attributes:
        url: the URL of the server, without a password.
        ns: the namespace. A job that only reads accepts several, with commas between.
        password_env: the environment variable that holds the password, in every process.
        password_file: the file that holds the password, on every machine.
        strict_names: whether names must be valid for the Node client; False allows any name.
        sentinel_password_env: the environment variable that holds the password of the Sentinels.
        sentinel_password_file: the file that holds the password of the Sentinels.
    """

    url: str = "redis://127.0.0.1:6379/0"
    ns: str = DEFAULT_NS
    password_env: str | None = None
    password_file: str | None = None
    strict_names: bool = True
    sentinel_password_env: str | None = None
    sentinel_password_file: str | None = None

    def options(self, **more: Any) -> dict[str, str]:
        """
        Return the options of ``format("rsmq")`` for these queues.

        Args:
            more: further options; None leaves one out.
        """
        options = {
            "url": self.url,
            "ns": self.ns,
            "passwordEnv": self.password_env,
            "passwordFile": self.password_file,
            "sentinelPasswordEnv": self.sentinel_password_env,
            "sentinelPasswordFile": self.sentinel_password_file,
            "strictNames": str(self.strict_names).lower(),
            **more,
        }
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in options.items()
            if value is not None
        }

    def reach(self) -> None:
        """
        Connect to the server of each namespace once, without a retry.

        Raises:
            InvalidOption: an option has an invalid value, or the password can't be read.
            RedisError: the server does not answer.
        """
        for server in get_servers(replace(self.connection(), retry_deadline=0)):
            pool = server.caller.tracking_pool(server.namespace.queues)
            connection = pool.connection_class(**pool.connection_kwargs)
            try:
                connection.connect()
            finally:
                connection.disconnect()

    def connection(self) -> ConnectionOptions:
        """
        Return the options of the connection.

        Raises:
            InvalidOption: an option has an invalid value.
        """
        return parse_connection_options(self.options())

    def servers(self) -> list[SparkServer]:
        """
        Return the server of each namespace, with the connections of this process.

        Raises:
            InvalidOption: an option has an invalid value, or the password can't be read.
        """
        return get_servers(self.connection())

    @property
    def is_several(self) -> bool:
        """Whether there are several namespaces."""
        return len(self.connection().names) > 1

    def require_one_namespace(self) -> None:
        """
        Refuse several namespaces.

        Raises:
            InvalidOption: there are several.
        """
        if self.is_several:
            raise InvalidOption(
                "ns",
                f"{self.ns} names several namespaces, and this job writes into one. Run it once "
                "for each.",
                value=self.ns,
            )

    def select(self, names: Collection[str]) -> dict[str, str]:
        """Return the option that selects queues; of several namespaces, each that has them."""
        if self.is_several:
            return {"subscribePattern": "|".join(map(re.escape, names))}
        return {"subscribe": ",".join(names)}

    def label_queues(self, frame: DataFrame) -> DataFrame:
        """Return a frame whose column ``queue`` begins with the namespace, if there are several."""
        if not self.is_several:
            return frame
        return frame.withColumn("queue", functions.concat_ws(":", "ns", "queue"))

    def shares_queues(self, other: Queues) -> bool:
        """
        Return whether a name is that of the same queue here and there, in one namespace at least.

        URLs may name one server in several ways, so the servers are asked who they are.

        Raises:
            InvalidOption: an option has an invalid value, or the password can't be read.
        """
        return not _find_places(self).isdisjoint(_find_places(other))

    def list_names(self) -> list[str]:
        """Return the names of all queues, of any namespace, each once."""
        names: dict[str, None] = {}
        for server in self.servers():
            names |= dict.fromkeys(server.rsmq.list_queues())
        return list(names)

    def require(self, names: Collection[str]) -> None:
        """
        Check that queues exist, in each namespace.

        Raises:
            QueueNotFound: a queue is missing in a namespace.
        """
        require_queues(self.connection(), names)


def _find_places(queues: Queues) -> set[tuple[object, int, str]]:
    """Return the run of the server, or the URL, and the database and name of each namespace."""
    places: set[tuple[object, int, str]] = set()
    for server in queues.servers():
        run = server.read_run() or queues.url
        pool = server.caller.tracking_pool(server.namespace.queues)
        db = int(pool.connection_kwargs.get("db") or 0)
        places.add((run, db, server.namespace.name))
    return places


def refuse_loop(
    source: Queues,
    names: str | Sequence[str],
    target: Queues,
    queue: str | None,
    *,
    option: str = "to",
) -> None:
    """
    Refuse to send what is read from queues to one of them: it would be read again, without end.

    Args:
        source: the server and the namespace of the queues that are read.
        names: their names.
        target: the server and the namespace of the queue that is written.
        queue: its name; None if each row has its own.
        option: the option that names it.

    Raises:
        InvalidOption: the queue is one of those that are read.
    """
    if queue in join_names(names).split(",") and source.shares_queues(target):
        raise InvalidOption(
            option,
            f"{queue!r} is read by this job itself, which would never end. Give another queue.",
            value=queue,
        )


def count_partitions(spark: SparkSession) -> int:
    """
    Return the option ``numPartitions`` for a session: two for each processor that its tasks have.

    The source itself knows only the processors of the driver's machine. Over Spark Connect, a small
    job of Spark counts them.
    """
    if getattr(spark, "_jsparkSession", None) is not None:
        return 2 * spark.sparkContext.defaultParallelism
    # The client of Spark Connect has no context. By default a range has a partition for each
    # processor; with this many rows, none is empty.
    number = functions.spark_partition_id().alias("number")
    last = spark.range(_MAX_PARALLELISM).select(number).agg(functions.max("number")).collect()
    return 2 * (int(last[0][0]) + 1)


def read_frame(spark: SparkSession, source: Queues, **options: Any) -> DataFrame:
    """Return messages as a frame; ``options`` are further ones of the source."""
    all_options = source.options(numPartitions=count_partitions(spark), **options)
    return spark.read.format("rsmq").options(**all_options).load()


def count_rows(name: str) -> Column:
    """Return the number of the rows of a group, as a column with this name."""
    return functions.count(functions.lit(1)).alias(name)


def name_kept_columns(source: Queues, *, with_raw: bool = False) -> str:
    """
    Return the option ``columns`` of a read of all that a message can be restored from.

    Args:
        source: the server and the namespaces; ``ns`` is a column if there are several.
        with_raw: whether the bytes of the body are read beside its text.
    """
    ns, raw = ["ns"] * source.is_several, ["raw"] * with_raw
    return ",".join([*ns, *DEFAULT_COLUMNS[:3], *raw, *DEFAULT_COLUMNS[3:], *SENT_COLUMNS])


def join_names(queues: str | Sequence[str]) -> str:
    """Return one name or several as the option ``subscribe``: with commas between."""
    return queues if isinstance(queues, str) else ",".join(queues)
