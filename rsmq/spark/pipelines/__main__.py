"""
``python -m rsmq.spark.pipelines``, and the file that spark-submit takes.
"""

import sys

from rsmq.spark.pipelines.command import main

if __name__ == "__main__":
    sys.exit(main())
