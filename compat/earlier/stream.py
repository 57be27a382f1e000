"""A stream from one queue to another, exactly once: stream.py URL NS CHECKPOINT."""

import sys

from pyspark.sql import SparkSession

import rsmq
from rsmq.spark import register

url, ns, checkpoint = sys.argv[1:]
print("module", rsmq.__file__, flush=True)
spark = (
    SparkSession.builder.master("local[2,4]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.log.level", "ERROR")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
register(spark)
options = {"url": url, "ns": ns}
query = (
    spark.readStream.format("rsmq")
    .options(**options, queue="source", maxMessagesPerTrigger=1000, visibilityTimeout=20)
    .load()
    .select("message")
    .writeStream.format("rsmq")
    .options(**options, queue="target", delivery="exactly-once")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
spark.stop()
